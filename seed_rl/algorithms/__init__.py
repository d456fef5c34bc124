"""Algorithms: the protocol, the registry, and two modules per algorithm: NAME and NAME_config."""


class AlgorithmError(ValueError):
    """An algorithm does not follow the protocol; the message is one sentence for its author."""
