"""Actors that do not fit, lie, die or freeze: the learner and the other actors go on."""

import contextlib
import re
import signal

import numpy as np
import pytest

from seed_rl.wire.shared_memory import is_supported
from tests.processes.client import Client, records

pytestmark = pytest.mark.slow

# The learner's time limit for a frozen actor. Much longer than a step: waiting for it in every batch would
# bring the others to two batches a second.
TIMEOUT_MS = 500.0

# Two actors with four environments each play all the time; the other eight of 16 are for the tests.
SIZE = 4


@pytest.fixture(scope="module")
def playing(open_house):
    """A house with a learner and two actors that play."""
    house = open_house()
    house.live = house.learner(f"--inference_timeout_ms={TIMEOUT_MS}", "--normalize_observations")
    house.actors = [house.actor() for _ in range(2)]
    if is_supported():
        house.wait_until(lambda: all(map(house.shares_memory, house.actors)), "two actors")
    house.wait_for_metrics(lambda line: line["updates"] > 5, house.live)
    yield house
    house.close()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--environment=catch", "--rows=12"], "--rows=12 contradicts the learner, which has 10;"),
        (["--env_batch_size=17"], "17 environments does not fit the learner's 16; lower "),
    ],
)
def test_an_actor_that_does_not_fit_ends_with_a_sentence(playing, goes_on, args, words):
    actor = playing.start("actor", *playing.actor_args(), *args)
    assert actor.end() == 2
    assert actor.last_line.startswith("seed_rl: error: ") and words in actor.last_line
    assert "Traceback" not in actor.output


def refusal(house, *steps):
    """Plays a good step, and then these until one is refused; returns the status and the sentence."""
    with contextlib.closing(Client(house.address)) as client:
        welcome = client.join(SIZE)
        client.ready(0)
        client.step(0, records(welcome, SIZE))
        assert len(client.actions()) == 1
        for changes in steps:
            client.step(0, records(welcome, **{"num_envs": SIZE, "done": False} | changes))
            if client.actions() is None:
                return client.status()
    raise AssertionError("no refusal")


def huge(rng, shape):
    """Random bytes as float32, without those that are NaN or infinite."""
    values = np.frombuffer(rng.bytes(4 * int(np.prod(shape))), np.float32).reshape(shape)
    return np.where(np.isfinite(values), values, np.float32(3e38))


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ({"num_envs": 10_000}, "RESOURCE_EXHAUSTED", ""),  # gRPC's own limit.
        ({"reward": [0.0, float("nan"), 0.0, 0.0]}, "INVALID_ARGUMENT", "The reward of environment 1 in the"),
    ],
)
def test_a_step_that_does_not_fit_ends_its_connection_and_is_in_log_and_metrics(
    playing, goes_on, changes, code, words
):
    found, sentence = refusal(playing, changes)
    assert (found.name, words in sentence) == (code, True)
    playing.wait_for_metrics(lambda line: line["refused_connections"] > 0, playing.live)
    if words:
        assert "refused the actor at unix: (INVALID_ARGUMENT)" in playing.live.output


def test_observations_that_make_the_network_overflow_end_their_connection(playing, goes_on):
    """Running statistics of the rogue's observations would make the whole network overflow."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        _, sentence = refusal(playing, *({"observation": huge(rng, (SIZE, 10, 5))} for _ in range(30)))
        assert re.match(
            r"The observations or rewards of these environments make the network overflow: "
            r"\d+(, \d+)*\. Check them",
            sentence,
        )
    refusal(playing, {"observation": 1e20})


def mean_rate(house, periods):
    """Agent steps a second over the next `periods` lines of metrics, without the one that is being made."""
    first = len(house.metrics()) + 1
    house.wait_until(lambda: len(house.metrics()) > first + periods, f"{periods} lines of metrics")
    lines = house.metrics()
    start, end = lines[first], lines[first + periods]
    return (end["agent_steps"] - start["agent_steps"]) / (end["seconds"] - start["seconds"])


def reaches(house, rate):
    """Waits for so many agent steps a second.

    A busy machine may need several tries. A learner that waits for gRPC's keepalive (30 s) is too late.
    """
    house.wait_until(
        lambda: mean_rate(house, periods=8) > rate, f"{rate:.0f} agent steps a second", seconds=15
    )


def test_a_frozen_actor_costs_the_others_nothing_and_comes_back(playing, goes_on):
    both = mean_rate(playing, periods=8)
    frozen = playing.actors[1]
    frozen.signal(signal.SIGSTOP)
    try:
        # Half of the steps were the frozen actor's. A time-out per batch would leave 8 steps a second.
        reaches(playing, max(0.4 * both / 2, 2 * 4 / (TIMEOUT_MS / 1e3)))
    finally:
        frozen.signal(signal.SIGCONT)
    # The other one alone may be faster than its share; back again is what both reach together.
    reaches(playing, 0.4 * both)
    assert frozen.running and "away" not in frozen.output


def test_the_successor_of_an_actor_that_fell_silent_gets_its_task(house):
    """A machine that dies without a word closes no connection; nor does a process that is stopped."""
    learner = house.learner("--num_envs=4")
    silent = house.actor()
    house.wait_for_metrics(lambda line: line["updates"] > 0, learner)
    silent.signal(signal.SIGSTOP)
    successor = house.actor()
    house.wait_for_metrics(lambda line: line["actor_restarts"] == 1, learner)
    house.wait_for_progress(learner)
    assert successor.running
