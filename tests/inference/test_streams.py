"""Turns against a simple model: old and new streams, in batches, while another thread holds some."""

import collections

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from seed_rl.inference.streams import Turns
from tests.threads import Thread
from tests.waiting import wait_until

NUM_ENVS = 6
Stream = collections.namedtuple("Stream", "key env_ids num_envs")


class TurnsMachine(RuleBasedStateMachine):
    """The model: the newest stream that has acted for each environment, and all that have acted."""

    def __init__(self):
        super().__init__()
        self.turns = Turns(NUM_ENVS)
        self.streams, self.newest, self.acted = [], dict.fromkeys(range(NUM_ENVS), -1), set()
        self.held = None  # (the streams that another thread acts for, its context).

    def teardown(self):
        if self.held:
            self.release()

    @rule(first=st.integers(0, NUM_ENVS - 1), size=st.integers(1, 3))
    def connect(self, first, size):
        env_ids = np.arange(first, min(first + size, NUM_ENVS))
        self.streams.append(Stream(len(self.streams), env_ids, len(env_ids)))

    def draw_batch(self, data):
        """Streams that have no step under way; of those that are not over, no two have an environment."""
        batch = []
        busy = {stream.key for stream in self.held[0]} if self.held else set()
        for stream in data.draw(st.lists(st.sampled_from(self.streams), min_size=1, unique_by=id)):
            if stream.key not in busy:
                batch.append(stream)
        return batch

    def overlaps(self, batch):
        return bool(self.held) and any(
            np.isin(stream.env_ids, other.env_ids).any() for stream in batch for other in self.held[0]
        )

    def expect(self, batch):
        """The keys that act for the first time, and of those that must not act."""
        for stream in batch:
            for env in stream.env_ids.tolist():
                self.newest[env] = max(self.newest[env], stream.key)
        over = {s.key for s in batch if any(self.newest[env] > s.key for env in s.env_ids.tolist())}
        first = {stream.key for stream in batch} - over - self.acted
        self.acted |= first
        return first, over

    def check(self, batch, found):
        first, over = self.expect(batch)
        assert {stream.key for stream in found[0]} == first
        assert {stream.key for stream in found[1]} == over

    def is_usual(self, batch):
        """Whether all have acted and are the newest for all of their environments."""
        return all(
            stream.key in self.acted and all(self.newest[env] == stream.key for env in stream.env_ids)
            for stream in batch
        )

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def act(self, data):
        batch = self.draw_batch(data)
        if not batch:
            return
        # Only streams that are over, and do not act, can hold the environments of a usual batch.
        if not self.overlaps(batch) or self.is_usual(batch):
            with self.turns.take(batch) as found:
                self.check(batch, found)
            return
        results = []
        thread = Thread(lambda: self.take_in_thread(batch, results))
        wait_until(lambda: thread.is_waiting() or not thread.is_alive(), "the thread to wait")
        assert thread.error is None and not results
        self.release()
        assert thread.finished() and thread.error is None
        self.check(batch, results[0])

    def take_in_thread(self, batch, results):
        with self.turns.take(batch) as found:
            results.append(found)

    @precondition(lambda self: self.streams and not self.held)
    @rule(data=st.data())
    def hold(self, data):
        batch = self.draw_batch(data)
        context = self.turns.take(batch)
        self.check(batch, context.__enter__())
        self.held = batch, context

    @precondition(lambda self: self.held)
    @rule()
    def release(self):
        self.held[1].__exit__(None, None, None)
        self.held = None


TestTurns = TurnsMachine.TestCase
TestTurns.settings = settings(max_examples=100, stateful_step_count=30, deadline=None, database=None)


def test_an_error_while_acting_releases_the_environments():
    turns, stream = Turns(2), Stream(0, np.arange(2), 2)
    with pytest.raises(ZeroDivisionError), turns.take([stream]):
        raise ZeroDivisionError
    thread = Thread(lambda: turns.take([Stream(1, np.arange(2), 2)]).__enter__())
    assert thread.finished() and thread.error is None
