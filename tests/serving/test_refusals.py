"""Refusals are logged and counted; an error that a message causes ends its own connection."""

import logging
import resource

import pytest

from seed_rl.serving import listener, service
from seed_rl.serving.connection import Connection
from seed_rl.serving.connections import Connections
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.shared_memory import Part
from tests.serving.harness import DEADLINE_SECS, NUM_ENVS
from tests.waiting import wait_until


def lines(capfd, seen):
    seen += capfd.readouterr().err.splitlines()
    return [line.removeprefix("seed_rl: warning: ") for line in seen if "refused" in line]


def test_each_refusal_is_a_line_with_its_reason_and_a_count(harness, capfd):
    assert harness.player(protocol_version=3).status()[0] == "FAILED_PRECONDITION"
    player = harness.join()
    player.close()  # This is no refusal,
    wait_until(lambda: not harness.server._connections._connections, "the end", DEADLINE_SECS)
    player = harness.join()
    harness.server.stop("The learner was stopped.")  # nor is the end of training.
    assert player.status()[0] == "UNAVAILABLE"
    found = lines(capfd, [])
    assert len(found) == (2 if harness._way == "gateway" else 1)  # The learner's line, and the gateway's.
    assert all("FAILED_PRECONDITION" in line and "actor version 3: install" in line for line in found)
    assert len(harness.refused) == 1


def test_more_than_some_lines_a_minute_are_one_with_their_number(open_harness, capfd, monkeypatch):
    monkeypatch.setattr(service, "_PERIOD_SECS", 1.0)
    harness, seen = open_harness("messages"), []
    for _ in range(13):
        harness.player(num_envs=0).status()
    wait_until(lambda: "more" in "".join(lines(capfd, seen)), "the number", DEADLINE_SECS)
    found = lines(capfd, seen)
    assert sum(line.startswith("refused the actor at unix:") for line in found) in (10, 13)
    assert len(harness.refused) == 13


def raising(function, which):
    """The function, which now raises for some arguments."""

    def replacement(*arguments):
        if which(*arguments):
            raise KeyError("bug")
        return function(*arguments)

    return replacement


PLACES = {
    "join": (Connections, "join", lambda self, join, *_: join.process_id == 9),
    "ready": (Connections, "ready", lambda self, connection, *_: connection.process_id == 9),
    "step": (Connection, "steps", lambda self, *_: self.process_id == 9),
    "answer": (Connection, "answered", lambda self, *_: self.process_id == 9),
}


@pytest.mark.parametrize("place", PLACES)
def test_an_error_at_a_message_ends_its_connection_alone(harness, place, monkeypatch, caplog):
    owner, name, which = PLACES[place]
    good = harness.join()
    monkeypatch.setattr(owner, name, raising(getattr(owner, name), which))
    bad = harness.player(process_id=9)
    if place != "join":
        bad.get_ready()
        if place != "ready":
            bad.send(1, 2)
    code, sentence = bad.status()
    assert (code, "KeyError('bug')" in sentence) == ("INTERNAL", True)
    assert [record.exc_info[0] for record in caplog.records if record.levelno == logging.ERROR] == [KeyError]
    assert good.ask(1, 2) == [1, 2]
    assert len(harness.refused) == 1
    monkeypatch.undo()
    other = harness.player(process_id=9)
    assert other.get_ready() and other.ask(3, 4) == [3, 4]


def test_an_error_at_episodes_in_shared_memory_ends_its_connection_alone(open_harness, monkeypatch):
    harness = open_harness("memory")
    good, bad = harness.join(), harness.join(process_id=9)
    monkeypatch.setattr(Part, "read_episodes", raising(None, lambda part: True))
    bad.send(1, 2, episodes=[pb.Episode(env=0, agent_steps=1)])
    assert bad.status()[0] == "INTERNAL"
    assert good.ask(1, 2) == [1, 2]


@pytest.mark.parametrize(("limit", "warns"), [(1024, False), (80, True), (resource.RLIM_INFINITY, False)])
def test_a_limit_on_descriptors_that_is_too_low_is_said_at_the_start(
    open_harness, capfd, monkeypatch, limit, warns
):
    monkeypatch.setattr(listener.resource, "getrlimit", lambda which: (limit, limit))
    open_harness("messages")
    said = capfd.readouterr().err
    assert (f"of up to {NUM_ENVS} actors" in said and "ulimit -n" in said) == warns
