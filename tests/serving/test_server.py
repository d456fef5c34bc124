"""Server and actors over a unix socket; each test runs for each way of the steps, which must not matter."""

import contextlib
import os

import numpy as np
import pytest

from seed_rl.wire.generated import inference_pb2 as pb
from tests.serving.harness import DEADLINE_SECS, NUM_ENVS, mappings
from tests.waiting import wait_until


def wait_for_task(harness, **said):
    """A process that is ready, once there is a task for it."""
    found = []

    def has_joined():
        player = harness.player(**said)
        with contextlib.suppress(Exception):
            player.get_ready()
            found.append(player)
        return found

    wait_until(has_joined, "a task", DEADLINE_SECS)
    return found[0]


def test_the_welcome_says_what_to_play(harness):
    welcome = harness.player(num_envs=4, task=1).welcome()
    assert (welcome.task, welcome.must_reset, welcome.address, welcome.seed) == (1, False, "", 7)
    assert (welcome.suite, dict(welcome.settings)) == ("catch", {"rows": "10"})
    assert [list(array.shape) for array in (*welcome.observation, welcome.action)] == [[2], []]


def test_episodes_are_handed_on_once_they_are_answered(harness):
    player = harness.join(num_envs=4, num_groups=2, task=1)
    harness.answering.clear()
    episodes = [pb.Episode(env=1, episode_return=3.5, agent_steps=7, figures={"wins": 2.0})]
    player.send(1, 2, group=1, episodes=episodes)
    wait_until(lambda: harness.taken, "the step to arrive", DEADLINE_SECS)
    assert harness.episodes == []
    harness.answering.set()
    assert player.answer(1) == [1, 2]
    assert player.ask(3, 4, group=1, done=False) == [3, 4]
    assert harness.episodes == [(7, 3.5, 7, {"wins": 2.0})]


def test_what_processes_have_applied_comes_with_their_first_steps(harness):
    player = harness.player(num_envs=4, num_groups=2)
    player.get_ready(applied=[5, 10**15])
    for number in range(2):
        assert [player.ask(1, 2, group=group) for group in (0, 1)] == [[1, 2], [1, 2]], number
    assert [request.applied for request in harness.requests] == [5, 10**15, None, None]


STEP = pb.FromActor(steps=[pb.Step(group=0, records=bytes(28))]).SerializeToString()
INFINITE = pb.Episode(env=0, episode_return=np.inf, agent_steps=1)
REFUSALS = {
    "second Ready": (lambda p: p.say(ready=pb.Ready(applied=[0])), "has said Ready already"),
    "two kinds": (lambda p: p.say(ready=pb.Ready(), join=pb.Join()), "`steps` here, and nothing else"),
    "garbage": (lambda p: p.say(b"\xff\xfe garbage \x00"), "is not a FromActor of protos/inference.proto"),
    "no kind": (lambda p: p.say(b""), "must have `steps` here"),
    "no group": (lambda p: p.send_zeros(1), "Step.group must be 0 to 0, not 1."),
    "early": (lambda p: p.send_zeros(0, 0), "before its last one was answered"),
    "infinite return": (lambda p: p.send(1, 2, episodes=[INFINITE]), "not inf."),
    "inference's": (lambda p: p.send(-1, 2), "Minus one."),
    "an error of inference": (lambda p: p.send(-2, 2), "Minus two."),
}


@pytest.mark.parametrize(("say", "words"), REFUSALS.values(), ids=REFUSALS)
def test_a_refusal_ends_its_own_connection_and_no_other(harness, say, words):
    good, bad = harness.join(), harness.join(process_id=9)
    assert good.ask(1, 2) == [1, 2]
    say(bad)
    code, sentence = bad.status()
    assert words in sentence
    assert code == ("INTERNAL" if words == "Minus two." else "INVALID_ARGUMENT")
    assert good.ask(3, 4, done=False) == [3, 4]
    assert wait_for_task(harness, process_id=3, task=1).ask(5, 6) == [5, 6]  # Its environments are free.
    assert harness.episodes == []


MANY = pb.FromActor(ready=pb.Ready(applied=[2**64 - 1])).SerializeToString()
GARBAGE = b"\xff" * 100
FIRST = {
    "another version": ({"protocol_version": 2}, b"", "FAILED_PRECONDITION", "this actor version 2"),
    "no join": ({"says_join": False}, b"", "INVALID_ARGUMENT", "must have `join` here"),
    "garbage": ({"says_join": False}, GARBAGE, "INVALID_ARGUMENT", "is not a FromActor"),
    "garbage after a join": ({}, GARBAGE, "INVALID_ARGUMENT", "is not a FromActor"),
    "nothing after a join": ({}, b"", "INVALID_ARGUMENT", "must have `ready` here"),
    "more actions than there can be": ({}, MANY, "INVALID_ARGUMENT", f"must be 0 to {10**15}, not"),
    "a step after a join": ({}, STEP, "INVALID_ARGUMENT", "before the Ready"),
}


@pytest.mark.parametrize(("said", "message", "code", "words"), FIRST.values(), ids=FIRST)
def test_the_first_messages_must_be_a_join_that_fits_and_a_ready(harness, said, message, code, words):
    player = harness.player(**said)
    player.say(message)
    status = player.status()
    assert (status[0], words in status[1]) == (code, True), status


def test_the_same_process_takes_its_environments_over(harness):
    old = harness.join()
    assert old.ask(1, 2) == [1, 2]
    new = harness.player(task=0)
    assert not new.get_ready(applied=[1]).must_reset
    assert new.ask(3, 4, done=False) == [3, 4]  # Its episodes go on.
    assert old.status() == ("ABORTED", "A newer connection of this actor has taken over.")


def test_a_process_that_goes_frees_its_environments(harness):
    first = harness.join(num_envs=NUM_ENVS, num_groups=2)
    assert first.ask(1, 2, 3, 4) == [1, 2, 3, 4]
    assert harness.player(process_id=2).status()[0] == "RESOURCE_EXHAUSTED"
    first.send(1, 2, 3, 4, group=1)  # Nobody waits for its answer.
    first.close()
    second = wait_for_task(harness, process_id=2)
    assert second.ask(1, 2, done=False) is None
    assert "must be a reset: set done" in second.status()[1]
    assert wait_for_task(harness, process_id=2).ask(1, 2) == [1, 2]


@pytest.mark.parametrize("reason", ["", "The learner was stopped."])
def test_the_end_reaches_all_who_wait_and_all_who_are_away(harness, later, reason):
    waiting, away, joining = harness.join(), harness.join(process_id=2), harness.player(process_id=3)
    joining.welcome()
    assert away.ask(1, 2) == [1, 2]
    harness.batcher.close()  # Nobody will answer.
    waiting.send(1, 2)
    stopped = later(harness.server.stop, reason)
    expected = ("UNAVAILABLE", reason) if reason else ("OK", "")
    assert waiting.answer() is None
    assert [player.status() for player in (waiting, away, joining)] == [expected] * 3
    stopped.result(DEADLINE_SECS)


def test_refused_processes_leave_nothing(harness):
    """Before, each that was refused its task kept a descriptor and a place."""
    good = harness.join(num_envs=NUM_ENVS, num_groups=2)
    assert good.ask(1, 2, 3, 4) == [1, 2, 3, 4]

    def be_refused(number):
        player = harness.player(process_id=number)
        code, _ = player.status()
        player.close()
        assert code == "RESOURCE_EXHAUSTED"

    for number in range(8):
        be_refused(number + 2)
    before, memory = len(os.listdir("/proc/self/fd")), mappings()
    for number in range(256):
        be_refused(number + 2)
    wait_until(lambda: len(os.listdir("/proc/self/fd")) <= before, "descriptors", DEADLINE_SECS)
    assert mappings() <= memory
    assert good.ask(1, 2, 3, 4, done=False) == [1, 2, 3, 4]


def test_many_processes_at_once(harness, later):
    """Each group's actions are its own, whatever comes together with whatever."""

    def play(number):
        player = harness.join(num_groups=2, process_id=number)
        for step in range(60):
            numbers = step % 10, (step + number) % 10
            for group in (0, 1):
                player.send(numbers[group], group=group, done=not step)
            assert [player.answer(0), player.answer(1)] == [[numbers[0]], [numbers[1]]]

    for played in [later(play, number) for number in range(4)]:
        played.result(DEADLINE_SECS)
