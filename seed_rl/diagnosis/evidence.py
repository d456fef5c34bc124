"""The figures of a run's last periods, and what follows from them directly."""

import math
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
    stage_waits,
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


class Evidence:
    """What is known of a run.

    Attributes:
      figures: by the names of metrics.jsonl; those of `NEEDED` are there.
      settings: of the learner and the agent, by name.
      waiting: the share of time for which inference waits for requests.
      blocked: the share of time for which inference waits for training.
      acting: the share of time for which inference works.
      training_waits: the share of time for which training waits for a batch.
      hosts_wait: the share of time for which training waits for other learner hosts.
      preparing: the least share of time for which training waits for a batch that is being prepared.
      inserting: the share of time for which the intake of replay inserts, or may not; 0 without one.
      actors_wait: the share of time for which a group of environments waits for its actions; 0 if unknown.
      has_replay: whether experience goes to replay.
      has_intake: whether a thread inserts into replay; inference writes transitions there itself.
      has_rollouts: whether environments wait while their experience is trained on.
      is_full: whether all cores of the machine, or of this run's part of it, are in use.
    """

    def __init__(self, figures: Mapping[str, float], settings: Mapping[str, Any]):
        """Derives all else from figures and settings."""
        self.figures, self.settings = figures, settings
        self.waiting, self.blocked = figures[INFERENCE_FOR_REQUESTS], figures[INFERENCE_FOR_TRAINING]
        self.acting = max(0.0, 1.0 - self.waiting - self.blocked)
        self.training_waits = figures[TRAINING_FOR_BATCH]
        self.hosts_wait = figures.get(TRAINING_FOR_HOSTS, 0.0)
        self.preparing = max(
            0.0, self.training_waits - figures.get(PREFETCH_FOR_EXPERIENCE, self.training_waits)
        )
        self.has_intake = INTAKE_FOR_UNROLLS in figures
        self.inserting = 1.0 - figures.get(INTAKE_FOR_UNROLLS, 1.0)
        self.actors_wait = stage_waits(figures).get("actors", 0.0)
        self.has_replay, self.has_rollouts = "replay_ratio" in settings, "rollout_unrolls" in figures
        mine = figures.get("learner_cpu_cores", 0.0) + figures.get("actor_cpu_cores", 0.0)
        in_use = max(mine, figures.get("machine_cpu_cores", 0.0))
        self.is_full = in_use >= _FULL * figures.get("machine_cores", math.inf)

    @property
    def batch_share(self) -> float:
        """Environments in a batch of inference, as a share of the most that there may be."""
        return self.figures.get("inference_batch_size", 0.0) / max(1, self.settings["inference_batch_size"])

    @property
    def queue_capacity(self) -> int:
        """The unrolls that may wait in V-trace's queue."""
        return self.settings.get("queue_capacity") or self.settings["batch_size"]


def gather(
    periods: Sequence[Mapping[str, Any]], settings: Mapping[str, Any], most: int = MOST
) -> tuple[Evidence, list[Mapping[str, Any]]]:
    """The median of each figure over the last periods, which outlasts a checkpoint; and those periods.

    Raises:
      TooFewError: there are too few.
    """
    complete = [period for period in periods if period.keys() >= {*NEEDED, *_SPEED}]
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
