"""Evaluation: plays with what a run has learned, says how well, and shows it."""
