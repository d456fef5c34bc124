"""The figures of a run's last periods, and what follows from them directly."""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from seed_rl.waits import (
    INFERENCE_FOR_REQUESTS,
    INFERENCE_FOR_TRAINING,
    INTAKE_FOR_UNROLLS,
    PREFETCH_FOR_EXPERIENCE,
    TRAINING_FOR_BATCH,
    TRAINING_FOR_HOSTS,
)

# Without these, written by every run once it has trained, nothing can be told.
NEEDED = (INFERENCE_FOR_REQUESTS, INFERENCE_FOR_TRAINING, TRAINING_FOR_BATCH)
_SPEED = ("seconds", "updates", "frames_per_second")

# Periods: fewer prove nothing, and older ones may be of another phase of the run.
LEAST, MOST = 3, 10

# The machine is full from this share of its cores on.
_FULL = 0.9


class TooFewError(Exception):
    """There are too few figures to tell anything; the message is one sentence."""


@dataclasses.dataclass(frozen=True)
class Evidence:
    """What is known of a run.

    Attributes:
      figures: by the names of metrics.jsonl; those of `NEEDED` are there.
      settings: of the learner and the agent, by name.
    """

    figures: Mapping[str, float]
    settings: Mapping[str, Any]

    @property
    def waiting(self) -> float:
        """The share of time for which inference waits for requests."""
        return self.figures[INFERENCE_FOR_REQUESTS]

    @property
    def blocked(self) -> float:
        """The share of time for which inference waits for training."""
        return self.figures[INFERENCE_FOR_TRAINING]

    @property
    def acting(self) -> float:
        """The share of time for which inference works."""
        return max(0.0, 1.0 - self.waiting - self.blocked)

    @property
    def training_waits(self) -> float:
        """The share of time for which training waits for a batch."""
        return self.figures[TRAINING_FOR_BATCH]

    @property
    def hosts_wait(self) -> float:
        """The share of time for which training waits for other learner hosts."""
        return self.figures.get(TRAINING_FOR_HOSTS, 0.0)

    @property
    def preparing(self) -> float:
        """The least share of time for which training waits for a batch that is being prepared."""
        waits = self.figures.get(PREFETCH_FOR_EXPERIENCE)
        return 0.0 if waits is None else max(0.0, self.training_waits - waits)

    @property
    def inserting(self) -> float:
        """The share of time for which the intake of replay inserts, or may not; 0 without one."""
        return 1.0 - self.figures.get(INTAKE_FOR_UNROLLS, 1.0)

    @property
    def actors_wait(self) -> float:
        """The share of time for which a group of environments waits for its actions; 0 if unknown."""
        turn = self.figures.get("actor_turn_ms", 0.0)
        latency = self.figures.get("inference_latency_p50_ms", 0.0)
        return latency / (latency + turn) if turn > 0 else 0.0

    @property
    def batch_share(self) -> float:
        """Environments in a batch of inference, as a share of the most that there may be."""
        return self.figures.get("inference_batch_size", 0.0) / max(1, self.settings["inference_batch_size"])

    @property
    def has_replay(self) -> bool:
        """Whether experience goes to replay."""
        return "replay_ratio" in self.settings

    @property
    def has_intake(self) -> bool:
        """Whether a thread inserts into replay; inference writes transitions there itself."""
        return INTAKE_FOR_UNROLLS in self.figures

    @property
    def has_rollouts(self) -> bool:
        """Whether environments wait while their experience is trained on."""
        return "rollout_unrolls" in self.figures

    @property
    def queue_capacity(self) -> int:
        """The unrolls that may wait in V-trace's queue."""
        return self.settings.get("queue_capacity") or self.settings["batch_size"]

    @property
    def is_full(self) -> bool:
        """Whether all cores of the machine, or of this run's part of it, are in use."""
        cores = self.figures.get("machine_cores")
        if cores is None:
            return False
        mine = self.figures.get("learner_cpu_cores", 0.0) + self.figures.get("actor_cpu_cores", 0.0)
        return max(mine, self.figures.get("machine_cpu_cores", 0.0)) >= _FULL * cores


def gather(
    periods: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], most: int = MOST
) -> tuple[Evidence, list[Mapping[str, Any]]]:
    """The median of each figure over the last periods, which outlasts a checkpoint; and those periods.

    Args:
      periods: as `runs.curves.read_periods` returns them.
      settings: of the learner and the agent, by name.
      most: number of periods to look at.

    Raises:
      TooFewError: there are too few.
    """
    known: list[Mapping[str, Any]] = [
        {name: value for name, value in period.items() if value is not None} for period in periods
    ]
    complete = [period for period in known if period.keys() >= {*NEEDED, *_SPEED}]
    if len(periods) >= LEAST and not complete:
        raise TooFewError(
            "Its metrics were written by a version of seed_rl that did not measure what waits; train with "
            "this one for a while."
        )
    if len(complete) < LEAST:
        seconds = settings.get("log_period_secs", 0.0) * LEAST
        raise TooFewError(
            f"There are too few figures yet ({len(complete)} of {LEAST} periods); try again when the "
            f"run has trained for {seconds:g} s."
        )
    last = complete[-most:]
    names = {name for period in last for name in period}
    found = {name: statistics.median(p[name] for p in last if name in p) for name in names}
    return Evidence(found, settings), last
