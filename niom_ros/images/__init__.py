"""From untrusted bytes to pixels: image files, pages, camera messages."""
