"""A hand-written actor that speaks the protocol in protos/ and sends whatever a test needs."""

import mmap
import os
import queue
import secrets
import socket
import struct

import grpc
import numpy as np

from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.generated.inference_pb2_grpc import InferenceStub

_DEADLINE_SECS = 60.0


class HandWrittenActor:
    """Streams to a learner; arguments are messages, or bytes that are not messages."""

    def __init__(self, address):
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        self._channel = grpc.insecure_channel(address, options)
        self.description = InferenceStub(self._channel).Describe(pb.DescribeRequest(), timeout=_DEADLINE_SECS)
        self._run_id = secrets.randbits(64)
        self._on_board = []  # What is said on streams whose steps go through the board.

    def close(self):
        for said in self._on_board:
            said.put(None)
        self._channel.close()

    def hello(self, first_env, num_envs, **changes):
        """A hello that matches the learner, except for `changes`."""
        known = self.description
        hello = pb.Hello(
            protocol_version=known.protocol_version,
            run_id=self._run_id,
            first_env=first_env,
            num_envs=num_envs,
            environment=known.environment,
            settings=known.settings,
            observation=known.observation,
            action=known.action,
            task=first_env // num_envs,
        )
        for name, value in changes.items():
            setattr(hello, name, value)
        return pb.ActRequest(hello=hello)

    def step(self, num_envs, reward=0.0, done=True, observation=0, episodes=()):
        """A step of the right size; all arrays of the observation are filled with `observation`."""
        fields = [("reward", "<f4"), ("done", "?"), ("truncated", "?")]
        fields += [(f"o{i}", o.dtype, tuple(o.shape)) for i, o in enumerate(self.description.observation)]
        records = np.zeros(num_envs, np.dtype(fields))
        records["reward"], records["done"] = reward, done
        for name, *_ in fields[3:]:
            records[name] = observation
        return pb.ActRequest(step=pb.Step(records=records.tobytes(), episodes=episodes))

    def talk(self, *requests):
        """Sends a hello and steps, each after the last answer; returns (answers, status, details)."""
        said = queue.SimpleQueue()
        call = self._channel.stream_stream(
            "/seed_rl.Inference/Act", response_deserializer=pb.ActResponse.FromString
        )(iter(said.get, None), timeout=_DEADLINE_SECS)
        answers = []
        try:
            for index, request in enumerate(requests):
                said.put(request if isinstance(request, bytes) else request.SerializeToString())
                if index > 0:
                    answers.append(next(call).actions)
            said.put(None)
            answers += [answer.actions for answer in call]
        except (grpc.RpcError, StopIteration):
            said.put(None)
        return answers, call.code(), call.details()

    def open_board(self, *nums_envs):
        """Memory of this process for streams with so many environments."""
        return _Board(self.description, nums_envs)

    def join(self, board, number, first_env):
        """Opens a stream whose steps go through the board; returns the call, whose hello is accepted."""
        hello = self.hello(first_env, board.nums_envs[number])
        place = hello.hello.board
        place.connection, place.stream, place.offset = board.number, number, board.offsets[number]
        said = queue.SimpleQueue()
        said.put(hello)
        self._on_board.append(said)
        call = self._channel.stream_stream(
            "/seed_rl.Inference/Act",
            request_serializer=pb.ActRequest.SerializeToString,
            response_deserializer=pb.ActResponse.FromString,
        )(iter(said.get, None), timeout=_DEADLINE_SECS)
        call.initial_metadata()
        return call


class _Board:
    """The board as protos/inference.proto describes it, a to e, with nothing else of seed_rl.

    Attributes:
      number: of the connection.
      nums_envs: environments of each stream.
      offsets: where the parts of the streams begin, in bytes.
    """

    def __init__(self, description, nums_envs):
        observation = sum(_num_bytes(array) for array in description.observation)
        self._record_bytes = 4 + 1 + 1 + observation
        self._action_bytes = _num_bytes(description.action)
        self.nums_envs, self.offsets, size = nums_envs, [], 0
        for num_envs in nums_envs:
            self.offsets.append(size)
            _, actions = self._layout(num_envs)
            size = _up(size + actions + num_envs * self._action_bytes, 64)
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(_DEADLINE_SECS)
        address = description.board.address
        self._socket.connect("\0" + address[1:] if address.startswith("@") else address)
        self._socket.sendall(b"SEEDRL01" + description.board.secret + struct.pack("<Q", size))
        answer, ancillary, _, _ = self._socket.recvmsg(16, socket.CMSG_SPACE(4))
        status, length, self.number = struct.unpack("<IIQ", answer)
        assert (status, length) == (0, 0)
        ((_, kind, data),) = ancillary
        assert kind == socket.SCM_RIGHTS
        (descriptor,) = struct.unpack("i", data)
        self._memory = mmap.mmap(descriptor, size)
        os.close(descriptor)

    def step(self, stream, step, episodes=None):
        """Writes the records of a Step and rings.

        `episodes`: (agent steps, return) of each environment, or None; without a list, none has ended.
        """
        begin, ring = self.offsets[stream], stream
        records = step.step.records
        self._memory[begin : begin + len(records)] = records
        if episodes:
            written = b"".join(struct.pack("<if", *(found or (-1, 0.0))) for found in episodes)
            begin += self._layout(self.nums_envs[stream])[0]
            self._memory[begin : begin + len(written)] = written
            ring += 2**31
        self._socket.sendall(struct.pack("<I", ring))

    def ring(self):
        """The learner's next ring; 2^32 - 1 also if it has closed the connection."""
        data = self._socket.recv(4, socket.MSG_WAITALL)
        return struct.unpack("<I", data)[0] if data else 2**32 - 1

    def actions(self, stream):
        """The bytes of a stream's actions."""
        num_envs = self.nums_envs[stream]
        begin = self.offsets[stream] + self._layout(num_envs)[1]
        return self._memory[begin : begin + num_envs * self._action_bytes]

    def close(self):
        """Ends the connection, and so its streams."""
        self._socket.close()

    def _layout(self, num_envs):
        """Where the episodes and the actions of a part begin, counted from its own begin."""
        episodes = _up(num_envs * self._record_bytes, 8)
        return episodes, episodes + 8 * num_envs


def _num_bytes(array):
    return int(np.dtype(array.dtype).itemsize * np.prod(tuple(array.shape), dtype=int))


def _up(number, multiple):
    return (number + multiple - 1) // multiple * multiple
