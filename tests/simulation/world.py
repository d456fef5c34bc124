"""The simulated world: a learner, its actors, gateways and network, with the checks of what they do.

Real are the actor's loop, service, connections, tasks, shared memory, gateways, batcher, inference cores,
stores, experience, publisher, policy actors and saver. `stand_ins` has what stands in the place of networks,
of TensorFlow's checkpoints, of gRPC and of games. Observations contain where they come from, and actions and
rewards follow from them, so every step that is trained on can be checked.
"""

import collections
import contextlib
import itertools
import logging
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import greenlet
import tensorflow as tf

from seed_rl.actor import carriers, loop
from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.loop import Actor
from seed_rl.devices import publisher
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import FailureConfig
from seed_rl.experience import base, fifo, rate_limiter, replay, unroll_store
from seed_rl.experience.base import ExperienceConfig, UnrollConfig
from seed_rl.experience.experience_config import FifoConfig, ReplayConfig, WholeRolloutsConfig
from seed_rl.inference import core, streams, unroll_core
from seed_rl.metrics import batches, idle_time
from seed_rl.policy_actor import player
from seed_rl.policy_actor.player import PolicyActor
from seed_rl.seeds import derived_seed
from seed_rl.serving import batcher, connection, connections, gateway, service
from seed_rl.serving import shared_memory as served_memory
from seed_rl.serving.gateway import Gateway
from seed_rl.training import checkpoint
from seed_rl.wire import shared_memory
from seed_rl.wire.protocol import SERVICE
from tests.simulation import kernel
from tests.simulation.learner import LEARNER, Acted, Learner
from tests.simulation.schedule import Schedule, replaced
from tests.simulation.stand_ins import (
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
)

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
        self.moments, self.saved_frames = dict[int, set[str]](), 0
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
            server_address=LEARNER,
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
        return Stream(self, self.listeners.get(LEARNER), True, put)

    def actors_table(self, policy: Witness, spec: Any, num_envs: int) -> Table:
        """`EnvTable` of an actor that has the policy."""

        last = dict[int, Key]()

        def acts(key: Key, state: int, version: int) -> None:
            before = self.acted_by_actors.get(key)
            # Newer weights act again on the last step of an unroll, which is the first of the next.
            if last.get(key[0]) == key and before and before.state == state:
                before.versions.append(version)
            else:
                self.acts(self.acted_by_actors, key, Acted(state, [version]))
            last[key[0]] = key

        return Table(self, policy, num_envs, acts)

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
    world.learner.check_counts()


def _silent(world: World) -> list[Link]:
    return [link for link in world.links if link.is_silent]


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
            (core, "make_table", lambda *_, **__: world.make_table()),
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
