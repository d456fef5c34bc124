import threading

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.experience import source
from seed_rl.experience.base import Batch, ClosedError, Experience
from seed_rl.experience.source import Source
from seed_rl.metrics.idle_time import PREFETCH_FOR_EXPERIENCE, Waits
from seed_rl.types import AgentOutput, EnvOutput, Sample
from tests.threads import Thread
from tests.waiting import DEADLINE_SECS, wait_until


class Numbered(Experience):
    """Gives numbered batches until `end`; then raises `error`, or waits to be closed."""

    def __init__(self, end, error=None):
        self.sampled, self._end, self._error = 0, end, error
        self.reached_end, self._closed = threading.Event(), threading.Event()

    def sample(self):
        if self._closed.is_set():
            raise ClosedError
        if self.sampled == self._end:
            self.reached_end.set()
            if self._error is not None:
                raise self._error
            assert self._closed.wait(DEADLINE_SECS)
            raise ClosedError
        self.sampled += 1
        array = np.full((2, 3), self.sampled, np.float32)
        sample = Sample(array, EnvOutput(*[array] * 4), AgentOutput(array, {}), (), array[0])
        return Batch(sample, np.full(3, self.sampled), self.sampled)

    def batch_ready(self):
        return self.sampled < self._end

    def figures(self):
        return {}

    def close(self):
        self._closed.set()


def test_batches_arrive_in_order_as_tensors():
    source = Source(Numbered(end=5))
    for number in range(1, 6):
        batch = source.next(DEADLINE_SECS)
        assert tf.is_tensor(batch.sample.env.reward)
        assert batch.sample.weight.numpy().tolist() == [number] * 3
        assert batch.policy_version.tolist() == [number] * 3
        assert batch.handle == number
    assert source.next(0.01) is None  # None in time.
    source.close()


def test_one_batch_and_no_more_is_ready_before_it_is_asked_for():
    experience = Numbered(end=2)
    source = Source(experience)
    source.next(DEADLINE_SECS)
    wait_until(lambda: experience.sampled == 2, "the second batch, which is not requested yet")
    source.close()
    experience = Numbered(end=100)
    source = Source(experience)
    for _ in range(3):
        source.next(DEADLINE_SECS)
    source.close()
    assert experience.sampled <= 4


@pytest.mark.parametrize("error", [ZeroDivisionError("of the experience"), None])
def test_errors_are_passed_on_after_the_batches_before_them(error):
    experience = Numbered(end=1, error=error)
    source = Source(experience)
    assert source.next(DEADLINE_SECS).handle == 1
    if error is None:
        experience.close()
    with pytest.raises(type(error) if error else ClosedError):
        source.next(DEADLINE_SECS)
    source.close()


@pytest.mark.parametrize("end", [0, 1, 2, 100])
def test_close_ends_the_thread_wherever_it_waits(end):
    experience = Numbered(end)
    source = Source(experience)
    assert Thread(source.close).finished()
    assert not source._thread.is_alive()


def test_a_thread_that_does_not_end_is_named(monkeypatch, caplog):
    unlock = threading.Event()

    class Hanging(Numbered):
        def sample(self):
            unlock.wait()
            raise ClosedError

    monkeypatch.setattr(source, "_CLOSE_SECS", 0.05)
    Source(Hanging(0)).close()
    unlock.set()
    assert "prefetch did not stop within 0.05 s" in caplog.text


def test_prefetch_waits_only_while_nothing_is_ready():
    waits = Waits(PREFETCH_FOR_EXPERIENCE)
    source = Source(Numbered(end=1), waits=waits)
    wait_until(lambda: PREFETCH_FOR_EXPERIENCE in waits.take(), "prefetch to begin")
    assert waits.take() == {PREFETCH_FOR_EXPERIENCE: 0.0}  # Its batch has not been taken yet.
    source.next(DEADLINE_SECS)
    wait_until(lambda: waits.take()[PREFETCH_FOR_EXPERIENCE] == 1.0, "prefetch to wait for a second batch")
    source.close()
