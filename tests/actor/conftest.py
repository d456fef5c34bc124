"""Learners that count, for the tests of actors and of programs that attach."""

import contextlib

import pytest

from tests.actor.counting import Learner


@pytest.fixture
def address(tmp_path):
    return f"unix:{tmp_path}/s"


@pytest.fixture
def start(address):
    """Starts learners at the test's address."""
    with contextlib.ExitStack() as stack:

        def start_one(num_envs=4, at=address, **options):
            learner = Learner(at, num_envs, **options)
            stack.callback(learner.stop)
            return learner

        yield start_one
