"""Stand-ins for games, policies, gRPC and TensorFlow's checkpoints; they check what they are given."""

import asyncio
import collections
import functools
import json
import os
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec
from seed_rl.wire import client
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.generated import inference_pb2 as pb
from tests.simulation.kernel import Loop
from tests.simulation.schedule import Queue

if TYPE_CHECKING:
    from tests.simulation.world import World

NUM_ACTIONS = 1 << 16
ENV, LIFE, EPISODE, STEP = range(4)  # The numbers of an observation.
_STEP_SECS = 0.05
_KEEPALIVE_SECS = 30.0

# A step: the life of its environment, its episode, and its place in that.
Key = tuple[int, int, int]


def right_action(observation: np.ndarray) -> np.ndarray:
    """The right action for observations `[..., 4]`."""
    return (
        (observation.astype(np.int64) @ np.array([7919, 104_729, 1_299_709, 15_485_863])) % NUM_ACTIONS
    ).astype(np.int32)


class Fault(AssertionError):
    """Something happened that must not happen."""


def require(is_true: Any, what: str) -> None:
    if not is_true:
        raise Fault(what)


class Game(gymnasium.Env):
    """Checks each action; its episodes have 1 to 12 steps, and some are truncated."""

    def __init__(self, world: "World", env_id: int):
        self.observation_space = spaces.Box(0, 1 << 30, (4,), np.int32)
        self.action_space = spaces.Discrete(NUM_ACTIONS)
        self._world, self._seen = world, np.array([env_id, next(world.lives), -1, 0], np.int32)

    def reset(self, *, seed=None, options=None):
        """See `gymnasium.Env`."""
        del seed, options
        self._seen[EPISODE] += 1
        self._seen[STEP] = 0
        self._length = self._world.schedule.random.randint(1, 12)
        return self._seen.copy(), {}

    def step(self, action):
        """See `gymnasium.Env`."""
        if action != right_action(self._seen):
            self._world.report(f"{self._seen} got {action}, of another step.")
        self._world.played[int(self._seen[ENV])] = self._world.schedule.now
        self._world.schedule.sleep(_STEP_SECS * self._world.schedule.random.uniform(0.1, 2.0))
        reward = float(action % 1000)
        self._seen[STEP] += 1
        is_over = self._seen[STEP] == self._length
        is_cut_short = is_over and self._length % 2 == 0
        return self._seen.copy(), reward, is_over and not is_cut_short, is_cut_short, {}


@functools.cache
def game_spec() -> EnvironmentSpec:
    action = ArraySpec((), "int32", (0.0,), (NUM_ACTIONS - 1.0,))
    return EnvironmentSpec(ArraySpec((4,), "int32"), action)


class Witness(tf.Module):
    """`algorithms.policy.Policy` whose only weight is the number of its updates; `Table` acts for it."""

    def __init__(self) -> None:
        super().__init__()
        self.updates = tf.Variable(0, dtype=tf.int64)

    def initial_state(self, batch_size: int) -> tf.Tensor:
        """See `Policy.initial_state`."""
        return tf.zeros([batch_size], tf.int64)

    def act(self, prev_action: Any, env: Any, state: Any, env_ids: Any) -> tuple[AgentOutput, Any]:
        """See `Policy.act`; only the structure counts."""
        return AgentOutput(tf.zeros_like(prev_action), {}), state


class Table:
    """`inference.env_table.EnvTable` in NumPy; the recurrent state of an episode is the number of its steps.

    `on_act` is called with the key of each step, the state before it, and the version of the weights.
    """

    def __init__(
        self, world: "World", policy: Witness, num_envs: int, on_act: Callable[[Key, int, int], None]
    ):
        self._schedule = world.schedule
        self._policy, self._on_act, self._codec = policy, on_act, StepCodec(game_spec())
        self._states, self._last = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.int32)

    def act(self, rows: np.ndarray) -> tuple[np.ndarray, AgentOutput, Any, np.ndarray]:
        """See `EnvTable.act`."""
        self._take_time()
        env_ids, record, handle = rows["env_id"], rows["record"], self._policy.updates.handle
        version = int(tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.int64))
        observation = self._codec.views(record).observation
        states, prev_action, action = self._states[env_ids], self._last[env_ids], right_action(observation)
        for (_, *key), state in zip(observation.tolist(), states.tolist(), strict=True):
            self._on_act(tuple(key), state, version)
        self._states[env_ids] = np.where(record["done"], 1, states + 1)
        self._last[env_ids] = action
        self._take_time()
        return prev_action, AgentOutput(action, {}), states[rows["starts"]], np.ones(len(env_ids), bool)

    def _take_time(self) -> None:
        random = self._schedule.random
        if random.random() < 0.1:
            self._schedule.sleep(random.choice((0.0, 0.01, 1.0)))

    def reset(self, env_ids: np.ndarray) -> None:
        """See `EnvTable.reset`."""
        self._states[env_ids] = self._last[env_ids] = 0

    def restore(self, env_ids: np.ndarray, prev_action: np.ndarray, states: np.ndarray) -> None:
        """See `EnvTable.restore`."""
        self._states[env_ids], self._last[env_ids] = states, prev_action

    def last_action(self, env_ids: np.ndarray) -> np.ndarray:
        """See `EnvTable.last_action`."""
        return self._last[env_ids]


class _AbortedError(Exception):
    pass


class Context:
    """`grpc.aio.ServicerContext` of a stream that comes over a link."""

    def __init__(self, link: "Link"):
        self._link, self._metadata = link, ()
        self.received: asyncio.Queue[bytes] = asyncio.Queue()

    def peer(self) -> str:
        """See `ServicerContext.peer`."""
        return "unix:" if self._link.is_near else "ipv4:10.0.0.1:1"

    async def read(self) -> bytes:
        """See `ServicerContext.read`."""
        return await self.received.get()

    async def write(self, message: bytes) -> None:
        """See `ServicerContext.write`."""
        self._link.down(message)

    def set_trailing_metadata(self, metadata: Any) -> None:
        """See `ServicerContext.set_trailing_metadata`."""
        self._metadata = metadata

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        """See `ServicerContext.abort`."""
        self._link.down(client.StreamStatus(code, details, self._metadata))
        raise _AbortedError

    async def serve(self, connect: Callable[[Any, Any], Awaitable[None]]) -> None:
        """Calls the service, and sends the status."""
        try:
            await connect(None, self)
        except _AbortedError:
            return
        except Exception as error:
            self._link.world.report(f"The service failed: {error!r}")
            raise
        self._link.down(client.StreamStatus(grpc.StatusCode.OK, "", self._metadata))


class Listener:
    """`serving.listener.Listener` of a process, with its event loop, which is reached over links."""

    port, is_open, on_refusal = 0, True, None

    def __init__(self, world: "World", process: str):
        self.process, self._loop = process, Loop(world.schedule)
        self._schedule, self._contexts = world.schedule, dict[Link, tuple[Context, asyncio.Task[None]]]()
        world.loops.append(self._loop)

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """See `Listener.run`; before `serve`."""
        return self._loop.run_until_complete(coroutine)

    def add(self, service: str, connect: Callable[[Any, Any], Awaitable[None]]) -> None:
        """See `Listener.add`."""
        self._connect = connect

    def call_soon(self, function: Callable[..., object], *args: Any) -> None:
        """See `Listener.call_soon`."""
        if self._schedule.is_running(self.process):
            self._loop.call_soon_threadsafe(function, *args)

    def serve(self) -> None:
        """Starts the event loop."""
        self._schedule.spawn(self.process, "loop", self._loop.run_forever)

    def on_message(self, link: "Link", message: bytes) -> None:
        """Takes what has come over a link; on the event loop."""
        if link not in self._contexts:
            context = Context(link)
            self._contexts[link] = context, asyncio.ensure_future(context.serve(self._connect))
        self._contexts[link][0].received.put_nowait(message)

    def on_end(self, link: "Link") -> None:
        """Ends the call of a link that is cut; on the event loop."""
        if found := self._contexts.pop(link, None):
            found[1].cancel()


class Link:
    """A stream between a process and a listener: in order, with delays; it may be cut, or go silent.

    Attributes:
      process: the client's.
      listener: None if there is none at the address.
      is_near: whether both are on one machine.
      is_silent: whether everything is lost from now on.
    """

    def __init__(
        self,
        world: "World",
        listener: Listener | None,
        is_near: bool,
        put: Callable[[bytes | client.StreamStatus], None],
    ):
        self.world, self._put = world, put
        self.process, self.listener, self.is_near = world.schedule.current.process, listener, is_near
        self.is_silent, self._is_over = False, False
        self._last = [0.0, 0.0]
        self._pending = [collections.deque[Callable[[], Any]](), collections.deque[Callable[[], Any]]()]
        world.links.append(self)
        if listener is None or not world.schedule.is_running(listener.process):
            self.cut()

    def _later(self, direction: int, call: Callable[[], Any]) -> None:
        schedule = self.world.schedule
        secs = schedule.random.choice((0.0005, 0.002, 0.02, 0.2))
        self._last[direction] = due = max(self._last[direction], schedule.now + secs)
        self._pending[direction].append(call)

        def deliver() -> None:
            schedule.sleep(due - schedule.now)
            call = self._pending[direction].popleft()  # In order, also of those that are due together.
            if not (self.is_silent or self._is_over):
                call()

        schedule.spawn("network", "delivery", deliver)

    def up(self, message: bytes) -> None:
        """Sends to the listener."""
        if listener := self.listener:
            self._later(0, lambda: listener.call_soon(listener.on_message, self, message))

    def down(self, message: bytes | client.StreamStatus) -> None:
        """Sends to the client."""
        self._later(1, lambda: self._put(message))

    def cut(self) -> None:
        """Ends the stream for both; what is on its way is lost."""
        if not self._is_over:
            self._is_over = True
            self.world.links.remove(self)
            self._put(client.StreamStatus(grpc.StatusCode.UNAVAILABLE, "cut", ()))
            if self.listener:
                self.listener.call_soon(self.listener.on_end, self)

    def go_silent(self) -> None:
        """Loses everything from now on; both ends notice by their keepalive."""
        self.is_silent = True
        schedule = self.world.schedule
        schedule.spawn("network", "keepalive", lambda: (schedule.sleep(_KEEPALIVE_SECS), self.cut()))


class Stream(client.Stream):
    """`wire.client.Stream` over a link; `put` takes what comes, in place of `receive`."""

    def __init__(
        self,
        world: "World",
        listener: Listener | None,
        is_near: bool,
        put: Callable[[bytes | client.StreamStatus], None] | None = None,
    ):
        self._received: Any = Queue(world.schedule)
        self._link = Link(world, listener, is_near, put or self._received.put)

    def say(self, **said: Any) -> None:
        """See `Stream.say`."""
        self._link.up(pb.FromActor(**said).SerializeToString())

    def send(self, steps: bytes) -> None:
        """See `Stream.send`."""
        self._link.up(bytes(steps))

    def close(self) -> None:
        """See `Stream.close`."""
        self._link.cut()


class Channel:
    """`wire.client.Channel` of an actor in a world."""

    def __init__(self, world: "World", address: str):
        self._world, self._address, self._streams = world, address, list[Stream]()

    def join(self, join: pb.Join, timeout_secs: float) -> tuple[Stream, pb.Welcome]:
        """See `Channel.join`."""
        stream = Stream(self._world, self._world.listeners.get(self._address), self._world.is_one_machine)
        self._streams.append(stream)
        stream.say(join=join)
        if (message := stream.receive(timeout_secs)) is None:
            raise client.LearnerGoneError("no answer")
        return stream, client.parsed(message).welcome

    def close(self) -> None:
        """See `Channel.close`."""
        for stream in self._streams:
            stream.close()


class Checkpoint:
    """`tf.train.Checkpoint` of a trainer's iteration and of the progress, in two files."""

    def __init__(self, iteration: tf.Variable, progress: Any, **_: Any):
        self._variables = [iteration, progress.env_frames]
        self.save_counter = tf.Variable(0)

    def write(self, prefix: str) -> None:
        """See `tf.train.Checkpoint.write`."""
        values = json.dumps([int(variable.numpy()) for variable in self._variables])
        for ending in ("index", "data-00000-of-00001"):
            with open(f"{prefix}.{ending}", "w") as file:
                file.write(values)
                os.fsync(file.fileno())

    def restore(self, prefix: str) -> Any:
        """See `tf.train.Checkpoint.restore`."""
        for variable, value in zip(self._variables, json.loads(_contents(prefix)), strict=True):
            variable.assign(value)
        return self

    def assert_consumed(self) -> None:
        """See `tf.train.Checkpoint`."""


def _contents(prefix: str) -> str:
    data, index = (Path(f"{prefix}.{e}").read_text() for e in ("data-00000-of-00001", "index"))
    if data != index:
        raise ValueError("Not of one checkpoint.")
    return index


def is_whole(prefix: str) -> bool:
    """`training.checkpoint.is_whole` for these."""
    try:
        return bool(_contents(prefix))
    except (OSError, ValueError):
        return False
