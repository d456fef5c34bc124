"""Intake between inference threads and a slow experience."""

import threading

import pytest

from seed_rl.experience import replay
from seed_rl.experience.base import ClosedError
from seed_rl.experience.replay import Intake
from seed_rl.metrics.idle_time import INTAKE_FOR_UNROLLS, Waits
from tests.threads import Thread
from tests.waiting import DEADLINE_SECS, wait_until


class SlowExperience:
    """Files unrolls only while its gate is open."""

    def __init__(self):
        self.filed, self.gate = [], threading.Event()

    def insert(self, unrolls):
        assert self.gate.wait(DEADLINE_SECS)
        self.filed.append(unrolls)


@pytest.fixture
def experience():
    return SlowExperience()


@pytest.fixture
def intake(experience):
    found = Intake(experience.insert, Waits(INTAKE_FOR_UNROLLS))
    found.thread = Thread(found.run)
    yield found
    experience.gate.set()
    found.close()
    assert found.thread.finished()


def test_inference_waits_only_when_too_many_are_waiting_and_the_order_stays(intake, experience, monkeypatch):
    monkeypatch.setattr(replay, "_CAPACITY", 4)
    share = lambda: intake._waits.take().get(INTAKE_FOR_UNROLLS)  # noqa: E731
    wait_until(lambda: share() == 1.0, "a wait for unrolls")
    intake.insert([0])
    wait_until(lambda: not intake._waiting, lambda: "the thread to take the first")
    wait_until(lambda: share() == 0.0, "an insertion, which is no wait")
    for number in (1, 3):
        intake.insert([number, number + 1])  # Returns, although nothing can be filed.
    assert experience.filed == []
    late = Thread(intake.insert, [5])
    wait_until(late.is_waiting, "inference that waits")
    assert intake._waiting == [1, 2, 3, 4]
    experience.gate.set()
    assert late.finished()
    wait_until(lambda: sum(map(len, experience.filed)) == 6, lambda: f"six, not {experience.filed}")
    assert [unroll for unrolls in experience.filed for unroll in unrolls] == list(range(6))
    wait_until(lambda: share() == 1.0, "a wait for more")


def test_closing_ends_every_wait(intake, experience, monkeypatch):
    monkeypatch.setattr(replay, "_CAPACITY", 1)
    intake.insert([0])
    wait_until(lambda: not intake._waiting, lambda: "the thread to take the first")
    intake.insert([1])
    late = Thread(intake.insert, [2])
    intake.close()
    assert late.finished()
    assert isinstance(late.error, ClosedError)
    with pytest.raises(ClosedError):
        intake.insert([3])
    experience.gate.set()
    assert intake.thread.finished()
    assert isinstance(intake.thread.error, ClosedError)
    assert experience.filed == [[0]]


def test_an_error_of_the_experience_ends_the_thread(experience):
    def fail(unrolls):
        raise ValueError("full")

    experience.insert = fail
    intake = Intake(experience.insert, Waits(INTAKE_FOR_UNROLLS))
    thread = Thread(intake.run)
    intake.insert([0])
    assert thread.finished()
    assert str(thread.error) == "full"
