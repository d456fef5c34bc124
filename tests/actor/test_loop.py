"""An actor and a learner over both carriers: nothing is lost or comes twice, whatever happens."""

import contextlib
import itertools
import logging
import os
import subprocess
import sys

import pytest

from seed_rl.actor import loop
from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.group import EnvironmentRefusedError
from seed_rl.actor.loop import Actor
from seed_rl.hosts.addresses import LearnerHosts
from seed_rl.wire.client import LearnerGoneError, RefusedError
from seed_rl.wire.shared_memory import MOST_GROUPS, is_supported
from tests.actor.counting import DEADLINE_SECS, LENGTH, Player
from tests.actor.event_loops import KINDS
from tests.actor.strangers import ANSWERS, Stranger
from tests.selection import mostly_slow
from tests.waiting import wait_until

needs_memory = pytest.mark.skipif(not is_supported(), reason="needs Linux: no shared memory elsewhere")
KINDS_OVER = list(itertools.product(KINDS, ("grpc", "shared_memory")))
OFTEN = [("run in all", "grpc"), ("the thread's loop", "shared_memory"), ("a runner", "grpc")]
TRANSPORTS = ["grpc", pytest.param("shared_memory", marks=needs_memory)]


def shares_memory(learner):
    return learner.memory is not None and type(learner.memory).__name__ == "mmap"


def ended(player):
    """The error that ended a player; None after training has ended."""
    assert player.finished(DEADLINE_SECS)
    return player.error


def finish(learner, *players):
    """Ends training, and with it these players."""
    learner.stop()
    assert [ended(player) for player in players] == [None] * len(players)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_step_and_every_episode_arrives_once(start, address, transport):
    learner = start()
    player = Player(address, transport)
    learner.wait_for(100)
    assert shares_memory(learner) == (transport == "shared_memory")
    finish(learner, player)
    assert sorted(learner.seen) == [0, 1, 2, 3]
    for env, steps in learner.seen.items():
        assert steps == list(range(len(steps)))
        returns = [value for of, value in learner.episodes if of == env]
        assert returns == list(range(1, len(returns) + 1))
        # The last step may have had no answer, or not have been taken.
        assert abs(len(returns) - (len(steps) - 1) // LENGTH) <= 1


@needs_memory
def test_from_memory_to_messages_and_back_nothing_is_lost_or_played_twice(start, address):
    learners = [start()]
    player = Player(address)
    for memory in (False, True, True, False):
        learners[-1].wait_for(50)
        learners[-1].stop("Back in a moment.")
        learners.append(start(shares_memory=memory))
        learners[-1].wait_for(1)
        assert shares_memory(learners[-1]) == memory
    learners[-1].wait_for(50)
    finish(learners[-1], player)
    for env in range(4):
        last = -1
        for learner in learners:
            steps = learner.seen[env]
            assert steps[0] in (last, last + 1)  # The pending step again, unless it never arrived.
            assert steps == list(range(steps[0], steps[0] + len(steps)))
            last = steps[-1]
        returns = [value for learner in learners for of, value in learner.episodes if of == env]
        assert returns == sorted(set(returns))
        assert last // LENGTH - len(learners) <= len(returns) <= last // LENGTH + 1


def test_an_actor_whose_environments_others_have_played_starts_anew(start, address):
    learner = start()
    first = Player(address)
    learner.wait_for(20)
    learner.stop("Back in a moment.")
    ours, learner = learner, start()
    learner.wait_for(1)
    assert learner.seen[0][0] >= ours.seen[0][-1] > 0  # It has gone on.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first._actor, "_process_id", 1)  # To the learner, another process comes.
        learner.server._connections.end("Once more.")
        learner.server._connections._ended = None
        wait_until(lambda: learner.seen[0].count(0) == 1, "a reset", DEADLINE_SECS)
    assert len(learner.tasks) == 2 and learner.tasks[1].had_others
    finish(learner, first)


def test_a_task_is_wanted_again_and_others_take_what_is_left(start, address):
    learner = start(8)
    players = []
    for number in (1, 0):
        players.append(Player(address, task=1))
        wait_until(lambda: len(learner.tasks) == len(players), "another actor", DEADLINE_SECS)
        assert learner.tasks[-1].number == number
    third = Player(address, secs=0.5)
    assert str(ended(third)).startswith("All 8 environments of the learner are taken by other actors")
    finish(learner, *players)


def test_a_flag_that_contradicts_the_learner_ends_the_actor_and_frees_its_task(start, address):
    learner = start()
    for _ in range(2):
        error = ended(Player(address, given={"environment": "counting", "level": 2}))
        assert isinstance(error, EnvironmentRefusedError)
    player = Player(address, secs=5.0)
    learner.wait_for(3)
    finish(learner, player)


@pytest.mark.parametrize(("memory", "groups"), [(False, 2), (True, MOST_GROUPS + 1)])
def test_without_shared_memory_steps_are_messages_unless_it_is_demanded(
    start, address, caplog, memory, groups
):
    """Because the learner has none, or because the actor has too many groups."""
    caplog.set_level(logging.INFO)
    learner = start(groups, shares_memory=memory)
    demanding = ended(Player(address, "shared_memory", groups, groups))
    assert isinstance(demanding, RefusedError)
    assert str(demanding) == (
        "This actor cannot share memory with the learner (the learner offers none); use --transport=auto."
    )
    player = Player(address, envs=groups, groups=groups)
    learner.wait_for(3)
    assert caplog.text.count("Steps are sent as messages: no shared memory, ") == 1
    finish(learner, player)


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_actors_go_to_the_hosts_that_have_room_for_them(start, tmp_path, transport):
    addresses = tuple(f"unix:{tmp_path}/{index}" for index in range(2))
    learners = [
        start(8, address, hosts=LearnerHosts(addresses, index)) for index, address in enumerate(addresses)
    ]
    players = [Player(addresses[0], transport) for _ in range(2)]
    for learner in learners:
        learner.wait_for(3)
    assert [[task.number for task in learner.tasks] for learner in learners] == [[0], [1]]
    learners[0].stop()
    finish(learners[1], *players)


def test_a_learner_cannot_send_an_actor_to_another_machine_without_tls():
    actor = Actor(ActorConfig("unix:/tmp/s"))
    assert actor._checked("unix:/tmp/other") == "unix:/tmp/other"
    with pytest.raises(RefusedError, match=r"names the learner host 192\.0\.2\.7:8686 on another machine"):
        actor._checked("192.0.2.7:8686")


@needs_memory
@pytest.mark.parametrize(("kind", "transport"), mostly_slow(KINDS_OVER, OFTEN))
def test_environments_may_run_event_loops_as_in_a_plain_script(start, address, kind, transport):
    learner = start(2)
    command = [sys.executable, "-m", "tests.actor.event_loops", kind, address, transport]
    actor = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_until(lambda: actor.poll() is not None or len(learner.seen[0]) > 3 * LENGTH, "steps", DEADLINE_SECS)
    assert actor.poll() is None, actor.communicate()[0]
    assert shares_memory(learner) == (transport == "shared_memory")
    learner.stop()
    said, _ = actor.communicate(timeout=DEADLINE_SECS)
    assert (actor.returncode, said.count("closed\n"), "failed" in said) == (0, 2, False), said


@pytest.mark.parametrize("answer", mostly_slow(ANSWERS, ["HTTP 404", "status 0", "status 16"]))
def test_an_actor_comes_back_from_another_server_that_answered_while_its_learner_was_away(
    start, address, answer
):
    learner = start()
    player = Player(address, "grpc")
    learner.wait_for(20)
    learner.stop("Back in a moment.")
    with Stranger(address, ANSWERS[answer]) as stranger:
        wait_until(lambda: stranger.calls > 1 or not player.is_alive(), "calls", DEADLINE_SECS)
    assert player.is_alive(), player.error
    ours, learner = learner, start()
    learner.wait_for(20)
    assert learner.seen[0][0] >= ours.seen[0][-1] > 0  # The same process goes on.
    finish(learner, player)


@pytest.mark.parametrize(
    ("answer", "secs", "error", "words"),
    [
        (None, 0.3, LearnerGoneError, "No learner at unix:"),
        ("nothing", 0.5, LearnerGoneError, "may open no more files (ulimit -n)"),
        ("HTTP 404", DEADLINE_SECS, RefusedError, "is not a learner of this actor's version"),
        ("HTTP 401", DEADLINE_SECS, RefusedError, "401"),
    ],
)
def test_at_an_address_without_a_learner_an_actor_ends(address, answer, secs, error, words):
    """After some time if there is nobody; at once if there is another server."""
    with Stranger(address, ANSWERS[answer]) if answer else contextlib.nullcontext():
        found = ended(Player(address, "grpc", secs=secs))
    assert isinstance(found, error) and words in str(found)


def test_an_actor_gives_up_when_its_learner_does_not_come_back(start, address):
    learner = start()
    player = Player(address, "grpc", secs=1.0)
    learner.wait_for(20)
    learner.stop("Back in a moment.")
    with Stranger(address, ANSWERS["HTTP 404"]):
        error = ended(player)
    assert isinstance(error, LearnerGoneError) and "404" in str(error)


needs_linux = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")

# The cores of a thread that there was, of one that comes later, and of a child.
PINNED = """
import os, subprocess, sys, threading
from concurrent.futures import ThreadPoolExecutor
from seed_rl.actor.loop import pin, usable_cores

core = usable_cores()[-1]
threads = [ThreadPoolExecutor(1) for _ in range(2)]
threads[0].submit(int).result()
pin(core)
found = [thread.submit(os.sched_getaffinity, 0).result() for thread in threads]
child = [sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"]
print(found == [{core}] * 2, subprocess.check_output(child, text=True).strip() == str({core}))
"""


@needs_linux
def test_threads_and_children_stay_on_the_core():
    output = subprocess.check_output([sys.executable, "-c", PINNED], text=True, timeout=DEADLINE_SECS)
    assert output.split() == ["True", "True"]


@pytest.mark.parametrize(("task", "core"), [(0, 3), (1, 5), (2, 8), (3, 3), (4, 5)])
def test_tasks_take_cores_in_turn(start, address, monkeypatch, task, core):
    pinned = []
    monkeypatch.setattr(loop, "usable_cores", lambda: [3, 5, 8])
    monkeypatch.setattr(loop, "pin", pinned.append)
    learner = start(20)
    player = Player(address, task=task, pin=True)
    learner.wait_for(1)
    finish(learner, player)
    assert pinned == [core]


def test_elsewhere_it_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "_THREADS", tmp_path / "none")
    with pytest.raises(ValueError, match="--pin needs Linux"):
        Actor(ActorConfig(pin=True))
    Actor(ActorConfig())
