import math

import pytest

from seed_rl.types import ArraySpec, EnvironmentSpec
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import EnvironmentDescription, channel_options, differences, sizes_of

SPEC = EnvironmentSpec(
    {"image": ArraySpec((10, 5), "uint8"), "inventory": ArraySpec((3,), "float32")},
    ArraySpec((), "int32", (0,), (2,)),
)


def welcome_of(spec):
    found = pb.Welcome()
    EnvironmentDescription("catch", {"rows": 10, "game": "Pong"}, spec).describe_into(found)
    return pb.Welcome.FromString(found.SerializeToString())


def test_a_welcome_describes_environments():
    found = welcome_of(SPEC)
    assert (found.suite, dict(found.settings)) == ("catch", {"rows": "10", "game": '"Pong"'})
    assert [leaf.name for leaf in found.observation] == ["image", "inventory"]
    box = welcome_of(
        SPEC._replace(action=ArraySpec((2,), "float32", (-math.inf, 100.0), (2.5, math.inf)))
    ).action
    assert [*box.minimum, *box.maximum] == [-math.inf, 100.0, 2.5, math.inf]


def test_records_and_actions_have_the_sizes_of_the_learners():
    found = sizes_of(welcome_of(SPEC))
    assert StepCodec(found).record_bytes == StepCodec(SPEC).record_bytes
    assert ActionCodec(found.action).action_bytes == ActionCodec(SPEC.action).action_bytes


IMAGE = SPEC.observation["image"]


@pytest.mark.parametrize(
    ("changes", "phrases"),
    [
        ({}, []),
        (
            {"observation": SPEC.observation | {"image": ArraySpec((9, 5), "uint8")}},
            ["observation image: uint8[10, 5] here, uint8[9, 5] there"],
        ),
        (
            {"observation": SPEC.observation | {"image": ArraySpec((10, 5), "float32")}},
            ["observation image: uint8[10, 5] here, float32[10, 5] there"],
        ),
        ({"observation": {"image": IMAGE}}, ["observation inventory: float32[3] here, none there"]),
        (
            {"observation": IMAGE, "action": ArraySpec((), "int32", (0,), (5,))},
            [
                "action: int32[], 0 to 2 here, int32[], 0 to 5 there",
                "observation: none here, uint8[10, 5] there",
                "observation image: uint8[10, 5] here, none there",
                "observation inventory: float32[3] here, none there",
            ],
        ),
        (
            {"action": ArraySpec((2,), "float32", (0, -math.inf), (1, 3))},
            ["action: int32[], 0 to 2 here, float32[2], 0 to 1, -inf to 3 there"],
        ),
    ],
)
def test_says_everything_that_differs(changes, phrases):
    assert differences(SPEC, welcome_of(SPEC._replace(**changes))) == phrases


def test_a_peer_that_died_without_a_word_is_noticed_within_half_a_minute():
    """Seen with a stopped process: 29 s with both time-outs, 79 s with gRPC's own for pings."""
    options = dict(channel_options(-1))
    longest = max(options["grpc.keepalive_timeout_ms"], options.get("grpc.http2.ping_timeout_ms", 60_000))
    assert options["grpc.keepalive_time_ms"] + longest <= 30_000
