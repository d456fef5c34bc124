"""Figures of inference on its batches and its threads."""

import contextlib
import threading

import numpy as np
import pytest

from seed_rl.experience.base import UnrollConfig
from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.inference.core import InferenceCore
from seed_rl.metrics.batches import BatchMetrics, PolicyLag
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.request import Request, ServedGroup
from tests.inference.test_core import SPEC, Witness, World
from tests.threads import Thread
from tests.waiting import DEADLINE_SECS, wait_until


@pytest.fixture
def metrics(clock):
    return BatchMetrics(clock)


def request(arrived, first_env=0, num_envs=2, key=7):
    return Request(ServedGroup(key, 1, first_env, num_envs, is_restart=False), b"", arrived)


def serve(metrics, clock, requests, begins, ends):
    """One batch of these requests."""
    clock.now = begins
    metrics.begin(requests)
    clock.now = ends
    metrics.add(requests)


def test_metrics_are_of_the_period(metrics, clock):
    assert metrics.take() == {}
    serve(metrics, clock, [request(1.0), request(1.002, 2, key=8)], 1.002, 1.003)
    serve(metrics, clock, [request(1.008, 4, key=9)], 1.008, 1.010)
    taken = metrics.take()
    assert taken["inference_latency_p50_ms"] == pytest.approx(2.0)
    assert taken["inference_latency_p99_ms"] == pytest.approx(2.98)
    assert taken["inference_batch_size"] == 3.0
    assert "actor_turn_ms" not in taken  # No stream has sent a second request.
    assert metrics.take() == {}


def test_requests_wait_and_an_actors_turn_is_from_its_answer_to_its_next_request(metrics, clock):
    """Two requests wait for 1 s and 3 s of 8 s; then two for 0.5 s and 1.5 s of 4 s, after turns."""
    serve(metrics, clock, [request(4.0), request(2.0, 2, key=8)], 5.0, 8.0)
    assert metrics.take()["requests_waiting"] == pytest.approx(0.5)
    serve(metrics, clock, [request(8.5), request(9.5, 2, key=8)], 10.0, 12.0)
    taken = metrics.take()
    assert (taken["requests_waiting"], taken["actor_turn_ms"]) == pytest.approx((0.5, 1000.0))
    serve(metrics, clock, [request(12.1)], 12.1, 13.0)  # Also over the end of a period.
    taken = metrics.take()
    assert (taken["requests_waiting"], taken["actor_turn_ms"]) == pytest.approx((0.0, 100.0))


def test_bytes_are_over_time(metrics, clock):
    metrics.carried(2**20, 2**21)
    metrics.carried(2**20, 0)
    clock.now = 4.0
    taken = metrics.take()
    assert (taken["unrolls_mib_per_second"], taken["weights_mib_per_second"]) == (0.5, 0.5)


def test_streams_that_have_ended_take_no_memory(metrics, clock):
    for key in range(100):
        serve(metrics, clock, [request(1.0, key=key)], 1.0, 2.0)
    clock.now = 1000.0
    metrics.take()
    assert not metrics._answered


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
        taken = core.metrics.take()
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


# (burn-in, [(versions [S, B], updates)], (lag at the first step, at the last one, mean and largest spread)).
CASES = {
    "one version": (0, [([[4], [4], [4]], 4)], (0, 0, 0, 0)),
    "the last step does not count": (0, [([[4], [5], [9]], 9)], (5, 4, 1, 1)),
    "a rollout": (0, [([[4, 4], [4, 4], [-1, -1]], 4)], (0, 0, 0, 0)),
    "burn-in does not count": (2, [([[1], [2], [5], [6], [8]], 9)], (4, 3, 1, 1)),
    "an unroll of one step": (0, [([[3, 2], [3, 9]], 9)], (6.5, 6.5, 0, 0)),
    "two unrolls": (0, [([[1, 2], [3, 2], [9, 9]], 9)], (7.5, 6.5, 1, 2)),
    "two batches": (0, [([[1], [5], [9]], 9), ([[8], [8], [9]], 10)], (5, 3, 2, 4)),
}


@pytest.mark.parametrize(("burn_in", "batches", "expected"), CASES.values(), ids=CASES)
def test_policy_lag_is_of_the_steps_that_are_trained_on(burn_in, batches, expected):
    lag = PolicyLag(burn_in)
    assert lag.take() == {}
    for versions, updates in batches:
        lag.add(np.array(versions), updates)
    assert lag.take() == {
        "policy_lag_first_updates": expected[0],
        "policy_lag_last_updates": expected[1],
        "version_spread_mean_updates": expected[2],
        "version_spread_max_updates": expected[3],
    }
    assert lag.take() == {}
