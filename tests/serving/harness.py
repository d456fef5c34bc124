"""A server whose answers a test can predict, and actor processes as a test plays them."""

import contextlib
import json
import queue
import threading
import time
from pathlib import Path

import grpc
import numpy as np
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State
from websockets.sync.client import connect

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connection import Limits
from seed_rl.serving.connections import Connections
from seed_rl.serving.gateway import Gateway
from seed_rl.serving.listener import Listener
from seed_rl.serving.request import BadStep
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.shared_memory import make_wake_up_set
from seed_rl.types import ArraySpec, EnvironmentSpec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import PROTOCOL_VERSION, SERVICE, EnvironmentDescription
from seed_rl.wire.security import WebConfig
from seed_rl.wire.shared_memory import END, EPISODES, MemoryLink

DEADLINE_SECS = 20.0
NUM_ENVS = 8
MAX_GROUP = 4
SPEC = EnvironmentSpec(ArraySpec((2,), "float32"), ArraySpec((), "int32", (0,), (9,)))
CATCH = EnvironmentDescription("catch", {"rows": 10}, SPEC)
RECORD = np.dtype([("reward", "<f4"), ("done", "?"), ("truncated", "?"), ("x", "<f4", 2)])


class Harness:
    """A server whose answer to an environment is the first number of its observation.

    -1 is a bad step, and -2 one at which inference fails.

    Its actors' steps go by `way`: as messages, through shared memory, as messages to a gateway, or over a
    WebSocket.
    """

    def __init__(self, address, stack, way="messages", **limits):
        self.address, self._stack, self._way = address, stack, way
        self.tasks, self.episodes, self.requests, self.refused = [], [], [], []
        self.taken = 0  # Batches that the server's thread has taken.
        self.answering = threading.Event()
        self.answering.set()
        self.batcher = Batcher(NUM_ENVS, 0.01, make_wake_up_set())
        connections = Connections(
            CATCH, NUM_ENVS, [self.batcher], MAX_GROUP, self.tasks.append, self.episodes.extend, seed=7
        )
        self.server = InferenceServer(
            address,
            connections,
            limits=Limits(**limits),
            on_refusal=lambda: self.refused.append(None),
            web=WebConfig("127.0.0.1:0" if way == "web" else None),
        )
        stack.callback(self.close)
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()
        if address.endswith(":0"):
            self.address = f"127.0.0.1:{self.server.port}"
        if way == "web":
            self.address = f"ws://127.0.0.1:{self.server.web_port}"
        elif way == "gateway":
            self.address, self.listener = open_gateway(self.address, stack, **limits)

    def player(self, **said):
        """A process that has sent Join, with the changes in `said`."""
        return self._stack.enter_context(contextlib.closing(Player(self.address, self._way, **said)))

    def join(self, **said):
        """A process that has sent Ready too."""
        player = self.player(**said)
        player.get_ready()
        return player

    def close(self):
        self.answering.set()
        self.batcher.close()
        self._thread.join(DEADLINE_SECS)
        assert not self._thread.is_alive()
        self.server.stop()

    def _answer(self):
        while (batch := self.batcher.next_batch()) is not None:
            self.taken += 1
            self.answering.wait(DEADLINE_SECS)
            requests = [request for _, request in batch]
            self.requests += requests
            self.batcher.finish([client for client, _ in batch])
            self.server.deliver([(request, self._answer_to(request.records)) for request in requests])

    @staticmethod
    def _answer_to(records):
        numbers = np.frombuffer(records, RECORD)["x"][:, 0]
        if -2 in numbers:
            return BadStep("Minus two.", KeyError("bug"))
        return BadStep("Minus one.") if -1 in numbers else numbers.astype("<i4").tobytes()


def open_gateway(learner_address, stack, **limits):
    """A gateway in this process; returns its address, and its listener."""
    address = f"{learner_address}.gateway"
    listener = Listener(address, -1, (SERVICE,))
    listener.add(SERVICE, Gateway(learner_address, [], Limits(**limits)).connect)
    stack.callback(listener.stop)
    return address, listener


class Player:
    """An actor process with one connection; its messages are not checked."""

    def __init__(
        self, address, way="messages", num_envs=2, num_groups=1, process_id=1, task=-1, says_join=True, **said
    ):
        self._shape = num_envs // (num_groups or 1), num_groups
        self.link, self._unread, self._said = None, [], queue.SimpleQueue()
        if way == "web":
            self._channel = self.call = WebCall(address, self._said)
        else:
            self._channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
            call = self._channel.stream_stream(f"/{SERVICE}/Connect")
            self.call = call(iter(self._said.get, None), timeout=DEADLINE_SECS, wait_for_ready=True)
        said = {"protocol_version": PROTOCOL_VERSION, "can_share_memory": way == "memory"} | said
        if says_join:
            join = pb.Join(process_id=process_id, num_envs=num_envs, num_groups=num_groups, task=task, **said)
            self.say(join=join)

    def say(self, message=None, **parts):
        """Sends bytes, or a FromActor with these parts."""
        self._said.put(pb.FromActor(**parts).SerializeToString() if message is None else message)

    def welcome(self):
        """Waits for the Welcome; an error ends the test."""
        return pb.FromLearner.FromString(next(self.call)).welcome

    def get_ready(self, applied=None, **said):
        """Waits for the Welcome, takes the memory that it offers, and sends Ready."""
        welcome = self.welcome()
        if welcome.HasField("memory"):
            self.link = MemoryLink(welcome.memory, SPEC, *self._shape)
            said = {"shares_memory": True} | said
        self.say(ready=pb.Ready(applied=[0] * self._shape[1] if applied is None else applied, **said))
        return welcome

    def write(self, *numbers, group=0, done=True):
        """The records of a step with these numbers; also where the memory has them."""
        records = records_of(*numbers, done=done)
        if self.link:
            self.link.parts[group].records[:] = records
        return records

    def send(self, *numbers, group=0, done=True, episodes=()):
        """Sends a step with these numbers."""
        records = self.write(*numbers, group=group, done=done)
        if not self.link:
            self.say(steps=[pb.Step(group=group, records=records, episodes=episodes)])
        elif episodes:
            self.link.parts[group].write_episodes(episodes)
            self.link.send([group | EPISODES])
        else:
            self.link.send([group])

    def send_zeros(self, *groups):
        """Sends a step of zeros for each of these groups, all at once."""
        if self.link:
            self.link.send(groups)
        else:
            self.say(
                steps=[pb.Step(group=g, records=bytes(self._shape[0] * RECORD.itemsize)) for g in groups]
            )

    def answer(self, group=0):
        """Waits for the actions of a group; None if the connection has ended."""
        deadline = time.monotonic() + DEADLINE_SECS
        while not (found := [actions for number, actions in self._unread if number == group]):
            assert time.monotonic() < deadline, "no actions"
            more = self._receive()
            if more is None:
                return None
            self._unread += more
        self._unread = [entry for entry in self._unread if entry[0] != group]
        return np.frombuffer(found[0], "<i4").tolist()

    def _receive(self):
        if self.link:
            numbers = self.link.wait()
            if numbers is None or END in numbers:
                return None
            return [(number, bytes(self.link.parts[number].actions)) for number in numbers]
        try:
            message = pb.FromLearner.FromString(next(self.call))
        except (grpc.RpcError, StopIteration):
            return None
        return [(actions.group, actions.actions) for actions in message.actions]

    def ask(self, *numbers, group=0, done=True, episodes=()):
        """Sends a step and waits for its actions."""
        self.send(*numbers, group=group, done=done, episodes=episodes)
        return self.answer(group)

    def status(self):
        """Waits for the end of the connection; returns the name of its status, and the sentence."""
        with contextlib.suppress(grpc.RpcError):
            for _ in self.call:
                pass
        return self.call.code().name, self.call.details()

    def close(self):
        """Loses the connection, as the end of the process would."""
        self._said.put(None)
        self.call.cancel()
        self._channel.close()
        if self.link:
            self.link.close()


class WebCall:
    """A WebSocket in the place of a call of gRPC's."""

    def __init__(self, url, said):
        self._socket, self._status = connect(url, subprotocols=["seed_rl"], proxy=None), None
        self._sending = threading.Thread(target=self._send, args=(said,), daemon=True)
        self._sending.start()

    def _send(self, said):
        with contextlib.suppress(ConnectionClosed):
            for message in iter(said.get, None):
                self._socket.send(message)

    def __iter__(self):
        return self

    def __next__(self):
        with contextlib.suppress(ConnectionClosed):
            message = self._socket.recv(DEADLINE_SECS)
            if isinstance(message, bytes):
                return message
            self._status = json.loads(message)
        raise StopIteration

    def code(self):
        return grpc.StatusCode[self._status["code"]]

    def details(self):
        return self._status["message"]

    def is_active(self):
        return self._status is None and self._socket.state is State.OPEN

    def cancel(self):
        self._socket.close()

    close = cancel


def records_of(*numbers, done=True):
    """The records of environments with these numbers."""
    records = np.zeros(len(numbers), RECORD)
    records["done"], records["x"][:, 0] = done, numbers
    return records.tobytes()


def mappings():
    """Number of pieces of shared memory that this process has mapped."""
    return Path("/proc/self/maps").read_text().count("memfd:seed_rl")
