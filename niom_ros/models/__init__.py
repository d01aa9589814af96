"""Which network weights exist, where they come from, and where they are stored."""
