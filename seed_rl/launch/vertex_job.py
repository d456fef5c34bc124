"""A job on Vertex AI: its flags, a container's place in it, and the commands of its learner and actors."""

import dataclasses
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from seed_rl.actor.config import ActorConfig
from seed_rl.files import parse_json
from seed_rl.flags.command_line import CommandLine, parse
from seed_rl.flags.errors import UsageError
from seed_rl.launch.config import LocalConfig
from seed_rl.launch.credentials import SERVER_NAME
from seed_rl.launch.plan import code_flags, place_flags
from seed_rl.learner.config import LearnerConfig
from seed_rl.options import Options, option
from seed_rl.wire.security import is_local

# The main of every container.
PROGRAM = ("seed_rl", "vertex")

# The metric that a trial of a hyperparameter tuning job reports.
METRIC = "final_return"

# Vertex AI sets these in every container. According to its documentation, the field `job` of CLUSTER_SPEC is
# the specification of the whole job, including its environment variables and so the learner's key. TF_CONFIG
# is for TensorFlow.
CLUSTER_VARIABLES = ("CLUSTER_SPEC", "TF_CONFIG")

_COMPUTED = frozenset(("server_address", "task", "learner_hosts", "learner_index"))
_BUCKET = "gs://"

# How long several learners wait for one another, in seconds: as long as actors wait for a learner, because
# one of them may need another machine.
_HOST_TIMEOUT_SECS = 300


@dataclasses.dataclass(frozen=True)
class VertexConfig(Options):
    """What the containers of a job on Vertex AI need besides the flags of learner and actors."""

    learner_replicas: int = option(
        1,
        "Learner hosts: the container of worker pool 0 and, of several, those of pool 1; the actors' pool is "
        "the next one.",
        at_least=1,
    )
    actors_per_replica: int = option(1, "Actor processes in each replica of the actors' pool.", at_least=1)
    learner_restarts: int = option(
        5,
        "How often a learner that crashes, or has lost another one, is restarted in its container, from the "
        "last checkpoint.",
        at_least=0,
    )
    gcs_mount: str = option("/gcs", "Directory in which Cloud Storage buckets are mounted under their names.")


@dataclasses.dataclass(frozen=True)
class Place:
    """A container's place in the cluster.

    Attributes:
      learners: HOST:PORT of each learner's container, the one that keeps the run directory first.
      learner: index of this container among the learners'; None for an actors'.
      replica: index of this container among the actors'; None for a learner's.
    """

    learners: tuple[str, ...]
    learner: int | None = None
    replica: int | None = None


def parse_job(argv: Sequence[str], description: str = "") -> CommandLine:
    """Parses the flags of a job and checks all values; see `command_line.parse`."""
    line = parse(
        argv,
        description,
        (VertexConfig, LearnerConfig, ActorConfig),
        leave_out=dict.fromkeys((LearnerConfig, ActorConfig), _COMPUTED),
        elsewhere=(LocalConfig, LearnerConfig, ActorConfig),
    )
    replicas = line.read(VertexConfig).learner_replicas
    line.read(ActorConfig)
    learner = line.read(LearnerConfig)
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
    line.environment_config()
    line.agent_config()
    return line


def job_arguments(line: CommandLine) -> list[str]:
    """All flags that were set for a job, with flagfiles expanded, for `parse_job` in a container."""
    assert line.agent_class is not None
    classes = (VertexConfig, LearnerConfig, ActorConfig, line.environment_class, line.agent_class)
    return [f"--environment={line.environment}", f"--agent={line.agent}", *line.given(*classes)]


def find_place(environ: Mapping[str, str], learner_replicas: int = 1) -> Place:
    """Reads CLUSTER_SPEC, which Vertex AI sets in every container.

    It is JSON: `cluster` lists the HOST:PORT of every replica by worker pool, and `task` has the `type` (the
    pool) and the `index` of this one. Other fields may contain secrets, so errors do not show them.

    Raises:
      UsageError: it is not set, lacks a required field, or has another number of learners.
    """
    text = environ.get("CLUSTER_SPEC")
    if not text:
        raise UsageError(
            "CLUSTER_SPEC is not set, so this is not a container on Vertex AI; use `seed_rl learner` and "
            "`seed_rl actor`, or `seed_rl train`."
        )
    hint = "submit the job with seed_rl submit."
    pools = ["workerpool0"] if learner_replicas == 1 else ["workerpool0", "workerpool1"]
    actors_pool = f"workerpool{len(pools)}"
    try:
        spec = parse_json(text)
    except ValueError as error:  # Its text has the position, but no content.
        raise UsageError(f"CLUSTER_SPEC is not JSON ({error}); {hint}") from None
    try:
        learners = tuple(address for pool in pools for address in spec["cluster"][pool])
        pool, index = spec["task"]["type"], int(spec["task"]["index"])
        for address in learners:
            if not (isinstance(address, str) and address.rpartition(":")[2].isdigit()):
                raise ValueError(f"{address!r} is not HOST:PORT")
        if len(learners) != learner_replicas:
            raise ValueError(f"{len(learners)} learners, not {learner_replicas}")
        if pool in pools:
            return Place(learners, learner=index + (pool != pools[0]))
        if pool == actors_pool:
            return Place(learners, replica=index)
        raise ValueError(f"{pool!r} is another worker pool")
    except (ValueError, KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        found = spec if isinstance(spec, dict) else {}
        shown = json.dumps({name: found.get(name) for name in ("cluster", "task")})
        where = " and ".join(["worker pool 0", *(["the others in worker pool 1"] if pools[1:] else [])])
        raise UsageError(
            f"CLUSTER_SPEC with {shown} does not describe a learner in {where} and actors in "
            f"worker pool {len(pools)} ({error!r}); {hint}"
        ) from None


def learner_command(line: CommandLine, place: Place, logdir: Path) -> list[str]:
    """The learner's command; it listens on its port at all addresses of its container."""
    assert line.agent_class is not None and place.learner is not None
    host, _, port = place.learners[place.learner].rpartition(":")
    several = []
    if len(place.learners) > 1:
        several = [
            *place_flags(place.learners, place.learner),
            f"--host_timeout_secs={_HOST_TIMEOUT_SECS}",
            f"--tls_server_name={SERVER_NAME}",
        ]
    flags = line.given(LearnerConfig, line.environment_class, line.agent_class, leave_out=("logdir",))
    return [
        *(sys.executable, "-m", "seed_rl", "learner", f"--environment={line.environment}"),
        f"--agent={line.agent}",
        f"--server_address={host if is_local(f'{host}:{port}') else '0.0.0.0'}:{port}",
        f"--logdir={logdir}",
        *several,
        *mounted(flags, line.read(VertexConfig).gcs_mount),
    ]


def actor_commands(line: CommandLine, place: Place) -> dict[int, list[str]]:
    """The commands of this replica's actors, by the actors' numbers within the job.

    The learner assigns the tasks. A fixed task might still be held by an actor whose machine is gone when its
    successor asks for it, and an actor that gives up ends the whole job.
    """
    assert place.replica is not None
    config = line.read(VertexConfig)
    flags = mounted([*line.given(ActorConfig), *code_flags(line)], config.gcs_mount)
    # The certificate and the token, created by gcp.submit for the job, are in environment variables.
    shared = [f"--server_address={place.learners[0]}", f"--tls_server_name={SERVER_NAME}", *flags]
    first = place.replica * config.actors_per_replica
    return {
        number: [sys.executable, "-m", "seed_rl", "actor", *shared]
        for number in range(first, first + config.actors_per_replica)
    }


def mounted(flags: Sequence[str], mount: str) -> list[str]:
    """Replaces flags' values in Cloud Storage, gs://BUCKET/…, with paths in the mounted bucket."""
    return [flag.replace(f"={_BUCKET}", f"={mount}/", 1) for flag in flags]


def run_directory(line: CommandLine, trial: str | None) -> Path:
    """The learner's run directory; each trial of a hyperparameter tuning job has its own."""
    logdir = line.read(LearnerConfig).logdir.rstrip("/")
    (path,) = mounted([f"={logdir}"], line.read(VertexConfig).gcs_mount)
    return Path(path.removeprefix("="), *([f"trial_{trial}"] if trial else []))
