"""Algorithms: the protocol, the registry, and one package an algorithm."""
