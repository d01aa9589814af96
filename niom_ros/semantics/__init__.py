"""What is in an image: objects, heat maps and labels, and which objects correspond."""
