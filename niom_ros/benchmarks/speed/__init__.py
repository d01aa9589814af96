"""How fast everything is: what `niom bench` measures."""
