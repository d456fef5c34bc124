"""Reads steps before they are submitted; what their records contain is checked later. No TensorFlow."""

import grpc
import numpy as np

from seed_rl.serving.episodes import episode_problem
from seed_rl.serving.refusal import RefusedError, parsed
from seed_rl.serving.slots import Lease
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.frames import Frame
from seed_rl.wire.generated import inference_pb2 as pb


def read_step(
    message: bytes, steps: Frame, codec: StepCodec, lease: Lease
) -> tuple[bytes | memoryview, list[pb.Episode]]:
    """The records of a step's message, and the episodes that ended with it.

    Args:
      message: as it came.
      steps: the frame of the stream's usual messages.
      codec: of the environments.
      lease: of the stream.

    Raises:
      RefusedError: it is no step, or does not fit the stream.
    """
    plain = steps.payload(message)
    if plain is not None:
        return plain, []
    step = parsed(message, "step", "After the hello every message must be a step.").step
    records = step.records
    try:
        codec.check_size(records, lease.num_envs)
    except ValueError as error:
        raise RefusedError(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from None
    episodes = list(step.episodes)
    if problem := episode_problem(episodes, lease):
        raise RefusedError(grpc.StatusCode.INVALID_ARGUMENT, problem)
    return records, episodes


def require_reset(records: bytes | memoryview, record: np.dtype, lease: Lease) -> None:
    """Refuses a new process in mid-episode at a stream's first step; it may have outlived a learner.

    Raises:
      RefusedError: the environments were not reset.
    """
    if lease.is_restart and not np.frombuffer(records, record)["done"].all():
        raise RefusedError(
            grpc.StatusCode.INVALID_ARGUMENT, "The first step of a new actor must be a reset: set done."
        )
