"""Idle time of threads by a clock of the test."""

import threading

import pytest

from seed_rl.metrics.idle_time import Waits
from tests.waiting import DEADLINE_SECS


@pytest.fixture
def waits(clock):
    return Waits("for_this", "for_that", clock=clock)


def wait(waits, clock, name, until):
    with waits(name):
        clock.now = until


def test_shares_are_of_the_time_since_the_first_wait_and_then_of_each_period(waits, clock):
    assert waits.take() == {}
    clock.now = 10.0
    wait(waits, clock, "for_this", 11.0)
    clock.now = 12.0
    wait(waits, clock, "for_that", 12.5)
    clock.now = 14.0
    assert waits.take() == {"for_this": 0.25, "for_that": 0.125}
    clock.now = 18.0
    assert waits.take() == {"for_this": 0.0, "for_that": 0.0}


def test_a_wait_in_progress_counts_in_every_period_that_it_is_part_of(waits, clock):
    with waits("for_this"):
        for clock.now in (3.0, 5.0):
            assert waits.take() == {"for_this": 1.0, "for_that": 0.0}
        clock.now = 6.0
    clock.now = 9.0
    assert waits.take() == {"for_this": 0.25, "for_that": 0.0}


def test_a_thread_that_never_waits_counts_from_its_beginning(waits, clock):
    waits.begin()
    clock.now = 3.0
    waits.begin()  # Once is enough.
    clock.now = 4.0
    assert waits.take() == {"for_this": 0.0, "for_that": 0.0}


def test_shares_are_means_over_threads(waits, clock):
    waiting, over = threading.Event(), threading.Event()

    def other():
        with waits("for_this"):
            waiting.set()
            assert over.wait(DEADLINE_SECS)

    thread = threading.Thread(target=other, daemon=True)
    thread.start()
    assert waiting.wait(DEADLINE_SECS)
    waits.begin()
    clock.now = 2.0
    wait(waits, clock, "for_that", 4.0)
    assert waits.take() == {"for_this": 0.5, "for_that": 0.25}
    over.set()
    thread.join(DEADLINE_SECS)
