"""Requests that a synchronous run acts on, and those that it no longer waits for."""

import itertools

import pytest

from seed_rl.learner.lockstep import Lockstep
from seed_rl.serving.request import Request, ServedGroup

NUM_ENVS = 4


class FakeServing:
    """Gives out the batches that a test puts into `batches`, and keeps those that are to be answered."""

    def __init__(self):
        self.batches, self.answered, self.gone = [], [], set()

    def requests(self, timeout_secs):
        return self.batches.pop(0) if self.batches else []

    def is_connected(self, client):
        return client not in self.gone

    def answer(self, batch):
        self.answered.append([client for client, _ in batch])
        return []


class NoExperience:
    """Never has a batch."""

    def batch_ready(self):
        return False


@pytest.fixture
def run():
    """Takes batches of (client, first environment, number of environments); returns what was answered."""
    serving, keys = FakeServing(), itertools.count()
    lockstep = Lockstep(serving, NoExperience(), NUM_ENVS)

    def request(client, first_env, num_envs):
        group = ServedGroup(next(keys), client, first_env, num_envs, is_restart=False)
        return client, Request(group, b"", 0.0)

    def run(*batches, ended=()):
        serving.gone |= set(ended)
        serving.batches = [[request(*entry) for entry in batch] for batch in batches]
        for _ in batches:
            assert lockstep.next(0.0) is None
        answered, serving.answered = serving.answered, []
        return answered

    return run


def test_all_environments_act_together_in_the_order_of_their_ids(run):
    assert run([(1, 2, 2)], [(2, 0, 2)]) == [[2, 1]]
    assert run([(3, 2, 2), (4, 0, 2)]) == [[4, 3]]


@pytest.mark.parametrize("ended", [(), (1,)])
def test_an_actor_of_two_groups_is_replaced_by_one_of_one(run, ended):
    assert run([(1, 2, 2)]) == []  # Its other group never came.
    assert run([(2, 0, 4)], ended=ended) == [[2]]


def test_an_actor_of_one_group_is_replaced_by_one_of_two(run):
    assert run([(1, 0, 3)]) == []
    assert run([(2, 1, 2)], [(3, 3, 1)]) == []
    assert run([(4, 0, 1)]) == [[4, 2, 3]]


def test_a_stream_that_has_ended_is_not_acted_for(run):
    assert run([(1, 0, 2)]) == []
    assert run([(2, 2, 2)], ended=[1]) == []
    assert run([(3, 0, 2)]) == [[3, 2]]
