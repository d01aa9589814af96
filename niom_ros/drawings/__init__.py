"""Finding what a drawing shows: its strokes are laid along the edges of a camera image."""
