"""Which stream acts for an environment: the newest one, and one thread at a time. No TensorFlow."""

import contextlib
import threading
from collections.abc import Iterator, Sequence

import numpy as np

from seed_rl.inference.slots import Lease


class Turns:
    """Keeps the streams of an environment in order when several threads run inference. Thread-safe.

    When a stream has ended and a newer one has the same environments, a step of the old stream may still be
    in one thread while the first step of the new stream is in another. They must not act at the same time,
    because both write the environments' recurrent states and last actions. And once the new stream has
    acted, a step of the old one must not act at all, because it would become part of the new stream's
    unrolls.
    """

    def __init__(self, num_envs: int):
        """Starts with no stream for any of `num_envs` environments."""
        self._newest = np.full(num_envs, -1, np.int64)  # Keys of leases; they count up.
        self._is_busy = np.zeros(num_envs, bool)
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def take(self, leases: Sequence[Lease], env_ids: np.ndarray) -> Iterator[tuple[list[Lease], list[Lease]]]:
        """Holds the environments of a batch; waits first until no other thread holds any of them.

        Holding is short, since it covers acting and filing the steps, but not what may block on experience.

        Args:
          leases: of the streams in the batch.
          env_ids: all environments of the leases `[B]`, in the same order.

        Returns:
          A context manager that gives the leases whose streams act for the first time, and those that must
          not act, because a newer stream has acted for one of their environments.
        """
        keys = np.repeat([lease.key for lease in leases], [lease.num_envs for lease in leases])
        with self._changed:
            self._changed.wait_for(lambda: not self._is_busy[env_ids].any())
            before = self._newest[env_ids]
            turns: tuple[list[Lease], list[Lease]] = ([], [])
            if (before != keys).any():
                np.maximum.at(self._newest, env_ids, keys)
                turns = self._sorted(leases, env_ids[before < keys])
            self._is_busy[env_ids] = True
        try:
            yield turns
        finally:
            with self._changed:
                self._is_busy[env_ids] = False
                self._changed.notify_all()

    def _sorted(self, leases: Sequence[Lease], changed: np.ndarray) -> tuple[list[Lease], list[Lease]]:
        over = [lease for lease in leases if (self._newest[lease.env_ids] > lease.key).any()]
        first = [lease for lease in leases if lease not in over and np.isin(lease.env_ids, changed).any()]
        return first, over
