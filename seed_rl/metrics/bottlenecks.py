"""Bottlenecks of a run: how much of their time its stages wait, and the flag to change.

Of actors, inference and training, the stage that never waits bounds the others. So a finding is a condition
on the shares of time for which the stages wait, and the report prints these shares above it.
"""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from seed_rl.messages import warn
from seed_rl.metrics.curves import periods_so_far
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
_LEAST, _MOST = 3, 10
_POLL_SECS = 0.5

# Shares of time: what waits for more than `_MUCH` has a reason, what waits for less than `_SOME` is busy.
_SOME, _MUCH, _MOSTLY = 0.1, 0.2, 0.5
# A batch of inference, as a share of the most environments that there may be in one.
_SMALL_BATCH = 0.5
# Shares of the machine's cores: in use if it is full, and used by other programs if they are in the way.
_FULL, _CROWDED = 0.9, 0.3

# By the names of findings; in braces, settings and what `diagnose` makes of them.
_SENTENCES = {
    "other_programs": "Other programs slow this run down: stop them, and then look again.",
    "synchronous": "The order of --synchronous bounds this run: leave it out, unless runs must repeat.",
    "rollouts": "Training bounds this run, and all environments wait for it: {fewer}use a smaller network, "
    "or --agent=appo, whose actors do not wait.",
    "training": "Training bounds this run: {fewer}add --training_devices, use a smaller network (--torso, "
    "--lstm_size), or raise --batch_size.",
    "replay_ratio": "The replay ratio bounds this run: lower --replay_ratio={replay_ratio}, or make updates "
    "faster (--training_devices, a smaller network).",
    "intake": "Inserting into replay bounds this run: {plainer}split the environments over several learners "
    "(--num_learners).",
    "queue": "The short queue bounds this run: raise --queue_capacity above {capacity}.",
    "hosts": "Learner hosts wait for one another: give each the same devices and as many actors "
    "(--num_actors), or use fewer (--num_learners).",
    "preparing": "Preparing batches bounds this run: {plainer}make batches smaller (--batch_size, "
    "--unroll_length).",
    "stragglers": "Batches that wait for the slowest actors bound this run: lower "
    "--inference_batch_size={inference_batch_size}, or set --num_env_groups=2.",
    "turns": "Actors and inference bound this run by taking turns: set --num_env_groups=2 (or more).",
    "actors": "The actors bound this run: add actors (--num_actors).",
    "actors_elsewhere": "The actors bound this run, and all cores are busy: add actors on other machines "
    "(--server_address).",
    "inference": "Inference bounds this run: send it more at once (--env_batch_size), raise "
    "--inference_batch_size={inference_batch_size} if batches are full (they have {size:.0f}), add "
    "--inference_devices, or with an accelerator --num_inference_threads.",
    "machine": "The machine is full: use one with more cores, or put actors on others (--server_address).",
    "balanced": "Nothing bounds this run by itself: add actors (--num_actors) and --training_devices; or, if "
    "the learner uses about one core, send it more at once (--env_batch_size) or split it (--num_learners).",
    "small_batches": "Batches of inference are small ({size:.0f} of {inference_batch_size}): add "
    "environments (--env_batch_size), in --num_env_groups=2.",
}


class Shares:
    """The shares of time, 0 to 1, for which the stages of a run wait or work, and its use of CPU.

    Attributes:
      metrics: by the names of metrics.jsonl; those that every run writes are there.
      settings: of the learner and the agent, by name.
      requests: inference waits for requests.
      blocked: inference waits for training.
      acting: inference works.
      batch: training waits for a batch.
      hosts: training waits for other learner hosts.
      preparing: training waits for a batch that is being prepared, at least.
      actions: a group of environments waits for its actions; 0 if unknown.
      has_rollouts: whether environments wait while their experience is trained on.
      is_full: whether all cores of the machine, or of this run's part of it, are in use.
      other_cores: what neither the learner nor its actors use; 0 if unknown.
    """

    def __init__(self, metrics: Mapping[str, float], settings: Mapping[str, Any]):
        """Derives all else from metrics and settings."""
        self.metrics, self.settings = metrics, settings
        self.requests, self.blocked = metrics[INFERENCE_FOR_REQUESTS], metrics[INFERENCE_FOR_TRAINING]
        self.acting = max(0.0, 1.0 - self.requests - self.blocked)
        self.batch, self.hosts = metrics[TRAINING_FOR_BATCH], metrics.get(TRAINING_FOR_HOSTS, 0.0)
        self.preparing = max(0.0, self.batch - metrics.get(PREFETCH_FOR_EXPERIENCE, self.batch))
        self.actions = stage_waits(metrics).get("actors", 0.0)
        self.has_rollouts = "rollout_unrolls" in metrics
        mine = metrics.get("learner_cpu_cores", 0.0) + metrics.get("actor_cpu_cores", 0.0)
        in_use = max(mine, metrics.get("machine_cpu_cores", 0.0))
        self.is_full = in_use >= _FULL * metrics.get("machine_cores", math.inf)
        self.other_cores = in_use - mine if "actor_cpu_cores" in metrics else 0.0


def report(
    logdir: Path, settings: Mapping[str, Any], periods: Sequence[Mapping[str, Any]], most: int = _MOST
) -> list[str]:
    """The run's speed, a table of its stages, what bounds it, and what else costs speed; a few lines.

    `settings` of the learner and the agent, by name; the last `most` periods count.
    """
    last = [period for period in periods if period.keys() >= _NEEDED][-most:]
    if len(last) < _LEAST:
        seconds = settings.get("log_period_secs", 0.0) * _LEAST
        return [
            f"{logdir}: There are too few figures yet ({len(last)} of {_LEAST} periods); try again when "
            f"the run has trained for {seconds:g} s."
        ]
    shares = Shares(medians(last), settings)
    seconds = last[-1]["seconds"] - last[0]["seconds"]
    updates = (last[-1]["updates"] - last[0]["updates"]) / max(seconds, 1e-9)
    speed = f"{shares.metrics['frames_per_second']:,.0f} frames/s and {updates:,.1f} updates/s"
    head = f"{logdir}: {speed} in the last {len(last)} periods."
    return [head, *table(shares), *diagnose(shares).values()]


def watch(
    logdir: Path,
    settings: Mapping[str, Any],
    trains: Callable[[], bool],
    say: Callable[[list[str]], object],
    sleep: Callable[[float], object] = time.sleep,
) -> None:
    """Reports on the last few periods whenever there is a new one, until no learner trains in the directory.

    `trains` returns whether one does; `say` takes the lines of each report; `sleep` waits for a number of
    seconds.
    """
    seen = -1
    while True:
        is_training = trains()
        # Warnings came the first time.
        periods = periods_so_far(logdir) if seen >= 0 else periods_so_far(logdir, warn)
        if len(periods) != seen or not is_training:
            seen = len(periods)
            say(report(logdir, settings, periods, _LEAST))
        if not is_training:
            say(["No learner trains in this directory now."])
            return
        sleep(_POLL_SECS)


def medians(periods: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """The median of each metric over the periods that report it, which outlasts a checkpoint."""
    names = {name for period in periods for name in period}
    return {name: statistics.median(p[name] for p in periods if name in p) for name in names}


def table(shares: Shares) -> list[str]:
    """The share of time for which each stage waits, with what it waits for, and the cores in use."""
    s, metrics = shares, shares.metrics
    waits = stage_waits(metrics)
    hosts = f", other learner hosts {s.hosts:.0%}" if TRAINING_FOR_HOSTS in metrics else ""
    rows = [
        ("stage", "waits", "for"),
        ("training", f"{waits['training']:.0%}", f"a batch {s.batch:.0%}{hosts}"),
        ("inference", f"{waits['inference']:.0%}", f"requests {s.requests:.0%}, training {s.blocked:.0%}"),
    ]
    if "actors" in waits:
        turn, answer = metrics["actor_turn_ms"], metrics.get("inference_latency_p50_ms", 0.0)
        times = f"an answer takes {answer:.1f} ms, a turn of an actor {turn:.1f} ms"
        rows.append(("actors", f"{s.actions:.0%}", f"actions ({times})"))
    for stage, name, reason in (
        ("prefetch", PREFETCH_FOR_EXPERIENCE, "experience for a batch"),
        ("replay", INTAKE_FOR_UNROLLS, "unrolls to insert"),
    ):
        if name in metrics:
            rows.append((stage, f"{metrics[name]:.0%}", reason))
    lines = [f"{stage:<10}{share:>6}  {reason}" for stage, share, reason in rows]
    if "machine_cores" in metrics:
        used = [f"learner {metrics.get('learner_cpu_cores', 0.0):.1f}"]
        if "actor_cpu_cores" in metrics:
            used += [f"actors {metrics['actor_cpu_cores']:.1f}", f"other programs {s.other_cores:.1f}"]
        lines.append(f"{'cores':<10}{metrics['machine_cores']:>6g}  used by {', '.join(used)}")
    return lines


def diagnose(shares: Shares) -> dict[str, str]:
    """Bottleneck of the run, and further costs of speed: by name, a sentence with the flag to change.

    If other programs take much of the machine, that comes before all else: it slows every stage.
    """
    s, settings = shares, shares.settings
    size, most = s.metrics.get("inference_batch_size", 0.0), settings["inference_batch_size"]
    bound = _bound(s)
    names = [bound]
    if s.is_full and s.other_cores >= _CROWDED * s.metrics["machine_cores"]:
        names = ["other_programs"] if bound == "machine" else ["other_programs", bound]
    is_waiting = s.requests >= _MOSTLY or s.blocked >= _SOME or settings.get("synchronous")
    if size <= _SMALL_BATCH * most and s.actions >= _MOSTLY and not is_waiting:
        names.append("small_batches")
    passes = {name: settings[name] for name in ("epochs", "passes") if settings.get(name, 1) > 1}
    is_compressed = settings.get("replay_compression") == "zstd"
    words = {
        "fewer": "".join(f"lower --{name}={count}, " for name, count in passes.items()),
        "plainer": "set --replay_compression=none, or " if is_compressed else "",
        "capacity": settings.get("queue_capacity") or settings["batch_size"],
        "size": size,
    }
    return {name: _SENTENCES[name].format(**{**settings, **words}) for name in names}


def _bound(s: Shares) -> str:
    """The name of what bounds the run."""
    has_replay, training = "replay_ratio" in s.settings, s.batch + s.hosts
    takes_turns = s.blocked >= _MUCH and s.batch >= _MUCH
    if s.settings.get("synchronous"):
        return "synchronous"
    if s.has_rollouts and 1 - s.batch >= _MOSTLY:
        return "rollouts"
    if s.blocked >= _SOME and training < _MUCH:
        return "replay_ratio" if has_replay else "training"
    if takes_turns and INTAKE_FOR_UNROLLS in s.metrics:
        return "intake"
    if takes_turns and not has_replay and not s.has_rollouts:
        return "queue"
    if s.hosts >= _MUCH:
        return "hosts"
    if s.preparing >= _MUCH:
        return "preparing"
    if s.batch >= _MUCH and (s.blocked < _MUCH or s.has_rollouts):
        return _acting_bound(s)
    return "machine" if s.is_full else "balanced"


def _acting_bound(s: Shares) -> str:
    """The same where training waits for experience: actors, inference, or that one waits for the other."""
    if s.requests < s.acting:
        return "inference"
    if s.actions >= _MOSTLY:
        return "stragglers"
    if s.is_full:
        return "actors_elsewhere"
    return "turns" if s.actions >= _MUCH and s.requests < _MOSTLY + _MUCH else "actors"
