import pytest


class Clock:
    """Clock with a time that the test sets."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()
