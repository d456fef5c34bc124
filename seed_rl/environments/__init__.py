"""Environments: suites by name, and several environments behind one step."""
