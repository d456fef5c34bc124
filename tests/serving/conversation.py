"""Connections without gRPC, sockets and threads: what they pass on is in lists."""

import numpy as np

from seed_rl.serving.connections import Connections
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import PROTOCOL_VERSION
from tests.serving.harness import CATCH, MAX_GROUP, NUM_ENVS, RECORD, records_of


class Batcher:
    """Requests in order of arrival, until a test takes them."""

    def __init__(self):
        self.clients, self.pending = set(), []

    def connect(self):
        client = max(self.clients, default=0) + 1
        self.clients.add(client)
        return client

    def disconnect(self, client):
        self.clients.remove(client)
        self.pending = [entry for entry in self.pending if entry[0] != client]

    def submit_all(self, entries):
        self.pending += entries

    def take(self):
        taken, self.pending = self.pending, []
        return [request for _, request, _ in taken]


class Carrier:
    """Keeps the actions that it is to send."""

    def __init__(self, is_direct=True):
        self.is_direct, self.sent, self.begun, self.closed = is_direct, [], 0, 0

    def begin(self, batcher):
        self.begun += 1

    def send(self, answers):
        self.sent += answers

    def close(self):
        self.closed += 1


def make_connections(batchers, episodes=None, tasks=None, **options):
    ignored = []
    return Connections(
        CATCH,
        NUM_ENVS,
        batchers,
        MAX_GROUP,
        (ignored if tasks is None else tasks).append,
        (ignored if episodes is None else episodes).extend,
        **options,
    )


def deliver(connections, answers):
    connections.deliver(answers, lambda function, *arguments: function(*arguments))


class Process:
    """A process that has joined, and the answers to it.

    Attributes:
      ends: for each time that its connection has ended, the reason.
    """

    def __init__(self, connections, carrier=None, is_near=False, **said):
        self.ends, self.carrier, self._connections = [], carrier or Carrier(), connections
        said = {"protocol_version": PROTOCOL_VERSION, "process_id": 1, "num_envs": 2, "num_groups": 1} | said
        self.num_groups = said["num_groups"]
        self.connection, self.welcome = connections.join(
            pb.Join(**{"task": -1} | said), self.ends.append, is_near
        )

    def get_ready(self, applied=None, **said):
        ready = pb.Ready(applied=[0] * self.num_groups if applied is None else applied, **said)
        self._connections.ready(self.connection, ready, self.carrier)
        return self

    def step(self, *numbers, group=0, done=True, episodes=(), carrier=None):
        step = group, records_of(*numbers, done=done), episodes
        self.connection.steps([step], carrier or self.carrier)

    def refusal(self):
        """The status and the sentence that its connection has ended with."""
        (refusal,) = self.ends
        return refusal and (refusal.code.name, str(refusal))


def numbers_of(request):
    return np.frombuffer(request.records, RECORD)["x"][:, 0].astype(int).tolist()
