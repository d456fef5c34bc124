"""Bottlenecks of a run: how much of their time its stages wait, and the flag to change.

Of actors, inference and training, the stage that never waits bounds the others. So a finding is limits on
the shares of time for which the stages wait, and the report prints these shares above it.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from seed_rl.metrics.idle_time import (
    INFERENCE_FOR_REQUESTS,
    INFERENCE_FOR_TRAINING,
    INTAKE_FOR_UNROLLS,
    PREFETCH_FOR_EXPERIENCE,
    TRAINING_FOR_BATCH,
    TRAINING_FOR_HOSTS,
    stage_waits,
)

# Without these, written by every run once it has trained, there is no diagnosis.
_NEEDED = {INFERENCE_FOR_REQUESTS, INFERENCE_FOR_TRAINING, TRAINING_FOR_BATCH}
_NEEDED |= {"seconds", "updates", "frames_per_second"}
# Periods: fewer prove nothing, and older ones may be of another phase of the run.
LEAST_PERIODS, MOST_PERIODS = 3, 10

# What may bound a run, by the `shares` that are at least and those that are below a limit. The first one that
# holds is the finding. In the lines from "inference" to "actors", training waits for experience.
_Limits: TypeAlias = Mapping[str, float]
_BOUNDS: Mapping[str, tuple[_Limits, _Limits]] = {
    "synchronous": ({"synchronous": 1}, {}),
    "replay ratio": ({"replay": 1, "blocked": 0.1}, {"training": 0.2}),
    "training": ({"blocked": 0.1}, {"training": 0.2}),
    "rollouts": ({"rollouts": 1}, {"batch": 0.5}),
    "queue": ({"queue": 1, "blocked": 0.2, "batch": 0.2}, {}),
    "hosts": ({"hosts": 0.2}, {}),
    "inference": ({"batch": 0.2}, {"blocked": 0.2, "idle": 0.5}),
    "turns": ({"batch": 0.2, "actors": 0.2}, {"blocked": 0.2, "idle": 0.7}),
    "actors": ({"batch": 0.2}, {"blocked": 0.2}),
    "machine": ({"cores": 0.9}, {}),
    "nothing": ({}, {}),
}
# Other programs are in the way if all cores are in use and they have this part of them.
_CROWDED = {"cores": 0.9, "others": 0.3}
_SENTENCES = {
    "others": "Other programs slow this run down: stop them, and then look again.",
    "synchronous": "The order of --synchronous bounds this run: leave it out, unless runs must repeat.",
    "replay ratio": "The replay ratio bounds this run: lower --replay_ratio, or make updates faster "
    "(--training_devices, a smaller network).",
    "training": "Training bounds this run: add --training_devices, use a smaller network (--torso, "
    "--lstm_size), or raise --batch_size.",
    "rollouts": "Training bounds this run, and all environments wait for it: use a smaller network, or "
    "--agent=appo, whose actors do not wait.",
    "queue": "The short queue bounds this run: raise --queue_capacity (by default, the --batch_size).",
    "hosts": "Learner hosts wait for one another: give each the same devices and as many actors "
    "(--num_actors), or use fewer (--num_learners).",
    "inference": "Inference bounds this run: send it more at once (--env_batch_size), raise "
    "--inference_batch_size if batches are full, add --inference_devices, or with an accelerator "
    "--num_inference_threads.",
    "turns": "Actors and inference bound this run by taking turns: set --num_env_groups=2 (or more).",
    "actors": "The actors bound this run: add actors (--num_actors), on other machines (--server_address) if "
    "all cores are busy; lower --inference_batch_size if they wait for actions all the same.",
    "machine": "The machine is full: use one with more cores, or put actors on others (--server_address).",
    "nothing": "Nothing bounds this run by itself: add actors (--num_actors) and --training_devices; or, if "
    "the learner uses about one core, send it more at once (--env_batch_size) or split it (--num_learners).",
}


def report(logdir: Path, settings: Mapping[str, Any], periods: Sequence[Mapping[str, Any]]) -> list[str]:
    """The run's speed, a table of its stages, and what bounds it; a few lines.

    `settings` of the learner and the agent, by name; the last periods count.
    """
    last, metrics = _recent(periods), medians(periods)
    if metrics is None:
        seconds = settings.get("log_period_secs", 0.0) * LEAST_PERIODS
        return [
            f"{logdir}: There are too few figures yet ({len(last)} of {LEAST_PERIODS} periods); try again "
            f"when the run has trained for {seconds:g} s."
        ]
    seconds = last[-1]["seconds"] - last[0]["seconds"]
    updates = (last[-1]["updates"] - last[0]["updates"]) / max(seconds, 1e-9)
    speed = f"{metrics['frames_per_second']:,.0f} frames/s and {updates:,.1f} updates/s"
    head = f"{logdir}: {speed} in the last {len(last)} periods."
    return [head, *table(metrics), *findings(metrics, settings).values()]


def _recent(periods: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [period for period in periods if period.keys() >= _NEEDED][-MOST_PERIODS:]


def medians(periods: Sequence[Mapping[str, Any]]) -> dict[str, float] | None:
    """The median of each metric over the last periods that report it; None: there are too few yet.

    It outlasts a checkpoint.
    """
    last = _recent(periods)
    if len(last) < LEAST_PERIODS:
        return None
    names = {name for period in last for name in period}
    return {name: statistics.median(p[name] for p in last if name in p) for name in names}


def shares(metrics: Mapping[str, float], settings: Mapping[str, Any]) -> dict[str, float]:
    """The shares of time or of cores, 0 to 1, that findings are about; 0 if unknown.

    `training` and `actors` are those of `stage_waits`. Inference is `blocked` by training, except where all
    environments wait for training anyway, and of its other time it is `idle`. Training waits for a `batch` or
    for other `hosts`. Of the `cores` that are in use, `others` have some. Facts about the run are 1.
    """
    requests, blocked = metrics[INFERENCE_FOR_REQUESTS], metrics[INFERENCE_FOR_TRAINING]
    has_rollouts = "rollout_unrolls" in metrics
    mine = metrics.get("learner_cpu_cores", 0.0) + metrics.get("actor_cpu_cores", 0.0)
    cores, in_use = metrics.get("machine_cores", math.inf), max(mine, metrics.get("machine_cpu_cores", 0.0))
    return {
        **stage_waits(metrics),
        "blocked": 0.0 if has_rollouts else blocked,
        "idle": requests / max(1.0 - blocked, 1e-9),
        "batch": metrics[TRAINING_FOR_BATCH],
        "hosts": metrics.get(TRAINING_FOR_HOSTS, 0.0),
        "cores": in_use / cores,
        "others": (in_use - mine) / cores if "actor_cpu_cores" in metrics else 0.0,
        "synchronous": float(bool(settings.get("synchronous"))),
        "replay": float("replay_ratio" in settings),
        "queue": float("queue_capacity" in settings),
        "rollouts": float(has_rollouts),
    }


def findings(metrics: Mapping[str, float], settings: Mapping[str, Any]) -> dict[str, str]:
    """The bottleneck of the run, with the flag to change, and before it other programs, if they take much."""
    found = shares(metrics, settings)

    def holds(least: _Limits, below: _Limits) -> bool:
        is_reached = all(found.get(name, 0.0) >= limit for name, limit in least.items())
        return is_reached and all(found.get(name, 0.0) < limit for name, limit in below.items())

    names = [next(name for name, limits in _BOUNDS.items() if holds(*limits))]
    names = ["others"] * holds(_CROWDED, {}) + names
    return {name: _SENTENCES[name] for name in names}


def stages(metrics: Mapping[str, float]) -> list[tuple[str, float, str]]:
    """The stages, each with the share of time for which it waits, and what it waits for."""
    waits = stage_waits(metrics)
    waits |= {
        "prefetch": metrics.get(PREFETCH_FOR_EXPERIENCE, -1),
        "replay": metrics.get(INTAKE_FOR_UNROLLS, -1),
    }
    hosts = (
        f", other learner hosts {metrics[TRAINING_FOR_HOSTS]:.0%}" if TRAINING_FOR_HOSTS in metrics else ""
    )
    answer, turn = (metrics.get(name, 0.0) for name in ("inference_latency_p50_ms", "actor_turn_ms"))
    reasons = {
        "training": f"a batch {metrics[TRAINING_FOR_BATCH]:.0%}{hosts}",
        "inference": f"requests {metrics[INFERENCE_FOR_REQUESTS]:.0%}, "
        f"training {metrics[INFERENCE_FOR_TRAINING]:.0%}",
        "actors": f"actions (an answer takes {answer:.1f} ms, a turn of an actor {turn:.1f} ms)",
        "prefetch": "experience for a batch",
        "replay": "unrolls to insert",
    }
    return [(name, waits[name], why) for name, why in reasons.items() if waits.get(name, -1) >= 0]


def table(metrics: Mapping[str, float]) -> list[str]:
    """The stages in lines, and the cores in use."""
    lines = [f"{'stage':<10}{'waits':>6}  for"]
    lines += [f"{name:<10}{waits:>6.0%}  {why}" for name, waits, why in stages(metrics)]
    if "machine_cores" in metrics:
        users = {"learner": metrics.get("learner_cpu_cores", 0.0)}
        if "actor_cpu_cores" in metrics:
            users["actors"] = metrics["actor_cpu_cores"]
            users["other programs"] = max(0.0, metrics.get("machine_cpu_cores", 0.0) - sum(users.values()))
        used = ", ".join(f"{name} {cores:.1f}" for name, cores in users.items())
        lines.append(f"{'cores':<10}{metrics['machine_cores']:>6g}  used by {used}")
    return lines
