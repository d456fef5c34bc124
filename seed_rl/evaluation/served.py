"""Trained policies behind the learner's protocol: sessions, batches and recurrent states as in training."""

import collections
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.algorithms.policy import Acted, Policy
from seed_rl.devices.publisher import PolicyCopy, Publisher
from seed_rl.evaluation.load import Subject, restored
from seed_rl.evaluation.serve_config import ServeConfig
from seed_rl.experience.base import StepStore, UnrollConfig
from seed_rl.inference.core import InferenceCore
from seed_rl.messages import say, warn
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connection import Connection, OnEnd
from seed_rl.serving.connections import Connections
from seed_rl.serving.live import Live
from seed_rl.serving.request import Episode, Request
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.shared_memory import make_wake_up_set
from seed_rl.training.checkpoint import newest_checkpoint
from seed_rl.types import EnvOutput, Nest
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import EnvironmentDescription
from seed_rl.wire.security import Security

_MOST_EPISODES = 1_000  # Of each run and version, those whose mean is reported.


class Version(NamedTuple):
    """A run, by its number, and the updates that its policy had seen."""

    run: int
    updates: int


class PolicyServer:
    """Answers the protocol of a learner with the policies of runs of one environment, and learns nothing.

    Each session, an environment of a client, belongs to one of the runs, drawn by `shares`.
    """

    def __init__(
        self,
        subjects: Sequence[Subject],
        shares: Sequence[float],
        config: ServeConfig,
        security: Security,
        live: Live | None = None,
    ):
        """Starts serving R runs; `live` is the page for browsers.

        Raises:
          AddressError: it cannot listen on an address.
        """
        num_envs, batch_size = config.num_envs, config.inference_batch_size
        first = subjects[0]
        spec, total = first.probed.spec, num_envs * len(subjects)
        described = first.run.environment, first.environment_config.to_dict(), spec
        description = EnvironmentDescription(*described, first.probed.spaces_as_json)
        self.policies = [Followed(one) for one in subjects]
        self._num_envs, self._lock = num_envs, threading.Lock()
        self._returns = collections.defaultdict[Version, collections.deque[float]](
            lambda: collections.deque(maxlen=_MOST_EPISODES)
        )
        self._counts = collections.Counter[Version]()
        batchers: list[Batcher[Request]] = [
            Batcher(batch_size, config.inference_timeout_ms / 1e3, make_wake_up_set()) for _ in subjects
        ]
        self._batchers = batchers
        whole = description, total, batchers, batch_size
        connections = _Sessions(shares, config.seed, *whole, on_episodes=self._ended)
        self._server = InferenceServer(
            config.server_address, connections, security, web=config.web, live=live
        )
        self.port, self.web_port = self._server.port, self._server.web_port
        self._error: BaseException | None = None
        self._threads = []
        for followed, batcher in zip(self.policies, batchers, strict=True):
            policy = _Evaluating(followed.subject, config.greedy)
            core = InferenceCore(policy, spec, total, total, _NoStore(), followed.copy.acting, live=live)
            self._threads.append(
                threading.Thread(target=self._serve, args=(core, batcher), name="inference", daemon=True)
            )
            self._threads[-1].start()

    def _serve(self, core: InferenceCore, batcher: Batcher[Request]) -> None:
        try:
            core.serve(batcher, self._server.deliver)
        except BaseException as error:
            self._error = error

    def check(self) -> None:
        """Raises the error that has ended inference or the server, if one has."""
        self._server.check()
        if self._error is not None:
            raise self._error

    def seconds(self, names: Sequence[str], follows: bool) -> Iterator[None]:
        """Comes back every second, for as long as it serves; raises what `check` raises.

        If it `follows` the runs, whose names messages have, their newest checkpoints act from then on.
        """
        while True:
            time.sleep(1.0)
            self.check()
            if follows:
                self._follow(names)
            yield

    def _follow(self, names: Sequence[str]) -> None:
        for name, followed in zip(names, self.policies, strict=True):
            try:
                if followed.follow():
                    say(f"{name}: {followed.version} updates.")
            except (ValueError, OSError) as error:
                warn(f"{name}: the newest checkpoint cannot be taken ({error}).")

    def figures(self) -> dict[Version, tuple[int, float]]:
        """Episodes that have ended, and the mean return of the latest ones, by run and version."""
        with self._lock:
            return {
                version: (self._counts[version], float(np.mean(returns)))
                for version, returns in sorted(self._returns.items())
            }

    def _ended(self, episodes: list[Episode]) -> None:
        with self._lock:
            for episode in episodes:
                run = episode.env // self._num_envs
                version = Version(run, self.policies[run].version)
                self._returns[version].append(episode.episode_return)
                self._counts[version] += 1

    def stop(self) -> None:
        """Ends all sessions; clients connect again when there is a server."""
        for batcher in self._batchers:
            batcher.close()
        for thread in self._threads:
            thread.join()
        self._server.stop("The server of this policy was stopped.")


class _Sessions(Connections):
    """Connections whose environments are spread over the parts of several runs by their shares."""

    def __init__(self, shares: Sequence[float], seed: int, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._shares, self._random = np.array(shares) / np.sum(shares), np.random.default_rng(seed)

    def join(
        self, join: pb.Join, on_end: OnEnd, is_near: bool = False
    ) -> tuple[Connection | None, pb.Welcome]:
        if join.task < 0 and 1 <= join.num_envs <= self.num_envs:
            part = self.num_envs // len(self._shares)
            run = int(self._random.choice(len(self._shares), p=self._shares))
            join.task = self._tasks.first_free(join.num_envs, range(run * part, (run + 1) * part))
        return super().join(join, on_end, is_near)


class _Evaluating(Policy):
    """A policy as it acts in evaluation."""

    def __init__(self, subject: Subject, greedy: bool):
        super().__init__()
        self._policy, self._env_id = subject.policy, subject.evaluation_env_id
        self._choose = subject.policy.act_greedy if greedy else subject.policy.act

    def initial_state(self, batch_size: int | tf.Tensor) -> Nest:
        return self._policy.initial_state(batch_size)

    def act(self, prev_action: tf.Tensor, env: EnvOutput, state: Nest, env_ids: tf.Tensor) -> Acted:
        return self._choose(prev_action, env, state, tf.fill(tf.shape(env_ids), self._env_id))


class Followed:
    """The policy of a run that may still train.

    Attributes:
      subject: the run.
      copy: the variables that act.
      version: the updates that they have seen.
    """

    def __init__(self, subject: Subject):
        self.subject, self.copy = subject, PolicyCopy(subject.policy, "")
        self.version = _updates(subject.checkpoint)

    def follow(self) -> bool:
        """Takes the newest checkpoint for the next batch; returns whether there was a newer one.

        Raises:
          ValueError: it cannot be read.
        """
        prefix = newest_checkpoint(self.subject.run.logdir)
        if prefix is None or _updates(prefix) <= self.version:
            return False
        policy, _ = restored(self.subject.run, self.subject.probed.spec, prefix)
        Publisher(policy, [self.copy]).publish(_updates(prefix))
        self.version = _updates(prefix)
        return True


def _updates(prefix: str) -> int:
    """The updates that the policy of a checkpoint has seen."""
    return int(prefix.rpartition("-")[2])


class _NoStore(StepStore):
    """Stores nothing: all environments only evaluate."""

    keeps_states = False

    def __init__(self) -> None:
        super().__init__(1, UnrollConfig(1, keeps_state=False))

    def append(self, *step: Any) -> list[Any]:
        return []

    def hand_over(self, completed: list[Any]) -> None:
        pass
