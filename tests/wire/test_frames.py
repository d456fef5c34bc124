"""The bytes that are written by hand are protobuf's."""

import numpy as np
import pytest

from seed_rl.types import ArraySpec, EnvironmentSpec
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.frames import StepMessage, actions_frame, step_frame
from seed_rl.wire.generated import inference_pb2 as pb

SPEC = EnvironmentSpec(
    {"a": ArraySpec((2,), "float32"), "b": ArraySpec((), "uint8")}, ArraySpec((), "int32", (0,), (9,))
)


@pytest.mark.parametrize("num_bytes", [1, 15, 127, 128, 7_062, 225_984])
def test_protobuf_reads_what_a_frame_begins(num_bytes):
    payload = bytes(range(256)) * (num_bytes // 256 + 1)
    payload = payload[:num_bytes]
    request = pb.ActRequest.FromString(step_frame(num_bytes).prefix + payload)
    assert request == pb.ActRequest(step=pb.Step(records=payload))
    response = pb.ActResponse.FromString(actions_frame(num_bytes).prefix + payload)
    assert response == pb.ActResponse(actions=payload)


def test_a_frame_finds_the_payload_of_its_messages_and_of_no_others():
    frame = step_frame(14)
    step = pb.Step(records=b"fourteen bytes")
    assert bytes(frame.payload(pb.ActRequest(step=step).SerializeToString())) == b"fourteen bytes"
    step.episodes.add(env=1)
    for other in (
        pb.ActRequest(step=step),
        pb.ActRequest(step=pb.Step(records=b"thirteen byte")),
        pb.ActRequest(hello=pb.Hello(environment="fourteen bytes..")),
        pb.ActRequest(),
    ):
        assert frame.payload(other.SerializeToString()) is None
    same_size = pb.ActRequest(hello=pb.Hello(environment="fourteen bytes")).SerializeToString()
    assert len(same_size) == len(frame.prefix) + 14
    assert frame.payload(same_size) is None


def test_a_step_is_written_in_place():
    message = StepMessage(SPEC, 2)
    message.output.reward[:] = 1.5, -2
    message.output.done[1] = True
    message.output.observation["a"][0] = 3, 4
    message.output.observation["b"][:] = 7, 8
    records = pb.ActRequest.FromString(message.to_bytes()).step.records
    step = StepCodec(SPEC).decode(records)
    assert step.reward.tolist() == [1.5, -2]
    assert (step.done.tolist(), step.truncated.tolist()) == ([False, True], [False, False])
    assert step.observation["a"].tolist() == [[3, 4], [0, 0]]
    assert step.observation["b"].tolist() == [7, 8]
    message.output.observation["b"][:] = 9
    assert pb.ActRequest.FromString(message.to_bytes()).step.records != records


def test_episodes_go_with_a_step():
    message = StepMessage(SPEC, 1)
    message.output.reward[0] = 1
    episode = pb.Episode(env=3, episode_return=2.5, agent_steps=7)
    step = pb.ActRequest.FromString(message.to_bytes([episode])).step
    assert list(step.episodes) == [episode]
    assert step.records == pb.ActRequest.FromString(message.to_bytes()).step.records
    assert np.frombuffer(step.records, "<f4", 1) == 1
