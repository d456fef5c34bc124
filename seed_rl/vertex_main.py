r"""What every container of a job on Vertex AI runs: finds its part in CLUSTER_SPEC, and plays it.

The one container of worker pool 0 becomes the learner, those of worker pool 1 become actors. All get the same
flags, those of learner, actors, environment and agent together; gcp.submit writes them into the job.

Examples:
  python -m seed_rl.vertex_main --environment=catch --agent=vtrace --num_envs=64 --env_batch_size=4 \
    --actors_per_replica=4 --logdir=gs://BUCKET/catch
  python -m seed_rl.vertex_main --help
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from seed_rl.flags.errors import USAGE_EXIT_CODE, UsageError, run_main
from seed_rl.launch.child import ACTOR_ENV, Child
from seed_rl.launch.supervisor import Restarts, Timing, describe_exit, restart
from seed_rl.launch.vertex_job import (
    METRIC,
    actor_commands,
    find_place,
    learner_command,
    parse_job,
    run_directory,
)
from seed_rl.launch.watch import Ended, Event, Process, Signalled, Tick, Watch
from seed_rl.messages import say
from seed_rl.runs.curves import final_return, read_periods
from seed_rl.signals import StopSignals


def main(argv: list[str]) -> int:
    """Plays this container's part to its end; returns the exit code."""
    line = parse_job(argv, __doc__ or "")
    place = find_place(os.environ)
    if place.replica is not None:
        children = [
            Child(f"actor {task}", command, env=ACTOR_ENV)
            for task, command in actor_commands(line, place).items()
        ]
        return Crew(children, restarting=True).run()
    trial = os.environ.get("CLOUD_ML_TRIAL_ID")
    logdir = run_directory(line, trial)
    learner = Child("the learner", learner_command(line, place, logdir))
    code = Crew([learner], restarting=False).run()
    if trial and code == 0:
        report_trial(logdir, trial, os.environ)
    return code


class Crew:
    """The children of a container: its learner, or its actors. Needs the main thread, for the signals."""

    def __init__(self, children: Sequence[Process], restarting: bool, timing: Timing | None = None):
        """Starts nothing yet.

        Args:
          children: not started yet.
          restarting: whether a child that crashes is started again.
          timing: the waits.
        """
        self._timing = timing or Timing()
        self._restarting = restarting
        self._restarts = {child: Restarts(self._timing) for child in children}
        self._children = list(children)
        self._ended_well: set[Process] = set()
        self._signals = StopSignals(self._timing.same_signal)
        self._watch = Watch((), self._signals, self._timing.poll)

    def run(self) -> int:
        """Runs until all have ended well, one has failed for good, or a signal has ended them.

        Returns:
          0, or the exit code of the child that failed.
        """
        with self._signals.caught():
            try:
                for child in self._children:
                    self._watch.start(child)
                return next(code for event in self._watch if (code := self._react(event)) is not None)
            except BaseException:
                self._stop()
                raise
            finally:
                for child in self._children:
                    child.kill()

    def _react(self, event: Event) -> int | None:
        """The exit code of the container, once that is settled."""
        match event:
            case Signalled():
                self._stop()
                return max(_exit_code(child.poll() or 0) for child in self._children)
            case Ended(child, 0):
                self._ended_well.add(child)
            case Ended(child, code) if code == USAGE_EXIT_CODE or not self._restarting:
                return _exit_code(code)
            case Ended(child, code):
                backoff = self._restarts[child].order(child.seconds)
                say(f"{child.name} {describe_exit(code)}; it is started again in {backoff:g} s.")
            case Tick():
                return self._look_after_all()
        return None

    def _look_after_all(self) -> int | None:
        """Starts again those whose time has come; 0 when all have ended well."""
        for child, restarts in self._restarts.items():
            if restarts.take():
                restart(self._watch, child, restarts, say)
        return 0 if len(self._ended_well) == len(self._children) else None

    def _stop(self) -> None:
        """Passes a signal on, so that the learner writes a checkpoint; further signals change nothing."""
        self._watch.end(self._children, self._timing.checkpoint_grace)


def report_trial(logdir: Path, trial: str, environ: Mapping[str, str]) -> None:
    """Tells Vertex AI what a trial has reached, as `seed_rl.sweep` judges its runs.

    The service reads a file of JSON lines, in the form that its package cloudml-hypertune writes.

    Raises:
      UsageError: the file cannot be written.
    """
    periods = read_periods(logdir)
    value = final_return(periods)
    if value is None:
        say(f"trial {trial} has finished no episode, so it reports no {METRIC}.")
        return
    path = Path(environ.get("CLOUD_ML_HP_METRIC_FILE", "/tmp/hypertune/output.metrics"))
    frames = int(periods[-1]["env_frames"])
    entry = {"timestamp": time.time(), "trial": trial, METRIC: str(value), "global_step": str(frames)}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(entry) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({error.strerror}), so Vertex AI does not hear that trial {trial} "
            f"reached {value:g}; build the learner's image with gcp/build_images.sh, whose user may write it."
        ) from None


def _exit_code(code: int) -> int:
    """As a shell would say it."""
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    run_main(main)
