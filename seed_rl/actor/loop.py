"""The actor: joins a learner, makes the environments that it is given, and plays them.

No network, no TensorFlow. One connection serves all groups of environments: one group steps while the others
wait for their actions, and the group whose actions arrive first steps first. Environments run in the thread
that calls `Actor.run`, the main one, where no event loop runs: they may run their own.
"""

import contextlib
import faulthandler
import logging
import os
import random
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.carriers import Latency, Memory, Messages, Transport, play
from seed_rl.actor.group import Group, chosen, make_environment
from seed_rl.environments import registry
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.seeds import derived_seed
from seed_rl.types import EnvironmentSpec
from seed_rl.wire import shared_memory
from seed_rl.wire.client import (
    Channel,
    LearnerGoneError,
    NoFreeTaskError,
    NotALearnerError,
    RefusedError,
    Stream,
    TrainingEndedError,
    resolved,
)
from seed_rl.wire.codec import ActionCodec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import PROTOCOL_VERSION
from seed_rl.wire.security import Security, is_local
from seed_rl.wire.shared_memory import MemoryLink, NoMemoryError

_log = logging.getLogger(__name__)

_FIRST_BACKOFF_SECS = 0.2
_LONGEST_BACKOFF_SECS = 5.0
_JOIN_SECS = 30.0
_GATEWAY_SECS = 3.0  # The learner serves actors that come back from a gateway that does not answer.
_MOST_REDIRECTS = 100

# gRPC's words for a connection that the other end closes as soon as it is made.
_CLOSED = ("Socket closed", "reset by peer", "Broken pipe")


class Actor:
    """The environments of one actor process, and their connection with the learner."""

    def __init__(
        self,
        config: ActorConfig,
        security: Security = Security(),  # noqa: B008 (immutable)
        given: Mapping[str, Any] | None = None,
        suites: Callable[[str], Suite] = registry.suite,
    ):
        """Prepares; `run` makes the environments. `given` has the settings that the user gave by flag.

        Raises:
          ValueError: this system cannot keep a process on one CPU core, as the settings require.
        """
        self._config, self._security, self._given = config, security, given or {}
        self._suites = suites
        self._cores = usable_cores() if config.pin else []
        self._process_id = secrets.randbits(64)
        self._task = -1 if config.task is None else config.task
        self._played: tuple[Any, ...] | None = None  # The key of the groups.
        self._groups: list[Group] = []
        self._was_welcomed = False  # By a learner, at any time.
        self._has_played = False  # Since the connection was made.
        self._latency = Latency()

    def run(self) -> None:
        """Plays until training has ended; reconnects with back-off if the connection is lost.

        Raises:
          RefusedError: the learner refuses this actor, or has had no task for it for `connect_timeout_secs`.
          LearnerGoneError: no learner could be reached for `connect_timeout_secs`.
          EnvironmentRefusedError: the environments cannot be made, or flags contradict the learner's.
          EnvironmentFailedError: an environment failed too often.
        """
        try:
            with contextlib.suppress(TrainingEndedError):
                self._run()
        finally:
            _log.info("%s", self._latency)

    def _run(self) -> None:
        backoff, gone_since = _FIRST_BACKOFF_SECS, time.monotonic()
        while True:
            try:
                self._connect()
            except (LearnerGoneError, NotALearnerError) as error:
                if isinstance(error, NotALearnerError) and not self._was_welcomed:
                    raise
                now = time.monotonic()
                if self._has_played:
                    backoff, gone_since, self._has_played = _FIRST_BACKOFF_SECS, now, False
                if now - gone_since > self._config.connect_timeout_secs:
                    raise self._given_up(error) from None
                _log.warning("Not connected (%s); trying again in %.1f s.", error, backoff)
                time.sleep(backoff * random.uniform(0.7, 1.3))
                backoff = min(2 * backoff, _LONGEST_BACKOFF_SECS)

    def _connect(self) -> None:
        """Connects, follows the learner's redirects, and plays until the connection ends, with an error."""
        address = self._config.server_address
        timeout_secs, is_gateway = min(_JOIN_SECS, self._config.connect_timeout_secs), False
        for redirects in range(_MOST_REDIRECTS):
            channel = Channel(address, self._security, is_gateway)
            try:
                stream, welcome = channel.join(self._join(redirects), timeout_secs)
                self._was_welcomed = True
                if not welcome.address:
                    self._play(stream, welcome)
                if is_gateway := welcome.address.startswith(":"):
                    timeout_secs = min(_GATEWAY_SECS, timeout_secs)
                address = self._checked(resolved(welcome.address, address))
            finally:
                channel.close()
        raise LearnerGoneError(f"{self._config.server_address} keeps sending this actor elsewhere")

    def _join(self, redirects: int) -> pb.Join:
        return pb.Join(
            protocol_version=PROTOCOL_VERSION,
            process_id=self._process_id,
            num_envs=self._config.env_batch_size,
            num_groups=self._config.num_env_groups,
            task=self._task,
            can_share_memory=self._config.transport != "grpc" and shared_memory.is_supported(),
            redirects=redirects,
        )

    def _checked(self, address: str) -> str:
        """The address of another host, unless the connection would be less safe.

        Raises:
          RefusedError: it would.
        """
        asked = self._config.server_address
        if is_local(asked) and not is_local(address) and not self._security.authority:
            raise RefusedError(
                f"The learner at {asked} names the learner host {address} on another machine: give that "
                "host's address, and --tls_authority or --insecure."
            )
        return address

    def _play(self, stream: Stream, welcome: pb.Welcome) -> None:
        """Makes the environments and plays them until the connection ends, with an error."""
        spec = self._take(welcome)
        carrier = self._carrier(stream, welcome, spec)
        applied = [group.applied for group in self._groups]
        stream.say(ready=pb.Ready(applied=applied, shares_memory=isinstance(carrier, Memory)))
        before = sum(group.applied for group in self._groups)
        try:
            with _ended_if_stuck(self._config.failures.env_step_timeout_secs) as postpone:
                play(self._groups, carrier, ActionCodec(spec.action), self._latency, postpone)
        finally:
            self._has_played = sum(group.applied for group in self._groups) > before
            if isinstance(carrier, Memory):
                carrier.close()

    def _take(self, welcome: pb.Welcome) -> EnvironmentSpec:
        """Makes and resets the environments, unless those that there are can go on; returns their spec."""
        played = welcome.task, welcome.suite, dict(welcome.settings), welcome.seed
        if self._groups and played == self._played and not welcome.must_reset:
            return self._groups[0].environment.spec
        self.close()
        _log.info("The learner has given this actor task %d.", welcome.task)
        config, suite_and_settings = self._config, self._chosen(welcome)
        self._task, self._played = welcome.task, played
        if self._cores:
            pin(self._cores[welcome.task % len(self._cores)])
        size = config.env_batch_size // config.num_env_groups
        for group in range(config.num_env_groups):
            first_env = welcome.task * config.env_batch_size + group * size
            seeds = [derived_seed(welcome.seed, first_env + i) for i in range(size)]
            environment = make_environment(suite_and_settings, welcome, seeds, config.failures, first_env)
            self._groups.append(Group(environment, seeds, suite_and_settings[1].random_start_steps))
        return self._groups[0].environment.spec

    def _chosen(self, welcome: pb.Welcome) -> tuple[Suite, EnvironmentConfig]:
        """The suite that makes the environments, and its settings; raises what `group.chosen` raises."""
        return chosen(welcome, self._given, self._suites)

    def _carrier(self, stream: Stream, welcome: pb.Welcome, spec: EnvironmentSpec) -> Transport:
        """Makes the carrier that takes the steps of the groups from now on, and brings actions."""
        link = self._link(welcome, spec)
        return Memory(stream, link, self._groups) if link else Messages(stream, self._groups, spec)

    def _link(self, welcome: pb.Welcome, spec: EnvironmentSpec) -> MemoryLink | None:
        """The link to shared memory; None if steps are sent as messages.

        Raises:
          RefusedError: shared memory is demanded and cannot be had.
        """
        if self._config.transport == "grpc":
            return None
        size = self._config.env_batch_size // self._config.num_env_groups
        try:
            return MemoryLink(welcome.memory, spec, size, self._config.num_env_groups)
        except NoMemoryError as error:
            if self._config.transport == "shared_memory":
                raise RefusedError(
                    f"This actor cannot share memory with the learner ({error}); use --transport=auto."
                ) from None
            _log.info("Steps are sent as messages: no shared memory, %s.", error)
            return None

    def _given_up(self, error: Exception) -> Exception:
        """The error that `run` raises when it has waited long enough."""
        if isinstance(error, NoFreeTaskError):
            return RefusedError(str(error))
        config, hint = self._config, ""
        if any(words in str(error) for words in _CLOSED):
            hint = " What listens there closes connections: it may open no more files (ulimit -n), or ends."
        return LearnerGoneError(
            f"No learner at {config.server_address} for {config.connect_timeout_secs:g} s ({error}).{hint}"
        )

    def close(self) -> None:
        """Closes the environments."""
        for group in self._groups:
            group.environment.close()
        self._groups.clear()


@contextlib.contextmanager
def _ended_if_stuck(timeout_secs: float) -> Iterator[Callable[[], None]]:
    """Ends this process if an environment is in native code that no `Deadline` interrupts.

    That is when the function that this yields has not been called for more than twice the time limit. A
    thread of `faulthandler` notices, which needs no lock of the interpreter, and shows what every thread is
    doing.
    """
    due = 0.0

    def postpone() -> None:
        nonlocal due
        if timeout_secs and (now := time.monotonic()) >= due:
            due = now + timeout_secs / 4
            faulthandler.dump_traceback_later(2 * timeout_secs + 5, exit=True, file=2)

    postpone()
    try:
        yield postpone
    finally:
        faulthandler.cancel_dump_traceback_later()


_THREADS = Path("/proc/self/task")


def usable_cores() -> list[int]:
    """The numbers of the CPU cores that this process may use, in order.

    Raises:
      ValueError: this is not Linux.
    """
    if not _THREADS.is_dir():
        raise ValueError("--pin needs Linux, where a process can be kept on one CPU core; leave it out.")
    return sorted(os.sched_getaffinity(0))


def pin(core: int) -> None:
    """Keeps all threads of this process, and whatever they start later, on this CPU core."""
    for thread in _THREADS.iterdir():
        with contextlib.suppress(ProcessLookupError):  # It has just ended.
            os.sched_setaffinity(int(thread.name), {core})
