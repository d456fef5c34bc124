"""Wake-ups of the batcher without any sockets."""

import contextlib
import queue
import threading

from tests.waiting import DEADLINE_SECS


class WakeUps:
    """Wake-ups that a test sends: the thread that waits for them then submits the requests itself."""

    def __init__(self):
        self.batcher = None
        self.waiting = []  # Those who have waited here, in order.
        self.here = threading.Semaphore(0)  # Released whenever somebody begins to wait.
        self._wakes = queue.SimpleQueue()

    def wait(self, timeout_secs):
        self.waiting.append(threading.get_ident())
        self.here.release()
        with contextlib.suppress(queue.Empty):
            self.batcher.submit_all(self._wakes.get(timeout=timeout_secs))

    def wake(self):
        self._wakes.put([])

    def send(self, *requests):
        self._wakes.put(requests)

    def wait_until_somebody_waits(self):
        assert self.here.acquire(timeout=DEADLINE_SECS)
