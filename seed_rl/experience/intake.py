"""A buffer in front of a slow `insert`, which then runs on a thread of its own. Imports no TensorFlow."""

from collections.abc import Callable

from seed_rl.experience.base import Closable
from seed_rl.metrics.idle_time import INTAKE_FOR_UNROLLS, Waits
from seed_rl.types import Unroll

# Unrolls that may wait. More would only take memory: sooner or later, inference has to wait anyway.
_CAPACITY = 32


class Intake(Closable):
    """Takes unrolls from inference threads; a separate thread, which calls `run`, inserts them.

    Replay computes priorities and compresses as unrolls come in. On an inference thread, that would keep
    actors waiting for their actions. Unrolls are inserted in the order in which they arrived. Those that are
    still waiting at `close` are lost.
    """

    def __init__(self, insert: Callable[[list[Unroll]], None], waits: Waits):
        """Prepares an empty intake; `insert` takes the unrolls, `waits` counts those of `run`."""
        super().__init__()
        self._insert, self._waits = insert, waits
        self._waiting: list[Unroll] = []

    def insert(self, unrolls: list[Unroll]) -> None:
        """Takes finished unrolls; blocks while too many are waiting (back-pressure).

        Raises:
          ClosedError: the intake was closed in the meantime.
        """
        with self._changed:
            self._wait_for(lambda: len(self._waiting) < _CAPACITY)
            self._waiting += unrolls
            self._changed.notify_all()

    def run(self) -> None:
        """Inserts unrolls until the intake or where they go is closed.

        Raises:
          ClosedError: either has been closed.
        """
        while True:
            with self._changed:
                with self._waits(INTAKE_FOR_UNROLLS):
                    self._wait_for(lambda: bool(self._waiting))
                unrolls, self._waiting = self._waiting, []
                self._changed.notify_all()
            self._insert(unrolls)
