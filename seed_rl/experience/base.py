"""The interface between inference and training: experience goes in step by step and comes out as batches."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from seed_rl.experience.step_store import StepStore
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.types import Sample, Unroll


class ClosedError(Exception):
    """The experience has been closed; nothing goes in or out any more."""


class MisfitError(ValueError):
    """The experience of the environments does not fit the settings, or the machine; one sentence says why.

    It is found when the first steps come in, so in whatever thread that is.
    """


class Batch(NamedTuple):
    """A batch on the host.

    sample: NumPy arrays. policy_version: int64 `[B]`, of each unroll's first step. handle: what
    `update_priorities` needs to find the unrolls again; None for queues.
    """

    sample: Sample
    policy_version: np.ndarray
    handle: Any


class Experience(abc.ABC):
    """A thread-safe store of unrolls.

    Inference threads write steps into `store`, a prefetch thread samples, and the training thread updates
    priorities.

    Attributes:
      inserts_slowly: whether `insert` does more than store an unroll, so that inference should leave it to
        another thread.
      is_saved: whether `save` writes a file.
    """

    inserts_slowly: bool = False
    is_saved: bool = False

    def store(
        self,
        num_envs: int,
        unroll: UnrollConfig,
        insert: Callable[[list[Unroll]], None] | None = None,
        num_served: int | None = None,
    ) -> StepStore:
        """Creates what inference writes steps into; to be called once. By default, it inserts unrolls.

        Args:
          num_envs: number of environments; their ids are 0 to num_envs - 1.
          unroll: how their steps are cut.
          insert: takes finished unrolls, if not `self.insert`; an `Intake`'s, for example.
          num_served: how many of the environments this learner host serves; None: all.

        Raises:
          ValueError: the settings do not fit the number of environments.
        """
        del num_served
        from seed_rl.experience.unroll_store import UnrollStore  # Actors read the settings without optree.

        return UnrollStore(num_envs, unroll, insert or self.insert)

    def insert(self, unrolls: list[Unroll]) -> None:
        """Adds finished unrolls; blocks while training has to catch up (back-pressure).

        Raises:
          ClosedError: the experience was closed in the meantime.
          TypeError: this kind of experience takes no unrolls, but steps: its `store` does not insert.
        """
        raise TypeError(f"{type(self).__name__} takes no unrolls; write steps into its store.")

    @abc.abstractmethod
    def sample(self) -> Batch:
        """Waits for a batch `[S, B, ...]`.

        Raises:
          ClosedError: the experience was closed in the meantime.
        """

    @abc.abstractmethod
    def batch_ready(self) -> bool:
        """Whether `sample` would return without waiting."""

    def update_priorities(self, handle: Any, priorities: np.ndarray) -> None:  # noqa: B027 (a default)
        """Updates the priorities `[B]` of a batch that was trained on; does nothing by default."""

    def trained(self) -> None:  # noqa: B027 (a default)
        """Called when a batch has been trained on, and the weights are published; does nothing by default."""

    def save(self, path: str) -> None:  # noqa: B027 (a default)
        """Writes the contents to a file, if the settings ask for it; does nothing by default."""

    def restore(self, path: str) -> None:  # noqa: B027 (a default)
        """Loads the contents that `save` wrote, if there are any; does nothing by default.

        Raises:
          ValueError: the file cannot be used; the message is one sentence.
        """

    @abc.abstractmethod
    def figures(self) -> dict[str, float]:
        """Figures for the logs by plain name, such as the queue depth."""

    @abc.abstractmethod
    def close(self) -> None:
        """Makes every current and future wait end with ClosedError."""


class ExperienceConfig(abc.ABC):
    """Settings of one kind of experience, which also create it."""

    @property
    @abc.abstractmethod
    def uses(self) -> float:
        """How many times an unroll is trained on, on average."""

    @abc.abstractmethod
    def make(
        self,
        batch_size: int,
        unroll: UnrollConfig,
        initial_priorities: Callable[[list[Unroll]], np.ndarray],
        seed: int,
    ) -> Experience:
        """Creates the experience, empty.

        Args:
          batch_size: B, unrolls in a batch.
          unroll: how unrolls are cut.
          initial_priorities: computes the priorities `[K]` of new unrolls.
          seed: seed for random draws.

        Raises:
          ValueError: the settings do not fit the batch or the machine.
        """
