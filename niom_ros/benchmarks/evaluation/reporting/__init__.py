"""What the report of `niom eval` is made of: words, tables, plots and the page."""
