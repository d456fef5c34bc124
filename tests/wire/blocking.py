"""The actor's end of the wire for tests that are not asynchronous: every call waits for its result."""

import asyncio
import threading

from seed_rl.wire.client import Connection
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.security import Security

_DEADLINE_SECS = 120.0


def step_message(spec, output, episodes=()):
    """An ActRequest with this step, as bytes."""
    step = pb.Step(records=StepCodec(spec).encode(output), episodes=episodes)
    return pb.ActRequest(step=step).SerializeToString()


class BlockingConnection:
    """A Connection on an event loop in its own thread."""

    def __init__(self, address, security=Security()):  # noqa: B008 (immutable)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._connection = self.wait(self._connect(address, security))

    async def _connect(self, address, security):
        return Connection(address, security)

    def wait(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_DEADLINE_SECS)

    def check(self, *args):
        return self.wait(self._connection.check(*args))

    def lease_task(self, *args):
        return self.wait(self._connection.lease_task(*args))

    def open(self, identity, hello):
        return BlockingStream(self, self.wait(self._connection.open(identity, hello)), identity.spec)

    def open_all(self, identity, hellos, timeout_secs):
        streams = self.wait(self._connection.open_all(identity, hellos, timeout_secs))
        return [BlockingStream(self, stream, identity.spec) for stream in streams]

    def close(self):
        if not self._loop.is_closed():
            self.wait(self._connection.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class BlockingStream:
    """A Stream of a BlockingConnection."""

    def __init__(self, connection, stream, spec):
        self._connection, self._stream, self._spec = connection, stream, spec

    def send(self, output, episodes):
        self._connection.wait(self._stream.send(step_message(self._spec, output, episodes)))

    def receive(self):
        return self._connection.wait(self._stream.receive())

    def close(self):
        self._connection.wait(self._close())

    async def _close(self):
        self._stream.close()
