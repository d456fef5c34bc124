"""The trainer, checkpoints, metrics, progress and export."""
