"""Finding what a drawing shows: its strokes are aligned with the edges of a camera image."""
