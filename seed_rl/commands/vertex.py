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

import dataclasses
import json
import os
import re
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seed_rl.actor.actor_config import ActorConfig
from seed_rl.files import parse_json
from seed_rl.flags.definitions import flag_text
from seed_rl.flags.errors import USAGE_EXIT_CODE, UsageError
from seed_rl.flags.resolve import resolve
from seed_rl.flags.settings import Settings
from seed_rl.launch.child import ACTOR_ENV, Child
from seed_rl.launch.credentials import SERVER_NAME
from seed_rl.launch.plan import LocalConfig, child_command, place_flags
from seed_rl.launch.watch import ChildEnded, Event, Signalled, Timing, Watch, shell_code
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.messages import say
from seed_rl.metrics.curves import final_return, read_periods
from seed_rl.options import Options, option
from seed_rl.signals import STOP_CODES, STOP_SIGNALS
from seed_rl.wire.security import is_local

# The metric that a trial of a hyperparameter tuning job reports.
METRIC = "final_return"

# Of learner hosts: as long as actors wait for a learner, because one of them may need another machine.
_HOST_TIMEOUT_SECS = 300.0

_COMPUTED = frozenset(("server_address", "task", "learner_hosts", "learner_index"))


@dataclasses.dataclass(frozen=True)
class VertexConfig(Options):
    """Settings of the containers of a job on Vertex AI, besides the flags of learner and actors."""

    learner_replicas: int = option(1, "Learner hosts: worker pool 0 and, of several, pool 1.", at_least=1)
    actors_per_replica: int = option(1, "Actor processes in each replica of the actors' pool.", at_least=1)
    learner_restarts: int = option(
        5,
        "How often a learner that crashes, or has lost another one, is restarted in its container, from the "
        "last checkpoint.",
        at_least=0,
    )


def main(argv: list[str]) -> int:
    """Runs this container's part to the end; returns the exit code."""
    # Vertex AI mounts every bucket in /gcs.
    settings = parse_job([arg.replace("=gs://", "=/gcs/", 1) for arg in argv], __doc__ or "")
    config = settings.read(VertexConfig)
    learners, index = find_place(os.environ, config.learner_replicas)
    for name in ("CLUSTER_SPEC", "TF_CONFIG"):  # Both may have the whole job in them, with the learner's key.
        os.environ.pop(name, None)
    trial = os.environ.get("CLOUD_ML_TRIAL_ID")
    logdir = Path(settings.values["logdir"], f"trial_{trial}" if trial else "")
    settings = settings.replaced("job", logdir=str(logdir))
    if not settings.is_chosen("host_timeout_secs"):
        settings = settings.replaced("job", host_timeout_secs=_HOST_TIMEOUT_SECS)
    with tempfile.TemporaryDirectory(prefix="seed_rl_") as directory:
        file = Path(directory, "settings.json")
        file.write_text(settings.to_json())
        if index is None:
            command, numbers = actor_command(file, learners), range(config.actors_per_replica)
            return run_children([Child(f"actor {n}", command, env=ACTOR_ENV, plays=True) for n in numbers])
        learner = Child("the learner", learner_command(file, learners, index), plays=True)
        code = run_children([learner], config.learner_restarts, may_be_stopped=len(learners) > 1)
    # The return of a run that was stopped is not a result.
    if trial and code == 0 and index == 0:
        report_trial(logdir, trial, os.environ)
    return code


def parse_job(argv: Sequence[str], description: str = "") -> Settings:
    """Resolves the flags of a job and checks all values; see `flags.resolve`."""
    settings = resolve(
        argv,
        description,
        (VertexConfig, LearnerConfig, ActorConfig),
        leave_out=dict.fromkeys((LearnerConfig, ActorConfig), _COMPUTED),
        elsewhere=(LocalConfig, LearnerConfig, ActorConfig),
    )
    replicas = settings.read(VertexConfig).learner_replicas
    settings.read(ActorConfig)
    learner = settings.read(LearnerConfig)
    if replicas > 1 and not learner.insecure_reductions:
        raise UsageError(
            f"The {replicas} learners would add up gradients over TensorFlow's own connections, without "
            "encryption or credentials; give --insecure_reductions if you trust the network between them."
        )
    if learner.num_gateways:
        raise UsageError(
            "--num_gateways needs several of the learner's ports, but Vertex AI names one of each container; "
            "leave it out."
        )
    if learner.inference == "actor":
        raise UsageError(
            "--inference=actor needs TensorFlow in the actors' image, which has none; leave it out."
        )
    settings.environment_config()
    settings.agent_config()
    return settings


def job_arguments(settings: Settings) -> list[str]:
    """All flags that were chosen for a job, with flagfiles expanded, for `parse_job` in a container."""
    values = {"environment": settings.environment, "agent": settings.agent}
    values |= {name: settings.values[name] for name in settings.chosen_origins()}
    return [f"--{name}={flag_text(name, value)}" for name, value in values.items()]


def find_place(environ: Mapping[str, str], learner_replicas: int = 1) -> tuple[list[str], int | None]:
    """The place of this container, from CLUSTER_SPEC, which Vertex AI sets in every container.

    It is JSON: `cluster` lists the HOST:PORT of every replica by worker pool, and `task` has the `type` (the
    pool) and the `index` of this one. Other fields may contain secrets, so errors do not show them.

    Returns:
      HOST:PORT of each learner, and the index of this container among them; None: it is for actors.

    Raises:
      UsageError: it is not set, lacks a required field, or has another number of learners.
    """
    text = environ.get("CLUSTER_SPEC")
    if not text:
        raise UsageError(
            "CLUSTER_SPEC is not set, so this is not a container on Vertex AI; use `seed_rl learner` and "
            "`seed_rl actor`, or `seed_rl train`."
        )
    pools = ["workerpool0", "workerpool1"][:learner_replicas]
    spec: Any = None
    try:
        spec = parse_json(text)
        learners = [address for pool in pools for address in spec["cluster"][pool]]
        place = [*pools, f"workerpool{len(pools)}"].index(spec["task"]["type"])
        index = place + int(spec["task"]["index"])
        if len(learners) != learner_replicas or not all(re.fullmatch(r".+:\d+", a) for a in learners):
            raise ValueError("another cluster")
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        found = spec if isinstance(spec, dict) else {}
        shown = json.dumps({name: found.get(name) for name in ("cluster", "task")})
        raise UsageError(
            f"CLUSTER_SPEC with {shown} describes no job of {learner_replicas} learners and their actors "
            f"({error!r}); submit the job with seed_rl submit."
        ) from None
    return learners, index if place < len(pools) else None


def learner_command(file: Path, learners: Sequence[str], index: int) -> list[str]:
    """The command of a learner, which listens on its port at all addresses of its container."""
    place, address = place_flags(learners, index), learners[index]
    if not is_local(address):
        place[0] = f"--server_address=0.0.0.0:{address.rpartition(':')[2]}"
    if len(learners) > 1:
        place.append(f"--tls_server_name={SERVER_NAME}")
    return child_command("learner", file, place)


def actor_command(file: Path, learners: Sequence[str]) -> list[str]:
    """The command of every actor; certificate and token are in environment variables.

    The learner assigns the tasks. A fixed task might still be held by an actor whose machine is gone when its
    successor requests it, and an actor that gives up ends the whole job.
    """
    place = [f"--server_address={learners[0]}", f"--tls_server_name={SERVER_NAME}"]
    return child_command("actor", file, place)


def run_children(
    children: Sequence[Child],
    most_restarts: int | None = None,
    may_be_stopped: bool = False,
    timing: Timing = Timing(),  # noqa: B008 (immutable)
) -> int:
    """Runs until all have succeeded, one has failed for good, or a signal has ended them.

    Needs the main thread, for signals. A child that crashes is restarted `most_restarts` times (None: without
    limit) unless SIGTERM ended it. One that `may_be_stopped` is restarted then, too: of several learners, all
    stop when one of them is stopped.

    Returns 0 if all have succeeded, else the exit code of the signal or of the child that failed.
    """
    watch = Watch(timing=timing)

    def react(event: Event) -> int | None:
        match event:
            case Signalled():
                watch.end(children, timing.checkpoint_grace)
                return 0 if all(child.poll() == 0 for child in children) else watch.stop.exit_code
            case ChildEnded(_, 0):
                return 0 if all(child.poll() == 0 for child in children) else None
            case ChildEnded(child, code):
                is_final = code == USAGE_EXIT_CODE
                if most_restarts is not None:
                    stopped = code in STOP_CODES or -code in STOP_SIGNALS
                    is_final |= (stopped and not may_be_stopped) or watch.restarts(child) >= most_restarts
                if is_final:
                    say(f"{event}; it is not started again.")
                    return shell_code(code)
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
