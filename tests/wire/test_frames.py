"""The bytes that are written by hand are protobuf's."""

import numpy as np
import pytest

from seed_rl.types import ArraySpec, EnvironmentSpec
from seed_rl.wire.frames import StepMessage, actions_frames, step_frames
from seed_rl.wire.generated import inference_pb2 as pb

SPEC = EnvironmentSpec({"a": ArraySpec((2,), "float32")}, ArraySpec((), "int32", (0,), (9,)))


def from_actor(*steps):
    return pb.FromActor(steps=steps).SerializeToString()


@pytest.mark.parametrize("num_bytes", [1, 15, 127, 128, 7_062, 225_984])
@pytest.mark.parametrize("groups", [[2], [0, 1, 2], [300, 0, 129]])
def test_protobuf_reads_messages_of_frames_and_the_other_way_round(num_bytes, groups):
    rng, num_groups = np.random.default_rng(0), max(groups) + 1
    sent = [(group, rng.bytes(num_bytes)) for group in groups]
    steps, actions = step_frames(num_groups, num_bytes), actions_frames(num_groups, num_bytes)
    for frames, kind, message in (
        (steps, pb.FromActor, pb.FromActor(steps=[pb.Step(group=g, records=d) for g, d in sent])),
        (actions, pb.FromLearner, pb.FromLearner(actions=[pb.Actions(group=g, actions=d) for g, d in sent])),
    ):
        data = b"".join(frames.prefixes[group] + payload for group, payload in sent)
        assert kind.FromString(data) == message
        assert [(g, bytes(d)) for g, d in frames.split(message.SerializeToString())] == sent


STEP = pb.Step(group=1, records=b"fourteen bytes")
OTHERS = {
    "nothing": b"",
    "another group": from_actor(pb.Step(group=2, records=b"fourteen bytes")),
    "no group": from_actor(pb.Step(records=b"fourteen bytes")),
    "shorter": from_actor(pb.Step(group=1, records=b"thirteen byte")),
    "longer": from_actor(pb.Step(group=1, records=b"fifteen bytes..")),
    "one of two is longer": from_actor(STEP, pb.Step(group=1, records=b"fifteen bytes..")),
    "with episodes": from_actor(pb.Step(group=1, records=b"fourteen bytes", episodes=[pb.Episode(env=1)])),
    "cut off": from_actor(STEP, STEP)[:-1],
    "of another kind": pb.FromActor(ready=pb.Ready(applied=range(20))).SerializeToString(),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_other_messages_are_left_to_protobuf(other):
    frames = step_frames(2, 14)
    assert frames.split(other) is None
    ((group, records),) = frames.split(from_actor(STEP))
    assert (group, bytes(records)) == (1, b"fourteen bytes")


def test_a_step_is_written_in_place():
    message = StepMessage(SPEC, 2, group=3)
    assert len(message.records) == 2 * (4 + 1 + 1 + 8)
    message.records[:] = range(28)
    step = pb.Step(group=3, records=bytes(range(28)))
    assert message.to_bytes() == from_actor(step)
    message.records[0] = 7
    assert message.to_bytes() != from_actor(step)
    step.records = bytes([7, *range(1, 28)])
    step.episodes.add(env=1, episode_return=2.5, agent_steps=7)
    assert message.to_bytes(step.episodes) == from_actor(step)
