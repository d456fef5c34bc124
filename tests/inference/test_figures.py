"""Figures of inference on its batches and its threads."""

import contextlib
import threading

import pytest

from seed_rl.experience.base import UnrollConfig
from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.inference.core import InferenceCore
from seed_rl.inference.figures import BatchFigures
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.request import Request, ServedGroup
from tests.inference.test_core import SPEC, Witness, World
from tests.threads import Thread
from tests.waiting import DEADLINE_SECS, wait_until


class Clock:
    """Clock with a time that the test sets."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def figures(clock):
    return BatchFigures(clock)


def request(arrived, first_env=0, num_envs=2, key=7):
    return Request(ServedGroup(key, 1, first_env, num_envs, is_restart=False), b"", arrived)


def serve(figures, clock, requests, begins, ends):
    """One batch of these requests."""
    clock.now = begins
    figures.begin(requests)
    clock.now = ends
    figures.add(requests)


def test_figures_are_of_the_period(figures, clock):
    assert figures.take() == {}
    serve(figures, clock, [request(1.0), request(1.002, 2, key=8)], 1.002, 1.003)
    serve(figures, clock, [request(1.008, 4, key=9)], 1.008, 1.010)
    taken = figures.take()
    assert taken["inference_latency_p50_ms"] == pytest.approx(2.0)
    assert taken["inference_latency_p99_ms"] == pytest.approx(2.98)
    assert taken["inference_batch_size"] == 3.0
    assert "actor_turn_ms" not in taken  # No stream has sent a second request.
    assert figures.take() == {}


def test_the_mean_number_of_waiting_requests_is_over_time(figures, clock):
    """Two requests wait for 1 s and 3 s of 8 s."""
    serve(figures, clock, [request(4.0), request(2.0, 2, key=8)], 5.0, 8.0)
    assert figures.take()["requests_waiting"] == pytest.approx(0.5)
    serve(figures, clock, [request(8.0)], 8.0, 10.0)
    assert figures.take()["requests_waiting"] == 0.0


def test_an_actors_turn_is_from_its_answer_to_its_next_request(figures, clock):
    serve(figures, clock, [request(1.0), request(1.0, 2, key=8)], 1.0, 2.0)
    serve(figures, clock, [request(2.5), request(3.5, 2, key=8)], 4.0, 5.0)
    assert figures.take()["actor_turn_ms"] == pytest.approx(1000.0)
    serve(figures, clock, [request(5.1)], 6.0, 7.0)  # Also over the end of a period.
    assert figures.take()["actor_turn_ms"] == pytest.approx(100.0)


def test_streams_that_have_ended_take_no_memory(figures, clock):
    for key in range(100):
        serve(figures, clock, [request(1.0, key=key)], 1.0, 2.0)
    clock.now = 1000.0
    figures.take()
    assert not figures._answered


class Held:
    """Takes unrolls while its gate is open."""

    def __init__(self):
        self.gate, self.handing_over = threading.Event(), threading.Event()

    def insert(self, unrolls):
        self.handing_over.set()
        assert self.gate.wait(DEADLINE_SECS)


def test_inference_says_what_its_threads_wait_for():
    """First for requests, then, with an unroll, for training."""
    experience, batcher = Held(), Batcher(1, 60.0)
    store = UnrollStore(1, UnrollConfig(1), experience.insert)
    core = InferenceCore(Witness(), SPEC, 1, 0, store, lambda: contextlib.nullcontext(0))
    world, client = World([1], 1, 0), batcher.connect()
    threads = [Thread(core.serve, batcher, lambda answers: None) for _ in range(2)]

    def share_of(name, share):
        taken = core.figures.take()
        return taken.get(name, 0.0) > share and taken

    taken = wait_until(lambda: share_of("inference_waiting_share", 0.99), "both threads to wait")
    assert taken["inference_waiting_share"] <= 1.0
    assert taken["inference_blocked_share"] == 0.0
    for step in range(2):
        world.next_step[0] = step
        batcher.submit(client, world.request(0), 1)
        wait_until(lambda: batcher._away == 1 or experience.handing_over.is_set(), "an answer")
    assert experience.handing_over.wait(DEADLINE_SECS)
    taken = wait_until(lambda: share_of("inference_blocked_share", 0.45), "one thread to be blocked")
    assert taken["inference_blocked_share"] <= 0.5 + 1e-6  # While the other one waits for requests.
    assert taken["inference_waiting_share"] == pytest.approx(0.5, abs=0.05)
    experience.gate.set()
    batcher.close()
    for thread in threads:
        assert thread.finished()
