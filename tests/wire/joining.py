"""The actor's end of the wire, for tests."""

from seed_rl.wire.client import Channel
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import PROTOCOL_VERSION
from seed_rl.wire.security import Security

DEADLINE_SECS = 20.0


def join(address, security=Security(), seconds=DEADLINE_SECS, **said):  # noqa: B008 (immutable)
    """Joins a learner and leaves; returns its Welcome.

    Raises:
      RefusedError, LearnerGoneError, TrainingEndedError: the learner's answer, or none within `seconds`.
    """
    message = {"protocol_version": PROTOCOL_VERSION, "num_envs": 1, "num_groups": 1, "task": -1} | said
    channel = Channel(address, security)
    try:
        return channel.join(pb.Join(**message), seconds)[1]
    finally:
        channel.close()
