"""The batcher against a simple model, in any order of calls: one thread, and a clock that only waits move."""

import dataclasses
import math
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from seed_rl.serving import batcher as batcher_module
from seed_rl.serving.batcher import Batcher

MOST, TIMEOUT = 5, 10.0


@dataclasses.dataclass
class Request:
    client: int
    number: int
    size: int
    time: float = 0.0


class Clock:
    """Stands in for the module `time` and for wake-ups: waiting takes no time, and moves the clock."""

    def __init__(self):
        self.now, self.rung, self.batcher = 0.0, [], None

    def monotonic(self):
        return self.now

    def wait(self, timeout_secs):
        if self.rung:
            requests, self.rung = self.rung, []
            self.batcher.submit_all((r.client, r.number, r.size) for r in requests)
        else:
            self.now += timeout_secs

    def wake(self):
        raise AssertionError("There is no other thread to wake.")


class BatcherMachine(RuleBasedStateMachine):
    """The model: who is away and waited for, who has stalled, and what is pending, in order."""

    def __init__(self):
        super().__init__()
        self.clock = Clock()
        self.batcher = self.clock.batcher = Batcher(MOST, TIMEOUT, self.clock)
        self.patch = mock.patch.object(batcher_module, "time", self.clock)
        self.patch.start()
        self.connected, self.away, self.stalled, self.in_batch = [], set(), set(), set()
        self.pending, self.gone, self.numbers = [], [], 0

    def teardown(self):
        self.batcher.close()
        assert self.batcher.next_batch() is None
        self.patch.stop()

    def free(self):
        rung = {request.client for request in self.clock.rung}
        return sorted((self.away | self.stalled) - rung)

    def request(self, data, client):
        self.numbers += 1
        return Request(client, self.numbers, data.draw(st.integers(1, MOST)))

    def arrive(self, request):
        self.away.discard(request.client)
        self.stalled.discard(request.client)
        self.pending.append(dataclasses.replace(request, time=self.clock.now))

    @rule()
    def connect(self):
        client = self.batcher.connect()
        assert client not in self.connected + self.gone
        self.connected.append(client)
        self.away.add(client)

    @precondition(lambda self: self.free())
    @rule(data=st.data(), rings=st.booleans())
    def submit(self, data, rings):
        for client in data.draw(st.lists(st.sampled_from(self.free()), min_size=1, unique=True)):
            request = self.request(data, client)
            if rings:
                self.clock.rung.append(request)
            else:
                self.batcher.submit(client, request.number, request.size)
                self.arrive(request)

    @precondition(lambda self: self.connected)
    @rule(data=st.data())
    def disconnect(self, data):
        client = data.draw(st.sampled_from(self.connected))
        self.batcher.disconnect(client)
        self.connected.remove(client)
        self.gone.append(client)
        for group in (self.away, self.stalled, self.in_batch):
            group.discard(client)
        self.pending = [request for request in self.pending if request.client != client]

    @precondition(lambda self: self.in_batch)
    @rule(data=st.data())
    def finish(self, data):
        clients = data.draw(st.lists(st.sampled_from(sorted(self.in_batch)), min_size=1, unique=True))
        self.batcher.finish([*clients, *self.gone])
        self.in_batch -= set(clients)
        self.away |= set(clients)

    @rule(seconds=st.integers(1, int(2 * TIMEOUT)))
    def pass_time(self, seconds):
        self.clock.now += seconds

    @rule(timeout_secs=st.integers(0, int(2 * TIMEOUT)))
    def next_batch(self, timeout_secs):
        start, rung = self.clock.now, list(self.clock.rung)
        batch = self.batcher.next_batch(float(timeout_secs))
        end, self.clock.now = self.clock.now, start
        expected = self.expect(start + timeout_secs, rung)
        assert batch == expected
        assert end == self.clock.now

    def expect(self, deadline, rung):
        """The batch by the rules; moves the model's clock to when it is there."""
        while not self.pending or (self.away and sum(request.size for request in self.pending) < MOST):
            due = self.pending[0].time + TIMEOUT if self.pending else math.inf
            if self.clock.now >= deadline:
                return []
            if self.clock.now >= due:
                self.stalled |= self.away
                self.away.clear()
            elif rung:
                for request in rung:
                    if request.client in self.connected:
                        self.arrive(request)
                rung = []
            else:
                self.clock.now = min(deadline, due)
        size, batch = 0, []
        while self.pending and (size := size + self.pending[0].size) <= MOST:
            batch.append(self.pending.pop(0))
        self.in_batch |= {request.client for request in batch}
        return [(request.client, request.number) for request in batch]

    @invariant()
    def knows_who_is_connected(self):
        assert all(self.batcher.is_connected(client) for client in self.connected)
        assert not any(self.batcher.is_connected(client) for client in self.gone)

    @invariant()
    def refuses_what_is_wrong(self):
        for client in self.connected:
            with pytest.raises(ValueError, match="6 environments exceeds the batch of 5"):
                self.batcher.submit(client, 0, MOST + 1)
        for client in {*self.connected, *self.gone} - self.away - self.stalled:
            with pytest.raises(RuntimeError, match="is not connected or is already waiting"):
                self.batcher.submit(client, 0, 1)


TestBatcher = BatcherMachine.TestCase
TestBatcher.settings = settings(max_examples=100, stateful_step_count=40, deadline=None, database=None)
