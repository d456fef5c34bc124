"""Which of a test's parameters the default selection runs."""

import pytest


def mostly_slow(values, fast):
    """These values as parameters: those in `fast` always run, and the others are marked slow.

    For tests that are fast, but that many settings repeat. A tuple is the values of several parameters.
    """
    assert all(value in values for value in fast), f"{fast} are not all among {values}."

    def parameter(value):
        parts = value if isinstance(value, tuple) else (value,)
        return pytest.param(*parts, marks=() if value in fast else pytest.mark.slow)

    return [parameter(value) for value in values]
