"""Which network weights exist, where they come from, and where they lie on this machine."""
