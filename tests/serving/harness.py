"""A server over a unix socket whose answers a test can predict, and clients of all kinds."""

import threading

import grpc
import numpy as np
import pytest

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.request import BadStep
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.silence import Limits
from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput
from seed_rl.wire.client import RefusedError, make_hello
from seed_rl.wire.protocol import EnvironmentDescription
from tests.wire.blocking import BlockingConnection

DEADLINE_SECS = 20.0
NUM_ENVS = 8
NUM_EVAL_ENVS = 1
MAX_GROUP = 4
SPEC = EnvironmentSpec(ArraySpec((2,), "float32"), ArraySpec((), "int32", (0,), (9,)))


def of_catch(name="catch", spec=SPEC, **settings):
    return EnvironmentDescription(name, {"rows": 10, **settings}, spec)


class Harness:
    """A server whose answer to an environment is the first number of its observation; -1 is a bad one."""

    def __init__(self, address, stack, bell=None, **limits):
        self.address, self._stack = address, stack
        self.leases, self.episodes, self.requests = [], [], []
        self.taken = 0  # Batches that the server's thread has taken.
        self.answering = threading.Event()
        self.answering.set()
        self.batcher = Batcher(8, 0.01, bell)
        self.server = InferenceServer(
            address,
            of_catch(),
            NUM_ENVS,
            [self.batcher],
            MAX_GROUP,
            self.leases.append,
            self.episodes.extend,
            num_eval_envs=NUM_EVAL_ENVS,
            limits=Limits(**limits),
        )
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def to_close(self, close):
        """Calls `close` at the end of the test."""
        self._stack.callback(close)

    def connect(self):
        connection = BlockingConnection(self.address)
        self._stack.callback(connection.close)
        return connection

    def join(self, run_id=1, first_env=0, num_envs=2, mine=of_catch(), **changes):  # noqa: B008 (frozen)
        """A stream that has said hello."""
        connection = self.connect()
        hello = make_hello(mine, run_id=run_id, task=0, first_env=first_env, num_envs=num_envs)
        for name, value in changes.items():
            setattr(hello, name, value)
        stream = connection.open(mine, hello)
        self._stack.callback(stream.close)
        return stream

    def raw_call(self, *messages):
        """A stream of bytes from a client that checks nothing; the messages end it."""
        channel = grpc.insecure_channel(self.address, [("grpc.use_local_subchannel_pool", 1)])
        self._stack.callback(channel.close)
        return channel.stream_stream("/seed_rl.Inference/Act")(iter(messages), timeout=DEADLINE_SECS)

    def close(self):
        self.answering.set()
        self.batcher.close()
        self._thread.join(DEADLINE_SECS)
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
        numbers = np.frombuffer(records, [("head", "V6"), ("x", "<f4", 2)])["x"][:, 0]
        return BadStep("Minus one.") if -1 in numbers else numbers.astype("<i4").tobytes()


def step_of(*numbers, done=True):
    observation = np.float32([[n, 0.5] for n in numbers])
    zeros = np.zeros(len(numbers))
    return EnvOutput(zeros.astype(np.float32), zeros.astype(bool) | done, zeros.astype(bool), observation)


def ask(stream, *numbers, done=True):
    stream.send(step_of(*numbers, done=done), [])
    actions = stream.receive()
    return None if actions is None else actions.tolist()


def refusal(stream, step=None):
    stream.send(step or step_of(0, 0), [])
    with pytest.raises(RefusedError) as caught:
        stream.receive()
    return str(caught.value)


def status(call):
    with pytest.raises(grpc.RpcError) as caught:
        list(call)
    return caught.value.code(), caught.value.details()
