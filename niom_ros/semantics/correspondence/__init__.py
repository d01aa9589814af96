"""Which part of one object corresponds to which part of another of its kind."""
