"""Stand-ins for games, for the policy's table in TensorFlow, and for gRPC; they check what they are given."""

import collections
import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import grpc
import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connection import Connection
from seed_rl.serving.request import Request
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec
from seed_rl.wire import client
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.generated import inference_pb2 as pb
from tests.simulation.schedule import Queue

if TYPE_CHECKING:
    from tests.simulation.world import Learner, World

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
        if action != right_action(self._seen):  # Raised here, it would be a failure of the environment.
            self._world.schedule.errors.append(
                ("game", Fault(f"{self._seen} got {action}, of another step."))
            )
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


class Table:
    """`inference.env_table.EnvTable` of a policy in NumPy; its recurrent state counts an episode's steps."""

    def __init__(self, learner: "Learner", num_envs: int):
        self._learner, self._codec = learner, StepCodec(learner.world.spec)
        self._states, self._last = np.zeros(num_envs, np.int64), np.zeros(num_envs, np.int32)

    def act(self, rows: np.ndarray) -> tuple[np.ndarray, AgentOutput, Any, np.ndarray]:
        """See `EnvTable.act`."""
        env_ids, record = rows["env_id"], rows["record"]
        observation = self._codec.views(record).observation
        require((observation[:, ENV] == env_ids).all(), "A step reached the row of another environment.")
        states, prev_action, action = self._states[env_ids], self._last[env_ids], right_action(observation)
        for (_, *key), state in zip(observation.tolist(), states.tolist(), strict=True):
            self._learner.acts(tuple(key), state)
        self._states[env_ids] = np.where(record["done"], 1, states + 1)
        self._last[env_ids] = action
        return prev_action, AgentOutput(action, {}), states[rows["starts"]], np.ones(len(env_ids), bool)

    def reset(self, env_ids: np.ndarray) -> None:
        """See `EnvTable.reset`."""
        self._states[env_ids] = self._last[env_ids] = 0

    def last_action(self, env_ids: np.ndarray) -> np.ndarray:
        """See `EnvTable.last_action`."""
        return self._last[env_ids]


class Link:
    """A stream between an actor and a learner: in order, with delays; it may be cut, or go silent."""

    def __init__(self, world: "World", actor: str):
        self._world, self.actor, self.received = world, actor, Queue(world.schedule)
        self._learner = world.learner if world.learner and world.learner.is_listening else None
        self._is_silent, self._is_over = False, False
        self._last = [0.0, 0.0]
        self._pending = [collections.deque[Callable[[], Any]](), collections.deque[Callable[[], Any]]()]
        self.connection: Connection | None = None
        world.links.append(self)
        if self._learner is None:
            self._fail()

    def _fail(self) -> None:
        self._is_over = True
        self._world.links.remove(self)
        self.received.put(client.StreamStatus(grpc.StatusCode.UNAVAILABLE, "cut", ()))

    def _later(self, direction: int, call: Callable[[], Any]) -> None:
        schedule = self._world.schedule
        secs = schedule.random.choice((0.0005, 0.002, 0.02, 0.2))
        self._last[direction] = due = max(self._last[direction], schedule.now + secs)
        self._pending[direction].append(call)

        def deliver() -> None:
            schedule.sleep(due - schedule.now)
            self._pending[direction].popleft()()  # In order, also of those that are due at the same time.

        schedule.spawn("network", "delivery", deliver)

    def up(self, message: bytes) -> None:
        """Sends to the learner."""
        if learner := self._learner:
            self._later(0, lambda: self._arrive(learner, message))

    def _arrive(self, learner: "Learner", message: bytes) -> None:
        if not (self._is_silent or self._is_over):
            learner.soon(functools.partial(learner.on_message, self, message))

    def down(self, message: bytes | client.StreamStatus) -> None:
        """Sends to the actor."""
        self._later(1, lambda: None if self._is_silent or self._is_over else self.received.put(message))

    def cut(self) -> None:
        """Ends the stream for both; what is on its way is lost."""
        if not self._is_over:
            self._fail()
            if (learner := self._learner) is not None:
                learner.soon(functools.partial(learner.on_end, self))

    def go_silent(self) -> None:
        """Loses everything from now on; both ends notice by their keepalive."""
        self._is_silent = True
        schedule = self._world.schedule
        schedule.spawn("network", "keepalive", lambda: (schedule.sleep(_KEEPALIVE_SECS), self.cut()))


class Stream(client.Stream):
    """`wire.client.Stream` over a link."""

    def __init__(self, link: Link):
        self.link, self._received = link, link.received

    def say(self, **said: Any) -> None:
        """See `Stream.say`."""
        self.link.up(pb.FromActor(**said).SerializeToString())

    def send(self, steps: bytes) -> None:
        """See `Stream.send`."""
        self.link.up(bytes(steps))


class Channel:
    """`wire.client.Channel` to the learner of a world."""

    def __init__(self, world: "World", *_: Any):
        self._world, self._links = world, list[Link]()

    def join(self, join: pb.Join, timeout_secs: float) -> tuple[Stream, pb.Welcome]:
        """See `Channel.join`."""
        link = Link(self._world, self._world.schedule.current.process)
        self._links.append(link)
        stream = Stream(link)
        stream.say(join=join)
        if (message := stream.receive(timeout_secs)) is None:
            raise client.LearnerGoneError("no answer")
        return stream, client.parsed(message).welcome

    def close(self) -> None:
        """See `Channel.close`."""
        for link in self._links:
            link.cut()


class LinkCarrier:
    """A carrier of answers over a link; belongs to the learner's loop."""

    is_direct = False

    def __init__(self, link: Link):
        self._link = link

    def begin(self, batcher: Batcher[Request]) -> None:
        """See `Carrier.begin`."""

    def send(self, answers: Sequence[tuple[int, bytes]]) -> None:
        """See `Carrier.send`."""
        actions = [pb.Actions(group=number, actions=data) for number, data in answers]
        self._link.down(pb.FromLearner(actions=actions).SerializeToString())

    def close(self) -> None:
        """See `Carrier.close`."""
