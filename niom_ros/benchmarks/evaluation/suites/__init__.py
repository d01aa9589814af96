"""One file for each benchmark: its pairs, what is measured on one, and what that amounts to."""
