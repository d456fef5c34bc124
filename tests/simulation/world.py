"""The simulated world: a learner, its actors, gateways and network, with the checks of what they do.

Real are the actor's loop, service, connections, tasks, shared memory, gateways, batcher, inference cores,
stores, experience, publisher, policy actors and saver. `stand_ins` has what stands in the place of networks,
of TensorFlow's checkpoints, of gRPC and of games. Observations contain where they come from, and actions and
rewards follow from them, so every step that is trained on can be checked.
"""

import collections
import contextlib
import functools
import hashlib
import itertools
import logging
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import greenlet
import numpy as np
import tensorflow as tf

from seed_rl.actor import carriers, loop
from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.loop import Actor
from seed_rl.devices import publisher
from seed_rl.devices.publisher import PolicyCopy, Publisher
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import FailureConfig
from seed_rl.experience import base, fifo, rate_limiter, replay, unroll_store
from seed_rl.experience.base import Batch, Experience, ExperienceConfig, Setup, UnrollConfig
from seed_rl.experience.experience_config import FifoConfig, ReplayConfig, WholeRolloutsConfig
from seed_rl.hosts.team import Team
from seed_rl.inference import core, streams, unroll_core
from seed_rl.inference.core import Core, InferenceCore
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.learner.saving import Saver
from seed_rl.learner.serving import make_unroll_core
from seed_rl.metrics import batches, idle_time
from seed_rl.metrics.batches import BatchMetrics
from seed_rl.policy_actor import player
from seed_rl.policy_actor.player import PolicyActor
from seed_rl.seeds import derived_seed
from seed_rl.serving import batcher, connection, connections, gateway, service
from seed_rl.serving import shared_memory as served_memory
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.gateway import Gateway
from seed_rl.serving.request import Request
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.shared_memory import make_wake_up_set
from seed_rl.training import checkpoint
from seed_rl.wire import shared_memory
from seed_rl.wire.protocol import SERVICE, EnvironmentDescription
from tests.simulation import kernel
from tests.simulation.schedule import Schedule, replaced
from tests.simulation.stand_ins import (
    EPISODE,
    STEP,
    Channel,
    Checkpoint,
    Fault,
    Game,
    Key,
    Link,
    Listener,
    Stream,
    Table,
    Witness,
    game_spec,
    is_whole,
    require,
    right_action,
)

_LEARNER = "learner:5000"

# In virtual seconds: until the world has healed, until a new actor plays, and for the checks afterwards.
_HEALING_SECS, _NEW_ACTOR_SECS, _CALM_SECS = 60.0, 10.0, 3.0


class Kind(NamedTuple):
    """A kind of world.

    experience, unroll: of the learner. passes: how often a step may be trained on; None: as often as replay
    draws it. is_saved: whether there are checkpoints. holds_policy: whether actors have it.
    """

    experience: ExperienceConfig
    unroll: UnrollConfig
    passes: int | None
    is_saved: bool = False
    holds_policy: bool = False


_REPLAY = ReplayConfig(replay_buffer_size=50, replay_buffer_min_size=5, replay_ratio=2.0, replay_threads=0)
_SAVED = ReplayConfig(
    replay_buffer_size=20,
    replay_buffer_min_size=5,
    replay_ratio=2.0,
    replay_threads=0,
    checkpoint_replay=True,
)

KINDS = {
    "queue": Kind(FifoConfig(), UnrollConfig(4), 1),
    "passes": Kind(FifoConfig(passes=2), UnrollConfig(3, burn_in=2), 2),
    "rollouts": Kind(WholeRolloutsConfig(), UnrollConfig(3), 1),
    "replay": Kind(_REPLAY, UnrollConfig(4, burn_in=3), None),
    "checkpoints": Kind(_SAVED, UnrollConfig(3, burn_in=1), None, is_saved=True),
    "policy actors": Kind(FifoConfig(), UnrollConfig(4), 1, is_saved=True, holds_policy=True),
}


class Acted(NamedTuple):
    """A step that was acted on, after the state, and by the version of the weights."""

    state: int
    version: int


class Learner:
    """A learner process from its start to its end, and the checks of what it acts and trains on."""

    def __init__(self, world: "World", number: int):
        self.world, self.process, self.completed, self.taken = world, f"learner{number}", 0, 0
        self.updates = world.updates
        # By step; where actors have the policy, the steps are theirs.
        self.acted = world.acted_by_actors if world.kind.holds_policy else dict[Key, Acted]()
        world.schedule.spawn(self.process, "main", self._main)

    def _main(self) -> None:
        world, kind, policy = self.world, self.world.kind, Witness()
        self._saver = self._make_saver(policy) if kind.is_saved else None
        setup = Setup(world.num_envs, kind.unroll, world.batch_size, updates=self.updates)
        self.experience: Experience = kind.experience.make(setup)
        if self._saver:
            self._restore()
        policy.updates.assign(self.updates)
        has_wake_ups = not kind.holds_policy and (world.is_one_machine or world.num_gateways)
        self.requests: Batcher[Request] = Batcher(
            world.num_envs, 0.02, make_wake_up_set() if has_wake_ups else None
        )
        self.core, weights, description = self._make_core(policy)
        self._publisher = Publisher(policy, [weights])
        self._publisher.publish(self.updates)
        self.connections = Connections(
            EnvironmentDescription("game", {}, world.spec),
            world.num_envs,
            [self.requests],
            world.num_envs,
            gateways=lambda: [f"learner:{5001 + i}" for i in range(world.num_gateways)],
            policy=description,
        )
        listener = Listener(world, self.process)
        server = InferenceServer(_LEARNER, self.connections, listener=listener)  # type: ignore[arg-type]
        listener.serve()
        world.listeners[_LEARNER] = listener
        for thread in range(world.num_threads):
            serve = functools.partial(self.core.serve, self.requests, server.deliver)
            world.schedule.spawn(self.process, f"inference{thread}", serve)
        if self.experience.background:
            world.schedule.spawn(self.process, "intake", self.experience.background)
        self._train(policy)

    def _make_core(self, policy: Witness) -> tuple[Core, Any, Any]:
        """The core, what gets its weights from the publisher, and what gives the policy to actors."""
        world, store = self.world, self.experience.store
        hand_over = store.hand_over

        def count(completed: list[Any]) -> None:
            self.completed += len(completed)
            hand_over(completed)

        store.hand_over = count  # type: ignore[method-assign]
        if world.kind.holds_policy:
            algorithm: Any = mock.Mock(policy=policy, unroll=world.kind.unroll)
            settings = {"agent_name": "witness", "agent": {}}
            return make_unroll_core(algorithm, world.spec, settings, store, BatchMetrics())
        acting = Witness()
        copy = PolicyCopy(acting, "CPU:0")
        world.make_table = lambda: Table(acting, world.num_envs, self._acts)
        policy_of_core: Any = acting
        return InferenceCore(policy_of_core, world.spec, world.num_envs, 0, store, copy.acting), copy, None

    def _acts(self, key: Key, state: int, version: int) -> None:
        self.world.acts(self.acted, key, Acted(state, version))

    def _make_saver(self, policy: Witness) -> Saver:
        config = LearnerConfig(logdir=self.world.logdir, num_envs=self.world.num_envs, keep_checkpoints=2)
        iteration = tf.Variable(0, dtype=tf.int64)
        self._trainer: Any = mock.Mock(iteration=iteration, optimizers={}, updates=0)
        algorithm: Any = policy
        algorithm.num_eval_envs = 0
        saver = Saver(config, self.world.spec, algorithm, self._trainer, Team())
        self._metrics = saver.make_metrics(config)
        self.updates = self._trainer.updates = int(iteration.numpy())
        return saver

    def _restore(self) -> None:
        """Restores weights and replay, which must be of one moment, and of the last one that was saved."""
        saver, world, experience = self._saver, self.world, self.experience
        assert saver
        found: list[str] = []
        restore = experience.restore
        experience.restore = lambda path: (found.append(_digest(path)), restore(path))  # type: ignore
        saver.restore_experience(experience)
        experience.restore = restore  # type: ignore[method-assign]
        frames = saver.env_frames
        require(not saver.warnings, f"A checkpoint is incomplete: {saver.warnings}")
        require(frames >= world.saved_frames, f"The checkpoint of {world.saved_frames} frames is lost.")
        require(
            found in ([], [world.moments.get(frames, "")]),
            f"Weights and replay are of other moments than {frames} frames.",
        )
        require(bool(found) == bool(self.updates), "Replay was not restored.")

    def _save(self) -> None:
        saver, world, experience, frames = self._saver, self.world, self.experience, 10 * self.updates
        assert saver
        save = experience.save

        def save_and_note(path: str) -> None:
            save(path)
            world.moments[frames] = _digest(path)

        experience.save = save_and_note  # type: ignore[method-assign]
        self._trainer.iteration.assign(self.updates)
        self._trainer.updates = self.updates
        saver.save(frames, self._metrics, experience)
        experience.save = save  # type: ignore[method-assign]
        require(not saver.unsaved, saver.unsaved)
        world.saved_frames = frames

    def _train(self, policy: Witness) -> None:
        world, random, schedule = self.world, self.world.schedule.random, self.world.schedule
        while True:
            batch = self.experience.sample()
            for column in range(world.batch_size):
                self._check(batch, column)
            schedule.sleep(random.uniform(0.0, 0.1))
            self.updates += 1
            policy.updates.assign(self.updates)
            self._publisher.updated(self.updates)
            self.taken += world.batch_size
            world.updates, world.trained_at = self.updates, schedule.now
            if batch.handle is not None:
                self.experience.update_priorities(batch.handle, np.ones(world.batch_size))
            self.experience.trained()
            if self._saver and random.random() < 0.1:
                self._save()

    def _check(self, batch: Batch, column: int) -> None:
        """Checks an unroll `[S]`."""
        sample, versions = batch.sample, batch.policy_version[:, column].tolist()
        env, kind, trained = sample.env, self.world.kind, self.world.trained
        seen, action = env.observation[:, column], sample.agent.action[:, column]
        done, truncated, reward = env.done[:, column], env.truncated[:, column], env.reward[:, column]
        what = f"unroll {seen.tolist()}"
        require((seen[:, :2] == seen[0, :2]).all(), f"An {what} of several environments or sessions.")
        played = action if versions[-1] >= 0 else action[:-1]  # A rollout's last step is not acted on.
        require((played == right_action(seen)[: len(played)]).all(), f"Actions of other steps in {what}.")
        require(max(versions) <= self.updates, f"Versions {versions} that there are not yet in {what}.")
        for t in range(1, len(seen)):
            require(sample.prev_action[t, column] == action[t - 1], f"Another previous action in {what}.")
            new = [seen[t - 1, EPISODE] + 1, 0] if done[t] else [seen[t - 1, EPISODE], seen[t - 1, STEP] + 1]
            require(seen[t, 2:].tolist() == new, f"Steps that do not follow each other in {what}.")
            due = 0.0 if truncated[t - 1] else float(action[t - 1] % 1000)
            require(reward[t] == due, f"A reward of another step in {what}.")
        keys: list[Any] = [tuple(row[1:]) for row in seen.tolist()]
        for key, version in zip(keys, versions, strict=True):
            is_known = key in self.acted or version < 0 or batch.handle is not None
            require(is_known, f"A step of nobody in {what}.")
            if version >= 0 and key in self.acted:
                is_right = self.acted[key].version == version
                require(is_right, f"The version {version} of another step in {what}.")
        if keys[0] in self.acted and not done[0]:
            state = int(sample.initial_state[column])
            require(state == self.acted[keys[0]].state, f"The state {state} of another step in {what}.")
        if kind.passes is not None:
            trained.update(keys[kind.unroll.burn_in : -1])
            most = max(trained[key] for key in keys[kind.unroll.burn_in : -1])
            require(most <= kind.passes, f"A step was trained on {most} times in {what}.")


def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if Path(path).exists() else ""


class World:
    """A learner, its actors, and what happens to them; the seed decides everything.

    Attributes:
      listeners: by address, those that listen or have listened.
      links: those that are not cut.
      loops: to be closed.
      played: when each environment was stepped last.
      updates: of the learner, or the one before it.
      trained: how often steps were trained on.
      trained_at: when the last batch was trained on.
      acted_by_actors: steps, where actors have the policy.
      moments: digests of replay, by environment frames at which it was saved.
      saved_frames: of the last checkpoint that is complete.
    """

    def __init__(self, schedule: Schedule, kind: Kind, logdir: str):
        self.schedule, self.kind, self.logdir, self.spec = schedule, kind, logdir, game_spec()
        random = schedule.random
        self.num_actors, self.num_groups = random.randint(1, 3), random.randint(1, 2)
        self.env_batch_size = self.num_groups * random.randint(1, 2)
        self.num_envs = self.num_actors * self.env_batch_size
        is_whole = isinstance(kind.experience, WholeRolloutsConfig)
        self.batch_size = self.num_envs if is_whole else random.randint(1, 4)
        self.num_threads = random.randint(1, 2)
        self.is_one_machine = not kind.holds_policy and random.random() < 0.4
        self.num_gateways = 0 if kind.holds_policy or self.is_one_machine else random.randint(0, 2)
        self.listeners, self.links, self.loops = dict[str, Listener](), list[Link](), list[kernel.Loop]()
        self.lives, self._numbers = itertools.count(), itertools.count()
        self.played, self.trained_at, self.updates = dict[int, float](), 0.0, 0
        self.trained: collections.Counter[Key] = collections.Counter()
        self.acted_by_actors: dict[Key, Acted] = {}
        self.moments, self.saved_frames = dict[int, str](), 0
        self.make_table: Callable[[], Table]
        self.learner: Learner
        self.file_operations_left: int | None = None
        self.suite = Suite(EnvironmentConfig, self._make_game)
        self._env_ids = {derived_seed(0, env_id): env_id for env_id in range(self.num_envs)}

    def _make_game(self, config: EnvironmentConfig, seed: int) -> Game:
        return Game(self, self._env_ids[seed])

    def start_learner(self) -> None:
        """Starts a learner, which resumes what the one before has left."""
        self.file_operations_left = None
        self.learner = Learner(self, next(self._numbers))

    def start_gateway(self, index: int) -> None:
        """Starts a gateway."""

        def main() -> None:
            listener, proxy = Listener(self, name), Gateway("learner", [])
            proxy._channel = None  # type: ignore[misc, assignment]
            listener.add(SERVICE, proxy.connect)
            listener.serve()
            self.listeners[f"learner:{5001 + index}"] = listener

        name = f"gateway{index}.{next(self._numbers)}"
        self.schedule.spawn(name, "main", main)

    def start_actor(self) -> None:
        """Starts another actor."""
        config = ActorConfig(
            server_address=_LEARNER,
            env_batch_size=self.env_batch_size,
            num_env_groups=self.num_groups,
            connect_timeout_secs=1e6,
            failures=FailureConfig(env_step_timeout_secs=0.0),
        )
        actor = (PolicyActor if self.kind.holds_policy else Actor)(config, suites=lambda name: self.suite)
        self.schedule.spawn(f"actor{next(self._numbers)}", "main", actor.run)

    def processes(self, kind: str) -> list[str]:
        """The names of the processes of a kind that live."""
        return sorted({task.process for task in self.schedule.tasks if task.process.startswith(kind)})

    def kill(self, process: str, is_silent: bool = False) -> None:
        """Kills a process, or its machine (`is_silent`)."""
        for link in list(self.links):
            if process == link.process or (link.listener and link.listener.process == process):
                link.go_silent() if is_silent and not link.is_near else link.cut()
        self.schedule.kill(process)

    def on_file_operation(self) -> None:
        """Kills the learner at the operation that was chosen for it."""
        task, left = greenlet.getcurrent(), self.file_operations_left
        if left is not None and getattr(task, "process", "") == self.learner.process:
            self.file_operations_left = left - 1
            if not left:
                self.kill(self.learner.process)

    def channel(self, address: str, *_: Any) -> Channel:
        """`wire.client.Channel` of this world."""
        return Channel(self, address)

    def gateway_stream(self, channel: None, metadata: Any, put: Callable[[Any], None]) -> Stream:
        """`wire.client.Stream` from a gateway to the learner."""
        return Stream(self, self.listeners.get(_LEARNER), True, put)

    def actors_table(self, policy: Witness, spec: Any, num_envs: int) -> Table:
        """`EnvTable` of an actor that has the policy."""

        def acts(key: Key, state: int, version: int) -> None:
            self.acts(self.acted_by_actors, key, Acted(state, version))

        return Table(policy, num_envs, acts)

    def acts(self, acted: dict[Key, Acted], key: Key, now: Acted) -> None:
        """Adds a step that is acted on to those that were."""
        if key in acted:
            self.report(f"The step {key} was acted on twice.")
        acted[key] = now

    def report(self, what: str) -> None:
        """Reports a fault from where an exception would be that of an actor or its environment."""
        self.schedule.errors.append(("", Fault(what)))


def _restart(world: World, process: str, secs: float) -> None:
    """Starts a learner or gateway in the place of one that is dead."""
    world.schedule.sleep(secs)
    if process.startswith("learner"):
        world.start_learner()
    else:
        world.start_gateway(int(process.removeprefix("gateway").split(".")[0]))


def _inject(world: World) -> None:
    """Lets something happen."""
    schedule, random = world.schedule, world.schedule.random
    what, whom = random.choice(_FAULTS).split(" ")
    schedule.note(f"FAULT {what} {whom}")
    if whom == "link":
        if links := [link for link in world.links if what == "cut" or not link.is_near]:
            link = random.choice(links)
            link.cut() if what == "cut" else link.go_silent()
        return
    if what == "more":
        if len(world.processes(whom)) <= world.num_actors:
            world.start_actor()
        return
    if not (processes := world.processes(whom)):
        return
    process = random.choice(processes)
    if what == "freeze":
        schedule.freeze(process)
        schedule.sleep(random.choice((0.1, 3.0)))
        schedule.thaw(process)
        return
    if what == "save":
        world.file_operations_left = random.randint(0, 40)
        schedule.wait(2.0, lambda: not schedule.is_running(process))
    world.kill(process, what == "vanish")
    if whom != "actor":
        _restart(world, process, random.choice((0.01, 1.0)))
    elif what != "fewer":
        schedule.sleep(random.choice((0.0, 0.5)))
        world.start_actor()


_FAULTS = (
    *("kill actor", "vanish actor", "freeze actor", "fewer actor", "more actor", "cut link", "silence link"),
    *("kill learner", "freeze learner", "save learner", "kill gateway", "freeze gateway"),
)


def simulate(world: World, fault_secs: float) -> None:
    """Plays with faults for so many virtual seconds, and then without; raises what went wrong."""
    schedule, random = world.schedule, world.schedule.random

    def run(until: Callable[[], bool], secs: float, what: str) -> None:
        end = schedule.now + secs
        schedule.run(lambda: bool(schedule.errors) or until() or schedule.now > end)
        for name, error in schedule.errors:
            raise Fault(f"{name}: {error!r}") from error
        require(until(), what)

    def play() -> Callable[[], bool]:
        """Whether all environments have played, and training has gone on, since now."""
        begin, last = schedule.now, world.played
        everyone = range(world.num_envs)
        return lambda: world.trained_at > begin and all(last.get(env, 0.0) > begin for env in everyone)

    def faults() -> None:
        end = schedule.now + fault_secs
        while schedule.now < end:
            schedule.sleep(random.expovariate(1.0))
            _inject(world)
        world.file_operations_left = None
        for _ in range(len(world.processes("actor")), world.num_actors):
            world.start_actor()

    world.start_learner()
    for index in range(world.num_gateways):
        world.start_gateway(index)
    for _ in range(world.num_actors):
        world.start_actor()
    schedule.spawn("faults", "faults", faults)
    run(lambda: not schedule.is_running("faults"), 100 * fault_secs, "The faults do not end.")
    run(play(), _HEALING_SECS, "Not all environments play, or nothing is trained.")
    world.kill(random.choice(world.processes("actor")))
    world.start_actor()
    run(play(), _NEW_ACTOR_SECS + _HEALING_SECS * len(_silent(world)), "A new actor does not play.")
    calm = schedule.now + _CALM_SECS
    run(lambda: schedule.now > calm, 2 * _CALM_SECS, "")
    _check_counts(world)


def _silent(world: World) -> list[Link]:
    return [link for link in world.links if link.is_silent]


def _check_counts(world: World) -> None:
    """Checks that nothing is lost, and that nothing is kept of those that have gone."""
    learner, groups = world.learner, world.num_actors * world.num_groups
    experience: Any = learner.experience
    if not isinstance(world.kind.experience, ReplayConfig):
        waiting, first = learner.completed - learner.taken // (world.kind.passes or 1), world.batch_size
        most = getattr(experience, "_capacity", 0) + world.num_envs + 2 * first
        require(-first <= waiting <= most, f"{waiting} of {learner.completed} unrolls are not trained on.")
    mine, turns = learner.connections, getattr(learner.core, "_turns", None)
    kept = {
        "connections": (len(mine._connections), world.num_actors),
        "groups of connections": (len(mine._waiting), groups),
        "clients of the batcher": (len(learner.requests._states), groups),
        "streams": (len(turns._current) if turns else 0, groups),
    }
    for what, (count, most) in kept.items():
        require(count <= most, f"{count} {what} are kept, of {most}.")


# Modules that tell the time, wait, draw numbers, or use sockets.
_WAITING = (
    *(loop, batcher, connection, connections, carriers, core, streams, unroll_core, base, fifo, unroll_store),
    *(replay, rate_limiter, batches, idle_time, publisher, shared_memory, served_memory),
)


def run(seed: int, kind: str | None = None, fault_secs: float = 20.0) -> World:
    """Simulates a world, of a kind that the seed chooses.

    Raises:
      Fault: something that must not happen did; the last events are a note of it.
    """
    schedule, names = Schedule(seed), sorted(KINDS)
    is_eager = tf.config.functions_run_eagerly()
    logging.disable()
    with contextlib.ExitStack() as stack:
        stack.callback(logging.disable, logging.NOTSET)
        stack.callback(tf.config.run_functions_eagerly, is_eager)
        tf.config.run_functions_eagerly(True)
        logdir = stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(replaced(schedule, list(_WAITING), kernel.stand_ins(schedule)))
        world = World(schedule, KINDS[kind or names[seed % len(names)]], logdir)
        stack.callback(lambda: [each.close() for each in world.loops])
        for owner, name, stand_in in (
            (core, "make_table", lambda *_: world.make_table()),
            (loop, "Channel", world.channel),
            (gateway, "Stream", world.gateway_stream),
            (player, "EnvTable", world.actors_table),
            (player, "make_policy", lambda *_: Witness()),
            (player, "set_up_tensorflow", lambda seed: None),
            (service, "warn", lambda sentence: None),
            (checkpoint, "is_whole", is_whole),
            (tf.train, "Checkpoint", Checkpoint),
        ):
            stack.enter_context(mock.patch.object(owner, name, stand_in))
        stack.enter_context(kernel.interrupted_file_operations(world.on_file_operation))
        stack.callback(schedule.close)
        try:
            simulate(world, fault_secs)
        except Exception as error:
            error.add_note("\n".join(schedule.trace))
            raise
    return world
