"""Training runs of shipped presets, for benchmarks.learning and benchmarks.scores. No TensorFlow.

Each run is `seed_rl train` in a process of its own, judged by its metrics.jsonl; its run directory stays.
What remains for the docs is a record: run.json and a part of the metrics, which `seed_rl plot` and `seed_rl
report` read as they read run directories.
"""

import contextlib
import dataclasses
import json
import math
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from benchmarks.harness import log_end, module_child, read_metrics
from seed_rl.files import write_atomically
from seed_rl.flags.errors import UsageError
from seed_rl.launch.child import Child
from seed_rl.launch.plan import LocalConfig, make_plan, resolve_run
from seed_rl.launch.watch import ChildEnded, Watch
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.metrics.curves import curve, return_name
from seed_rl.plotting.groups import telling_settings
from seed_rl.runs import record
from seed_rl.runs.layout import RunDirectory
from seed_rl.runs.record import RunRecord, run_identity

_LOG_PERIOD = "--log_period_secs=2"

# A mean over the first few episodes may be good by chance.
FEWEST_EPISODES = 100

_STOP_SECS = 90.0

# Of a record.
_MOST_PERIODS = 100
_FIGURES = (
    "env_frames",
    "seconds",
    "updates",
    "episodes",
    "mean_return",
    "mean_evaluation_return",
    "entropy",
    "kl_old_new",
    "policy_lag_first_updates",
)


class FailedRun(RuntimeError):
    """A run ended by itself before it was complete; the text has the end of its log."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A preset and the flags that are added to it.

    Attributes:
      environment, agent: as `seed_rl train` takes them.
      game: the environment's `--game`, as given or from the preset; None if the suite has none.
      arguments: what `seed_rl train` takes for this, without the seed and the run directory.
      total_frames: environment frames after which a run is complete.
      record: its run.json, but for versions and machine.
      label: tells it from others with the same preset; may be empty.
    """

    environment: str
    agent: str
    game: str | None
    arguments: tuple[str, ...]
    total_frames: int
    record: RunRecord = dataclasses.field(compare=False, repr=False)
    label: str = ""

    @property
    def name(self) -> str:
        """`ENVIRONMENT/AGENT` with the game and the label, if there are any, after further slashes."""
        return "/".join(filter(None, (self.environment, self.agent, self.game, self.label)))


class Progress(NamedTuple):
    """Progress of a run so far.

    Attributes:
      final: the last mean return that was reported: in evaluation if there is one, else in training.
      best: the highest, not counting those over fewer than `FEWEST_EPISODES` episodes.
      frames: environment frames played.
      seconds: seconds of training.
      frames_to_mark: environment frames until the mean return first reached the mark; None if it has not.
      seconds_to_mark: the same in seconds of training.
    """

    final: float | None
    best: float | None
    frames: int
    seconds: float
    frames_to_mark: int | None = None
    seconds_to_mark: float | None = None


def make_case(name: str, flags: Sequence[str] = (), label: str = "") -> Case:
    """A case of the preset `ENVIRONMENT/AGENT` or `ENVIRONMENT/AGENT/GAME` and flags, which override it.

    All flags are checked before anything starts; without a preset, settings are computed from the spaces.

    Raises:
      UsageError: it is not such a name, or a flag is wrong.
    """
    environment, agent, game = [*name.split("/", 2), "", ""][:3]
    if not (environment and agent):
        raise UsageError(f"{name!r} is no preset; write ENVIRONMENT/AGENT, like catch/ppo, or with /GAME.")
    own = [environment, agent, *([f"--game={game}"] if game else [])]
    line = resolve_run(["train", *own, *flags])
    make_plan(line, "unix:unused")
    local = line.read(LocalConfig)
    num_envs = local.num_actors * local.env_batch_size
    config = line.read(LearnerConfig, num_envs=num_envs, server_address="", logdir="")
    assert line.agent is not None
    identity = run_identity(line.environment, line.environment_config(), line.agent, line.agent_config())
    return Case(
        environment,
        agent,
        getattr(line.environment_config(), "game", None),
        (*own, _LOG_PERIOD, *flags),
        config.total_environment_frames,
        RunRecord(Path(), identity, line.agent_config().to_dict(), config.to_dict(), {}),
        label,
    )


def progress(periods: Sequence[dict[str, Any]], mark: float | None = None) -> Progress:
    """Progress of a run by its metrics, in ascending order of frames; `mark` is a mean return to reach."""
    if not periods:
        return Progress(None, None, 0, 0.0)
    name = return_name(periods)
    returns = curve(periods, name).value
    best, first = notable(periods, mark)
    return Progress(
        float(returns[-1]) if len(returns) else None,
        float(best[name]) if best else None,
        int(periods[-1]["env_frames"]),
        float(periods[-1]["seconds"]),
        *((int(first["env_frames"]), float(first["seconds"])) if first else ()),
    )


def notable(
    periods: Sequence[dict[str, Any]], mark: float | None
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """The best period, and the first one that reached a mark; None where there is none.

    Those before the `FEWEST_EPISODES`th episode do not count.
    """
    name = return_name(periods)
    judged = [p for p in periods if p.get(name) is not None and p["episodes"] >= FEWEST_EPISODES]
    best = max(judged, key=lambda period: period[name], default=None)
    return best, next((p for p in judged if mark is not None and p[name] >= mark), None)


def train(
    case: Case,
    seed: int,
    logdir: Path,
    *,
    mark: float | None,
    stop_at_mark: bool,
    kill_learner_secs: float = math.inf,
) -> Progress:
    """Trains until the run is complete or, with `stop_at_mark`, the mark is reached; resumes what has begun.

    A learner that has trained for `kill_learner_secs` is killed, and the run resumed. A file beside the run
    directory, with `.log` added, has the output.

    Raises:
      FailedRun: the run failed.
    """
    before = progress(read_metrics(logdir), mark)
    if before.frames >= case.total_frames or (stop_at_mark and before.frames_to_mark is not None):
        return before
    logdir.parent.mkdir(parents=True, exist_ok=True)
    flags = [f"--seed={seed}", f"--logdir={logdir}"]
    if stop_at_mark and mark is not None:
        flags.append(f"--stop_at_return={mark}")
    log = logdir.with_name(f"{logdir.name}.log")
    child = module_child("seed_rl", "train", *case.arguments, *flags, log=log)
    watch, is_killed = Watch(), True
    try:
        while is_killed:
            watch.start(child)
            code, is_killed = _wait(watch, child, logdir, kill_learner_secs)
    finally:
        watch.end([child], _STOP_SECS)  # After a Ctrl-C: with a checkpoint.
    if code:
        raise FailedRun(f"{child.name} ended with exit code {code}: {log_end(child)}")
    return progress(read_metrics(logdir), mark)


def _wait(watch: Watch, child: Child, logdir: Path, kill_learner_secs: float) -> tuple[int, bool]:
    """The exit code of `seed_rl train`, and whether its learner was killed, after so long with metrics."""
    since, before, is_killed = math.inf, len(read_metrics(logdir)), False
    for event in watch:
        if isinstance(event, ChildEnded):
            return event.code, is_killed
        if kill_learner_secs < math.inf == since and len(read_metrics(logdir)) > before:
            since = time.monotonic()
        if time.monotonic() - since > kill_learner_secs and not is_killed:
            for process in psutil.Process(child.pid).children(recursive=True):
                with contextlib.suppress(psutil.Error):
                    if "learner" in process.cmdline():
                        process.kill()
                        is_killed = True
    raise AssertionError("the watch has no end")


def run_directory(parent: Path, case: Case, *parts: str) -> Path:
    """The run directory for a case: its name and further parts, joined by underscores."""
    name = "_".join((*case.name.split("/"), *parts))
    return parent / re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def keep_record(logdir: Path, to: Path, mark: float | None) -> None:
    """Writes the record of a run into the directory `to`, with the period that first reached the mark."""
    to.mkdir(parents=True, exist_ok=True)
    periods = read_metrics(logdir)
    lines = [
        {name: periods[index][name] for name in _FIGURES if name in periods[index]}
        for index in _chosen(periods, mark)
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    write_atomically(RunDirectory(to).metrics, text)
    # The last file makes it a record.
    write_atomically(RunDirectory(to).record, RunDirectory(logdir).record.read_text(encoding="utf-8"))


def is_record(path: Path) -> bool:
    """Whether this directory has a record."""
    return RunDirectory(path).record.exists()


def _chosen(periods: Sequence[dict[str, Any]], mark: float | None) -> list[int]:
    """Evenly spaced periods, with the last one, the best one, and the one that first reached the mark."""
    chosen = set(np.linspace(0, len(periods) - 1, min(len(periods), _MOST_PERIODS)).astype(int).tolist())
    chosen |= {periods.index(period) for period in notable(periods, mark) if period}
    return sorted(chosen)


def record_changes(kept: Path, case: Case) -> list[str]:
    """Differences between a record's settings and those of a case now, as `NAME: THERE there, MINE now`.

    Raises:
      ValueError: the record cannot be read; one sentence.
    """
    there, mine = (telling_settings(one) for one in (record.read(str(kept)), case.record))
    return record.differences(there, mine)
