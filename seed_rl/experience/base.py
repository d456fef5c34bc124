"""What stands between inference and training: experience goes in as unrolls and comes out as batches."""

import abc
from typing import Any, NamedTuple

import numpy as np

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
    """Thread-safe: the inference thread inserts, a prefetch thread samples, the training thread updates."""

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
