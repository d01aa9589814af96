"""Following a reference that was found, from frame to frame: much cheaper than finding it again."""
