"""Actors that do not fit, lie, die or freeze: the learner and the other actors go on."""

import re
import signal
import struct

import grpc
import numpy as np
import pytest

from seed_rl.wire.shared_memory import is_supported
from tests.processes.client import Client, Memory, pb, records

pytestmark = pytest.mark.slow

# How long the learner waits for a frozen actor. Much longer than a step: waiting for it in every batch would
# bring the others to two batches a second.
TIMEOUT_MS = 500.0

# Two actors with four environments each play all the time; the other eight of 16 are for the tests.
SIZE, RECORD_BYTES = 4, 206

INVALID, PRECONDITION, OUT_OF_RANGE = (
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
)

ACTOR = """
from seed_rl import actor_main
from seed_rl.flags.errors import run_main
run_main(actor_main.main)
"""
WITH_ANOTHER_PROTOCOL = "import seed_rl.actor.loop as loop\nloop.PROTOCOL_VERSION = 2\n" + ACTOR
WITHOUT_MINATAR = "import sys\nsys.modules['minatar'] = None\n" + ACTOR


@pytest.fixture(scope="module")
def playing(open_house):
    """A house with a learner and two actors that play."""
    house = open_house()
    house.live = house.learner(f"--inference_timeout_ms={TIMEOUT_MS}")
    house.actors = [house.actor() for _ in range(2)]
    if is_supported():
        house.wait_until(lambda: all(map(house.shares_memory, house.actors)), "two actors")
    house.wait_for_metrics(lambda line: line["updates"] > 5, house.live)
    yield house
    house.close()


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


@pytest.fixture
def connect(playing):
    """Opens streams of processes of their own."""
    opened = []

    def open_one(*args):
        opened.append(Client(playing.address, *args))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()


@pytest.fixture(
    params=[
        "messages",
        pytest.param("memory", marks=pytest.mark.skipif(not is_supported(), reason="needs Linux")),
    ]
)
def guest(connect, request):
    """A process that has joined, and is ready: (client, carrier, welcome)."""
    client, shares = connect(), request.param == "memory"
    welcome = client.join(SIZE, can_share_memory=shares)
    carrier = Memory(welcome, SIZE) if shares else client
    client.ready(0, shares_memory=shares)
    yield client, carrier, welcome
    carrier.close()


def answers(guest, *steps):
    """The answers to steps of group 0, `(records, episodes)`, until one has none."""
    found = []
    for step in steps:
        guest[1].step(0, *step)
        found.append(guest[1].actions())
        if found[-1] is None:
            return found
    return found


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
    ("args", "code", "sentence"),
    [
        (["--environment=catch", "--rows=12"], None, "--rows=12 contradicts the learner, which has 10;"),
        (
            ["--environment=gym", "--game=CartPole-v1"],
            None,
            "--environment=gym contradicts the learner, which has catch;",
        ),
        (["--env_batch_size=17"], None, "17 environments does not fit the learner's 16; lower "),
        (["--env_batch_size=128"], None, "128 environments exceeds the learner's --inference_batch_size=64;"),
        (["--env_batch_size=16", "--connect_timeout_secs=1"], None, "All 16 environments of the learner are"),
        (
            [],
            WITH_ANOTHER_PROTOCOL,
            "The learner speaks protocol version 3 and this actor version 2: install",
        ),
    ],
    ids=lambda value: "".join(value) if isinstance(value, list) else "",
)
def test_an_actor_that_does_not_fit_ends_with_a_sentence(playing, goes_on, args, code, sentence):
    actor = playing.start("actor_main", *playing.actor_args(), *args, code=code)
    assert actor.end() == 2
    assert actor.last_line.startswith("seed_rl: error: ") and sentence in actor.last_line
    assert "Traceback" not in actor.output


def test_an_actor_without_the_suites_package_says_what_to_install(house):
    pytest.importorskip("minatar")
    live = house.learner("--environment=minatar")
    actor = house.start("actor_main", *house.actor_args(), code=WITHOUT_MINATAR)
    assert actor.end() == 2
    assert re.match(r"seed_rl: error: MinAtar is not .* pip install .*\[minatar\]", actor.last_line)
    assert live.running and "Traceback" not in live.output + actor.output


def test_actors_with_a_wrong_flag_lock_nobody_out(house):
    live = house.learner("--num_envs=4", "--total_environment_frames=4000")
    wrong = [house.actor("--environment=catch", "--rows=12") for _ in range(2)]
    assert [actor.end() for actor in wrong] == [2, 2]
    right = house.actor("--connect_timeout_secs=5")
    assert (live.end(), right.end()) == (0, 0), right.output


@pytest.mark.parametrize(
    ("join", "code", "words"),
    [
        ({"protocol_version": 2}, PRECONDITION, "protocol version 3 and this actor version 2"),
        ({"num_envs": 17}, OUT_OF_RANGE, "does not fit"),
        ({"num_envs": 6, "num_groups": 4}, INVALID, "cannot be split into 4 equal groups"),
        ({"num_groups": 0}, INVALID, "cannot be split into 0 equal groups"),
        ({"num_envs": -4, "num_groups": -1}, INVALID, "cannot be split"),
        ({"num_envs": 65}, PRECONDITION, "exceeds the learner's --inference_batch_size=64"),
        ({"num_envs": 12}, grpc.StatusCode.RESOURCE_EXHAUSTED, "are taken by other actors"),
    ],
)
def test_a_join_that_does_not_fit_is_refused_and_holds_nothing(goes_on, connect, join, code, words):
    client = connect()
    assert client.join(**{"num_envs": SIZE} | join) is None
    status, sentence = client.status()
    assert status is code and words in sentence
    assert connect().join(8), "both tasks are free"


def step_of(group, welcome, **changes):
    return pb.Step(group=group, records=records(welcome, SIZE, **changes).tobytes())


JOIN = pb.FromActor(join=pb.Join(protocol_version=3, num_envs=4, num_groups=1, task=-1))
READY = pb.FromActor(ready=pb.Ready(applied=[0]))
STEP = pb.FromActor(steps=[pb.Step(group=0, records=4 * struct.pack("<f??200x", 0.0, True, False))])


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ([READY], "must have `join` here"),
        ([JOIN, JOIN], "must have `ready` here"),
        ([JOIN, STEP], "came before the Ready"),
        ([JOIN, pb.FromActor(ready=pb.Ready(applied=[0, 0]))], "needs as many numbers of applied actions"),
        ([JOIN, READY, READY], "has said Ready already"),
        ([JOIN, READY, JOIN], "must have `steps` here"),
        ([JOIN, READY, STEP, STEP, STEP, STEP], "came before its last one was answered"),
        ([JOIN, READY, pb.FromActor(steps=[pb.Step(group=1)])], "There is no group 1"),
        ([JOIN, READY, pb.FromActor(steps=[*STEP.steps, *STEP.steps])], "before its last one was answered"),
        ([b"\xff" * 100], "not a FromActor"),
        ([JOIN, b"\xff" * 100], "not a FromActor"),
        ([JOIN, READY, b"\xff" * 100], "not a FromActor"),
        ([JOIN, b""], "must have `ready` here"),
        ([JOIN, READY, STEP.SerializeToString()[:-1]], ""),
        ([JOIN, pb.FromActor(ready=pb.Ready(applied=[0], shares_memory=True))], "connect again"),
    ],
)
def test_messages_out_of_turn_end_their_connection(goes_on, connect, said, words):
    client = connect()
    for message in said:
        client.send(message)
    while client.receive():
        pass
    status, sentence = client.status()
    assert status is (grpc.StatusCode.UNAVAILABLE if words == "connect again" else INVALID)
    assert words in sentence and "\n" not in sentence


@pytest.mark.parametrize("num_envs", [3, 5, 10_000])
def test_steps_of_another_size_end_their_connection(goes_on, connect, num_envs):
    client = connect()
    welcome = client.join(SIZE)
    client.ready(0)
    client.step(0, records(welcome, SIZE))
    assert len(client.actions()) == 1
    client.step(0, records(welcome, num_envs))
    assert client.actions() is None
    status, sentence = client.status()
    if num_envs < 10_000:
        assert status is INVALID
        assert f"must be {SIZE * RECORD_BYTES} bytes (206 each), not {num_envs * RECORD_BYTES}" in sentence
    else:
        assert status is grpc.StatusCode.RESOURCE_EXHAUSTED  # gRPC's own limit.


def test_a_first_step_that_is_no_reset_ends_a_connection_whose_task_others_had(goes_on, connect):
    for process in range(2):
        client = connect()
        welcome = client.join(8)
        client.ready(0)
        client.step(0, records(welcome, 8, done=process == 0))
        assert (client.actions() is None) == (process == 1)
        if process == 0:
            client.close()
    assert client.status() == (INVALID, "The first step of a new actor must be a reset: set done.")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reward_that_is_no_number_ends_its_connection(goes_on, guest, value):
    client, _, welcome = guest
    bad = records(welcome, SIZE, reward=[0.0, value, 0.0, 0.0], done=False)
    (_, actions), nothing = *answers(guest, [records(welcome, SIZE)])[0], answers(guest, [bad])[0]
    assert (len(actions), nothing) == (4 * SIZE, None)
    status, sentence = client.status()
    assert status is INVALID
    assert sentence.startswith("The reward of environment 1 in the message is NaN or infinite")


def huge(rng, shape):
    """Random bytes as float32, without those that are NaN or infinite."""
    values = np.frombuffer(rng.bytes(4 * int(np.prod(shape))), np.float32).reshape(shape)
    return np.where(np.isfinite(values), values, np.float32(3e38))


def refused_for_overflow(client, noise):
    """A process that plays one good step and then others until it is refused: the sentence."""
    welcome = client.join(SIZE)
    client.ready(0)
    steps = [[records(welcome, SIZE)], *([records(welcome, SIZE, done=False, observation=o)] for o in noise)]
    assert answers((client, client, welcome), *steps)[-1] is None
    status, sentence = client.status()
    assert status is INVALID
    client.close()
    return sentence


def test_observations_that_make_the_network_overflow_end_their_connection(goes_on, connect):
    rng = np.random.default_rng(0)
    for _ in range(20):
        sentence = refused_for_overflow(connect(), (huge(rng, (SIZE, 10, 5)) for _ in range(30)))
        assert re.match(
            r"The observations or rewards of these environments make the network overflow: "
            r"\d+(, \d+)*\. Check them",
            sentence,
        )


def test_normalized_observations_overflow_at_their_own_connections_cost_too(house):
    """Running statistics of what the rogue says would make the whole network overflow."""
    live = house.learner("--normalize_observations")
    actor = house.actor()
    house.wait_for_metrics(lambda line: line["updates"] > 5, live)
    rng = np.random.default_rng(0)
    for _ in range(5):
        noise = (huge(rng, (SIZE, 10, 5)) for _ in range(30))
        assert "overflow" in refused_for_overflow(Client(house.address), noise)
        refused_for_overflow(Client(house.address), [1e20])
    before = house.metrics()[-1]
    house.wait_for_metrics(lambda line: line["updates"] > before["updates"] + 20, live)
    assert actor.running
    assert "Traceback" not in live.output


@pytest.mark.parametrize(
    ("episode", "words"),
    [
        ({"env": 2, "episode_return": float("nan")}, "environment 2 is NaN or infinite"),
        ({"env": 3, "agent_steps": -5}, "cannot have -5 agent steps"),
    ],
)
def test_episodes_that_cannot_be_end_their_connection_and_do_not_count(
    playing, goes_on, guest, episode, words
):
    client, _, welcome = guest
    episodes = [pb.Episode(env=1, episode_return=1e6), pb.Episode(**episode)]
    good, bad = [records(welcome, SIZE)], [records(welcome, SIZE, done=False), episodes]
    assert [found is None for found in answers(guest, good, bad)] == [False, True]
    status, sentence = client.status()
    assert status is INVALID and words in sentence
    line = playing.wait_for_metrics(lambda line: True, playing.live, after=len(playing.metrics()) + 1)
    assert -1.0 <= line["mean_return"] <= 1.0


def test_a_process_that_ends_while_it_writes_leaves_its_task_at_once(goes_on, connect, guest):
    """In the middle of records in shared memory, and of the number that wakes the learner."""
    client, carrier, welcome = guest
    answers(guest, [records(welcome, SIZE)])
    if carrier is not client:
        carrier.bytes[: RECORD_BYTES // 2] = b"\xff" * (RECORD_BYTES // 2)
        carrier.socket.sendall(b"\0\0")
    carrier.close()
    client.close()
    successor = connect()
    welcome = successor.join(8)  # It may be sent before the learner knows.
    for _ in range(100):
        if welcome is not None:
            break
        successor = connect()
        welcome = successor.join(8)
    successor.ready(0)
    successor.step(0, records(welcome, 8))
    assert len(successor.actions()) == 1


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
    playing.actors[1] = playing.actor()
    playing.wait_for_metrics(
        lambda line: line["actor_restarts"] == restarts + 1, playing.live, after=len(playing.metrics())
    )
