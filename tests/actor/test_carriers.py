"""The actor's rules over a carrier of two queues: no gRPC, no sockets."""

import queue

import numpy as np
import pytest

from seed_rl.actor.carriers import Latency, play
from seed_rl.actor.group import Group
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.wire.client import LearnerGoneError, TrainingEndedError
from seed_rl.wire.codec import ActionCodec
from tests.actor.counting import SPEC, SUITE, CountingConfig

SIZE = 2


class Queues:
    """A carrier: what was sent, in order, and what is to be received."""

    def __init__(self):
        self.sent, self.answers = queue.SimpleQueue(), queue.SimpleQueue()

    def send(self, group, episodes):
        self.sent.put((group, [episode.env for episode in episodes]))

    def receive(self):
        found = self.answers.get(timeout=60)
        if isinstance(found, Exception):
            raise found
        return found

    def answer(self, *answers):
        self.answers.put([(group, np.full(SIZE, action, "<i4").tobytes()) for group, action in answers])


@pytest.fixture
def groups():
    made = [Group(SingleEnvironments(SUITE, CountingConfig(), [0, 1]), [0, 1]) for _ in range(2)]
    yield made
    for group in made:
        group.environment.close()


def played(groups, answers, end=None):
    """Plays with these answers, one list a message, until `end`; returns what was sent."""

    carrier, end = Queues(), end or TrainingEndedError()
    for message in answers:
        carrier.answer(*message)
    carrier.answers.put(end)
    with pytest.raises(type(end)):
        play(groups, carrier, ActionCodec(SPEC.action), Latency())
    return [carrier.sent.get() for _ in range(carrier.sent.qsize())]


def test_each_group_sends_its_newest_step_and_then_one_for_each_answer(groups):
    assert played(groups, [[(1, 1)], [(0, 1), (1, 2)]]) == [(n, []) for n in (0, 1, 1, 0, 1)]
    assert [group.applied for group in groups] == [1, 2]


def test_after_a_lost_connection_the_last_step_comes_again_without_its_episodes(groups):
    answers = [[(0, action)] for action in range(1, 6)]
    assert played(groups, answers, LearnerGoneError("lost"))[-1] == (0, [0, 1])
    assert groups[0].applied == 5
    assert played(groups, [[(0, 6)]]) == [(0, []), (1, []), (0, [])]
    assert groups[0].applied == 6


@pytest.mark.parametrize("answer", [(2, bytes(8)), (0, bytes(7)), (0, b"")])
def test_actions_that_do_not_fit_end_the_connection(groups, answer):
    carrier = Queues()
    carrier.answers.put([answer])
    with pytest.raises(LearnerGoneError, match="the learner sent"):
        play(groups, carrier, ActionCodec(SPEC.action), Latency())
    assert groups[0].applied == 0
