"""Following a reference that was found from frame to frame: cheaper than finding it again."""
