"""The simulated world: a learner, its actors and their network, with the checks of what they do.

Real are the actor's loop, tasks, connections, batcher, inference core, stores and experience. In the place of
TensorFlow, of gRPC and of games stand `Table`, `Link` and `Game`. Observations say where they come from,
and actions and rewards follow from them, so every step that is trained on can be checked.
"""

import collections
import contextlib
import functools
import itertools
import logging
from collections.abc import Callable
from typing import Any
from unittest import mock

import grpc
import numpy as np

from seed_rl.actor import carriers, loop
from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.loop import Actor
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import FailureConfig
from seed_rl.experience import base, fifo, rate_limiter, replay, unroll_store
from seed_rl.experience.base import Batch, Experience, ExperienceConfig, Setup, UnrollConfig
from seed_rl.experience.experience_config import FifoConfig, ReplayConfig, WholeRolloutsConfig
from seed_rl.inference import core, streams
from seed_rl.inference.core import InferenceCore
from seed_rl.metrics import batches, idle_time
from seed_rl.seeds import derived_seed
from seed_rl.serving import batcher, connection, connections
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connection import Refusal, failure
from seed_rl.serving.connections import Connections
from seed_rl.serving.request import Answer, Request
from seed_rl.serving.service import parsed
from seed_rl.wire import client
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import LEARNERS_MARK, EnvironmentDescription
from tests.simulation.schedule import Queue, Schedule, replaced
from tests.simulation.stand_ins import (
    EPISODE,
    STEP,
    Channel,
    Fault,
    Game,
    Key,
    Link,
    LinkCarrier,
    Table,
    game_spec,
    require,
    right_action,
)

_PAST_SECS = 60.0


class Learner:
    """A learner process from its start to its end, and the checks of what it acts and trains on."""

    def __init__(self, world: "World", number: int, updates: int):
        self.world, self.process, self.updates, self.is_listening = world, f"learner{number}", updates, True
        self._acted: dict[Key, tuple[int, int]] = {}  # The state before a step, and the version that acted.
        self._trained: collections.Counter[Key] = collections.Counter()
        self._calls = Queue(world.schedule)
        setup = Setup(world.num_envs, world.unroll, world.batch_size, updates=updates)
        self.experience: Experience = world.experience.make(setup)
        requests: Batcher[Request] = Batcher(world.num_envs, 0.02)
        self._carriers: dict[Link, LinkCarrier] = {}
        environment = EnvironmentDescription("game", {}, world.spec)
        self._connections = Connections(environment, world.num_envs, [requests], world.num_envs)
        weights = lambda: contextlib.nullcontext(self.updates)  # noqa: E731
        world.make_table = lambda: Table(self, world.num_envs)
        store = self.experience.store
        inference = InferenceCore(None, world.spec, world.num_envs, 0, store, weights)  # type: ignore[arg-type]
        spawn = functools.partial(world.schedule.spawn, self.process)
        spawn("loop", self._loop)
        spawn("training", self._train)
        for thread in range(world.num_threads):
            spawn(f"inference{thread}", lambda: inference.serve(requests, self._deliver))
        if self.experience.background:
            spawn("intake", self.experience.background)

    def soon(self, call: Callable[[], None]) -> None:
        """Calls a function on the loop, unless the process is dead."""
        if self.is_listening:
            self._calls.put(call)

    def _loop(self) -> None:
        while True:
            self._calls.get()()

    def _deliver(self, answers: list[tuple[Request, Answer]]) -> None:
        self._connections.deliver(answers, lambda function, *args: self.soon(lambda: function(*args)))

    def on_message(self, link: Link, message: bytes) -> None:
        """What `InferenceService` does with a message."""
        try:
            if link.connection is None:
                join, end = parsed(message, "join").join, functools.partial(self._on_refusal, link)
                link.connection, welcome = self._connections.join(join, end)
                link.down(pb.FromLearner(welcome=welcome).SerializeToString())
                return
            mine, carrier = link.connection, self._carriers.setdefault(link, LinkCarrier(link))
            said = parsed(message, "steps" if mine.is_ready else "ready", "ready", "steps")
            if said.HasField("ready"):
                self._connections.ready(mine, said.ready, carrier)
            else:
                mine.steps([(s.group, s.records, s.episodes) for s in said.steps], carrier)
        except Refusal as refusal:
            self._on_refusal(link, refusal)
        except Exception as error:
            self._on_refusal(link, failure(error))

    def _on_refusal(self, link: Link, refusal: Refusal | None) -> None:
        status = (refusal.code, str(refusal)) if refusal else (grpc.StatusCode.OK, "")
        link.down(client.StreamStatus(*status, (LEARNERS_MARK,)))
        self.soon(lambda: self.on_end(link))

    def on_end(self, link: Link) -> None:
        """The stream has ended."""
        if link.connection is not None:
            link.connection.end()

    def acts(self, key: Key, state: int) -> None:
        """Notes that a step is acted on."""
        require(key not in self._acted, f"The step {key} was acted on twice.")
        self._acted[key] = state, self.updates

    def _train(self) -> None:
        while True:
            batch = self.experience.sample()
            for column in range(self.world.batch_size):
                self._check(batch, column)
            self.world.schedule.sleep(self.world.schedule.random.uniform(0.0, 0.1))
            self.updates += 1
            self.world.trained = self.world.schedule.now
            if batch.handle is not None:
                self.experience.update_priorities(batch.handle, np.ones(self.world.batch_size))
            self.experience.trained()

    def _check(self, batch: Batch, column: int) -> None:
        """Checks an unroll `[S]`."""
        sample, versions = batch.sample, batch.policy_version[:, column].tolist()
        env, burn_in = sample.env, self.world.unroll.burn_in
        seen, action = env.observation[:, column], sample.agent.action[:, column]
        done, truncated, reward = env.done[:, column], env.truncated[:, column], env.reward[:, column]
        what = f"unroll {seen.tolist()}"
        require((seen[:, :2] == seen[0, :2]).all(), f"An {what} of several environments or sessions.")
        played = action if versions[-1] >= 0 else action[:-1]  # A rollout's last step is not acted on.
        require((played == right_action(seen)[: len(played)]).all(), f"Actions of other steps in {what}.")
        for t in range(1, len(seen)):
            require(sample.prev_action[t, column] == action[t - 1], f"Another previous action in {what}.")
            new = [seen[t - 1, EPISODE] + 1, 0] if done[t] else [seen[t - 1, EPISODE], seen[t - 1, STEP] + 1]
            require(seen[t, 2:].tolist() == new, f"Steps that do not follow each other in {what}.")
            due = 0.0 if truncated[t - 1] else float(action[t - 1] % 1000)
            require(reward[t] == due, f"A reward of another step in {what}.")
        keys: list[Any] = [tuple(row[1:]) for row in seen.tolist()]
        for key, version in zip(keys, versions, strict=True):
            if version >= 0 and key in self._acted:
                require(self._acted[key][1] == version, f"The version {version} of another step in {what}.")
        if keys[0] in self._acted and not done[0]:
            state = int(sample.initial_state[column])
            require(state == self._acted[keys[0]][0], f"The state {state} of another step in {what}.")
        if batch.handle is None:
            self._trained.update(keys[burn_in:-1])
            most = max(self._trained[key] for key in keys[burn_in:-1])
            require(most <= self.world.passes, f"A step was trained on {most} times in {what}.")


class World:
    """A learner, its actors, and what happens to them; the seed decides everything.

    Attributes:
      played: when each environment was stepped last.
      trained: when the last batch was trained on.
      links: those that are not cut.
    """

    def __init__(self, schedule: Schedule, experience: ExperienceConfig, unroll: UnrollConfig, passes: int):
        self.schedule = schedule
        self.experience, self.unroll, self.passes = experience, unroll, passes
        self.num_actors, self.num_groups = schedule.random.randint(1, 3), schedule.random.randint(1, 2)
        self.env_batch_size = self.num_groups * schedule.random.randint(1, 2)
        self.num_envs = self.num_actors * self.env_batch_size
        is_whole = isinstance(experience, WholeRolloutsConfig)
        self.batch_size = self.num_envs if is_whole else schedule.random.randint(1, 4)
        self.num_threads = schedule.random.randint(1, 2)
        self.lives, self.links = itertools.count(), list[Link]()
        self.played, self.trained = dict[int, float](), 0.0
        self.make_table: Callable[[], Table]
        self._ids = itertools.count()
        self._numbers = itertools.count()
        self.learner: Learner | None = None
        self.suite = Suite(EnvironmentConfig, self._make_game)
        self._env_ids = {derived_seed(0, env_id): env_id for env_id in range(self.num_envs)}
        self.spec = game_spec()

    def _make_game(self, config: EnvironmentConfig, seed: int) -> Game:
        return Game(self, self._env_ids[seed])

    def channel(self, *_: Any) -> Channel:
        """`wire.client.Channel` of this world."""
        return Channel(self)

    def start_learner(self) -> None:
        """Starts the learner, which goes on with the updates of the one before."""
        self.learner = Learner(self, next(self._ids), self.learner.updates if self.learner else 0)

    def start_actor(self) -> None:
        """Starts another actor."""
        config = ActorConfig(
            env_batch_size=self.env_batch_size,
            num_env_groups=self.num_groups,
            transport="grpc",
            connect_timeout_secs=1e6,
            failures=FailureConfig(env_step_timeout_secs=0.0),
        )
        actor = Actor(config, suites=lambda name: self.suite)
        self.schedule.spawn(f"actor{next(self._numbers)}", "main", actor.run)

    def actors(self) -> list[str]:
        """The names of the actors that live."""
        found = {task.process for task in self.schedule.tasks if task.process.startswith("actor")}
        return sorted(found)

    def kill_actor(self, name: str, is_silent: bool) -> None:
        """Kills an actor, or its machine (`is_silent`)."""
        self.schedule.kill(name)
        for link in [link for link in self.links if link.actor == name]:
            link.go_silent() if is_silent else link.cut()

    def kill_learner(self) -> None:
        """Kills the learner."""
        assert self.learner
        self.learner.is_listening = False
        self.schedule.kill(self.learner.process)
        for link in list(self.links):
            link.cut()


def simulate(world: World, fault_secs: float) -> None:
    """Plays with faults for so many virtual seconds, and then without; raises what went wrong."""
    schedule, random = world.schedule, world.schedule.random
    world.start_learner()
    for _ in range(world.num_actors):
        world.start_actor()

    def faults() -> None:
        end = schedule.now + fault_secs
        while schedule.now < end:
            schedule.sleep(random.expovariate(1.0))
            actors = world.actors()
            kind = random.choice(("kill", "vanish", "freeze", "cut", "silence", "learner"))
            schedule.note(f"FAULT {kind}")
            if kind == "learner":
                world.kill_learner()
                schedule.sleep(random.choice((0.01, 1.0)))
                world.start_learner()
            elif kind in ("cut", "silence") and world.links:
                link = random.choice(world.links)
                link.cut() if kind == "cut" else link.go_silent()
            elif kind == "freeze":
                schedule.freeze(name := random.choice(actors))
                schedule.sleep(random.choice((0.1, 3.0)))
                schedule.thaw(name)
            elif kind in ("kill", "vanish"):
                world.kill_actor(random.choice(actors), kind == "vanish")
                schedule.sleep(random.choice((0.0, 0.5)))
                world.start_actor()

    schedule.spawn("faults", "faults", faults)
    schedule.run(lambda: bool(schedule.errors) or not schedule.is_running("faults"))
    healed = schedule.now + _PAST_SECS
    schedule.run(lambda: bool(schedule.errors) or schedule.now > healed)
    for name, error in schedule.errors:
        raise Fault(f"{name}: {error!r}") from error
    for env_id in range(world.num_envs):
        last = world.played.get(env_id, 0.0)
        require(schedule.now - last < 10, f"Environment {env_id} stopped {schedule.now - last:.1f} s ago.")
    require(schedule.now - world.trained < 20, "Training has stopped.")


_REPLAY = ReplayConfig(replay_buffer_size=50, replay_buffer_min_size=5, replay_ratio=2.0, replay_threads=0)

# Modules that tell the time, wait, or draw numbers.
_WAITING = (
    loop,
    batcher,
    connection,
    connections,
    carriers,
    core,
    streams,
    base,
    fifo,
    unroll_store,
    replay,
    rate_limiter,
    batches,
    idle_time,
)


# By name: experience, division into unrolls, and how often a step may be trained on.
KINDS: dict[str, tuple[ExperienceConfig, UnrollConfig, int]] = {
    "queue": (FifoConfig(), UnrollConfig(4), 1),
    "passes": (FifoConfig(passes=2), UnrollConfig(3, burn_in=2), 2),
    "rollouts": (WholeRolloutsConfig(), UnrollConfig(3), 1),
    "replay": (_REPLAY, UnrollConfig(4, burn_in=3), 1),
}


def run(seed: int, kind: str | None = None, fault_secs: float = 20.0) -> World:
    """Simulates a world, of a kind that the seed chooses.

    Raises:
      Fault: something that must not happen did; the last events are a note of it.
    """
    schedule, names = Schedule(seed), sorted(KINDS)
    logging.disable()
    with contextlib.ExitStack() as stack:
        stack.callback(logging.disable, logging.NOTSET)
        stack.enter_context(replaced(schedule, list(_WAITING)))
        world = World(schedule, *KINDS[kind or names[seed % len(names)]])
        stack.enter_context(mock.patch.object(core, "make_table", lambda *_: world.make_table()))
        stack.enter_context(mock.patch.object(loop, "Channel", world.channel))
        stack.callback(schedule.close)
        try:
            simulate(world, fault_secs)
        except Exception as error:
            error.add_note("\n".join(schedule.trace))
            raise
    return world
