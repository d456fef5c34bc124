"""Events and ends of real child processes."""

import itertools
import os
import signal
import sys
import time

import pytest

from seed_rl.launch.child import Child
from seed_rl.launch.watch import Ended, Signalled, Tick, Watch, at_once
from seed_rl.signals import StopSignals
from tests.launch.alive import alive
from tests.waiting import wait_until

POLL_SECS = 0.01
LONG_SECS = 240.0

FOR_EVER = "ready(); pause()"
SAVES = "on_sigterm(lambda *_: (mark('saved'), sys.exit(0))); ready(); pause()"
STUBBORN = "on_sigterm(signal.SIG_IGN); ready(); pause()"
# It starts another process, whose id it leaves in a file.
NESTED = """
import subprocess
nested = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
Path(stem + ".pid").write_text(str(nested.pid))
"""
COUNTS = "on_sigterm(lambda *_: mark('asked')); ready(); pause()"

_CHILD = """
import functools, signal, sys, time
from pathlib import Path
on_sigterm = functools.partial(signal.signal, signal.SIGTERM)
stem = {stem!r}
def mark(what):
    with open(stem + "." + what, "a") as file:
        print("x", file=file, flush=True)
ready = functools.partial(mark, "ready")
def pause():
    while True:  # In turns: Python handles a signal that comes just before a wait only after it.
        time.sleep(0.05)
{code}
"""


@pytest.fixture
def make(tmp_path):
    """Makes children out of their code; kills them at the end of the test."""
    made = []

    def make_child(code):
        stem = str(tmp_path / f"child_{len(made)}")
        command = [sys.executable, "-c", _CHILD.format(stem=stem, code=code)]
        made.append(Child(f"child {len(made)}", command, tmp_path / f"child_{len(made)}.log"))
        return made[-1]

    yield make_child
    for child in made:
        child.kill()


def marks(child, what):
    path = child.log.with_suffix(f".{what}")
    return len(path.read_text().splitlines()) if path.exists() else 0


def started(watch, *children):
    """Starts children and waits until they are ready."""
    for child in children:
        watch.start(child)
    for child in children:
        wait_until(lambda child=child: marks(child, "ready"), f"{child.name} to be ready")


def events(watch):
    """What happens, ticks left out; nothing of that may take longer than the deadline."""
    deadline = time.monotonic() + LONG_SECS
    for event in watch:
        assert time.monotonic() < deadline
        if not isinstance(event, Tick):
            yield event


@pytest.fixture
def stop():
    signals = StopSignals(same_signal_secs=0.0)
    with signals.caught():
        yield signals


def kill_self():
    os.kill(os.getpid(), signal.SIGTERM)


def test_each_end_is_one_event_with_its_code(make):
    watch = Watch(poll_secs=POLL_SECS)
    children = [make("sys.exit(0)"), make("sys.exit(3)"), make("signal.raise_signal(signal.SIGKILL)")]
    for child in children:
        watch.start(child)
    found = set(itertools.islice(events(watch), 3))
    assert found == set(map(Ended, children, (0, 3, -signal.SIGKILL)))
    assert list(itertools.islice(watch, 3)) == [Tick()] * 3


def test_a_child_that_was_started_before_or_again_is_watched(make):
    child = make("sys.exit(5)")
    child.start()
    watch = Watch([child], poll_secs=POLL_SECS)
    found = events(watch)
    assert next(found) == Ended(child, 5)
    watch.start(child)
    assert next(found) == Ended(child, 5)
    assert child.starts == 2


def test_a_child_that_could_not_be_started_is_not_watched(make, monkeypatch):
    child = make("sys.exit(5)")
    child.log.mkdir()
    watch = Watch(poll_secs=POLL_SECS)
    with pytest.raises(IsADirectoryError):
        watch.start(child)
    assert list(itertools.islice(watch, 2)) == [Tick(), Tick()]


def test_a_signal_comes_before_the_end_of_a_child_and_signals_are_counted(make, stop):
    child = make("sys.exit(1)")
    child.start()
    wait_until(lambda: not child.running, "the end of the child")
    kill_self()
    watch = Watch([child], stop, POLL_SECS)
    assert list(itertools.islice(watch, 3)) == [Signalled(1), Ended(child, 1), Tick()]
    kill_self()
    kill_self()
    assert list(itertools.islice(watch, 2)) == [Signalled(3), Tick()]


def test_signals_are_no_events_for_those_who_do_not_ask(make, stop):
    kill_self()
    assert stop.count == 1
    assert list(itertools.islice(Watch(poll_secs=POLL_SECS), 2)) == [Tick(), Tick()]


def test_children_are_asked_to_end_and_have_their_time(make):
    watch = Watch(poll_secs=POLL_SECS)
    children = [make(SAVES), make(FOR_EVER)]
    started(watch, *children)
    ended = []
    assert watch.end(children, LONG_SECS, lambda *end: ended.append(end))
    assert set(ended) == {(children[0], 0), (children[1], -signal.SIGTERM)}
    assert marks(children[0], "saved") == 1
    assert list(itertools.islice(watch, 1)) == [Tick()]


def test_a_child_that_does_not_end_is_killed_with_what_it_started(make):
    watch = Watch(poll_secs=POLL_SECS)
    child = make(NESTED + STUBBORN)
    started(watch, child)
    grandchild = int(child.log.with_suffix(".pid").read_text())
    assert not watch.end([child], 0.1)
    assert child.poll() == -signal.SIGKILL

    wait_until(lambda: not alive(grandchild), "the end of the grandchild")


def test_a_further_signal_ends_the_wait_at_once(make, stop):
    watch = Watch(stop=stop, poll_secs=POLL_SECS)
    child = make(STUBBORN)
    started(watch, child)
    kill_self()
    assert next(events(watch)) == Signalled(1)
    kill_self()  # Before the end is asked for, and after the signal that it is asked for by.
    assert not watch.end([child], LONG_SECS, on_signal=at_once, signals_seen=1)
    assert child.poll() == -signal.SIGKILL


def test_signals_that_came_before_do_not_end_the_wait(make, stop):
    watch = Watch(stop=stop, poll_secs=POLL_SECS)
    child = make(SAVES)
    started(watch, child)
    kill_self()
    assert watch.end([child], LONG_SECS, on_signal=at_once)
    assert marks(child, "saved") == 1


def test_signals_change_nothing_where_nobody_asks(make, stop):
    watch = Watch(stop=stop, poll_secs=POLL_SECS)
    child = make(SAVES)
    started(watch, child)
    kill_self()
    assert watch.end([child], LONG_SECS, signals_seen=0)
    assert marks(child, "saved") == 1


def test_a_signal_may_be_passed_on_and_shorten_the_time(make, stop):
    watch = Watch(stop=stop, poll_secs=POLL_SECS)
    child = make(COUNTS)
    started(watch, child)
    kill_self()

    def hurry():
        wait_until(lambda: marks(child, "asked") == 1, "the first request")
        child.terminate()
        wait_until(lambda: marks(child, "asked") == 2, "the second request")
        return 0.1

    assert not watch.end([child], LONG_SECS, on_signal=hurry, signals_seen=0)
    assert child.poll() == -signal.SIGKILL


def test_a_wait_leaves_other_children_and_their_ends_alone(make):
    watch = Watch(poll_secs=POLL_SECS)
    waited_for, other = make("sys.exit(0)"), make("sys.exit(3)")
    watch.start(waited_for), watch.start(other)
    wait_until(lambda: not other.running, "the other's end")
    assert watch.wait([waited_for], LONG_SECS)
    assert next(events(watch)) == Ended(other, 3)


def test_a_wait_ends_in_time_and_asks_nobody_to_end(make):
    watch = Watch(poll_secs=POLL_SECS)
    child = make(COUNTS)
    started(watch, child)
    assert not watch.wait([child], 0.1)
    assert child.running and marks(child, "asked") == 0


def test_ending_what_never_ran_is_no_error(make):
    assert Watch().end([make(FOR_EVER)], LONG_SECS)
