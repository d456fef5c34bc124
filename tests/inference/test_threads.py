"""Two inference threads: whatever the order, no unroll and no state mixes the steps of two streams."""

import concurrent.futures
import sys
import threading

import numpy as np
import pytest

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.request import BadStep
from seed_rl.wire.codec import ActionCodec
from tests.inference.test_core import SPEC, World, action, assert_aligned
from tests.threads import Thread
from tests.waiting import DEADLINE_SECS

LENGTH = 4


def check(world):
    """All unrolls of every environment."""
    for unrolls in world.unrolls:
        assert unrolls
        for unroll in unrolls:
            assert_aligned(unroll, LENGTH + 1)


def test_the_streams_before_and_after_are_told_apart_in_one_batch():
    world = World([2, 1], LENGTH, 0)
    world.step(0, 1)
    late = world.request(0)
    world.rejoin(0, is_new_actor=True)
    (late_answer, first_answer), _ = world.core.process([late, world.request(0)])
    assert isinstance(late_answer, BadStep)
    assert ActionCodec(SPEC.action).decode(first_answer).tolist() == [action(0, 1000), action(1, 1000)]


def test_a_new_actor_starts_clean_even_if_its_first_stream_came_to_nothing():
    world = World([1], LENGTH, 0)
    for _ in range(3):
        world.step(0)
    world.rejoin(0, is_new_actor=True)  # It leaves before its first step is acted on,
    world.rejoin(0, is_new_actor=False)  # and comes back.
    for _ in range(2 * LENGTH):
        world.step(0)
    check(world)


class Gate:
    """Stops the thread that acts first before or after it does."""

    def __init__(self, core, is_before):
        self.entered, self.release = threading.Event(), threading.Event()
        self._act, self._is_before = core._table.act, is_before
        core._table.act = self.act

    def act(self, rows):
        if self.entered.is_set():
            return self._act(rows)
        result = None if self._is_before else self._act(rows)
        self.entered.set()
        assert self.release.wait(DEADLINE_SECS)
        return self._act(rows) if self._is_before else result


@pytest.mark.parametrize("is_before", [True, False])
@pytest.mark.parametrize("is_new_actor", [True, False])
def test_a_new_stream_waits_for_the_step_of_the_old_one_that_is_under_way(is_before, is_new_actor):
    world = World([1, 1], LENGTH, 0)
    for _ in range(3):
        world.step(0, 1)
    gate, steps = Gate(world.core, is_before), [world.request(0)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        late = Thread(world.core.process, steps)
        assert gate.entered.wait(DEADLINE_SECS)
        pool.submit(world.step, 1).result(DEADLINE_SECS)  # Other environments are not held up.
        world.rejoin(0, is_new_actor)
        new = pool.submit(world.step, 0)
        # If it does not wait, it overtakes the old step now; if it waits, this changes nothing.
        concurrent.futures.wait([new], 0.5)
        gate.release.set()
        assert late.finished() and late.error is None
        new.result(DEADLINE_SECS)
    for _ in range(2 * LENGTH):
        world.step(0)
        world.step(1)
    if is_new_actor:
        check(world)
    for unroll in world.unrolls[0]:
        np.testing.assert_array_equal(np.diff(unroll.env.observation["step"]), 1)
        np.testing.assert_array_equal(unroll.prev_action[1:], unroll.agent.action[:-1])
        assert unroll.initial_state["acted"] == unroll.agent.info["acted"][0] - 1


class Served:
    """A world whose core two threads serve, with a thread for each group."""

    def __init__(self, groups):
        self.world, self._sizes = World(groups, LENGTH, 0), groups
        self._batcher, self._errors = Batcher(2, 0.001), []
        self._answers = {}  # Futures by group key.
        self._servers = [threading.Thread(target=self._serve, daemon=True) for _ in range(2)]

    def play(self, streams):
        """Lets each group play `streams(group)`: for each stream its steps, the last of which it abandons."""
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            for thread in self._servers:
                thread.start()
            with concurrent.futures.ThreadPoolExecutor(len(self._sizes)) as pool:
                for _ in pool.map(lambda g: self._play(g, streams(g)), range(len(self._sizes))):
                    pass
        finally:
            sys.setswitchinterval(before)
            self._batcher.close()
            for thread in self._servers:
                thread.join(DEADLINE_SECS)
        assert self._errors == []

    def _play(self, group, streams):
        world, size = self.world, self._sizes[group]
        ids = world._groups[group]
        for steps in streams:
            world.rejoin(group, is_new_actor=True)
            client = self._batcher.connect()
            for step in range(steps):
                request = world.request(group)
                answer = self._answers[request.group.key] = concurrent.futures.Future()
                self._batcher.submit(client, request, size)
                if step < steps - 1:
                    actions = ActionCodec(SPEC.action).decode(answer.result(DEADLINE_SECS))
                    np.testing.assert_array_equal(actions, action(ids, world.next_step[ids]))
                    world.next_step[ids] += 1
            self._batcher.disconnect(client)

    def _serve(self):
        try:
            self.world.core.serve(self._batcher, self._deliver)
        except Exception as error:
            self._errors.append(error)

    def _deliver(self, pairs):
        for request, answer in pairs:
            self._answers[request.group.key].set_result(answer)


@pytest.mark.slow
def test_two_threads_and_actors_that_come_back_all_the_time():
    served = Served([1] * 4)
    served.play(lambda group: np.random.default_rng(group).integers(1, 3 * LENGTH, 150))
    check(served.world)
