"""Idle time: the shares of time for which threads wait, by reason. Imports the standard library only."""

import threading
import time
from collections.abc import Callable, Mapping

# Reasons that threads of a learner wait, by the names of the metrics.
INFERENCE_FOR_REQUESTS = "inference_waiting_share"
INFERENCE_FOR_TRAINING = "inference_blocked_share"  # To hand over unrolls.
INTAKE_FOR_UNROLLS = "intake_waiting_share"
PREFETCH_FOR_EXPERIENCE = "prefetch_waiting_share"
TRAINING_FOR_BATCH = "training_waiting_share"
TRAINING_FOR_HOSTS = "hosts_waiting_share"  # The other learner hosts, before an update.


def stage_waits(metrics: Mapping[str, float]) -> dict[str, float]:
    """The shares of time, 0 to 1, for which training, inference and actors wait; those that are known.

    `metrics` are those of a period. Training waits for a batch or for other learner hosts, inference for
    requests or for training, and a group of environments for its actions.
    """
    waits = {}
    if TRAINING_FOR_BATCH in metrics:
        waits["training"] = metrics[TRAINING_FOR_BATCH] + metrics.get(TRAINING_FOR_HOSTS, 0.0)
    if INFERENCE_FOR_REQUESTS in metrics:
        waits["inference"] = metrics[INFERENCE_FOR_REQUESTS] + metrics.get(INFERENCE_FOR_TRAINING, 0.0)
    turn, latency = metrics.get("actor_turn_ms", 0.0), metrics.get("inference_latency_p50_ms", 0.0)
    if turn > 0:
        waits["actors"] = latency / (latency + turn)
    return {stage: min(1.0, share) for stage, share in waits.items()}


class Waits:
    """The shares of time for which threads of one kind wait, by name. Thread-safe.

    A thread counts from its first wait, or from `begin`, until the process ends. A wait that is in progress
    counts up to now, and the rest of it later, so a share is never above 1.
    """

    def __init__(self, *names: str, clock: Callable[[], float] = time.perf_counter):
        """Starts without threads; `names` are what they wait for, as the metrics are called."""
        self._clock = clock
        self._seconds = dict.fromkeys(names, 0.0)
        self._counted: dict[int, float] = {}  # By thread: up to when its time has been reported.
        self._waiting: dict[int, tuple[str, float]] = {}  # By thread: for what, and since when.
        self._lock = threading.Lock()

    def begin(self) -> None:
        """From now on the calling thread counts, even if it never waits."""
        with self._lock:
            self._counted.setdefault(threading.get_ident(), self._clock())

    def __call__(self, name: str) -> "Waits":
        """Begins a wait of the calling thread: `with waits(name): ...`; such waits are not nested."""
        thread, now = threading.get_ident(), self._clock()
        with self._lock:
            self._counted.setdefault(thread, now)
            self._waiting[thread] = name, now
        return self

    def __enter__(self) -> None:
        """Does nothing: the wait has begun. A generator with `contextmanager` would take twice the time."""

    def __exit__(self, *exception: object) -> None:
        """Ends the wait of the calling thread."""
        thread, now = threading.get_ident(), self._clock()
        with self._lock:
            name, since = self._waiting.pop(thread)
            self._seconds[name] += now - since

    def take(self) -> dict[str, float]:
        """The shares since the last call, 0 to 1, by name; the mean over threads. Empty without threads."""
        now = self._clock()
        with self._lock:
            for thread, (name, since) in self._waiting.items():
                self._seconds[name] += now - since
                self._waiting[thread] = name, now
            total = sum(now - before for before in self._counted.values())
            self._counted = dict.fromkeys(self._counted, now)
            seconds, self._seconds = self._seconds, dict.fromkeys(self._seconds, 0.0)
        return {name: value / total for name, value in seconds.items()} if total > 0 else {}
