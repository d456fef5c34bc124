"""Evaluation: plays episodes with a run's agent, reports the returns, and records videos."""
