"""Environments: suites by name, and several environments stepped as a batch."""
