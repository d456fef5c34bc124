"""How the service refuses a call, and how it reads the messages of one. No TensorFlow."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError

from seed_rl.serving.slots import SlotRefusedError
from seed_rl.wire.generated import inference_pb2 as pb

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


class RefusedError(Exception):
    """Ends a call with a status and a one-sentence message."""

    def __init__(self, code: grpc.StatusCode, sentence: str):
        super().__init__(sentence)
        self.code = code


async def answer_call(
    function: Callable[[RequestT], Awaitable[ResponseT]], request: RequestT, context: Any
) -> ResponseT:
    """Answers a call with what a function makes of the request; its refusals become the call's status."""
    try:
        return await function(request)
    except SlotRefusedError as error:
        codes = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE)
        await context.abort(codes[error.out_of_range], str(error))
        raise
    except RefusedError as refusal:
        await context.abort(refusal.code, str(refusal))
        raise


def parsed(message: bytes, kind: str, otherwise: str) -> pb.ActRequest:
    """Parses a message of this kind; refuses any other with the message `otherwise`."""
    try:
        request = pb.ActRequest.FromString(message)
    except DecodeError:
        request, otherwise = pb.ActRequest(), "The message is not an ActRequest of protos/inference.proto."
    if request.WhichOneof("kind") != kind:
        raise RefusedError(grpc.StatusCode.INVALID_ARGUMENT, otherwise)
    return request
