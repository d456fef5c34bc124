"""What a run directory holds: its record, its curves, and published scores to compare with."""
