"""PDF and SVG pages as references: what is drawn on them, without what is written around it."""
