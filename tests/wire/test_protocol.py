import math

import pytest

from seed_rl.actor.loop import Patience
from seed_rl.types import ArraySpec, EnvironmentSpec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import EnvironmentDescription, channel_options, differences

ACTION = ArraySpec((), "int32", (0,), (2,))
OBSERVATION = {"image": ArraySpec((10, 5), "uint8"), "inventory": ArraySpec((3,), "float32")}


def message(kind=pb.Description, name="catch", settings=None, observation=None, action=ACTION):
    spec = EnvironmentSpec(observation or OBSERVATION, action)
    identity = EnvironmentDescription(name, settings or {"rows": 10, "game": "Pong"}, spec)
    found = kind()
    identity.describe_into(found)
    return found


def test_equal_environments_do_not_differ():
    assert differences(message(), message(pb.Hello)) == []


def test_bounds_of_actions_survive_the_message():
    assert list(message().action.maximum) == [2.0]
    assert [leaf.name for leaf in message().observation] == ["image", "inventory"]
    box = message(action=ArraySpec((2,), "float32", (-math.inf, 100.0), (2.5, math.inf)))
    found = pb.Description.FromString(box.SerializeToString()).action
    assert [*found.minimum, *found.maximum] == [-math.inf, 100.0, 2.5, math.inf]


@pytest.mark.parametrize(
    ("theirs", "sentence"),
    [
        ({"name": "atari"}, "environment: catch here, atari there"),
        (
            {"settings": {"rows": 10, "game": "Breakout"}},
            'setting game: "Pong" here, "Breakout" there',
        ),
        ({"settings": {"game": "Pong"}}, "setting rows: 10 here, none there"),
        (
            {"settings": {"rows": 10, "game": "Pong", "noop": True}},
            "setting noop: none here, true there",
        ),
        (
            {"observation": OBSERVATION | {"image": ArraySpec((9, 5), "uint8")}},
            "observation image: uint8[10, 5] here, uint8[9, 5] there",
        ),
        (
            {"observation": OBSERVATION | {"image": ArraySpec((10, 5), "float32")}},
            "observation image: uint8[10, 5] here, float32[10, 5] there",
        ),
        (
            {"observation": {"image": OBSERVATION["image"]}},
            "observation inventory: float32[3] here, none there",
        ),
        (
            {"action": ArraySpec((), "int32", (0,), (5,))},
            "action: int32[], 0 to 2 here, int32[], 0 to 5 there",
        ),
        (
            {"action": ArraySpec((2,), "float32", (0, -math.inf), (1, 3))},
            "action: int32[], 0 to 2 here, float32[2], 0 to 1, -inf to 3 there",
        ),
    ],
)
def test_says_what_differs(theirs, sentence):
    assert differences(message(), message(pb.Hello, **theirs)) == [sentence]


def test_says_everything_that_differs():
    theirs = message(settings={"rows": 9, "game": "Pong"}, action=ArraySpec((2,), "float32"))
    assert [text.split(":")[0] for text in differences(message(), theirs)] == ["setting rows", "action"]


def test_a_peer_that_died_without_a_word_is_noticed_before_its_successor_gives_up():
    """Seen with a stopped process: 29 s with both time-outs, 79 s with gRPC's own for pings."""
    options = dict(channel_options(-1))
    longest = max(options["grpc.keepalive_timeout_ms"], options.get("grpc.http2.ping_timeout_ms", 60_000))
    assert options["grpc.keepalive_time_ms"] + longest <= 30_000 < 1e3 * Patience().taken_secs
