r"""The program of every container of a job on Vertex AI: reads its part from CLUSTER_SPEC and runs it.

The only container of worker pool 0 becomes the learner; those of worker pool 1 become actors. With
--learner_replicas=N, pool 1 has the other N - 1 learners, and pool 2 the actors. All get the same flags,
those of the learner, the actors, the environment and the agent; gcp.submit writes them into the job.

Examples:
  seed_rl vertex --environment=catch --agent=vtrace --num_envs=64 --env_batch_size=4 \
    --actors_per_replica=4 --logdir=gs://BUCKET/catch
  seed_rl vertex --help

To Vertex AI, a job has succeeded when the learner's container exits with 0, and failed when any container
exits with another code. So the learner's container exits with 0 only when training is complete, and with 143
after SIGTERM. A learner that crashes is restarted up to --learner_restarts times, an actor as often as
needed. When one of several learners is lost, the others end as well, and each container restarts its own.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from seed_rl.flags.errors import USAGE_EXIT_CODE, UsageError
from seed_rl.launch.child import ACTOR_ENV, Child
from seed_rl.launch.vertex_job import (
    CLUSTER_VARIABLES,
    METRIC,
    VertexConfig,
    actor_commands,
    find_place,
    learner_command,
    parse_job,
    run_directory,
)
from seed_rl.launch.watch import Ended, Event, Signalled, Timing, Watch, shell_code
from seed_rl.messages import say
from seed_rl.runs.curves import final_return, read_periods
from seed_rl.signals import STOP_CODES, STOP_SIGNALS


def main(argv: list[str]) -> int:
    """Runs this container's part to the end; returns the exit code."""
    line = parse_job(argv, __doc__ or "")
    config = line.read(VertexConfig)
    place = find_place(os.environ, config.learner_replicas)
    for name in CLUSTER_VARIABLES:  # Actors do not need the learner's key.
        os.environ.pop(name, None)
    if place.learner is None:
        children = [
            Child(f"actor {number}", command, env=ACTOR_ENV, plays=True)
            for number, command in actor_commands(line, place).items()
        ]
        return run_children(children)
    trial = os.environ.get("CLOUD_ML_TRIAL_ID")
    logdir = run_directory(line, trial)
    learner = Child("the learner", learner_command(line, place, logdir), plays=True)
    several = config.learner_replicas > 1
    code = run_children([learner], config.learner_restarts, may_be_stopped=several)
    # The return of a run that was stopped is not a result.
    if trial and code == 0 and place.learner == 0:
        report_trial(logdir, trial, os.environ)
    return code


def run_children(
    children: Sequence[Child],
    most_restarts: int | None = None,
    may_be_stopped: bool = False,
    timing: Timing = Timing(),  # noqa: B008 (immutable)
) -> int:
    """Runs until all have succeeded, one has failed for good, or a signal has ended them.

    Needs the main thread, for signals.

    Args:
      children: those of a container, not started yet: its learner, or its actors.
      most_restarts: how often a child that crashes is restarted, unless SIGTERM ended it; None: restarts
        after every error, without limit.
      may_be_stopped: whether a child that SIGTERM seems to have ended is restarted, too: of several
        learners, all stop when one of them is asked to.
      timing: the intervals and time limits.

    Returns 0 if all have succeeded, else the exit code of the signal or of the child that failed.
    """
    watch = Watch(timing=timing)

    def is_final(child: Child, code: int) -> bool:
        if code == USAGE_EXIT_CODE or most_restarts is None:
            return code == USAGE_EXIT_CODE
        stopped = code in STOP_CODES or -code in STOP_SIGNALS
        return (stopped and not may_be_stopped) or watch.restarts(child) >= most_restarts

    def react(event: Event) -> int | None:
        match event:
            case Signalled():
                watch.end(children, timing.checkpoint_grace)
                return 0 if all(child.poll() == 0 for child in children) else watch.stop.exit_code
            case Ended(_, 0):
                return 0 if all(child.poll() == 0 for child in children) else None
            case Ended(child, code) if is_final(child, code):
                say(f"{event}; it is not started again.")
                return shell_code(code)
            case Ended():
                watch.restart(event, most_restarts)
        return None

    with watch.running(children):
        return next(code for event in watch if (code := react(event)) is not None)


def report_trial(logdir: Path, trial: str, environ: Mapping[str, str]) -> None:
    """Reports a trial's final return to Vertex AI, the figure by which `seed_rl sweep` judges its runs.

    The service reads a file of JSON lines in the format of its package cloudml-hypertune. Raises UsageError
    if the file cannot be written.
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
            f"{path} cannot be written ({error.strerror}), so Vertex AI will not learn that trial {trial} "
            f"reached {value:g}; use a learner's image from gcp/build_images.sh, whose user may write it."
        ) from None
