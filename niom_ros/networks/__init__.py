"""Networks written from their papers, with the layer names of the published weights."""
