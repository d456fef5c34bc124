"""What stands between inference and training: experience goes in as unrolls and comes out as batches."""

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.types import Sample, Unroll


class ClosedError(Exception):
    """The experience has been closed; nothing goes in or out any more."""


class Batch(NamedTuple):
    """A batch on the host.

    sample: NumPy arrays. policy_version: int64 `[B]`, of each unroll's first step. handle: what
    `update_priorities` needs to find the unrolls again; None for queues.
    """

    sample: Sample
    policy_version: np.ndarray
    handle: Any


class Experience(abc.ABC):
    """Thread-safe: one thread or several insert, a prefetch thread samples, the training thread updates.

    Attributes:
      inserts_slowly: whether `insert` has more to do than to keep an unroll, so that inference should leave
        it to another thread.
    """

    inserts_slowly: bool = False

    @abc.abstractmethod
    def insert(self, unrolls: list[Unroll]) -> None:
        """Takes finished unrolls; blocks while training has to catch up (back-pressure).

        Raises:
          ClosedError: closed meanwhile.
        """

    @abc.abstractmethod
    def sample(self) -> Batch:
        """Waits for a batch `[S, B, ...]`.

        Raises:
          ClosedError: closed meanwhile.
        """

    @abc.abstractmethod
    def batch_ready(self) -> bool:
        """Whether `sample` would not have to wait."""

    def update_priorities(self, handle: Any, priorities: np.ndarray) -> None:  # noqa: B027 (a default)
        """Priorities `[B]` of a batch after it was trained on; by default nothing."""

    def save(self, path: str) -> None:  # noqa: B027 (a default)
        """Writes the contents to a file, where the settings ask for it; by default nothing."""

    def restore(self, path: str) -> None:  # noqa: B027 (a default)
        """Takes the contents that `save` wrote, where there are any; by default nothing.

        Raises:
          ValueError: the file cannot be used; one sentence.
        """

    @abc.abstractmethod
    def figures(self) -> dict[str, float]:
        """Figures for the logs by plain name, such as the queue's depth."""

    @abc.abstractmethod
    def close(self) -> None:
        """Ends every wait, now and later, with ClosedError."""


class ExperienceConfig(abc.ABC):
    """Settings of a kind of experience, which make the experience itself."""

    @property
    @abc.abstractmethod
    def uses(self) -> float:
        """Times that an unroll is trained on, on average."""

    @abc.abstractmethod
    def make(
        self,
        batch_size: int,
        unroll: UnrollConfig,
        initial_priorities: Callable[[list[Unroll]], np.ndarray],
        seed: int,
    ) -> Experience:
        """The experience, empty.

        Args:
          batch_size: B, unrolls in a batch.
          unroll: how they are cut.
          initial_priorities: gives unrolls that come in their priorities `[K]`.
          seed: of whatever is drawn.

        Raises:
          ValueError: the settings do not fit the batch or the machine.
        """
