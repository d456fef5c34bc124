"""Metrics of the batches of inference, and of the policies that acted in those of training. No TensorFlow."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence

import numpy as np

from seed_rl.metrics.idle_time import INFERENCE_FOR_REQUESTS, INFERENCE_FOR_TRAINING, Waits
from seed_rl.serving.request import Request

# A stream that has sent nothing for longer is taken for one that has ended.
_LONGEST_TURN_SECS = 600.0


class BatchMetrics:
    """Metrics of inference since they were last taken. Thread-safe; nothing is done per environment.

    Attributes:
      waits: of the inference threads.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Starts without batches; `clock` is the one that requests arrive by."""
        self.waits = Waits(INFERENCE_FOR_REQUESTS, INFERENCE_FOR_TRAINING)
        self._clock, self._since = clock, clock()
        self._lock = threading.Lock()
        self._values: defaultdict[str, list[float]] = defaultdict(list)
        self._answered: dict[int, float] = {}  # When streams, by key, were answered last.

    def begin(self, requests: Sequence[Request]) -> None:
        """Notes that these requests have left the batcher."""
        now = self._clock()
        with self._lock:
            self._values["waits"] += [now - request.arrived for request in requests]
            for request in requests:
                if answered := self._answered.pop(request.group.key, None):
                    self._values["turns"].append(request.arrived - answered)

    def add(self, requests: Sequence[Request]) -> None:
        """Notes that these requests, a whole batch, have been answered."""
        now = self._clock()
        with self._lock:
            self._values["latencies"] += [now - request.arrived for request in requests]
            self._values["batch_sizes"].append(sum(request.group.num_envs for request in requests))
            self._answered.update([(request.group.key, now) for request in requests])

    def carried(self, received: int, sent: int) -> None:
        """Notes so many bytes of unrolls that came, and of weights that an actor got."""
        with self._lock:
            self._values["received"].append(received)
            self._values["sent"].append(sent)

    def take(self) -> dict[str, float]:
        """The metrics since the last call, by plain name; those of batches only if there were any."""
        now, metrics = self._clock(), self.waits.take()
        with self._lock:
            values, self._values = self._values, defaultdict(list)
            seconds, self._since = max(now - self._since, 1e-9), now
            self._answered = {k: t for k, t in self._answered.items() if now - t < _LONGEST_TURN_SECS}
        if values["turns"]:
            metrics["actor_turn_ms"] = 1e3 * max(0.0, float(np.mean(values["turns"])))
        if values["received"]:
            metrics["unrolls_mib_per_second"] = sum(values["received"]) / 2**20 / seconds
            metrics["weights_mib_per_second"] = sum(values["sent"]) / 2**20 / seconds
        if values["batch_sizes"]:
            p50, p99 = np.percentile(values["latencies"], [50, 99])
            metrics["inference_latency_p50_ms"] = 1e3 * float(p50)
            metrics["inference_latency_p99_ms"] = 1e3 * float(p99)
            metrics["inference_batch_size"] = float(np.mean(values["batch_sizes"]))
            metrics["requests_waiting"] = sum(values["waits"]) / seconds
        return metrics


class PolicyLag:
    """Metrics of the policy versions in a period's batches, in updates (SEED RL, section 3 and Figure 2).

    The weights may change several times within an unroll, so its last step is usually acted on by newer ones
    than its first. Of an unroll, only the T steps count whose actions are trained on: not the burn-in, nor
    the last step, whose action belongs to the next unroll.
    """

    def __init__(self, burn_in: int):
        """Starts without batches; unrolls begin with so many agent steps of burn-in."""
        self._burn_in = burn_in
        self._batches: list[tuple[float, float, float, float]] = []

    def add(self, versions: np.ndarray, updates: int) -> None:
        """Adds a batch that is about to be trained on, after so many updates; its versions int64 `[S, B]`."""
        acted = versions[self._burn_in : -1]
        spread = np.ptp(acted, axis=0)
        lags = updates - acted[[0, -1]].mean(axis=1)
        self._batches.append((*lags, spread.mean(), spread.max()))

    def take(self) -> dict[str, float]:
        """The metrics since the last call, by plain name; none if there was no batch."""
        if not self._batches:
            return {}
        first, last, mean, most = np.array(self._batches).T
        self._batches = []
        return {
            "policy_lag_first_updates": float(first.mean()),
            "policy_lag_last_updates": float(last.mean()),
            "version_spread_mean_updates": float(mean.mean()),
            "version_spread_max_updates": float(most.max()),
        }
