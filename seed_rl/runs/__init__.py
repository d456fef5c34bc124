"""A run directory's contents: its record, lock and curves, and published scores to compare with."""
