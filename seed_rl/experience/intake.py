"""A thread's worth of room between inference and an experience whose `insert` takes long. No TensorFlow."""

import threading

from seed_rl.experience.base import ClosedError, Experience
from seed_rl.types import Unroll

# Unrolls that may wait. More would only take memory: inference has to wait in the end.
_CAPACITY = 32


class Intake:
    """Takes unrolls from inference threads; a thread of its own, which calls `run`, files them.

    Replay computes priorities and compresses as unrolls come in. On an inference thread that would keep
    actors waiting for their actions. Unrolls are filed in the order in which they came.
    """

    def __init__(self, experience: Experience):
        """Prepares; `experience` is where unrolls go."""
        self._experience = experience
        self._waiting: list[Unroll] = []
        self._closed = False
        self._changed = threading.Condition()

    def insert(self, unrolls: list[Unroll]) -> None:
        """Takes finished unrolls; blocks while too many wait (back-pressure).

        Raises:
          ClosedError: closed meanwhile.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._waiting) < _CAPACITY)
            if self._closed:
                raise ClosedError
            self._waiting += unrolls
            self._changed.notify_all()

    def run(self) -> None:
        """Files unrolls until the intake or the experience is closed.

        Raises:
          ClosedError: one of them has been closed.
        """
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or bool(self._waiting))
                if self._closed:
                    raise ClosedError
                unrolls, self._waiting = self._waiting, []
                self._changed.notify_all()
            self._experience.insert(unrolls)

    def close(self) -> None:
        """Ends every wait, now and later. What still waits is lost."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
