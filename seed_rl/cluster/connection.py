"""Connects to a Ray cluster, and checks whether the cluster is large enough."""

import contextlib
import logging
import socket
from collections.abc import Iterator

import ray
from ray.exceptions import RayError

from seed_rl.cluster.cluster_config import ClusterConfig
from seed_rl.flags.errors import UsageError

_LOOPBACK = "127.0.0.1"
_PROBE_SECS = 10.0
_CLIENT_PREFIX = "ray://"
# Nothing is put into the object store, so it gets about the least that Ray accepts.
_OBJECT_STORE_BYTES = 80 * 2**20


@contextlib.contextmanager
def connected(address: str) -> Iterator[None]:
    """A context in which Ray is connected to the cluster at `--ray_address`; UsageError if it cannot be.

    With `none`, the variables of `config.LOOPBACK_ONLY` must have been set before Ray was imported.
    """
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    try:
        if address == "none":
            ray.init(
                address="local",
                include_dashboard=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                _node_ip_address=_LOOPBACK,
                **quiet,
            )
        else:
            _probe(address)
            ray.init(address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, RayError) as error:
        # Ray reports a wrong token in the same way as a cluster that is not there.
        raise UsageError(
            f"Cannot connect to --ray_address={address} ({_first_sentence(error)}); start Ray there "
            "with ray start --head, set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN if the cluster has a token, "
            "or use --ray_address=none to start Ray on this machine."
        ) from None
    try:
        yield
    finally:
        ray.shutdown()


def check_room(config: ClusterConfig, num_actors: int, num_learners: int = 1) -> None:
    """Raises UsageError if a run needs more than all that the cluster has, including what is in use."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cpus = sum(node.get("CPU", 0) for node in nodes)
    needed = num_learners * config.learner_cpus + num_actors * config.actor_cpus
    learners = "The learner" if num_learners == 1 else f"{num_learners} learners"
    if needed > cpus:
        raise UsageError(
            f"{learners} and {num_actors} actors need {needed:g} CPUs, but the cluster has {cpus:g}: "
            "lower --num_actors, --actor_cpus or --learner_cpus, or add nodes."
        )
    gpus, needed_gpus = sum(node.get("GPU", 0) for node in nodes), num_learners * config.learner_gpus
    for kind, flag, asked in (
        ("GPU", "learner_gpus", config.learner_gpus),
        ("CPU", "learner_cpus", config.learner_cpus),
        ("CPU", "actor_cpus", config.actor_cpus),
    ):
        most = max((node.get(kind, 0) for node in nodes), default=0)
        if asked > most:
            raise UsageError(
                f"--{flag}={asked:g} is more than any node of the cluster has ({most:g} {kind}s): lower it, "
                "or add a node."
            )
    if needed_gpus > gpus:
        raise UsageError(
            f"{learners} need {needed_gpus} GPUs, but the cluster has {gpus:g}: lower --num_learners or "
            "--learner_gpus, or add nodes."
        )


def head_node() -> str | None:
    """Ray's id of the head node; None if it is not alive."""
    ids = [n["NodeID"] for n in ray.nodes() if n["Alive"] and "node:__internal_head__" in n["Resources"]]
    return ids[0] if ids else None


def _first_sentence(error: Exception) -> str:
    words = str(error).split() or [type(error).__name__]
    return " ".join(words).split(". ")[0].rstrip(".")


def _probe(address: str) -> None:
    """Connects briefly to HOST:PORT, because Ray itself tries for minutes and may end the process."""
    host, colon, port = address.removeprefix(_CLIENT_PREFIX).rpartition(":")
    if address == "auto":
        return
    if not (colon and port.isdigit()):
        raise ValueError("it is not auto, none, HOST:PORT or ray://HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PROBE_SECS).close()
    except (OSError, OverflowError) as error:
        raise ConnectionError(f"nothing answers: {error}") from None
