"""The actor's end of gRPC: a channel, and the stream that connects an actor process with the learner.

There is no event loop: environments run in the thread that waits here, and may have loops of their own.
"""

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import grpc
from google.protobuf.message import DecodeError
from grpc._cython import cygrpc

from seed_rl.messages import one_line
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import GATEWAY_OPTIONS, LEARNERS_MARK, SERVICE, channel_options
from seed_rl.wire.security import Security
from seed_rl.wire.tls import TlsProbe

_POLL_SECS = 0.2
_PROBE_SECS = 5.0

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_WAIT_FOR_READY = (
    cygrpc.InitialMetadataFlags.wait_for_ready | cygrpc.InitialMetadataFlags.wait_for_ready_explicitly_set
)

_REFUSALS = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAUTHENTICATED,
}


class _EndedError(Exception):
    """A connection has ended; its message may be the learner's, or of what else listens there."""

    def __init__(self, sentence: str | None):
        super().__init__(one_line(sentence or "", 1_000))


class RefusedError(_EndedError):
    """The learner refuses this actor; the message is the learner's. Retrying without a change is useless."""


class NotALearnerError(RefusedError):
    """A refusal without a learner's mark: useless to retry, unless a learner has answered there before."""


class LearnerGoneError(_EndedError):
    """The learner cannot be reached (any more); it may come back."""


class NoFreeTaskError(LearnerGoneError):
    """Other actors have all tasks; one of them may leave."""


class TrainingEndedError(Exception):
    """Training is complete; there is nothing more to do."""


class StreamStatus(NamedTuple):
    """The status of a stream, and its trailing metadata."""

    code: grpc.StatusCode
    details: str
    metadata: Sequence[tuple[str, Any]]

    def error(self) -> Exception:
        """The exception above that matches."""
        code, details = self.code, self.details
        is_learners = LEARNERS_MARK[0] in dict(self.metadata)
        if code == grpc.StatusCode.OK and is_learners:
            return TrainingEndedError()
        if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
            return NoFreeTaskError(details)
        if code == grpc.StatusCode.UNIMPLEMENTED:
            return NotALearnerError(
                f"The server at --server_address is not a learner of this actor's version ({details}); "
                "change the address or the version."
            )
        if code in _REFUSALS:
            return (RefusedError if is_learners else NotALearnerError)(details or code.name)
        return LearnerGoneError(f"{code.name}: {details}")


class Channel:
    """A channel to a learner or gateway.

    Attributes:
      address: unix:PATH or HOST:PORT.
    """

    def __init__(
        self,
        address: str,
        security: Security = Security(),  # noqa: B008 (immutable)
        is_gateway: bool = False,
    ):
        """Prepares a channel to `address` (unix:PATH or HOST:PORT); nothing is sent yet."""
        options = [
            *dict([*channel_options(-1), *(GATEWAY_OPTIONS if is_gateway else ())]).items(),
            ("grpc.use_local_subchannel_pool", 1),
            ("grpc.initial_reconnect_backoff_ms", 200),
            ("grpc.max_reconnect_backoff_ms", 1_000),  # A learner may be up for a few seconds only.
        ]
        self.address, self._security = address, security
        self._channel = security.channel(address, options, grpc)

    def join(self, join: pb.Join, timeout_secs: float) -> "tuple[Stream, pb.Welcome]":
        """Waits for the learner, and joins it.

        Raises:
          RefusedError, NoFreeTaskError, TrainingEndedError: the learner's answer.
          LearnerGoneError: no answer in time.
        """
        stream = Stream(self._channel, self._security.metadata(), _WAIT_FOR_READY)
        stream.say(join=join)
        probe, deadline = TlsProbe(self.address, self._security), time.monotonic() + timeout_secs
        while (message := stream.receive(min(_POLL_SECS, timeout_secs))) is None:
            if time.monotonic() > deadline:
                stream.close()
                self._raise_why_silent(timeout_secs)
            if self._is_failing() and (problem := probe.problem()):
                raise NotALearnerError(problem)
        return stream, parsed(message).welcome

    def _is_failing(self) -> bool:
        """Whether the last try to connect has failed."""
        state = self._channel._channel.check_connectivity_state(False)
        return bool(state == cygrpc.ConnectivityState.transient_failure)

    def _raise_why_silent(self, timeout_secs: float) -> None:
        """Raises why no Welcome came. A call that does not wait finds out that nothing listens."""
        Stream(self._channel, self._security.metadata()).receive(min(timeout_secs, _PROBE_SECS))
        raise LearnerGoneError(f"no answer within {timeout_secs:g} s")

    def close(self) -> None:
        """Closes the channel and with it every stream."""
        self._channel.close()


class Stream:
    """A Connect stream. Any thread may send; gRPC's own thread puts what comes into a queue.

    Uses gRPC's core as grpcio's own calls do. Those pass each message through two more threads.
    """

    def __init__(
        self,
        channel: Any,
        metadata: Sequence[tuple[str, str]],
        flags: int = 0,
        put: Callable[[bytes | StreamStatus], None] | None = None,
    ):
        """Starts a call with these metadata and flags. `put` replaces the queue, and may not fail."""
        self._received: queue.SimpleQueue[bytes | StreamStatus] = queue.SimpleQueue()
        self._put = put or self._received.put
        self._said: list[bytes] = []
        self._waiting: list[bytes] = []  # Steps.
        self._is_sending = False
        self._due = 2  # Batches of operations that gRPC has not reported.
        self._lock = threading.RLock()
        begin = (
            cygrpc.SendInitialMetadataOperation(metadata, flags),
            cygrpc.ReceiveStatusOnClientOperation(0),
        )
        batches = (begin, (cygrpc.ReceiveInitialMetadataOperation(0),))
        path, inherits = f"/{SERVICE}/Connect", cygrpc.PropagationConstants.GRPC_PROPAGATE_DEFAULTS
        self._call = channel.stream_stream(path)._managed_call(
            inherits, path.encode(), None, None, metadata, None, batches, self._on_event, None, None
        )
        self._start(cygrpc.ReceiveMessageOperation(0))

    def say(self, **said: Any) -> None:
        """Sends a `join` or `ready` soon, as `send` does, and as a message of its own."""
        self._queue(pb.FromActor(**said).SerializeToString(), is_step=False)

    def send(self, steps: bytes) -> None:
        """Sends a FromActor with steps soon; those that come while others are being sent become one message.

        Never fails: `receive` reports whatever is wrong with the stream.
        """
        self._queue(steps)

    def _queue(self, message: bytes, is_step: bool = True) -> None:
        with self._lock:
            (self._waiting if is_step else self._said).append(message)
            if not self._is_sending:
                self._send_waiting()

    def receive(self, timeout_secs: float) -> bytes | None:
        """Waits for a FromLearner; None if none comes in this time.

        Raises:
          TrainingEndedError: training is complete.
          RefusedError: the learner ended the stream for good, with a reason.
          LearnerGoneError: the connection is lost.
        """
        try:
            found = self._received.get(timeout=timeout_secs)
        except queue.Empty:
            return None
        if isinstance(found, StreamStatus):
            self._received.put(found)  # For the next call.
            raise found.error()
        return found

    def close(self) -> None:
        """Ends the stream; safe to call twice."""
        self._call.cancel(grpc.StatusCode.CANCELLED.value[0], "The actor has left.")

    def _start(self, operation: Any) -> bool:
        """Starts an operation; returns false if the call is over."""
        with self._lock:
            self._due += 1  # Before it starts: a signal may interrupt this.
            started = bool(self._call.operate((operation,), self._on_event))
            self._due -= not started
            return started

    def _send_waiting(self) -> None:
        with self._lock:
            if self._said:
                data = self._said.pop(0)
            else:
                data, self._waiting = b"".join(self._waiting), []
            self._is_sending = bool(data) and self._start(cygrpc.SendMessageOperation(data, 0))

    def _on_event(self, event: Any) -> bool:
        """Takes what gRPC reports, in its thread; returns whether that was the last."""
        for operation in event.batch_operations:
            kind = operation.type()
            if kind == cygrpc.OperationType.receive_message:
                if (data := operation.message()) is not None:
                    self._put(data)
                    self._start(cygrpc.ReceiveMessageOperation(0))
            elif kind == cygrpc.OperationType.send_message:
                self._send_waiting()
            elif kind == cygrpc.OperationType.receive_status_on_client:
                code = _CODES.get(operation.code(), grpc.StatusCode.UNKNOWN)
                self._put(StreamStatus(code, operation.details(), operation.trailing_metadata()))
        with self._lock:
            self._due -= 1
            return not self._due


def parsed(message: bytes) -> pb.FromLearner:
    """The learner's message.

    Raises:
      LearnerGoneError: it is not one.
    """
    try:
        return pb.FromLearner.FromString(message)
    except DecodeError as error:
        raise LearnerGoneError(f"the learner's answer cannot be read: {error}") from None


def resolved(address: str, asked: str) -> str:
    """The address that a Welcome names, for an actor that sent Join to `asked`."""
    return f"{asked.rpartition(':')[0]}{address}" if address.startswith(":") else address
