"""What is in an image: objects, heat maps, labels, and which belong together."""
