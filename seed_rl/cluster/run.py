"""A whole run on a cluster: first learners are placed, then the actors; lost processes are placed again.

The local launcher's supervisor restarts actors whether they crashed or lost their node, so one rule covers
all cases, and Ray itself restarts nothing. If the learner ends because of its node, it restarts from its last
checkpoint, and the actors restart with it, since its address has changed. Several learners restart together,
also if one of them crashes.
"""

import contextlib
import logging
import socket
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from seed_rl.cluster.cluster_config import ClusterConfig
from seed_rl.cluster.remote_child import Host, Place, RemoteChild, reason
from seed_rl.flags.errors import USAGE_EXIT_CODE, UsageError
from seed_rl.launch.child import ACTOR_ENV, LEARNER_ENV
from seed_rl.launch.credentials import SERVER_NAME, Credentials
from seed_rl.launch.plan import Plan, place_flags
from seed_rl.launch.run import MOST_RESTARTS, Life
from seed_rl.launch.watch import ChildEnded, Restarts, Timing
from seed_rl.messages import say
from seed_rl.runs.layout import RunDirectory
from seed_rl.serving.gateway import gateway_addresses
from seed_rl.signals import STOP_CODES

_PATIENCE_SECS = 10.0
# Time limit for a lost node to leave the cluster before learners are placed again.
_LEAVING_SECS = 30.0
_POLL_SECS = 0.5
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
    learners = "The learner" if num_learners == 1 else f"{num_learners} learners"
    cpus, gpus = ([node.get(kind, 0) for node in nodes] or [0] for kind in ("CPU", "GPU"))
    needed = num_learners * config.learner_cpus + num_actors * config.actor_cpus
    if needed > sum(cpus):
        raise UsageError(
            f"{learners} and {num_actors} actors need {needed:g} CPUs, but the cluster has {sum(cpus):g}: "
            "lower --num_actors, --actor_cpus or --learner_cpus, or add nodes."
        )
    for flag, most in (("learner_gpus", max(gpus)), ("learner_cpus", max(cpus)), ("actor_cpus", max(cpus))):
        if getattr(config, flag) > most:
            raise UsageError(
                f"--{flag}={getattr(config, flag):g} is more than any node of the cluster has ({most:g}): "
                "lower it, or add a node."
            )
    if num_learners * config.learner_gpus > sum(gpus):
        raise UsageError(
            f"{learners} need {num_learners * config.learner_gpus} GPUs, but the cluster has {sum(gpus):g}: "
            "lower --num_learners or --learner_gpus, or add nodes."
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


def run(plan: Plan, config: ClusterConfig, credentials: Credentials | None) -> int:
    """Runs until training is complete or a signal arrives; returns the exit code.

    The plan lacks the learners' addresses. Without credentials, there is neither TLS nor a token.

    Raises:
      UsageError: a learner cannot be started on any node, or no port is free there.
    """
    timing, crashes, num_gateways = Timing(), 0, plan.settings.values["num_gateways"]
    restarts = Restarts(timing)
    taken: set[int] = set()
    while True:
        with _placed(config, len(plan.learners), num_gateways, taken) as (hosts, places):
            learners, actors = _children(plan, config, credentials, hosts, [p.address for p in places])
            for learner, place in zip(learners, places, strict=True):
                say(f"{learner.name} is at {place.address}.")
            life = Life(learners, actors, timing)
            code = life.run()
        found = set(_taken_ports(learners, places, num_gateways, code))
        taken |= found
        sentence = "" if life.asked_to_stop else _why_again(learners, code, life.loss, found)
        if not sentence:
            return code
        # A node or a port may be lost any number of times, but not right after each start.
        is_crash = bool(life.loss) and not any(learner.lost for learner in learners)
        crashes += is_crash or learners[0].seconds < timing.healthy_after
        if crashes > MOST_RESTARTS:
            end = life.loss or ChildEnded(learners[0], learners[0].poll() or 0)
            say(f"error: after {MOST_RESTARTS} restarts, {end}.")
            return code
        say(sentence)
        time.sleep(restarts.delay(learners[0].seconds))
        if code in STOP_CODES:
            _wait_until_gone({place.node for place in places})


def _why_again(learners: Sequence[RemoteChild], code: int, loss: str, taken: Collection[int]) -> str:
    """Reason that learners which have ended start again, in words; empty if their end is final.

    `code` is that of the run, `loss` that of `Life`, and `taken` are the ports that were found taken now.
    """
    then = "the learner restarts" if len(learners) == 1 else "all learners restart"
    if lost := next((learner for learner in learners if learner.lost), None):
        return f"{lost.name}'s node was lost; {then} from the last checkpoint."
    if loss:
        return f"{loss}; {then} from the last checkpoint."
    if code in STOP_CODES:
        return f"a learner was stopped on its node; {then} from the last checkpoint."
    if code == USAGE_EXIT_CODE and taken:
        return f"port {max(taken)} was taken before a learner listened; {then} on another port."
    return ""


def _taken_ports(
    learners: Sequence[RemoteChild], places: Sequence[Place], num_gateways: int, code: int
) -> Iterator[int]:
    """The ports of learners, or of their gateways, that were taken according to their last sentences."""
    for learner, place in zip(learners, places, strict=True) if code == USAGE_EXIT_CODE else ():
        for address in (place.address, *gateway_addresses(place.address, num_gateways)):
            line = learner.last_line()
            if f"Cannot listen on {address}, " in line or f"--server_address={address}: " in line:
                yield int(address.rpartition(":")[2])


def _wait_until_gone(nodes: set[str]) -> None:
    """Waits until one of the nodes has left the cluster, but not for long: none may be leaving at all."""
    deadline = time.monotonic() + _LEAVING_SECS
    while time.monotonic() < deadline and nodes <= {n["NodeID"] for n in ray.nodes() if n["Alive"]}:
        time.sleep(_POLL_SECS)


@contextlib.contextmanager
def _placed(
    config: ClusterConfig, count: int, num_gateways: int, taken: Collection[int]
) -> Iterator[tuple[list[Any], list[Place]]]:
    """A context in which learners are placed: handles of their `Host`s, and where each one is to listen.

    It waits until Ray has room for them. Several are on different nodes if possible.
    """
    resources = {"num_cpus": config.learner_cpus, "num_gpus": config.learner_gpus}
    group = None
    strategies: list[Any] = ["DEFAULT"]
    if count > 1:
        bundle = {"CPU": config.learner_cpus} | ({"GPU": config.learner_gpus} if config.learner_gpus else {})
        group = placement_group([bundle] * count, strategy="SPREAD")
        strategies = [PlacementGroupSchedulingStrategy(group, i) for i in range(count)]
    elif not config.learner_gpus and (head := head_node()):
        strategies = [NodeAffinitySchedulingStrategy(head, soft=True)]
    hosts = [ray.remote(Host).options(**resources, scheduling_strategy=s).remote() for s in strategies]
    try:
        ports = [port for port in config.ports if port not in taken]
        yield hosts, _take_ports(config, hosts, ports, num_gateways)
    finally:
        if group is not None:
            remove_placement_group(group)  # It kills what is left in it.


def _take_ports(
    config: ClusterConfig, hosts: Sequence[Any], ports: Sequence[int], num_gateways: int
) -> list[Place]:
    """Places for the learners to listen at, one for each."""
    answers = [host.take_port.remote(ports, num_gateways) for host in hosts]
    if len(ray.wait(answers, num_returns=len(answers), timeout=_PATIENCE_SECS)[0]) < len(answers):
        asked = f"{config.learner_cpus:g} CPUs and {config.learner_gpus} GPUs"
        whom = "the learner" if len(hosts) == 1 else f"each of {len(hosts)} learners"
        say(f"waiting for a node with {asked} free for {whom}.")
    try:
        places = ray.get(answers)
    except RayError as error:
        raise UsageError(
            f"The learner cannot be started on the cluster ({reason(error)}); make sure that every node has "
            "the same seed_rl installed."
        ) from None
    for place in places:
        if place.port is None:
            which = "No port" if not num_gateways else f"No row of {1 + num_gateways} ports"
            raise UsageError(
                f"{which} of --learner_ports={config.learner_ports} is free on {place.host}, the learner's "
                "node; give a wider range, or stop what is listening there."
            )
    return places


def _children(
    plan: Plan,
    config: ClusterConfig,
    credentials: Credentials | None,
    hosts: Sequence[Any],
    addresses: Sequence[str],
) -> tuple[list[RemoteChild], list[RemoteChild]]:
    """The learners on their hosts, and the actors, which get their hosts when they start."""
    place_actor = ray.remote(Host).options(num_cpus=config.actor_cpus, scheduling_strategy="SPREAD").remote
    of_learner, of_actor = credentials or Credentials({}, {})
    directory = RunDirectory(plan.logdir)
    # A learner calls others, as actors call it.
    caller = [f"--tls_server_name={SERVER_NAME}"] if credentials else ["--insecure"]
    alone = len(plan.learners) == 1
    learners = [
        RemoteChild(
            "the learner" if alone else f"learner {i}",
            [*command, *place_flags(addresses, i), *([] if alone and credentials else caller)],
            {**LEARNER_ENV, **of_learner},
            lambda host=host: host,
            directory.learner_log(i) if i else None,
        )
        for i, (command, host) in enumerate(zip(plan.learners, hosts, strict=True))
    ]
    actors = [
        RemoteChild(
            f"actor {i}",
            [*command, f"--server_address={addresses[0]}", *caller],
            {**ACTOR_ENV, **of_actor},
            place_actor,
            directory.actor_log(i),
        )
        for i, command in enumerate(plan.actors)
    ]
    return learners, actors
