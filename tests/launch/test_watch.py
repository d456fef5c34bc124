"""Events and ends of real child processes, and gateways that are kept running."""

import contextlib
import dataclasses
import itertools
import os
import signal
import time

import pytest

from seed_rl.launch.child import Child
from seed_rl.launch.watch import (
    ChildEnded,
    Gateways,
    Restarts,
    Signalled,
    Tick,
    Timing,
    Watch,
    gateway_commands,
)
from seed_rl.wire.security import SecurityConfig
from tests.launch.children import alive, command
from tests.waiting import wait_until

TIMING = Timing(poll=0.01, first_backoff=0.01, same_signal=0.0)
LONG_SECS = 240.0

FOR_EVER = "mark('ready'); for_ever()"
SAVES = f"on_sigterm(lambda *_: (mark('saved'), sys.exit(0))); {FOR_EVER}"
STUBBORN = f"on_sigterm(signal.SIG_IGN); {FOR_EVER}"
COUNTS = f"on_sigterm(lambda *_: mark('asked')); {FOR_EVER}"
TWICE = f"""
def asked(*_):
    mark("asked")
    if len((here / (name + ".asked")).read_text()) == 4:
        os._exit(7)  # Python puts the handler back before it ends, and a third request may come.
on_sigterm(asked); {FOR_EVER}
"""


@pytest.fixture
def make(tmp_path):
    """Makes children out of their code; kills them at the end of the test."""
    made = []

    def make_child(code):
        name = f"child_{len(made)}"
        made.append(Child(f"child {len(made)}", command(tmp_path, name, code), tmp_path / f"{name}.log"))
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
    """Events without ticks; each must come within the deadline."""
    deadline = time.monotonic() + LONG_SECS
    for event in watch:
        assert time.monotonic() < deadline
        if not isinstance(event, Tick):
            yield event


def kill_self():
    os.kill(os.getpid(), signal.SIGTERM)


def test_each_end_of_a_child_that_is_watched_is_one_event_with_its_code(make):
    before, failed = make("sys.exit(0)"), make("sys.exit(5)")
    before.start()
    failed.log.mkdir()
    watch = Watch([before], TIMING)
    with pytest.raises(IsADirectoryError):
        watch.start(failed)  # It could not be started, so it is not watched.
    children = [make("sys.exit(3)"), make("signal.raise_signal(signal.SIGKILL)")]
    for child in children:
        watch.start(child)
    found = set(itertools.islice(events(watch), 3))
    assert found == {ChildEnded(before, 0), *map(ChildEnded, children, (3, -signal.SIGKILL))}
    assert str(ChildEnded(children[1], -9)).startswith("child 3 was ended by SIGKILL (")
    assert list(itertools.islice(watch, 3)) == [Tick()] * 3
    watch.start(children[0])
    assert next(events(watch)) == ChildEnded(children[0], 3)


def test_a_signal_comes_before_the_end_of_a_child_and_signals_are_counted(make):
    child = make("sys.exit(1)")
    child.start()
    wait_until(lambda: not child.running, "the end of the child")
    watch = Watch([child], TIMING)
    with watch.running():
        kill_self()
        assert list(itertools.islice(watch, 3)) == [Signalled(1), ChildEnded(child, 1), Tick()]
        kill_self()
        kill_self()
        assert list(itertools.islice(watch, 2)) == [Signalled(3), Tick()]


def test_a_restart_is_said_when_it_is_due_and_one_that_fails_is_another_end(make):
    said = []
    watch = Watch(timing=TIMING, say=said.append)
    child = make("sys.exit(3)")
    watch.start(child)
    found = events(watch)
    watch.restart(next(found))
    child.log.unlink()
    child.log.mkdir()
    failed = next(found)
    assert (failed.child, failed.code) == (child, 1) and "Is a directory" in failed.error
    watch.restart(failed, most=4)
    child.log.rmdir()
    assert next(found) == ChildEnded(child, 3)
    assert watch.restarts(child) == 2
    assert said[0].startswith("child 0 ended with exit code 3 (") and said[0].endswith("; restart 1.")
    assert said[1].startswith("child 0 could not be started (") and said[1].endswith("; restart 2 of 4.")


def test_an_error_leaves_time_for_a_checkpoint_and_nothing_running(make):
    saves, stubborn = make(SAVES), make(STUBBORN)
    quick = Timing(poll=0.01, checkpoint_grace=3.0)
    watch = Watch(timing=quick, say=lambda sentence: None)
    with pytest.raises(OSError, match="full"), watch.running():
        started(watch, saves, stubborn)
        raise OSError("full")
    assert marks(saves, "saved") == 1
    assert not saves.running and stubborn.poll() == -signal.SIGKILL


def test_children_are_asked_to_end_and_have_their_time_unless_there_is_a_further_signal(make):
    watch = Watch(timing=TIMING)
    children, stubborn = [make(SAVES), make(FOR_EVER), make(FOR_EVER)], make(STUBBORN)
    with watch.running():
        started(watch, *children[:2], stubborn)
        assert watch.end(children, LONG_SECS)  # The third one never ran.
        assert [child.poll() for child in children[:2]] == [0, -signal.SIGTERM]
        assert marks(children[0], "saved") == 1
        kill_self()
        assert next(events(watch)) == Signalled(1)
        kill_self()
        assert not watch.end([stubborn], LONG_SECS)
        assert stubborn.poll() == -signal.SIGKILL


def test_a_further_signal_is_passed_on_and_may_leave_some_time(make):
    watch = Watch(timing=dataclasses.replace(TIMING, hurry_grace=LONG_SECS))
    child = make(TWICE)
    with watch.running():
        started(watch, child)
        child.terminate()
        wait_until(lambda: marks(child, "asked") == 1, "the first request")
        kill_self()
        wait_until(lambda: watch.stop.count == 1, "the signal")
        assert watch.end([child], LONG_SECS)
    assert child.poll() == 7


def test_a_wait_ends_in_time_asks_nobody_to_end_and_leaves_other_ends_alone(make):
    watch = Watch(timing=TIMING)
    child, waited_for, other = make(COUNTS), make("sys.exit(0)"), make("sys.exit(3)")
    started(watch, child)
    watch.start(waited_for), watch.start(other)
    wait_until(lambda: not other.running, "the other's end")
    assert watch.wait([waited_for], LONG_SECS)
    assert not watch.wait([child], 0.1)
    assert child.running and marks(child, "asked") == 0
    assert next(events(watch)) == ChildEnded(other, 3)


def test_delays_double_up_to_the_longest_and_start_over_after_a_healthy_life():
    restarts = Restarts(Timing())
    assert [restarts.delay(lifetime=0.5) for _ in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert [restarts.delay(lifetime=61.0), restarts.delay(lifetime=59.0)] == [1, 2]
    assert restarts.total == 9


def test_gateways_that_end_start_again_while_the_others_go_on_and_a_stop_ends_them_all(tmp_path, capfd):
    codes = (FOR_EVER, STUBBORN, "sys.exit(2)")
    commands = [command(tmp_path, f"gateway{i}", code) for i, code in enumerate(codes)]
    gateways = Gateways(commands, dataclasses.replace(TIMING, longest_backoff=0.05, terminate_grace=0.5))

    def pids(index, count):
        """The process ids of a gateway's starts, once there are so many."""

        def found():
            return [int(path.read_text()) for path in tmp_path.glob(f"gateway{index}.start.*")]

        wait_until(lambda: len(found()) >= count, f"{count} starts of {index}")
        return found()

    with contextlib.ExitStack() as stack:
        stack.callback(gateways.stop)
        (first,), (other,) = pids(0, 1), pids(1, 1)
        wait_until((tmp_path / "gateway1.ready").exists, "one that ignores the end")
        os.kill(first, signal.SIGKILL)
        (again,) = set(pids(0, 2)) - {first}
        assert alive(other) and {other, again} <= set(gateways.pids)
        pids(2, 4)
        wait_until(lambda: gateways.live("abc") == ["a", "b"], lambda: gateways.live("abc"))
    assert pids(1, 1) == [other] and not any(map(alive, (again, other)))
    gateways.stop()
    said = capfd.readouterr().err
    assert "gateway 0 was ended by SIGKILL; restart 1." in said
    assert "gateway 2 ended with exit code 2; restart 3." in said


def test_gateways_have_the_learners_security():
    security = SecurityConfig(tls_certificate="c.pem", tls_key="k.pem", token_file="token")
    (command,) = gateway_commands(["0.0.0.0:8687"], "unix-abstract:x", security.to_dict())
    addresses = {"--server_address=0.0.0.0:8687", "--learner_address=unix-abstract:x"}
    assert {*addresses, "--tls_certificate=c.pem", "--tls_key=k.pem", "--token_file=token"} <= set(command)
    assert not any("None" in part for part in command)
