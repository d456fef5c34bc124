"""The interface between inference and training: experience goes in step by step and comes out as batches."""

import abc
import dataclasses
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from seed_rl.metrics.idle_time import Waits
from seed_rl.options import Options, option
from seed_rl.types import EnvOutput, Nest, Sample, Unroll


class ClosedError(Exception):
    """The experience has been closed; nothing goes in or out any more."""


class MisfitError(ValueError):
    """The experience of the environments does not fit the settings, or the machine; one sentence says why.

    It is found when the first steps come in, so in whatever thread that is.
    """


class Closable:
    """A lock under which threads wait for changes, until it is closed."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_closed = False

    def close(self) -> None:
        """Makes every current and future wait end with ClosedError."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _wait_for(self, is_true: Callable[[], bool]) -> None:
        """Waits, where the lock is held, until this is true or everything is closed."""
        self._changed.wait_for(lambda: self._is_closed or is_true())
        if self._is_closed:
            raise ClosedError


@dataclasses.dataclass(frozen=True)
class UnrollConfig:
    """Division of experience into unrolls; all numbers are in agent steps.

    A stored unroll is `burn_in + length + 1` steps long. With the default period, consecutive unrolls overlap
    by `burn_in + 1` steps.

    Attributes:
      length: T, transitions that are trained on.
      burn_in: steps before them that only bring the recurrent state up to date.
      period: steps from the start of one unroll to the start of the next; None: `length`. With 1, an unroll
        starts at every step, so an unroll of length n is an n-step transition.
      stagger: whether environment i skips its first `i * period / num_envs` steps once, so that the unrolls
        of all environments do not end at the same moment.
      keeps_state: whether an unroll includes the recurrent state before its first step. Without, a sample's
        `initial_state` is an empty tuple.

    Raises:
      ValueError: a number is too low.
    """

    length: int
    burn_in: int = 0
    period: int | None = None
    stagger: bool = True
    keeps_state: bool = True

    def __post_init__(self) -> None:
        if self.length < 1 or self.burn_in < 0 or self.every < 1:
            raise ValueError(
                f"{self} is not valid; length and period must be at least 1, and burn_in at least 0."
            )

    @property
    def stored_steps(self) -> int:
        """S: agent steps in a stored unroll."""
        return self.burn_in + self.length + 1

    @property
    def every(self) -> int:
        """The period as a number, also where it is the default."""
        return self.length if self.period is None else self.period


class Batch(NamedTuple):
    """A batch.

    sample: NumPy arrays; from `Source`, tensors on the training devices. policy_version: int64 `[S, B]`, see
    `Unroll`. handle: what `update_priorities` needs to find the unrolls again; None for queues.
    """

    sample: Sample
    policy_version: np.ndarray
    handle: Any


class StepStore(abc.ABC):
    """Per-environment step buffer that inference writes to.

    It counts the steps to find the starts of unrolls (see `UnrollConfig`). The recurrent state that belongs
    to an unroll is the one just before its FIRST step, whatever the burn-in.

    Thread-safe as long as each environment has one thread at a time from `starting` to `append`, for
    `end_unrolls` and for `reset` (see `inference.streams`).

    Attributes:
      keeps_states: whether it needs the recurrent states of environments at `starting`.
      holds: whether environments ever have to wait for training one by one (see `hold` and `closing`).

    Raises:
      ValueError: unrolls of this store come with states and the settings exclude them, or the reverse.
    """

    keeps_states: bool = True
    holds: bool = False

    def __init__(self, num_envs: int, unroll: UnrollConfig):
        """Starts before the first step of environments 0 to num_envs - 1."""
        if unroll.keeps_state != self.keeps_states:
            raise ValueError(f"{type(self).__name__} needs keeps_state={self.keeps_states}, unlike {unroll}.")
        self._period, self._stored = unroll.every, unroll.stored_steps
        offsets = np.arange(num_envs, dtype=np.int64) * self._period // num_envs if unroll.stagger else 0
        self._first_count = np.zeros(num_envs, np.int64) - offsets
        self._count = self._first_count.copy()  # Steps seen; unrolls begin at multiples of the period.

    def starting(self, env_ids: np.ndarray) -> np.ndarray:
        """Positions (int64) in `env_ids` of environments whose next step is the first of an unroll.

        Their recurrent states are needed; so there are none where no states are kept.
        """
        if not self.keeps_states:
            return np.empty(0, np.int64)
        count = self._count[env_ids]
        return ((count >= 0) & (count % self._period == 0)).nonzero()[0]

    def reset(self, env_ids: np.ndarray, stream: int) -> None:
        """Drops the unfinished unrolls of environments whose steps are interrupted.

        Args:
          env_ids: of the environments.
          stream: number of the stream that their next steps belong to.
        """
        del stream
        self._count[env_ids] = np.maximum(self._first_count[env_ids], np.minimum(self._count[env_ids], 0))

    @abc.abstractmethod
    def append(
        self, env_ids: np.ndarray, step: Nest, starting: np.ndarray, states: Nest, policy_version: int
    ) -> list[Any]:
        """Adds one step of environments.

        Args:
          env_ids: int `[B]`, each at most once.
          step: (prev_action, env, agent), each `[B, ...]`.
          starting: what `starting(env_ids)` returned for this step, `[K]`.
          states: recurrent states before this step of the environments at `starting`, nest of `[K, ...]`.
          policy_version: how many updates the weights had received that acted on this step.

        Returns:
          For each unroll that this step completed, what `hand_over` takes.
        """

    @abc.abstractmethod
    def hand_over(self, completed: list[Any]) -> None:
        """Leaves what `append` returned to training; blocks while that has to catch up (back-pressure).

        Raises:
          ClosedError: the experience was closed in the meantime.
        """

    def closing(self, env_ids: np.ndarray) -> np.ndarray:
        """Mask of the environments whose next step ends a rollout: bool `[B]`; never any by default.

        Such a step goes to `end_unrolls` before it is acted on, and then waits for training (`hold`). It is
        acted on and appended afterwards, as the first step of the next rollout.
        """
        return np.zeros(len(env_ids), np.bool_)

    def takes(self, env_ids: np.ndarray) -> np.ndarray:
        """Mask of the environments whose next step may be appended: bool `[B]`; by default all.

        Of the players of a group, one may have ended its rollout while others have not. Until they have, the
        steps that it has to take are no experience.
        """
        return np.ones(len(env_ids), np.bool_)

    def end_unrolls(self, env_ids: np.ndarray, env: EnvOutput) -> list[Any]:
        """Adds the step `[B, ...]` that ends rollouts of environments `[B]`; see `closing`, `append`."""
        raise NotImplementedError

    def hold(self, env_ids: np.ndarray, resume: Callable[[], None]) -> bool:
        """Whether these environments must all wait for training before they act; never by default.

        Args:
          env_ids: int `[B]`, of one group.
          resume: if they must wait, this is called, from another thread, when they need not any more.
        """
        del env_ids, resume
        return False


class Experience(Closable, abc.ABC):
    """A thread-safe store of unrolls.

    Inference threads write steps into `store`, a prefetch thread samples, and the training thread updates
    priorities.

    Attributes:
      store: takes the steps.
      background: job for a thread of its own, if there is one; it ends with ClosedError.
      is_saved: whether `save` writes a file.
    """

    store: StepStore
    background: Callable[[], None] | None = None
    is_saved: bool = False

    @abc.abstractmethod
    def sample(self) -> Batch:
        """Waits for a batch `[S, B, ...]`.

        Raises:
          ClosedError: the experience was closed in the meantime.
        """

    @abc.abstractmethod
    def batch_ready(self) -> bool:
        """Whether `sample` would return without waiting."""

    def update_priorities(self, handle: Any, priorities: np.ndarray) -> None:
        """Updates the priorities `[B]` of a batch that was trained on; does nothing by default."""

    def trained(self) -> None:
        """Called when a batch has been trained on, and the weights are published; does nothing by default."""

    def save(self, path: str) -> None:
        """Writes the contents to a file, if the settings enable it; does nothing by default."""

    def restore(self, path: str) -> None:
        """Loads what `save` wrote, if the settings enable it and there is such a file; before any step.

        Raises:
          ValueError: the file cannot be used; the message is one sentence. Nothing of a damaged one is used.
        """

    @abc.abstractmethod
    def figures(self) -> dict[str, float]:
        """Figures for the logs by plain name, such as the queue depth."""


def _ones(unrolls: list[Unroll]) -> np.ndarray:
    return np.ones(len(unrolls), np.float32)


class Setup(NamedTuple):
    """Arguments that every experience is made from.

    num_envs: environments whose steps come in; their ids are 0 to num_envs - 1. unroll: how their steps are
    cut. batch_size: B, unrolls in a batch. seed: seed for random draws. initial_priorities: computes the
    priorities `[K]` of new unrolls. num_served: how many of the environments this learner host serves; None:
    all. intake_waits: counts the waits of the thread that runs `Experience.background`; None: there is to be
    no such thread. updates: those that the weights have received so far.
    """

    num_envs: int
    unroll: UnrollConfig
    batch_size: int
    seed: int = 0
    initial_priorities: Callable[[list[Unroll]], np.ndarray] = _ones
    num_served: int | None = None
    intake_waits: Waits | None = None
    updates: int = 0

    @property
    def served(self) -> int:
        """Number of environments that this learner host serves."""
        return self.num_envs if self.num_served is None else self.num_served


class ExperienceConfig(abc.ABC):
    """Settings of one kind of experience, which also create it."""

    @abc.abstractmethod
    def make(self, setup: Setup) -> Experience:
        """Creates the experience, empty.

        Raises:
          ValueError: the settings do not fit the environments, the batch or the machine.
        """


@dataclasses.dataclass(frozen=True)
class ReplaySettings(Options, ExperienceConfig):
    """Settings of every kind of replay."""

    priority_exponent: float
    importance_sampling_exponent: float
    replay_buffer_size: int
    replay_buffer_min_size: int
    replay_ratio: float
    replay_max_bytes: int | None = option(
        None,
        "Memory that replay may use, in bytes; None: half of the machine's memory.",
        at_least=1,
        is_plumbing=True,
    )
    checkpoint_replay: bool = option(
        False,
        "Whether checkpoints include what is in replay; without, a resumed run fills it again.",
        is_plumbing=True,
    )

    def validate(self) -> None:
        """Checks constraints between fields."""
        if self.replay_buffer_min_size > self.replay_buffer_size:
            raise ValueError(
                f"--replay_buffer_min_size={self.replay_buffer_min_size} is more than "
                f"--replay_buffer_size={self.replay_buffer_size}, so training would never start; lower the "
                "first or raise the second."
            )
