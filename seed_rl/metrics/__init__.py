"""Metrics of a run: everything that counts, writes, reads and explains them."""
