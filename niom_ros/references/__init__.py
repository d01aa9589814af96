"""What is looked for: references as people give them, kept by name and on disk."""
