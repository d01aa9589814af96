"""How well and how fast everything works: `niom eval` and `niom bench`.

No lower layer imports this.
"""
