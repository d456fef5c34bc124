"""A job on Vertex AI: its flags, a container's place in it, and the commands of its learner and actors."""

import dataclasses
import ipaddress
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from seed_rl.actor.config import ActorConfig
from seed_rl.flags.command_line import CommandLine, parse
from seed_rl.flags.errors import UsageError
from seed_rl.launch.config import LocalConfig
from seed_rl.launch.credentials import SERVER_NAME
from seed_rl.learner.config import LearnerConfig
from seed_rl.options import Options, option

# The main of every container.
PROGRAM = "seed_rl.vertex_main"

# The figure that a trial of a hyperparameter tuning job reports.
METRIC = "final_return"

# Variables of every container. By the documentation the field `job` of CLUSTER_SPEC is the specification of
# the whole job, with its environment variables and so the learner's key. TF_CONFIG is for TensorFlow.
CLUSTER_VARIABLES = ("CLUSTER_SPEC", "TF_CONFIG")

_COMPUTED = frozenset(("server_address", "task"))
_BUCKET = "gs://"


@dataclasses.dataclass(frozen=True)
class VertexConfig(Options):
    """What the containers of a job on Vertex AI need besides the flags of learner and actors."""

    actors_per_replica: int = option(1, "Actor processes in each replica of worker pool 1.", at_least=1)
    learner_restarts: int = option(
        5,
        "Times that a learner that crashes is started again in its container, from its last checkpoint.",
        at_least=0,
    )
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


def parse_job(argv: Sequence[str], description: str = "") -> CommandLine:
    """Parses the flags of a job; all of their values are checked.

    Args:
      argv: the arguments, the program's name first.
      description: what `--help` says above the flags.

    Raises:
      UsageError: bad input.
      SystemExit: for `--help`.
    """
    line = parse(
        argv,
        description,
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
    pool) and `index`. Other fields may hold secrets, so they are not shown.

    Raises:
      UsageError: it is not set, or does not have what is needed.
    """
    text = environ.get("CLUSTER_SPEC")
    if not text:
        raise UsageError(
            "CLUSTER_SPEC is not set, so this is no container on Vertex AI; use seed_rl.learner_main and "
            "seed_rl.actor_main, or seed_rl.local_main."
        )
    hint = "submit the job with python -m gcp.submit."
    try:
        spec = json.loads(text)
    except ValueError as error:  # Its text has the position, not the content.
        raise UsageError(f"CLUSTER_SPEC is not JSON ({error}); {hint}") from None
    try:
        learner, pool = spec["cluster"]["workerpool0"][0], spec["task"]["type"]
        replica = {"workerpool0": None, "workerpool1": int(spec["task"]["index"])}[pool]
        if not (isinstance(learner, str) and learner.rpartition(":")[2].isdigit()):
            raise ValueError(f"{learner!r} is not HOST:PORT")
    except (ValueError, KeyError, IndexError, TypeError) as error:
        found = spec if isinstance(spec, dict) else {}
        shown = json.dumps({name: found.get(name) for name in ("cluster", "task")})
        raise UsageError(
            f"CLUSTER_SPEC with {shown} is not a learner's worker pool 0 and actors' worker pool 1 "
            f"({error!r}); {hint}"
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
    """The commands of this replica's actors, by their numbers among all actors of the job.

    The learner gives out the tasks. A fixed task may still be held by an actor whose machine is gone when its
    successor asks for it, and an actor that gives up ends the whole job.
    """
    assert place.replica is not None
    config = line.read(VertexConfig)
    flags = mounted(line.given(ActorConfig, line.environment_class), config.gcs_mount)
    # TLS and the token are in environment variables, which gcp.submit has made for the job.
    shared = [f"--server_address={place.learner}", f"--tls_server_name={SERVER_NAME}", *flags]
    first = place.replica * config.actors_per_replica
    return {
        number: [*_start("actor_main", line), "--task=auto", *shared]
        for number in range(first, first + config.actors_per_replica)
    }


def mounted(flags: Sequence[str], mount: str) -> list[str]:
    """Flags with values in Cloud Storage, gs://BUCKET/…, as paths where the bucket is mounted."""
    return [flag.replace(f"={_BUCKET}", f"={mount}/", 1) for flag in flags]


def run_directory(line: CommandLine, trial: str | None) -> Path:
    """Where the learner writes; each trial of a hyperparameter tuning job has a directory of its own."""
    logdir = line.read(LearnerConfig).logdir.rstrip("/")
    (path,) = mounted([f"={logdir}"], line.read(VertexConfig).gcs_mount)
    return Path(path.removeprefix("="), *([f"trial_{trial}"] if trial else []))


def _start(module: str, line: CommandLine) -> list[str]:
    return [sys.executable, "-m", f"seed_rl.{module}", f"--environment={line.environment}"]


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
