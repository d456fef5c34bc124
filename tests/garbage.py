"""Garbage as a peer might send it to a learner: bytes, HTTP/2 frames, metadata, messages. No TensorFlow."""

import base64
import contextlib
import dataclasses
import math
import queue
import random
import secrets
import socket
import struct
import time
from collections.abc import Callable, Sequence

import grpc
import numpy as np

from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import METHOD, PROTOCOL_VERSION, SERVICE

KINDS = ("bytes", "frames", "metadata", "messages")  # For a door to browsers, "web" as well.

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _GOAWAY = 0, 1, 4, 7
_END_STREAM, _END_HEADERS = 1, 4
_METHODS = ("Inference/Connect", "Learners/Meet", "Learners/Nothing")

# Characters that would end a line, forge another one or act on a terminal.
_FORGED = b"\r\n\x1b]0;owned\x07\x1b[2Jseed_rl: Training is complete: 0 frames.\n"

_WAIT_SECS = 0.02
_RETRY_SECS = 0.2
_ENVS = 4  # Of an actor.


class Garbage:
    """Makes inputs, the same ones from the same seed."""

    def __init__(self, seed: int, welcome: pb.Welcome, token: str):
        """Prepares.

        Args:
          seed: of everything that is drawn.
          welcome: the learner's, so that messages can be almost right.
          token: sent with half of the calls.
        """
        self._random = random.Random(seed)
        self._token = token.encode()
        self._messages = _messages(welcome)

    def input(self, kind: str) -> bytes:
        """Bytes that a connection sends, of one of `KINDS`."""
        make: dict[str, Callable[[], bytes]] = {
            "bytes": self._bytes,
            "frames": self._frames,
            "metadata": self._metadata,
            "messages": self._call,
            "web": self._web,
        }
        return make[kind]()

    def _bytes(self) -> bytes:
        draw = self._random
        return draw.choice(
            (
                draw.randbytes(draw.randrange(2000)),
                _FORGED * draw.randrange(1, 5),
                b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % draw.randbytes(20),
                b"\x16\x03\x01" + draw.randbytes(draw.randrange(300)),
                _PREFACE[: draw.randrange(len(_PREFACE))],
                _PREFACE + draw.randbytes(draw.randrange(500)),
            )
        )

    def _frames(self) -> bytes:
        draw, sent = self._random, _PREFACE + _frame(_SETTINGS, 0, 0, b"")
        for _ in range(draw.randrange(1, 6)):
            payload = draw.randbytes(draw.choice((0, 4, 6, 8, draw.randrange(200))))
            frame = _frame(
                draw.randrange(12), draw.randrange(256), draw.choice((0, 1, 2, 3, 2**31 - 1)), payload
            )
            if draw.random() < 0.1:
                frame = draw.randbytes(3) + frame[3:]
            sent += frame
        if draw.random() < 0.3:
            sent += _frame(_GOAWAY, 0, 0, struct.pack(">II", 0, draw.randrange(14)) + _FORGED)
        return sent

    def _metadata(self) -> bytes:
        draw = self._random
        path = draw.choice(
            (
                b"/\xff",
                draw.randbytes(draw.randrange(1, 50)),
                b"",
                b"/" + b"a" * 5000,
                b"/seed_rl.Inference/" + draw.choice((b"Connect\xc3", b"None", b"Connect/", _FORGED)),
                *(b"/seed_rl." + method.encode() for method in _METHODS),
            )
        )
        name = draw.choice(
            (b"x", b"x-bin", b"authorization", b"grpc-timeout", b"grpc-encoding", b"content-type")
        )
        value = draw.choice((b"\xff\xfe", _FORGED, draw.randbytes(30), b"", b"9" * 3000, b"Bearer \xc3\x28"))
        headers = [*self._headers(path), (draw.choice((name, draw.randbytes(5))), value)]
        if draw.random() < 0.2:
            draw.shuffle(headers)
        return _begin() + _frame(
            _HEADERS, draw.choice((_END_HEADERS, _END_HEADERS | _END_STREAM)), 1, _packed(headers)
        )

    def _call(self) -> bytes:
        draw = self._random
        method = draw.choice(_METHODS)
        sent = _begin() + _frame(
            _HEADERS, _END_HEADERS, 1, _packed(self._headers(b"/seed_rl." + method.encode()))
        )
        for name in draw.choice(
            (("any",), ("join", "ready", "step"), ("join", "any"), ("join", "ready", "step", "step"))
        ):
            message = bytearray(self._messages[draw.choice(list(self._messages)) if name == "any" else name])
            for _ in range(draw.choice((0, 1, 1, 3, 20))):
                self._change(message)
            length = len(message) if draw.random() < 0.9 else draw.randrange(2**32)
            head = struct.pack(">BI", draw.random() < 0.05, length)
            sent += _frame(_DATA, draw.choice((0, 0, _END_STREAM)), 1, head + bytes(message[:16000]))
        return sent

    def _web(self) -> bytes:
        draw = self._random
        token = base64.urlsafe_b64encode(self._token).rstrip(b"=")
        headers = [
            b"Host: "
            + draw.choice((b"localhost", b"localhost", b"127.0.0.1:80", b"evil.example", b"\xff", b"[")),
            b"Upgrade: websocket",
            b"Connection: Upgrade",
            b"Sec-WebSocket-Key: " + base64.b64encode(draw.randbytes(16)),
            b"Sec-WebSocket-Version: 13",
            b"Sec-WebSocket-Protocol: seed_rl, token." + draw.choice((token, token, b"", b"\xc3", b"=" * 9)),
            draw.choice(
                (b"Origin: http://localhost", b"Origin: \x1b[2J", b"X: " + b"9" * 9000, b"Accept: */*")
            ),
        ]
        sent = b"GET / HTTP/1.1\r\n" + b"\r\n".join(headers) + b"\r\n\r\n"
        for name in draw.choice((("any",), ("join", "ready", "step"), ("join", "any"))):
            message = bytearray(self._messages[draw.choice(list(self._messages)) if name == "any" else name])
            for _ in range(draw.choice((0, 1, 3))):
                self._change(message)
            opcode = draw.choice((0x82, 0x82, 0x82, 0x81, 0x02, 0x88, 0x89, 0xF5))
            length = len(message) if draw.random() < 0.9 else draw.randrange(2**16)
            sent += struct.pack(">BBHI", opcode, 0x80 | 126, min(length, 65535), 0) + message
        return sent

    def _change(self, message: bytearray) -> None:
        draw = self._random
        place = draw.randrange(len(message) + 1)
        match draw.randrange(4):
            case 0 if place < len(message):
                message[place] ^= 1 << draw.randrange(8)
            case 1:
                del message[place:]
            case 2:
                message[place:place] = draw.randbytes(draw.randrange(1, 8))
            case _:
                message += message[place:]

    def _headers(self, path: bytes) -> list[tuple[bytes, bytes]]:
        token = [(b"authorization", b"Bearer " + self._token)]
        return _headers(path) + (token if self._random.random() < 0.5 else [])


def send(address: tuple[str, int], sent: bytes) -> bool:
    """Connects, sends, and waits shortly for answers; returns whether anything accepted the connection."""
    try:
        peer = socket.create_connection(address, 5.0)
    except OSError:
        return False
    with peer, contextlib.suppress(OSError):
        peer.sendall(sent)
        peer.settimeout(_WAIT_SECS)
        while peer.recv(65536):
            pass
    return True


def silent(kind: str, token: str) -> bytes:
    """Bytes of a silent peer: `nothing`, `no call`, or a method's call without a message."""
    if kind == "nothing":
        return b""
    if kind == "no call":
        return _begin()
    headers = [*_headers(f"/seed_rl.{kind}".encode()), (b"authorization", b"Bearer " + token.encode())]
    return _begin() + _frame(_HEADERS, _END_HEADERS, 1, _packed(headers))


def call_of(path: bytes) -> bytes:
    """A call without a message, of whatever the path stands for."""
    return _begin() + _frame(_HEADERS, _END_HEADERS | _END_STREAM, 1, _packed(_headers(path)))


def join_of(num_envs: int, process_id: int) -> pb.FromActor:
    """The Join of an actor with one group."""
    join = pb.Join(
        protocol_version=PROTOCOL_VERSION, process_id=process_id, num_envs=num_envs, num_groups=1, task=-1
    )
    return pb.FromActor(join=join)


def ready_and_step(welcome: pb.Welcome, num_envs: int) -> list[pb.FromActor]:
    """Next messages of an actor with one group: Ready, and a first step, a reset."""
    size = sum(np.dtype(leaf.dtype).itemsize * math.prod(leaf.shape) for leaf in welcome.observation)
    record = struct.pack("<f??", 0.0, True, False) + bytes(size)
    step = pb.Step(group=0, records=num_envs * record)
    return [pb.FromActor(ready=pb.Ready(applied=[0])), pb.FromActor(steps=[step])]


@dataclasses.dataclass
class Answer:
    """What a new actor got.

    Attributes:
      seconds: until the actions for its first step; None: it got none in time.
      welcome: the learner's, if it has answered.
    """

    seconds: float | None = None
    welcome: pb.Welcome = dataclasses.field(default_factory=pb.Welcome)


def first_answer(address: tuple[str, int], token: str | None, timeout_secs: float) -> Answer:
    """Plays one step as a new actor, which tries again until it has an answer or the time is over."""
    start, answer = time.monotonic(), Answer()
    metadata = [("authorization", f"Bearer {token}")] if token else []
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.max_reconnect_backoff_ms", 1_000)]
    join, asked = join_of(_ENVS, secrets.randbits(64)), f"{address[0]}:{address[1]}"
    while (left := start + timeout_secs - time.monotonic()) > 0:
        said: queue.SimpleQueue[pb.FromActor | None] = queue.SimpleQueue()
        with (
            grpc.insecure_channel(asked, options) as channel,
            contextlib.suppress(grpc.RpcError, StopIteration),
        ):
            connect = channel.stream_stream(
                f"/{SERVICE}/{METHOD}", pb.FromActor.SerializeToString, pb.FromLearner.FromString
            )
            call = connect(iter(said.get, None), timeout=left, metadata=metadata, wait_for_ready=True)
            said.put(join)
            answer.welcome = next(call).welcome
            for message in ready_and_step(answer.welcome, _ENVS):
                said.put(message)
            next(call)
            answer.seconds = time.monotonic() - start
        said.put(None)
        if answer.seconds is not None:
            break
        time.sleep(_RETRY_SECS)
    return answer


def _messages(welcome: pb.Welcome) -> dict[str, bytes]:
    """Valid messages of all kinds, for four environments."""
    ready, step = ready_and_step(welcome, 4)
    step.steps[0].episodes.append(pb.Episode(env=1, episode_return=1.0, agent_steps=9))
    return {
        "join": join_of(4, process_id=1).SerializeToString(),
        "ready": ready.SerializeToString(),
        "step": step.SerializeToString(),
        "host": b'{"index": 1, "identity": {}, "collective": "x:1"}',
        "nothing": b"",
    }


def _headers(path: bytes) -> list[tuple[bytes, bytes]]:
    return [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"localhost"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    ]


def _begin() -> bytes:
    return _PREFACE + _frame(_SETTINGS, 0, 0, b"")


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _packed(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Headers as literals that are not indexed and not compressed."""
    return b"".join(b"\0" + _string(name) + _string(value) for name, value in headers)


def _string(text: bytes) -> bytes:
    """A string with its length before it, which takes 7 bits of the first byte."""
    length = len(text)
    if length < 127:
        return bytes([length]) + text
    head, rest = bytearray([127]), length - 127
    while rest >= 128:
        head.append(rest % 128 + 128)
        rest //= 128
    return bytes(head) + bytes([rest]) + text
