"""References, kept by name and on disk."""
