"""Checks the message that begins every stream. No TensorFlow."""

from typing import Any

import grpc

from seed_rl.serving.refusal import RefusedError, parsed
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import PROTOCOL_VERSION, differences


def check_hello(message: Any, description: pb.Description) -> pb.Hello:
    """The hello in a stream's first message, if its actor fits the learner that this describes.

    Raises:
      RefusedError: it is no hello, or the actor does not fit.
    """
    first = b"" if message is grpc.aio.EOF else message
    hello = parsed(first, "hello", "The first message of a stream must be a hello.").hello
    precondition = grpc.StatusCode.FAILED_PRECONDITION
    if hello.protocol_version != PROTOCOL_VERSION:
        raise RefusedError(
            precondition,
            f"The learner speaks protocol version {PROTOCOL_VERSION} and this actor version "
            f"{hello.protocol_version}: install the same seed_rl on both.",
        )
    found = differences(description, hello)
    if found:
        raise RefusedError(
            precondition,
            f"The actor's environment does not match the learner's ({'; '.join(found)}; 'here' is the "
            "learner): start both with the same flags.",
        )
    largest = description.max_environments_per_message
    if hello.num_envs > largest:
        raise RefusedError(
            precondition,
            f"A group of {hello.num_envs} environments exceeds the learner's --inference_batch_size="
            f"{largest}; raise that, or --num_env_groups of the actor.",
        )
    return hello
