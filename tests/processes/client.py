"""An actor written from protos/inference.proto alone, with grpcio, NumPy and the generated messages.

    python client.py ADDRESS grpc|shared_memory

plays a Catch of its own until training has ended. Tests also use it to send invalid messages.
"""

import json
import mmap
import os
import queue
import secrets
import socket
import struct
import sys
from pathlib import Path

import grpc
import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2] / "seed_rl/wire/generated"))
import inference_pb2 as pb

VERSION, DEADLINE_SECS, END, EPISODES = 4, 300.0, 2**32 - 1, 2**31


class Client:
    """A Connect stream."""

    def __init__(self, address, process_id=None):
        self.process_id = secrets.randbits(64) if process_id is None else process_id
        options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        self._channel, self._said = grpc.insecure_channel(address, options), queue.SimpleQueue()
        connect = self._channel.stream_stream(
            "/seed_rl.Inference/Connect", response_deserializer=pb.FromLearner.FromString
        )
        self._call = connect(iter(self._said.get, None), timeout=DEADLINE_SECS, wait_for_ready=True)

    def send(self, message):
        self._said.put(message.SerializeToString())

    def receive(self):
        """The learner's next message; None when the stream has ended."""
        try:
            return next(self._call, None)
        except grpc.RpcError:
            return None

    def status(self):
        """(status, sentence) of a stream that has ended, or is about to."""
        return self._call.code(), self._call.details()

    def join(self, num_envs, num_groups=1, **changes):
        """Sends Join; returns the Welcome, None if the learner refuses."""
        fields = {"protocol_version": VERSION, "process_id": self.process_id, "task": -1} | changes
        self.send(pb.FromActor(join=pb.Join(num_envs=num_envs, num_groups=num_groups, **fields)))
        answer = self.receive()
        return answer and answer.welcome

    def ready(self, *applied, shares_memory=False):
        self.send(pb.FromActor(ready=pb.Ready(applied=applied, shares_memory=shares_memory)))

    def step(self, group, records, episodes=()):
        self.send(pb.FromActor(steps=[pb.Step(group=group, records=records.tobytes(), episodes=episodes)]))

    def actions(self):
        """[(group, the bytes of its actions), ...]; None when the stream has ended."""
        answer = self.receive()
        return answer and [(actions.group, actions.actions) for actions in answer.actions]

    def close(self):
        self._said.put(None)
        self._channel.close()


class Memory:
    """Shared memory as the protocol describes it, a to e; `step` and `actions` are as those of `Client`."""

    def __init__(self, welcome, num_envs):
        self._memory, self._action_bytes = welcome.memory, num_envs * num_bytes(welcome.action)
        address = welcome.memory.address
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect("\0" + address[1:] if address.startswith("@") else address)
        self.socket.sendall(welcome.memory.key)
        said, descriptors, _, _ = socket.recv_fds(self.socket, 1000, 1)
        assert descriptors, said
        self.bytes = mmap.mmap(descriptors[0], welcome.memory.size)
        os.close(descriptors[0])

    def step(self, group, records, episodes=()):
        begin = group * self._memory.group_size
        self.bytes[begin : begin + records.nbytes] = records.tobytes()
        if episodes:
            ended = {e.env: struct.pack("<if", e.agent_steps, e.episode_return) for e in episodes}
            written = b"".join(ended.get(env, struct.pack("<if", -1, 0.0)) for env in range(len(records)))
            begin += self._memory.episodes
            self.bytes[begin : begin + len(written)] = written
        self.socket.sendall(struct.pack("<I", group | (EPISODES if episodes else 0)))

    def actions(self):
        data = self.socket.recv(4, socket.MSG_WAITALL)
        number = struct.unpack("<I", data)[0] if data else END
        begin = number * self._memory.group_size + self._memory.actions
        return None if number == END else [(number, self.bytes[begin : begin + self._action_bytes])]

    def close(self):
        self.socket.close()


def num_bytes(array):
    return np.dtype(array.dtype).itemsize * int(np.prod(array.shape))


def records(welcome, num_envs, reward=0.0, done=True, observation=0):
    """Records of a step; all arrays of the observation are filled with `observation`."""
    fields = [("reward", "<f4"), ("done", "?"), ("truncated", "?")]
    fields += [(f"o{i}", array.dtype, tuple(array.shape)) for i, array in enumerate(welcome.observation)]
    made = np.zeros(num_envs, np.dtype(fields))
    made["reward"], made["done"] = reward, done
    for name, *_ in fields[3:]:
        made[name] = observation
    return made


class Catch:
    """Catch, for the environments of a group; `records` are those of its newest step."""

    def __init__(self, welcome, num_envs, seed):
        self.rows, self.columns = (json.loads(welcome.settings[name]) for name in ("rows", "columns"))
        self._rng, self.records = np.random.default_rng(seed), records(welcome, num_envs)
        self.ball, self.row, self.paddle = np.zeros((3, num_envs), int)
        self._begin(self.records["done"])

    def _begin(self, which):
        self.ball[which] = self._rng.integers(self.columns, size=len(which))[which]
        self.row[which], self.paddle[which] = 0, self.columns // 2
        board, envs = self.records["o0"], np.arange(len(which))
        board[:] = 0
        board[envs, self.row, self.ball] = board[envs, -1, self.paddle] = 1

    def step(self, actions):
        """Applies actions; returns the episodes that have ended."""
        self.paddle = np.clip(self.paddle + np.frombuffer(actions, "<i4") - 1, 0, self.columns - 1)
        self.row += 1
        done = self.row == self.rows - 1
        self.records["reward"] = np.where(done, np.where(self.paddle == self.ball, 1, -1), 0)
        self.records["done"] = done
        self._begin(done)
        return [
            pb.Episode(env=env, episode_return=self.records["reward"][env], agent_steps=self.rows - 1)
            for env in np.flatnonzero(done)
        ]


def main(address, transport, num_envs=8, num_groups=2):
    client, shares_memory = Client(address), transport == "shared_memory"
    welcome = client.join(num_envs * num_groups, num_groups, can_share_memory=shares_memory)
    assert welcome and welcome.suite == "catch", client.status()
    groups = [Catch(welcome, num_envs, [welcome.seed, welcome.task, number]) for number in range(num_groups)]
    carrier = Memory(welcome, num_envs) if shares_memory else client
    client.ready(*[0] * num_groups, shares_memory=shares_memory)
    for number, group in enumerate(groups):
        carrier.step(number, group.records)
    while (answers := carrier.actions()) is not None:
        for number, actions in answers:
            episodes = groups[number].step(actions)
            carrier.step(number, groups[number].records, episodes)
    code, sentence = client.status()
    print(code.name, sentence)
    return int(code != grpc.StatusCode.OK)


if __name__ == "__main__":
    assert not any(name.startswith("seed_rl") for name in sys.modules)
    sys.exit(main(*sys.argv[1:]))
