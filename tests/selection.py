"""Selection of the parameters of a test that run by default."""

import pytest


def mostly_slow(values, fast):
    """These values as parameters: those in `fast` always run, and the others are marked slow.

    For tests that are fast, but that many settings repeat. A tuple is the values of several parameters.
    """
    return _marked(values, fast, pytest.mark.slow)


def mostly_long(values, often):
    """The same for slow tests: those that are not in `often` are marked long."""
    return _marked(values, often, pytest.mark.long)


def _marked(values, unmarked, mark):
    assert all(value in values for value in unmarked), f"{unmarked} are not all among {values}."

    def parameter(value):
        parts = value if isinstance(value, tuple) else (value,)
        return pytest.param(*parts, marks=() if value in unmarked else mark)

    return [parameter(value) for value in values]
