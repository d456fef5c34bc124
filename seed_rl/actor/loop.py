"""The actor: steps its environments, sends their outputs to the learner, and applies the actions it gets.

No network, no TensorFlow. Each group of environments has its own stream, so that one group steps while the
others wait for their actions. All of them share one event loop; the group whose actions arrive first steps
first.
"""

import asyncio
import contextlib
import faulthandler
import logging
import random
import secrets
import time
from collections.abc import AsyncIterator
from typing import NamedTuple

from seed_rl.actor.config import ActorConfig
from seed_rl.actor.group import Group
from seed_rl.actor.transport import open_link, play_on_board, play_with_messages
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.batched import make_batched
from seed_rl.seeds import derived_seed
from seed_rl.wire.board_link import BoardLink
from seed_rl.wire.client import (
    HELLO_SECS,
    Connection,
    LearnerGoneError,
    NoFreeTaskError,
    RefusedError,
    Stream,
    TaskTakenError,
    make_hello,
)
from seed_rl.wire.gateways import resolved
from seed_rl.wire.protocol import EnvironmentDescription
from seed_rl.wire.security import Security, is_local

_log = logging.getLogger(__name__)

_FIRST_BACKOFF_SECS = 0.2
_LONGEST_BACKOFF_SECS = 5.0

_NO_TASK = -1


class Patience(NamedTuple):
    """How long an actor waits for things that take only seconds.

    Attributes:
      hello_secs: for the answer to a hello.
      taken_secs: for a fixed task that another process holds. If an actor's machine dies without closing its
        connections, the learner takes half a minute to notice (`wire.protocol`), and this actor may be its
        replacement.
    """

    hello_secs: float = HELLO_SECS
    taken_secs: float = 45.0


class EnvironmentRefusedError(ValueError):
    """The suite refuses to make the environments; the message is the suite's."""


class Actor:
    """The environments of one actor process, and their communication with the learner."""

    def __init__(
        self,
        config: ActorConfig,
        name: str,
        suite: Suite,
        environment_config: EnvironmentConfig,
        security: Security = Security(),  # noqa: B008 (immutable)
        patience: Patience = Patience(),  # noqa: B008 (immutable)
    ):
        """Makes and resets the environments; if the learner assigns the task, `run` does that.

        Args:
          config: the actor's settings.
          name: the suite's name.
          suite: makes the environments.
          environment_config: their settings.
          security: TLS and token of the connection.
          patience: waiting times besides `connect_timeout_secs`.

        Raises:
          EnvironmentRefusedError: the environments cannot be made.
          EnvironmentFailedError: an environment failed too often in its random start.
        """
        self._config, self._patience = config, patience
        self._name, self._suite, self._environment_config = name, suite, environment_config
        self._actor_id = secrets.randbits(64)
        self._group_size = config.env_batch_size // config.num_env_groups
        self._security = security
        self._task = _NO_TASK
        self._groups: list[Group] = []
        self._link: BoardLink | None = None  # To the board of the learner, if it is on this machine.
        self._host: Connection | None = None  # To the task's learner host or gateway, if it is another.
        if config.fixed_task is not None:
            self._take(config.fixed_task)

    def run(self) -> None:
        """Plays until training has ended; reconnects with back-off if the connection is lost.

        Raises:
          RefusedError: the learner refuses this actor, or has had no task for it for `connect_timeout_secs`.
          LearnerGoneError: no learner could be reached for `connect_timeout_secs`.
          EnvironmentRefusedError: the environments cannot be made (if the learner assigns the task).
          EnvironmentFailedError: an environment failed too often.
        """
        asyncio.run(self._run())

    async def _run(self) -> None:
        connection = Connection(self._config.server_address, self._security)
        try:
            await self._play_on(connection)
        finally:
            self._close_link()
            await connection.close()
            await self._close_host()

    async def _play_on(self, connection: Connection) -> None:
        backoff = _FIRST_BACKOFF_SECS
        gone_since: float | None = None
        taken_since: float | None = None
        while True:
            try:
                await self._play(await self._connect(connection))
                return
            except (LearnerGoneError, TaskTakenError) as error:
                # All of them: one may have played until the refusal of another one arrived.
                if self._groups and all(group.answered for group in self._groups):
                    backoff, gone_since = _FIRST_BACKOFF_SECS, None
                now = time.monotonic()
                gone_since = gone_since or now
                taken_since = (taken_since or now) if isinstance(error, TaskTakenError) else None
                if now - gone_since > self._config.connect_timeout_secs:
                    raise self._given_up(error) from None
                if self._is_lost(taken_since, now):
                    raise
                _log.warning("Not connected (%s); trying again in %.1f s.", error, backoff)
                await asyncio.sleep(backoff * random.uniform(0.7, 1.3))
                backoff = min(2 * backoff, _LONGEST_BACKOFF_SECS)

    def _is_lost(self, taken_since: float | None, now: float) -> bool:
        """Whether another process has held this actor's fixed task too long to wait any further."""
        if taken_since is None or self._config.fixed_task is None:
            return False
        return now - taken_since > self._patience.taken_secs

    async def _connect(self, connection: Connection) -> list[Stream]:
        """Opens one stream per group."""
        for group in self._groups:
            group.answered = False
        timeout_secs = min(30.0, self._config.connect_timeout_secs)
        if self._config.fixed_task is None:
            lease = await connection.lease_task(
                self._actor_id, self._config.env_batch_size, self._task, timeout_secs
            )
            if lease.task != self._task or lease.must_restart:
                _log.info("The learner has given this actor task %d.", lease.task)
                self._take(lease.task)
            if lease.address:
                connection = await self._connect_to_host(resolved(lease.address, connection.address))
        environment = EnvironmentDescription(
            self._name, self._environment_config.to_dict(), self._groups[0].environment.spec
        )
        description = await connection.check(environment, timeout_secs)
        self._close_link()
        self._link = open_link(
            self._config.transport,
            description.board,
            environment.spec,
            [self._group_size] * len(self._groups),
        )
        hellos = [
            make_hello(
                environment,
                run_id=self._actor_id,
                task=self._task,
                first_env=group.first_env,
                num_envs=self._group_size,
                board=self._link.place(number) if self._link else None,
            )
            for number, group in enumerate(self._groups)
        ]
        return await connection.open_all(environment, hellos, self._patience.hello_secs)

    async def _connect_to_host(self, address: str) -> Connection:
        """The connection to the learner host that serves the task; it replaces one to another host.

        Raises:
          RefusedError: the connection would be less safe than the one to the learner that named the host.
        """
        if self._host is None or self._host.address != address:
            await self._close_host()
            asked = self._config.server_address
            if is_local(asked) and not is_local(address) and not self._security.authority:
                raise RefusedError(
                    f"The learner at {asked} names the learner host {address} on another machine: give that "
                    "host's address, and --tls_authority or --insecure."
                )
            self._host = Connection(address, self._security)
        return self._host

    async def _close_host(self) -> None:
        if self._host is not None:
            await self._host.close()
            self._host = None

    def _take(self, task: int) -> None:
        """Makes and resets the environments of a task, replacing any that there are."""
        self.close()
        config, size = self._config, self._group_size
        self._task = task
        for first_env in range(task * config.env_batch_size, (task + 1) * config.env_batch_size, size):
            seeds = [derived_seed(config.seed, first_env + i) for i in range(size)]
            try:
                environment = make_batched(
                    self._suite, self._environment_config, seeds, config.failures, first_env
                )
            except (ValueError, ImportError) as error:
                raise EnvironmentRefusedError(str(error)) from error
            random_start_steps = self._environment_config.random_start_steps
            self._groups.append(Group(environment, first_env, seeds, random_start_steps))

    def _given_up(self, error: Exception) -> Exception:
        """The error that `run` raises when it has waited long enough."""
        if isinstance(error, NoFreeTaskError | TaskTakenError):
            return RefusedError(str(error))
        config = self._config
        return LearnerGoneError(
            f"No learner at {config.server_address} for {config.connect_timeout_secs:g} s ({error})."
        )

    async def _play(self, streams: list[Stream]) -> None:
        """Plays all groups until one of them finds that training has ended, or fails; closes the streams."""
        try:
            async with _ended_if_stuck(self._config.failures.env_step_timeout_secs):
                if self._link:
                    await play_on_board(self._groups, streams, self._link)
                else:
                    await play_with_messages(self._groups, streams)
        finally:
            for stream in streams:
                stream.close()

    def _close_link(self) -> None:
        if self._link:
            self._link.close()
            self._link = None

    def close(self) -> None:
        """Closes the environments."""
        for group in self._groups:
            group.environment.close()
        self._groups.clear()


@contextlib.asynccontextmanager
async def _ended_if_stuck(timeout_secs: float) -> AsyncIterator[None]:
    """Ends this process if an environment is in native code that no `Deadline` interrupts.

    That is when the event loop has had no turn for more than twice the time limit. A thread of
    `faulthandler` notices, which needs no lock of the interpreter, and shows what every thread is doing.
    """

    async def postpone() -> None:
        while timeout_secs:
            faulthandler.dump_traceback_later(2 * timeout_secs + 5, exit=True, file=2)
            await asyncio.sleep(timeout_secs / 4)

    task = asyncio.create_task(postpone())
    try:
        yield
    finally:
        task.cancel()
        faulthandler.cancel_dump_traceback_later()
