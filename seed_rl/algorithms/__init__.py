"""Algorithms: the protocol, the registry, and one package per algorithm."""


class AlgorithmError(ValueError):
    """An algorithm does not follow the protocol; the message is one sentence for its author."""
