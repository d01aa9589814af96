"""Networks that no package offers under a free licence, written from their papers."""
