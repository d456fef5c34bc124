"""Clients of the door for browsers: those that play, and those that do only what a test tells them to."""

import asyncio
import base64
import contextlib
import json
import select
import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from websockets.asyncio.client import connect as connect_soon
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed
from websockets.frames import Opcode
from websockets.protocol import State
from websockets.sync.client import connect
from websockets.uri import parse_uri

from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import PROTOCOL_VERSION
from tests.waiting import wait_until

DEADLINE_SECS = 30.0


@contextlib.contextmanager
def opened(url, token=None, **options):
    """An open WebSocket."""
    offered = ["seed_rl"]
    if token is not None:
        offered.append("token." + base64.urlsafe_b64encode(token.encode()).decode().rstrip("="))
    with connect(url, subprotocols=offered, open_timeout=DEADLINE_SECS, proxy=None, **options) as opened:
        yield opened


def message(**said):
    return pb.FromActor(**said).SerializeToString()


def join_message(process_id=7, num_envs=1):
    sizes = {"num_envs": num_envs, "num_groups": 1}
    return message(join=pb.Join(protocol_version=PROTOCOL_VERSION, process_id=process_id, task=-1, **sizes))


def step_message(number, done=False):
    records = np.float32(0.0).tobytes() + bytes([done, False]) + np.int32(number).tobytes()
    return message(steps=[pb.Step(group=0, records=records)])


READY = message(ready=pb.Ready(applied=[0]))


def heard(tab):
    return pb.FromLearner.FromString(tab.recv(DEADLINE_SECS))


def join(tab, num_envs=1, process_id=7):
    """Joins; returns the Welcome."""
    tab.send(join_message(process_id, num_envs))
    return heard(tab).welcome


def step(tab, number, done=False):
    """Sends a step; returns the action."""
    tab.send(step_message(number, done))
    (actions,) = heard(tab).actions
    return np.frombuffer(actions.actions, "<i4")[0]


def end(tab):
    """The status that a WebSocket ends with."""
    with contextlib.suppress(ConnectionClosed):
        while not isinstance(said := tab.recv(DEADLINE_SECS), str):
            pass
        return json.loads(said)
    return {"code": str(tab.close_code)}


class Tab:
    """A page that plays in a thread for as long as the context.

    Attributes:
      steps: how many it has played.
    """

    def __init__(self, url, **options):
        self.steps, self._url, self._options = 0, url, options
        self._is_over = False

    def __enter__(self):
        thread = ThreadPoolExecutor(1)
        self._end = thread.submit(self._run)
        thread.shutdown(wait=False)
        self.play_on()
        return self

    def __exit__(self, *_):
        self._is_over = True
        self._end.result(DEADLINE_SECS)

    def play_on(self):
        """Waits until it has played some more; raises the error that has ended it."""
        before = self.steps
        wait_until(lambda: self.steps > before + 5 or self._end.done(), "steps", DEADLINE_SECS)
        if self._end.done():
            self._end.result()

    def _run(self):
        with opened(self._url, **self._options) as tab:
            join(tab, process_id=1)
            tab.send(READY)
            while not self._is_over:
                assert step(tab, self.steps, done=self.steps == 0) == self.steps + 1
                self.steps += 1


class NumbTab:
    """A WebSocket that reads nothing once it is open, and answers no pings.

    Attributes:
      socket: its end of the TCP connection.
    """

    def __init__(self, url):
        uri = parse_uri(url)
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)  # Or it would grow to megabytes.
        self.socket.settimeout(DEADLINE_SECS)
        self.socket.connect((uri.host, uri.port))
        self._protocol = ClientProtocol(uri, subprotocols=["seed_rl"])
        self._protocol.send_request(self._protocol.connect())
        self._flush()
        while self._protocol.state is State.CONNECTING:
            self._protocol.receive_data(self.socket.recv(1))
        self._protocol.events_received()  # The response.

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, said):
        self._protocol.send_binary(said)
        self._flush()

    def flood(self, most_bytes):
        """Sends pings until they are not read any more; so many bytes of them are an error."""
        self.socket.settimeout(2.0)
        with contextlib.suppress(ConnectionError, TimeoutError):
            for _ in range(most_bytes // 125_000):
                for _ in range(1000):
                    self._protocol.send_ping(bytes(125))
                self._flush()
            raise AssertionError(f"{most_bytes} bytes of pings were read")

    def status(self):
        """Reads all that there is, until the end; the status."""
        while said := self.socket.recv(1 << 16):
            self._protocol.receive_data(said)
            self._flush()
        (found,) = [frame.data for frame in self._protocol.events_received() if frame.opcode is Opcode.TEXT]
        return json.loads(found)

    def _flush(self):
        self.socket.sendall(b"".join(self._protocol.data_to_send()))


def is_closed(peer):
    """Whether the other end has closed a connection; reads what has come."""
    try:
        return bool(select.select([peer], [], [], 0)[0]) and not peer.recv(1 << 16)
    except ConnectionError:
        return True


def statuses_of_many(url, count, *said):
    """Opens so many WebSockets at once, which send these messages; returns the statuses of their ends."""

    async def status():
        options = {"subprotocols": ["seed_rl"], "proxy": None, "open_timeout": None, "ping_interval": None}
        async with asyncio.timeout(DEADLINE_SECS), connect_soon(url, **options) as tab:
            with contextlib.suppress(ConnectionClosed):  # It may be told why before it has sent anything.
                for part in said:
                    await tab.send(part)
            return json.loads(await tab.recv())

    async def all_of_them():
        return await asyncio.gather(*(status() for _ in range(count)))

    return asyncio.run(all_of_them())
