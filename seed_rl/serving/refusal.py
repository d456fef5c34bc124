"""How the service refuses a call, and how it reads the messages of one. No TensorFlow."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import grpc
from google.protobuf.message import DecodeError

from seed_rl.serving.silence import Hellos, SilenceError
from seed_rl.serving.slots import SlotRefusedError
from seed_rl.wire.generated import inference_pb2 as pb

RequestT = TypeVar("RequestT")


class RefusedError(Exception):
    """Ends a call with a status and a one-sentence message."""

    def __init__(self, code: grpc.StatusCode, sentence: str):
        super().__init__(sentence)
        self.code = code


def one_message(
    function: Callable[[RequestT], Awaitable[bytes]], parse: Callable[[bytes], RequestT], hellos: Hellos
) -> grpc.RpcMethodHandler:
    """The handler of a method with one message each way; refusals become the call's status.

    The server takes the call for a stream. So a caller that sends no message, or a wrong one, ends like one
    that sends no hello, and a caller without the token ends before its message.

    Args:
      function: makes the response of the request.
      parse: makes the request of the message.
      hellos: waits for the message.
    """

    async def answer(requests: Any, context: Any) -> None:
        try:
            message = await hellos.first(context.read())
            request = parse(b"" if message is grpc.aio.EOF else message)
            response = await function(request)
        except DecodeError:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT,
                "The message is not what protos/inference.proto says of this method.",
            )
        except SlotRefusedError as error:
            codes = (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OUT_OF_RANGE)
            await context.abort(codes[error.out_of_range], str(error))
        except (RefusedError, SilenceError) as refusal:
            await context.abort(refusal.code, str(refusal))
        else:
            await context.write(response)

    return grpc.stream_stream_rpc_method_handler(answer)


def parsed(message: bytes, kind: str, otherwise: str) -> pb.ActRequest:
    """Parses a message of this kind; refuses any other with the message `otherwise`."""
    try:
        request = pb.ActRequest.FromString(message)
    except DecodeError:
        request, otherwise = pb.ActRequest(), "The message is not an ActRequest of protos/inference.proto."
    if request.WhichOneof("kind") != kind:
        raise RefusedError(grpc.StatusCode.INVALID_ARGUMENT, otherwise)
    return request
