"""Label embedders, each a plug-in."""
