"""Prefetch: moves batches from the host to the training device while the device trains on the one before."""

import logging
import queue
import threading
from collections.abc import Callable

import optree
import tensorflow as tf

from seed_rl.experience.base import Batch, Experience
from seed_rl.metrics.idle_time import PREFETCH_FOR_EXPERIENCE, Waits
from seed_rl.types import Sample

_log = logging.getLogger(__name__)

# Time limit for the end of the thread.
_CLOSE_SECS = 20.0

Distribute = Callable[[Sample], Sample]


def to_tensors(sample: Sample) -> Sample:
    """Moves a batch to the device where TensorFlow puts it."""
    return optree.tree_map(tf.convert_to_tensor, sample)


class Source:
    """A thread that keeps one batch ready on the training device.

    It takes the next batch from the experience only when training has taken the one before: another batch in
    its hands would make no update faster, but every one more off-policy.
    """

    def __init__(
        self, experience: Experience, distribute: Distribute = to_tensors, waits: Waits | None = None
    ):
        """Starts prefetching; `distribute` moves a batch of arrays to the training devices."""
        self._experience, self._distribute = experience, distribute
        self._waits = waits or Waits(PREFETCH_FOR_EXPERIENCE)
        self._ready: queue.SimpleQueue[Batch | Exception] = queue.SimpleQueue()
        self._wanted = threading.Semaphore(1)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._fetch, name="prefetch", daemon=True)
        self._thread.start()

    def next(self, timeout_secs: float | None = None) -> Batch | None:
        """The next batch; None if there is none within `timeout_secs`.

        Raises:
          ClosedError: the experience was closed.
        """
        try:
            item = self._ready.get(timeout=timeout_secs)
        except queue.Empty:
            return None
        if isinstance(item, Exception):
            raise item
        self._wanted.release()
        return item

    def close(self) -> None:
        """Closes the experience and ends the thread; warns if that takes too long."""
        self._closed.set()
        self._experience.close()
        self._wanted.release()
        self._thread.join(_CLOSE_SECS)
        if self._thread.is_alive():
            _log.warning("seed_rl: prefetch did not stop within %g s; it ends with the learner.", _CLOSE_SECS)

    def _fetch(self) -> None:
        self._waits.begin()
        try:
            while self._wanted.acquire() and not self._closed.is_set():
                batch = self._sample()
                self._ready.put(batch._replace(sample=self._distribute(batch.sample)))
                del batch  # Its memory is used again.
        except Exception as error:  # Including ClosedError; raised when the next batch is requested.
            self._ready.put(error)

    def _sample(self) -> Batch:
        """The next batch. Drawing it from replay is work, so it counts only if there was nothing to draw."""
        if self._experience.batch_ready():
            return self._experience.sample()
        with self._waits(PREFETCH_FOR_EXPERIENCE):
            return self._experience.sample()
