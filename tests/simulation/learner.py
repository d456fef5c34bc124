"""The learner of a simulated world, with the checks of what it acts and trains on, restores and keeps."""

import functools
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

import numpy as np
import tensorflow as tf

from seed_rl.devices.publisher import PolicyCopy, Publisher
from seed_rl.experience.base import Batch, Experience, Setup
from seed_rl.experience.experience_config import ReplayConfig, WholeRolloutsConfig
from seed_rl.hosts.team import Team
from seed_rl.inference.base import Core
from seed_rl.inference.core import InferenceCore
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.learner.saving import Saver
from seed_rl.learner.serving import make_unroll_core
from seed_rl.metrics.batches import BatchMetrics
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.request import Request
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.shared_memory import make_wake_up_set
from seed_rl.wire.protocol import EnvironmentDescription
from tests.simulation.stand_ins import (
    EPISODE,
    STEP,
    Key,
    Listener,
    Table,
    Witness,
    require,
    right_action,
)

if TYPE_CHECKING:
    from tests.simulation.world import World

LEARNER = "learner:5000"


class Acted(NamedTuple):
    """A step that was acted on, after the state, and by the versions of the weights, one after the other."""

    state: int
    versions: list[int]


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
        server = InferenceServer(LEARNER, self.connections, listener=listener)  # type: ignore[arg-type]
        listener.serve()
        world.listeners[LEARNER] = listener
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
        world.make_table = lambda: Table(world, acting, world.num_envs, self._acts)
        policy_of_core: Any = acting
        return InferenceCore(policy_of_core, world.spec, world.num_envs, 0, store, copy.acting), copy, None

    def _acts(self, key: Key, state: int, version: int) -> None:
        self.world.acts(self.acted, key, Acted(state, [version]))

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
            not found or found[0] in world.moments.get(frames, {""}),
            f"Weights and replay are of other moments than {frames} frames.",
        )
        require(bool(found) == bool(self.updates), "Replay was not restored.")

    def _save(self, frames: int) -> None:
        saver, world, experience = self._saver, self.world, self.experience
        assert saver
        save = experience.save

        def save_and_note(path: str) -> None:
            save(path)
            world.moments.setdefault(frames, set()).add(_digest(path))

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
                for more in random.choice(((0,), (0, 0), (0, 1))):  # Again without an update in between, too.
                    self._save(10 * self.updates + more)

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
        if not done[0]:
            before = right_action(seen[0] - np.eye(4, dtype=int)[STEP])
            require(sample.prev_action[0, column] == before, f"Another previous action in {what}.")
        for t in range(1, len(seen)):
            require(sample.prev_action[t, column] == action[t - 1], f"Another previous action in {what}.")
            new = [seen[t - 1, EPISODE] + 1, 0] if done[t] else [seen[t - 1, EPISODE], seen[t - 1, STEP] + 1]
            require(seen[t, 2:].tolist() == new, f"Steps that do not follow each other in {what}.")
            due = 0.0 if truncated[t - 1] else float(action[t - 1] % 1000)
            require(reward[t] == due, f"A reward of another step in {what}.")
        keys: list[Any] = [tuple(row[1:]) for row in seen.tolist()]
        restored = getattr(self.experience, "_num_restored", 0)
        if batch.handle is None or batch.handle[column] >= restored:  # Else a lost learner has acted.
            for key, version in zip(keys, versions, strict=True):
                is_right = version < 0 or (key in self.acted and version in self.acted[key].versions)
                require(is_right, f"The version {version} of another step in {what}.")
            is_right = done[0] or int(sample.initial_state[column]) == self.acted[keys[0]].state
            require(is_right, f"The state {sample.initial_state[column]} of another step in {what}.")
        if kind.holds_policy or isinstance(kind.experience, WholeRolloutsConfig):
            require(len({*versions} - {-1}) == 1, f"Versions {versions} in one {what}.")
        if kind.passes is not None:
            trained.update(keys[kind.unroll.burn_in : -1])
            most = max(trained[key] for key in keys[kind.unroll.burn_in : -1])
            require(most <= kind.passes, f"A step was trained on {most} times in {what}.")

    def check_counts(self) -> None:
        """Checks that nothing is lost, and that nothing is kept of those that have gone."""
        world = self.world
        groups = world.num_actors * world.num_groups
        experience: Any = self.experience
        if not isinstance(world.kind.experience, ReplayConfig):
            waiting, first = self.completed - self.taken // (world.kind.passes or 1), world.batch_size
            most = getattr(experience, "_capacity", 0) + world.num_envs + 2 * first
            require(-first <= waiting <= most, f"{waiting} of {self.completed} unrolls are not trained on.")
        mine, turns = self.connections, getattr(self.core, "_turns", None)
        kept = {
            "connections": (len(mine._connections), world.num_actors),
            "groups of connections": (len(mine._waiting), groups),
            "clients of the batcher": (len(self.requests._states), groups),
            "streams": (len(turns._current) if turns else 0, groups),
        }
        for what, (count, most) in kept.items():
            require(count <= most, f"{count} {what} are kept, of {most}.")


def _digest(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest() if Path(path).exists() else ""
