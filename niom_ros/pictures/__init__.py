"""Pictures for people: matches, overlays, heat maps, edges."""
