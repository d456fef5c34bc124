"""Actors that do not fit, lie, die or freeze: the learner and the other actors go on."""

import re
import signal

import grpc
import numpy as np
import pytest

from seed_rl.wire.board import is_supported
from seed_rl.wire.generated import inference_pb2 as pb
from tests.processes.client import HandWrittenActor

pytestmark = pytest.mark.slow

# How long the learner waits for a frozen actor. Much longer than a step: waiting for it in every batch would
# bring the others to two batches a second.
TIMEOUT_MS = 500.0

# Actors 0 and 1 play all the time, the environments of task 2 and 3 are for the tests.
GUEST = {"first_env": 8, "num_envs": 4}

WITH_ANOTHER_PROTOCOL = """
import seed_rl.wire.client
seed_rl.wire.client.PROTOCOL_VERSION = 3
from seed_rl import actor_main
from seed_rl.flags.errors import run_main
run_main(actor_main.main)
"""


@pytest.fixture(scope="module")
def playing(open_house):
    """A house with a learner and two actors that play."""
    house = open_house()
    house.live = house.learner(f"--inference_timeout_ms={TIMEOUT_MS}")
    house.actors = [house.actor(task) for task in range(2)]
    if is_supported():
        house.wait_until(lambda: all(map(house.on_board, house.actors)), "two actors on the board")
    house.wait_for_metrics(lambda line: line["updates"] > 5, house.live)
    yield house
    house.close()


@pytest.fixture
def guest(playing):
    actor = HandWrittenActor(playing.address)
    yield actor
    actor.close()


@pytest.fixture
def goes_on(playing):
    """Checks after the test that learner and actors are alive, and that steps and updates go on."""
    yield
    count = len(playing.metrics())
    now = playing.wait_for_metrics(lambda line: True, playing.live, after=count)
    playing.wait_for_metrics(
        lambda line: line["env_frames"] > now["env_frames"] and line["updates"] > now["updates"],
        playing.live,
        after=count + 1,
    )
    assert all(actor.running for actor in playing.actors)
    assert "Traceback" not in playing.live.output


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


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--rows=12"], ["does not match the learner", "rows: 12 here, 10 there", "the same flags"]),
        (["--num_action_repeats=2"], ["num_action_repeats: 2 here, 1 there"]),
        (
            ["--task=4"],
            ["Task 4 is out of range", "0 to 15", "lower --task", "raise the learner's --num_envs"],
        ),
        (["--task=1", "--connect_timeout_secs=5"], ["Task 1 is taken by a live actor", "another --task"]),
        (["--env_batch_size=128"], ["128 environments exceeds the learner's --inference_batch_size=64"]),
    ],
    ids=lambda value: "".join(value) if value[0].startswith("--") else "",
)
def test_an_actor_that_does_not_fit_ends_with_the_learners_sentence(playing, goes_on, args, words):
    actor = playing.actor(2, *args)
    assert actor.end() == 2
    assert actor.last_line.startswith("seed_rl: error: ")
    for word in words:
        assert word in actor.last_line
    assert "Traceback" not in actor.output


def test_an_actor_of_another_environment_is_refused(playing, goes_on):
    actor = playing.actor(2, "--environment=gym", "--game=CartPole-v1")
    assert actor.end() == 2
    assert "environment: gym here, catch there" in actor.last_line


def test_an_actor_of_another_protocol_version_ends_by_itself(playing, goes_on):
    actor = playing.start("actor_main", *playing.actor_args(2), code=WITH_ANOTHER_PROTOCOL)
    assert actor.end() == 2
    assert actor.last_line == (
        "seed_rl: error: The learner speaks protocol version 2 and this actor version 3: install the same "
        "seed_rl on both."
    )


def test_the_learner_refuses_hellos_that_do_not_fit(playing, goes_on, guest):
    refused = grpc.StatusCode.FAILED_PRECONDITION
    _, status, sentence = guest.talk(guest.hello(**GUEST, protocol_version=3))
    assert (status, "protocol version 2 and this actor version 3" in sentence) == (refused, True)
    _, status, sentence = guest.talk(guest.hello(**GUEST, environment="atari"))
    assert (status, "environment: catch here, atari there" in sentence) == (refused, True)
    _, status, sentence = guest.talk(guest.hello(first_env=14, num_envs=4))
    assert (status, "out of range" in sentence) == (grpc.StatusCode.OUT_OF_RANGE, True)
    _, status, sentence = guest.talk(guest.hello(first_env=2, num_envs=4))
    assert (status, "taken by a live actor" in sentence) == (grpc.StatusCode.ALREADY_EXISTS, True)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_ends_its_stream(goes_on, guest, value):
    good, bad = guest.step(4), guest.step(4, reward=[0.0, value, 0.0, 0.0], done=False)
    answers, status, sentence = guest.talk(guest.hello(**GUEST), good, bad)
    assert [len(actions) for actions in answers] == [4 * 4]
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert sentence.startswith("The reward of environment 1 in the message is NaN or infinite")


def huge(rng, shape):
    """Random bytes as float32, without those that are NaN or infinite."""
    values = np.frombuffer(rng.bytes(4 * int(np.prod(shape))), np.float32).reshape(shape)
    return np.where(np.isfinite(values), values, np.float32(3e38))


def refused_for_overflow(guest, rng):
    """A stream that plays one good step, and then random bytes until it is refused: the sentence."""
    shape = (4, *guest.description.observation[0].shape)
    noise = [guest.step(4, done=False, observation=huge(rng, shape)) for _ in range(30)]
    _, status, sentence = guest.talk(guest.hello(**GUEST), guest.step(4), *noise)
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    return sentence


def test_observations_that_make_the_network_overflow_end_their_stream(goes_on, guest):
    rng = np.random.default_rng(0)
    for _ in range(20):
        sentence = refused_for_overflow(guest, rng)
        assert re.match(
            r"The observations or rewards of these environments make the network overflow: "
            r"(8|9|10|11)(, (9|10|11))*\. Check them",
            sentence,
        )


def test_normalized_observations_overflow_at_their_own_stream_s_cost_too(house):
    """Running statistics of what the rogue says would make the whole network overflow."""
    live = house.learner("--normalize_observations")
    actor = house.actor(0)
    house.wait_for_metrics(lambda line: line["updates"] > 5, live)
    guest = HandWrittenActor(house.address)
    rng, step = np.random.default_rng(0), guest.step(4, observation=1.0)
    too_large = guest.step(4, done=False, observation=1e20)
    for _ in range(5):
        assert "overflow" in refused_for_overflow(guest, rng)
        _, status, _ = guest.talk(guest.hello(**GUEST), step, too_large)
        assert status is grpc.StatusCode.INVALID_ARGUMENT
    guest.close()
    before = house.metrics()[-1]
    house.wait_for_metrics(lambda line: line["updates"] > before["updates"] + 20, live)
    assert actor.running
    assert "Traceback" not in live.output


@pytest.mark.parametrize(
    ("episode", "words"),
    [
        ({"env": 0, "episode_return": 1.0}, "environment 0 was reported on a stream of environments 8 to 11"),
        ({"env": 10**6, "episode_return": 1.0}, "environment 1000000 was reported"),
        ({"env": 8, "episode_return": float("nan")}, "environment 8 is NaN or infinite"),
        ({"env": 8, "agent_steps": -5}, "cannot have -5 agent steps"),
    ],
)
def test_episodes_that_cannot_be_end_their_stream_and_do_not_count(playing, goes_on, guest, episode, words):
    bad = guest.step(4, episodes=[pb.Episode(env=9, episode_return=1e6), pb.Episode(**episode)])
    answers, status, sentence = guest.talk(guest.hello(**GUEST), guest.step(4), bad)
    assert [len(actions) for actions in answers] == [4 * 4]
    assert status is grpc.StatusCode.INVALID_ARGUMENT
    assert words in sentence
    line = playing.wait_for_metrics(lambda line: True, playing.live, after=len(playing.metrics()) + 1)
    assert "mean_evaluation_return" not in line
    assert -1.0 <= line["mean_return"] <= 1.0


@pytest.mark.parametrize("num_envs", [0, 3, 5])
def test_a_wrong_number_of_bytes_ends_its_stream(goes_on, guest, num_envs):
    answers, status, sentence = guest.talk(guest.hello(**GUEST), guest.step(4), guest.step(num_envs))
    assert (len(answers), status) == (1, grpc.StatusCode.INVALID_ARGUMENT)
    assert f"must be {4 * 206} bytes (206 each), not {num_envs * 206}" in sentence


def test_messages_out_of_turn_end_their_stream(goes_on, guest):
    hello, step = guest.hello(**GUEST), guest.step(4)
    for talk in ([step], [hello, hello], [hello, step, hello], [b""], [hello, b""]):
        _, status, sentence = guest.talk(*talk)
        assert (status, "message" in sentence) == (grpc.StatusCode.INVALID_ARGUMENT, True)


@pytest.mark.parametrize("beginning", [[], ["hello"], ["hello", "step"]])
def test_bytes_that_are_no_message_end_their_stream(goes_on, guest, beginning):
    said = {"hello": guest.hello(**GUEST), "step": guest.step(4)}
    answers, status, _ = guest.talk(*(said[name] for name in beginning), b"\xff" * 100)
    assert len(answers) == max(0, len(beginning) - 1)
    assert status not in (grpc.StatusCode.OK, grpc.StatusCode.DEADLINE_EXCEEDED)


def test_a_message_that_is_too_large_ends_its_stream(goes_on, guest):
    too_large = guest.step(guest.description.max_message_bytes // 206 + 1)
    answers, status, _ = guest.talk(guest.hello(**GUEST), guest.step(4), too_large)
    assert (len(answers), status) == (1, grpc.StatusCode.RESOURCE_EXHAUSTED)


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


def test_a_killed_actor_costs_the_others_nothing_and_its_successor_is_counted(playing, goes_on):
    both = mean_rate(playing, periods=8)
    playing.actors[1].signal(signal.SIGKILL)
    playing.actors[1].end()
    restarts = playing.metrics()[-1]["actor_restarts"]
    reaches(playing, max(0.4 * both / 2, 2 * 4 / (TIMEOUT_MS / 1e3)))
    playing.actors[1] = playing.actor(1)
    playing.wait_for_metrics(
        lambda line: line["actor_restarts"] == restarts + 1, playing.live, after=len(playing.metrics())
    )
