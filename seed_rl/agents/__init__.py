"""Algorithms: the Agent protocol, the registry, and one file an algorithm."""
