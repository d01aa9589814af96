"""Plug-ins for niom_ros, as somebody else would write them."""
