"""Figures of inference: its batches, what its threads wait for, and how long actors take. No TensorFlow."""

import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from seed_rl.idle_time import INFERENCE_FOR_REQUESTS, INFERENCE_FOR_TRAINING, Waits
from seed_rl.serving.request import Request

# A stream that has sent nothing for longer is taken for one that has ended.
_LONGEST_TURN_SECS = 600.0


class BatchFigures:
    """Figures of inference since they were last taken. Thread-safe; nothing is done per environment.

    Attributes:
      waits: of the inference threads.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts without batches; `clock` is the one that requests arrive by."""
        self.waits = Waits(INFERENCE_FOR_REQUESTS, INFERENCE_FOR_TRAINING)
        self._clock = clock
        self._lock = threading.Lock()
        self._latencies: list[float] = []
        self._batch_sizes: list[int] = []
        self._waited, self._waited_since = 0.0, clock()  # Seconds of all requests in the batcher.
        self._turns, self._turn_seconds = 0, 0.0
        self._answered: dict[int, float] = {}  # When streams, by key, were answered last.
        self._received = self._sent = 0  # Bytes of unrolls, and of weights.

    def begin(self, requests: Sequence[Request]) -> None:
        """Notes that these requests have left the batcher."""
        now = self._clock()
        with self._lock:
            for request in requests:
                arrived = request.arrived
                self._waited += now - arrived
                if answered := self._answered.pop(request.group.key, None):
                    self._turns += 1
                    self._turn_seconds += arrived - answered

    def add(self, requests: Sequence[Request]) -> None:
        """Notes that these requests, a whole batch, have been answered."""
        now = self._clock()
        with self._lock:
            self._latencies += [now - request.arrived for request in requests]
            self._batch_sizes.append(sum(request.group.num_envs for request in requests))
            self._answered.update([(request.group.key, now) for request in requests])

    def carried(self, received: int, sent: int) -> None:
        """Notes so many bytes of unrolls that came, and of weights that an actor got."""
        with self._lock:
            self._received += received
            self._sent += sent

    def take(self) -> dict[str, float]:
        """The figures since the last call, by plain name; those of batches only if there were any."""
        now, figures = self._clock(), self.waits.take()
        with self._lock:
            latencies, self._latencies = self._latencies, []
            sizes, self._batch_sizes = self._batch_sizes, []
            seconds, self._waited_since = now - self._waited_since, now
            waited, self._waited = self._waited, 0.0
            turns, self._turns = self._turns, 0
            turn_seconds, self._turn_seconds = self._turn_seconds, 0.0
            received, self._received = self._received, 0
            sent, self._sent = self._sent, 0
            self._answered = {k: t for k, t in self._answered.items() if now - t < _LONGEST_TURN_SECS}
        if turns:
            figures["actor_turn_ms"] = 1e3 * max(0.0, turn_seconds / turns)
        if received:
            figures["unrolls_mib_per_second"] = received / 2**20 / max(seconds, 1e-9)
            figures["weights_mib_per_second"] = sent / 2**20 / max(seconds, 1e-9)
        if not sizes:
            return figures
        p50, p99 = np.percentile(latencies, [50, 99])
        return figures | {
            "inference_latency_p50_ms": 1e3 * float(p50),
            "inference_latency_p99_ms": 1e3 * float(p99),
            "inference_batch_size": float(np.mean(sizes)),
            "requests_waiting": waited / max(seconds, 1e-9),
        }
