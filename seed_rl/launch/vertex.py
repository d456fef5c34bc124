r"""What every container of a job on Vertex AI runs: finds its part in CLUSTER_SPEC, and plays it.

The one container of worker pool 0 becomes the learner, those of worker pool 1 become actors. All get the same
flags, those of learner, actors, environment and agent together; gcp.submit writes them into the job.

Examples:
  python -m seed_rl.launch.vertex --environment=catch --agent=vtrace --num_envs=64 --env_batch_size=4 \
    --actors_per_replica=4 --logdir=gs://BUCKET/catch
  python -m seed_rl.launch.vertex --help
"""

import dataclasses
import ipaddress
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from seed_rl.actor.config import ActorConfig
from seed_rl.flags.command_line import CommandLine, parse
from seed_rl.flags.errors import USAGE_EXIT_CODE, UsageError, run_main
from seed_rl.launch.child import ACTOR_ENV, Child
from seed_rl.launch.config import LocalConfig
from seed_rl.launch.credentials import SERVER_NAME
from seed_rl.launch.signals import StopSignals
from seed_rl.launch.supervisor import Restarts, Timing, describe_exit, restart
from seed_rl.learner.config import LearnerConfig
from seed_rl.messages import say
from seed_rl.options import Options, option
from seed_rl.runs.curves import read_periods
from seed_rl.sweeps.outcome import final_return

# The figure that a trial of a hyperparameter tuning job reports.
METRIC = "final_return"

_COMPUTED = frozenset(("server_address", "task"))
_BUCKET = "gs://"


@dataclasses.dataclass(frozen=True)
class VertexConfig(Options):
    """What the containers of a job on Vertex AI need besides the flags of learner and actors."""

    actors_per_replica: int = option(1, "Actor processes in each replica of worker pool 1.", at_least=1)
    gcs_mount: str = option("/gcs", "Directory that Cloud Storage buckets are mounted in, by their names.")


@dataclasses.dataclass(frozen=True)
class Place:
    """A container's place in the cluster.

    Attributes:
      learner: HOST:PORT of the learner's container.
      replica: number of this container among the actors'; None: this is the learner's.
    """

    learner: str
    replica: int | None


def main(argv: list[str]) -> int:
    """Plays this container's part to its end; returns the exit code."""
    line = parse_job(argv)
    place = find_place(os.environ)
    timing = Timing()
    if place.replica is not None:
        children = [
            Child(f"actor {task}", command, env=ACTOR_ENV)
            for task, command in actor_commands(line, place).items()
        ]
        return run(children, timing, restarting=True)
    trial = os.environ.get("CLOUD_ML_TRIAL_ID")
    logdir = run_directory(line, trial)
    code = run([Child("the learner", learner_command(line, place, logdir))], timing, restarting=False)
    if trial and code == 0:
        report_trial(logdir, trial, os.environ)
    return code


def parse_job(argv: Sequence[str]) -> CommandLine:
    """Parses the flags of a job (program's name first); all of their values are checked.

    Raises:
      UsageError: bad input.
      SystemExit: for `--help`.
    """
    line = parse(
        argv,
        __doc__ or "",
        (VertexConfig, LearnerConfig, ActorConfig),
        leave_out=dict.fromkeys((LearnerConfig, ActorConfig), _COMPUTED),
        elsewhere=(LocalConfig, LearnerConfig, ActorConfig),
    )
    for config_class in (VertexConfig, LearnerConfig, ActorConfig):
        line.read(config_class)
    line.environment_config()
    line.agent_config()
    return line


def job_arguments(line: CommandLine) -> list[str]:
    """Every flag of a job that was set, flagfiles taken apart: what `parse_job` takes in a container."""
    assert line.agent_class is not None
    classes = (VertexConfig, LearnerConfig, ActorConfig, line.environment_class, line.agent_class)
    return [f"--environment={line.environment}", f"--agent={line.agent}", *line.given(*classes)]


def find_place(environ: Mapping[str, str]) -> Place:
    """Reads CLUSTER_SPEC, which Vertex AI sets in every container.

    It is JSON: `cluster` has the HOST:PORT of every replica by worker pool, `task` has this one's `type` (its
    pool) and `index`.

    Raises:
      UsageError: it is not set, or does not have what is needed.
    """
    text = environ.get("CLUSTER_SPEC")
    if not text:
        raise UsageError(
            "CLUSTER_SPEC is not set, so this is no container on Vertex AI; use seed_rl.learner_main and "
            "seed_rl.actor_main, or seed_rl.local_main."
        )
    try:
        spec = json.loads(text)
        learner, pool = spec["cluster"]["workerpool0"][0], spec["task"]["type"]
        replica = {"workerpool0": None, "workerpool1": int(spec["task"]["index"])}[pool]
        if not (isinstance(learner, str) and learner.rpartition(":")[2].isdigit()):
            raise ValueError(f"{learner!r} is not HOST:PORT")
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UsageError(
            f"CLUSTER_SPEC={text} is not a learner's worker pool 0 and actors' worker pool 1 ({error!r}); "
            "submit the job with python -m gcp.submit."
        ) from None
    return Place(learner, replica)


def learner_command(line: CommandLine, place: Place, logdir: Path) -> list[str]:
    """The learner's command; it listens at its port on all addresses of its container."""
    assert line.agent_class is not None
    host, _, port = place.learner.rpartition(":")
    flags = line.given(LearnerConfig, line.environment_class, line.agent_class, leave_out=("logdir",))
    return [
        *_start("learner_main", line),
        f"--agent={line.agent}",
        f"--server_address={host if _is_loopback(host) else '0.0.0.0'}:{port}",
        f"--logdir={logdir}",
        *mounted(flags, line.read(VertexConfig).gcs_mount),
    ]


def actor_commands(line: CommandLine, place: Place) -> dict[int, list[str]]:
    """The commands of this replica's actors, by task."""
    assert place.replica is not None
    config = line.read(VertexConfig)
    flags = mounted(line.given(ActorConfig, line.environment_class), config.gcs_mount)
    # TLS and the token are in environment variables, which gcp.submit has made for the job.
    shared = [f"--server_address={place.learner}", f"--tls_server_name={SERVER_NAME}", *flags]
    first = place.replica * config.actors_per_replica
    return {
        task: [*_start("actor_main", line), f"--task={task}", *shared]
        for task in range(first, first + config.actors_per_replica)
    }


def mounted(flags: Sequence[str], mount: str) -> list[str]:
    """Flags with values in Cloud Storage, gs://BUCKET/…, as paths where the bucket is mounted."""
    return [flag.replace(f"={_BUCKET}", f"={mount}/", 1) for flag in flags]


def run_directory(line: CommandLine, trial: str | None) -> Path:
    """Where the learner writes; each trial of a hyperparameter tuning job has a directory of its own."""
    logdir = line.read(LearnerConfig).logdir.rstrip("/")
    (path,) = mounted([f"={logdir}"], line.read(VertexConfig).gcs_mount)
    return Path(path.removeprefix("="), *([f"trial_{trial}"] if trial else []))


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


def run(children: Sequence[Child], timing: Timing, restarting: bool) -> int:
    """Runs children until all have ended well, one has failed for good, or a signal has ended them.

    Args:
      children: not started yet.
      timing: the waits.
      restarting: whether a child that crashes is started again.

    Returns:
      0, or the exit code of the child that failed.
    """
    signals = StopSignals(timing.same_signal)
    tended = [(child, Restarts(timing)) for child in children]
    with signals.caught():
        try:
            for child in children:
                child.start()
            while any(child.poll() != 0 for child in children):
                if signals.count:
                    _stop(children, timing)
                    return max(map(_exit_code, children))
                for child, restarts in tended:
                    if _failed(child, restarts, restarting):
                        return _exit_code(child)
                time.sleep(timing.poll)
            return 0
        except BaseException:
            _stop(children, timing)
            raise
        finally:
            for child in children:
                child.kill()


def _failed(child: Child, restarts: Restarts, restarting: bool) -> bool:
    """Looks after one child; True if it has failed for good."""
    code = child.poll()
    if not code:
        return False
    if code == USAGE_EXIT_CODE or not restarting:
        return True
    if not restarts.pending:
        backoff = restarts.order(child.seconds)
        say(f"{child.name} {describe_exit(code)}; it is started again in {backoff:g} s.")
    elif restarts.take():
        restart(child, restarts, say)
    return False


def _stop(children: Sequence[Child], timing: Timing) -> None:
    """Passes a signal on, so that the learner writes a checkpoint."""
    for child in children:
        child.terminate()
    deadline = time.monotonic() + timing.checkpoint_grace
    while any(child.running for child in children) and time.monotonic() < deadline:
        time.sleep(timing.poll)
    for child in children:
        child.kill()


def _exit_code(child: Child) -> int:
    """That of a child that has ended, as a shell would say it."""
    code = child.poll() or 0
    return 128 - code if code < 0 else code


def _start(module: str, line: CommandLine) -> list[str]:
    return [sys.executable, "-m", f"seed_rl.{module}", f"--environment={line.environment}"]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


if __name__ == "__main__":
    run_main(main)
