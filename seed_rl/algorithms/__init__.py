"""Algorithms: the protocol, the registry, and one package per algorithm."""
