"""The actor: loops over its environments, streams what they say to the learner, applies what comes back.

No network, no TensorFlow. Each group of environments has a stream of its own, so that one group steps while
the others wait for their actions.
"""

import dataclasses
import logging
import random
import secrets
import time

from seed_rl.actor.config import ActorConfig
from seed_rl.actor.statistics import EpisodeStatistics
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.batched import BatchedEnvironment, make_batched
from seed_rl.types import EnvOutput
from seed_rl.wire.client import (
    Connection,
    LearnerGoneError,
    NoFreeTaskError,
    RefusedError,
    Stream,
    TaskTakenError,
    make_hello,
)
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import EnvironmentIdentity
from seed_rl.wire.security import Security

_log = logging.getLogger(__name__)

_FIRST_BACKOFF_SECS = 0.2
_LONGEST_BACKOFF_SECS = 5.0

_NO_TASK = -1

# Above the number of environments of any run.
_SEED_STRIDE = 1_000_003


class EnvironmentRefusedError(ValueError):
    """The suite refuses to make the environments; the message is its sentence."""


@dataclasses.dataclass
class _Group:
    """Environments that share a stream, and the step that the learner has not answered yet."""

    environment: BatchedEnvironment
    statistics: EpisodeStatistics
    first_env: int
    pending: EnvOutput
    stream: Stream | None = None

    def hang_up(self) -> None:
        """Closes the stream, if there is one."""
        if self.stream is not None:
            self.stream.close()

    def send(self) -> None:
        """Sends the pending step again, without its episodes: they were reported when it was new."""
        assert self.stream is not None
        self.stream.send(self.pending, [])

    def advance(self) -> bool:
        """Waits for actions, applies them and sends the outcome; False when training has ended."""
        assert self.stream is not None
        actions = self.stream.receive()
        if actions is None:
            return False
        self.pending, infos = self.environment.step(actions)
        episodes = [
            pb.Episode(env=self.first_env + e.env, episode_return=e.episode_return, agent_steps=e.agent_steps)
            for e in self.statistics.update(self.pending, infos)
        ]
        self.stream.send(self.pending, episodes)
        return True


def environment_seed(seed: int, env_id: int) -> int:
    """The seed of an environment, 0 for the first of seed 0; runs with neighbouring seeds share none."""
    return seed * _SEED_STRIDE + env_id


class Actor:
    """The environments of one actor process and their conversation with the learner."""

    def __init__(
        self,
        config: ActorConfig,
        name: str,
        suite: Suite,
        environment_config: EnvironmentConfig,
        security: Security = Security(),  # noqa: B008 (immutable)
    ):
        """Makes and resets the environments; where the learner chooses the task, `run` does.

        Args:
          config: the actor's settings.
          name: the suite's name.
          suite: makes the environments.
          environment_config: their settings.
          security: of the connection.

        Raises:
          EnvironmentRefusedError: the environments cannot be made.
        """
        self._config = config
        self._name, self._suite, self._environment_config = name, suite, environment_config
        self._run_id = secrets.randbits(64)
        self._group_size = config.env_batch_size // config.num_env_groups
        self._connection = Connection(config.server_address, security)
        self._task = _NO_TASK
        self._groups: list[_Group] = []
        if config.fixed_task is not None:
            self._take(config.fixed_task)

    def run(self) -> None:
        """Plays until training has ended; reconnects with back-off when the learner goes away.

        Raises:
          RefusedError: the learner refuses this actor, or has had no task for it for `connect_timeout_secs`.
          LearnerGoneError: no learner could be reached for `connect_timeout_secs`.
          EnvironmentRefusedError: the environments cannot be made (where the learner chooses the task).
        """
        backoff = _FIRST_BACKOFF_SECS
        gone_since: float | None = None
        while True:
            try:
                self._connect()
                for answered in self._play():
                    if not answered:
                        return
                    backoff, gone_since = _FIRST_BACKOFF_SECS, None
            except (LearnerGoneError, TaskTakenError) as error:
                if isinstance(error, TaskTakenError) and self._config.fixed_task is not None:
                    raise
                now = time.monotonic()
                gone_since = gone_since or now
                if now - gone_since > self._config.connect_timeout_secs:
                    raise self._given_up(error) from None
                _log.warning("Not connected (%s); trying again in %.1f s.", error, backoff)
                time.sleep(backoff * random.uniform(0.7, 1.3))
                backoff = min(2 * backoff, _LONGEST_BACKOFF_SECS)

    def _connect(self) -> None:
        """Opens a stream per group and sends what the learner has not answered."""
        for group in self._groups:
            group.hang_up()
        timeout_secs = min(30.0, self._config.connect_timeout_secs)
        if self._config.fixed_task is None:
            lease = self._connection.lease_task(
                self._run_id, self._config.env_batch_size, self._task, timeout_secs
            )
            if lease.task != self._task or lease.must_restart:
                _log.info("The learner has given this actor task %d.", lease.task)
                self._take(lease.task)
        identity = EnvironmentIdentity(
            self._name, self._environment_config.to_dict(), self._groups[0].environment.spec
        )
        self._connection.check(identity, timeout_secs)
        for group in self._groups:
            hello = make_hello(
                identity,
                run_id=self._run_id,
                task=self._task,
                first_env=group.first_env,
                num_envs=self._group_size,
            )
            group.stream = self._connection.open(identity, hello)
            group.send()

    def _take(self, task: int) -> None:
        """Makes and resets the environments of a task, in the place of those that there are."""
        self._close_groups()
        config, size = self._config, self._group_size
        self._task = task
        for first_env in range(task * config.env_batch_size, (task + 1) * config.env_batch_size, size):
            seeds = [environment_seed(config.seed, first_env + i) for i in range(size)]
            try:
                environment = make_batched(
                    self._suite, self._environment_config, seeds, config.max_environment_failures, first_env
                )
            except (ValueError, ImportError) as error:
                raise EnvironmentRefusedError(str(error)) from error
            self._groups.append(
                _Group(environment, EpisodeStatistics(size), first_env, environment.reset(seeds))
            )

    def _given_up(self, error: Exception) -> Exception:
        """What `run` raises when it has waited for long enough."""
        if isinstance(error, NoFreeTaskError | TaskTakenError):
            return RefusedError(str(error))
        config = self._config
        return LearnerGoneError(
            f"No learner at {config.server_address} for {config.connect_timeout_secs:g} s ({error})."
        )

    def _play(self):
        """Advances the groups in turn; yields after each whether training goes on."""
        while True:
            for group in self._groups:
                yield group.advance()

    def close(self) -> None:
        """Closes streams, connection and environments."""
        self._close_groups()
        self._connection.close()

    def _close_groups(self) -> None:
        for group in self._groups:
            group.hang_up()
            group.environment.close()
        self._groups.clear()
