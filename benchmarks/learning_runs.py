"""Training runs of shipped presets, shared by the benchmarks of learning. No TensorFlow.

Each run is `seed_rl train` in a process of its own with a run directory that stays. It is
ended by SIGINT, as by Ctrl-C, and judged by its metrics.jsonl.
"""

import contextlib
import dataclasses
import math
import os
import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.harness import log_end, module_child, read_metrics
from seed_rl.flags.errors import UsageError
from seed_rl.launch.child import Child
from seed_rl.launch.plan import LocalConfig, make_plan, resolve_run
from seed_rl.launch.watch import ChildEnded, Tick, Watch
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.metrics.curves import curve, return_name
from seed_rl.runs.layout import RunDirectory
from seed_rl.runs.record import RunRecord, run_identity

_LOG_PERIOD = "--log_period_secs=2"

# A mean over the first few episodes may be good by chance.
FEWEST_EPISODES = 100

# A run that reports nothing ends this long after its limit.
_START_SECS = 120.0
_STOP_SECS = 90.0


class FailedRun(RuntimeError):
    """A run ended by itself before it was complete; the text has the end of its log."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A preset and the flags that are added to it.

    Attributes:
      environment: name of the suite.
      agent: name of the agent, or `rainbow`.
      game: the environment's `--game`, as given or from the preset; None if the suite has none.
      arguments: what `seed_rl train` takes for this, without the seed and the run directory.
      total_frames: environment frames after which a run is complete.
      batch_size: unrolls in a training batch.
      learning_rate: the initial one, for this batch size.
      env_batch_size: environments in each actor.
      inference_batch_size: maximum number of environments in one inference call.
      num_envs: environments of all actors.
      record: contents of its run.json, but for versions and machine.
      label: what tells it from others with the same preset; may be empty.
    """

    environment: str
    agent: str
    game: str | None
    arguments: tuple[str, ...]
    total_frames: int
    batch_size: int
    learning_rate: float
    env_batch_size: int
    inference_batch_size: int
    num_envs: int
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
      updates_to_mark: the same in updates.
    """

    final: float | None
    best: float | None
    frames: int
    seconds: float
    frames_to_mark: int | None = None
    seconds_to_mark: float | None = None
    updates_to_mark: int | None = None


def make_case(name: str, flags: Sequence[str] = (), label: str = "") -> Case:
    """Checks all flags before anything starts; without a preset, settings are computed from the spaces.

    Args:
      name: `ENVIRONMENT/AGENT` or `ENVIRONMENT/AGENT/GAME`, as `seed_rl train` takes them.
      flags: further flags of `seed_rl train`, as `--name=value`; they override the preset.
      label: what tells it from others with the same preset.

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
        config.batch_size,
        config.scaled_learning_rate,
        local.env_batch_size,
        config.inference_batch_size,
        config.num_envs,
        RunRecord(Path(), identity, line.agent_config().to_dict(), config.to_dict(), {}),
        label,
    )


def progress(periods: Sequence[dict[str, Any]], mark: float | None = None) -> Progress:
    """Progress of a run.

    Args:
      periods: its metrics, in ascending order of environment frames.
      mark: a mean return to reach; None: there is none.
    """
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
        *((int(first["env_frames"]), float(first["seconds"]), int(first["updates"])) if first else ()),
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
    case: Case, seed: int, logdir: Path, *, mark: float | None, stop_at_mark: bool, minutes: float
) -> Progress:
    """Trains until the run is complete, the time is over or the mark is reached; resumes what has begun.

    Args:
      case: what to train.
      seed: the run's `--seed`.
      logdir: the run directory; a file beside it, with `.log` added, has the output.
      mark: a mean return to reach, see `progress`.
      stop_at_mark: whether the run ends there, by `--stop_at_return`.
      minutes: limit on the training time of all sessions together; 0: none.

    Raises:
      FailedRun: the run ended by itself before it was complete.
    """

    def found() -> Progress:
        return progress(read_metrics(logdir), mark)

    before = found()
    is_over = bool(minutes) and before.seconds >= 60 * minutes
    is_reached = stop_at_mark and before.frames_to_mark is not None
    if is_over or is_reached or before.frames >= case.total_frames:
        return before
    logdir.parent.mkdir(parents=True, exist_ok=True)
    log = logdir.with_name(f"{logdir.name}.log")
    flags = [f"--seed={seed}", f"--logdir={logdir}"]
    if stop_at_mark and mark is not None:
        flags.append(f"--stop_at_return={mark}")
    child = module_child("seed_rl", "train", *case.arguments, *flags, log=log)
    if minutes:
        over = _on_change(RunDirectory(logdir).metrics, lambda: found().seconds >= 60 * minutes)
        _supervise(child, over, 60 * minutes - before.seconds + _START_SECS)
    else:
        _supervise(child)
    return found()


def run_directory(parent: Path, case: Case, *parts: str) -> Path:
    """The run directory for a case: its name and further parts, joined by underscores."""
    name = "_".join((*case.name.split("/"), *parts))
    return parent / re.sub(r"[^A-Za-z0-9._-]+", "-", name)


def _supervise(child: Child, done: Callable[[], bool] = lambda: False, patience: float = math.inf) -> None:
    """Runs the child until it ends, `done`, or `patience` seconds are over; then, and at a Ctrl-C, stops it.

    Raises:
      FailedRun: it failed.
    """
    watch = Watch()
    watch.start(child)
    try:
        for event in watch:
            match event:
                case ChildEnded(_, code):
                    if code:
                        raise FailedRun(f"{child.name} ended with exit code {code}: {log_end(child)}")
                    return
                case Tick() if done() or child.seconds > patience:
                    return
    finally:
        _stop(child, watch)


def _stop(child: Child, watch: Watch) -> None:
    """Sends SIGINT, waits for the checkpoint, and kills what is left."""
    try:
        if child.running:
            assert child.pid is not None
            os.kill(child.pid, signal.SIGINT)
            watch.wait([child], _STOP_SECS)
    finally:
        child.kill()


def _on_change(path: Path, condition: Callable[[], bool]) -> Callable[[], bool]:
    """The condition, evaluated only after the file has changed; false until then."""
    seen = 0

    def changed() -> bool:
        nonlocal seen
        size = 0
        with contextlib.suppress(OSError):
            size = path.stat().st_size
        if size == seen:
            return False
        seen = size
        return condition()

    return changed
