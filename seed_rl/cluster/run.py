"""A whole run on a cluster: first learners are placed, then the actors; lost processes are placed again.

The local launcher's supervisor restarts actors whether they crashed or lost their node, so one rule covers
all cases, and Ray itself restarts nothing. If the learner ends because of its node, it restarts from its last
checkpoint, and the actors restart with it, since its address has changed. Several learners restart together,
also if one of them crashes.
"""

import contextlib
import functools
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy, PlacementGroupSchedulingStrategy

from seed_rl.cluster.cluster_config import ClusterConfig
from seed_rl.cluster.connection import head_node
from seed_rl.cluster.remote_child import Host, Place, Program, RemoteChild, reason
from seed_rl.flags.errors import USAGE_EXIT_CODE, UsageError
from seed_rl.launch.child import ACTOR_ENV, LEARNER_ENV
from seed_rl.launch.credentials import SERVER_NAME, Credentials
from seed_rl.launch.plan import Plan, place_flags
from seed_rl.launch.run import MOST_RESTARTS, Life
from seed_rl.launch.watch import Restarts, Timing, describe_end
from seed_rl.messages import say
from seed_rl.runs.layout import RunDirectory
from seed_rl.serving.gateway import gateway_addresses
from seed_rl.signals import STOP_CODES

_PATIENCE_SECS = 10.0
# Time limit for a lost node to leave the cluster before learners are placed again.
_LEAVING_SECS = 30.0
_POLL_SECS = 0.5


def run(plan: Plan, config: ClusterConfig, credentials: Credentials | None) -> int:
    """Runs until training is complete or a signal arrives; returns the exit code.

    The plan lacks the learners' addresses. Without credentials, there is neither TLS nor a token.

    Raises:
      UsageError: a learner cannot be started on any node, or no port is free there.
    """
    timing, crashes = Timing(), 0
    restarts = Restarts(timing)
    taken: set[int] = set()
    while True:
        with _placed(config, len(plan.learners), plan.num_gateways, taken) as (hosts, places):
            learners, actors = _children(plan, config, credentials, hosts, [p.address for p in places])
            for learner, place in zip(learners, places, strict=True):
                say(f"{learner.name} is at {place.address}.")
            life = Life(learners, actors, timing)
            code = life.run()
        found = set(_taken_ports(learners, places, plan.num_gateways, code))
        taken |= found
        sentence = "" if life.asked_to_stop else _why_again(learners, code, life.loss, found)
        if not sentence:
            return code
        # A node or a port may be lost any number of times, but not right after each start.
        is_crash = bool(life.loss) and not any(learner.lost for learner in learners)
        crashes += is_crash or learners[0].seconds < timing.healthy_after
        if crashes > MOST_RESTARTS:
            end = life.loss or describe_end(learners[0], learners[0].poll() or 0)
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
    for learner in learners:
        if learner.lost:
            return f"{learner.name}'s node was lost; {then} from the last checkpoint."
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
    group = None
    strategies: list[Any]
    if count == 1:
        head = None if config.learner_gpus else head_node()
        strategies = [NodeAffinitySchedulingStrategy(head, soft=True) if head else "DEFAULT"]
    else:
        bundle = {"CPU": config.learner_cpus} | ({"GPU": config.learner_gpus} if config.learner_gpus else {})
        group = placement_group([bundle] * count, strategy="SPREAD")
        strategies = [
            PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=i) for i in range(count)
        ]
    resources = {"num_cpus": config.learner_cpus, "num_gpus": config.learner_gpus}
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
    place_actor = functools.partial(
        ray.remote(Host).options(num_cpus=config.actor_cpus, scheduling_strategy="SPREAD").remote
    )
    secret = credentials or Credentials({}, {})
    directory = RunDirectory(plan.logdir)
    # A learner calls others, as actors call it.
    caller = [f"--tls_server_name={SERVER_NAME}"] if credentials else ["--insecure"]
    alone = len(plan.learners) == 1
    safety = [] if alone and credentials else caller
    learners = []
    for i, (command, host) in enumerate(zip(plan.learners, hosts, strict=True)):
        program = Program(
            "the learner" if alone else f"learner {i}",
            [*command, *place_flags(addresses, i), *safety],
            {**LEARNER_ENV, **secret.learner},
        )
        log = directory.learner_log(i) if i else None
        learners.append(RemoteChild(program, lambda host=host: host, log))
    address = f"--server_address={addresses[0]}"
    actors = [
        RemoteChild(
            Program(f"actor {i}", [*command, address, *caller], {**ACTOR_ENV, **secret.actor}),
            place_actor,
            directory.actor_log(i),
        )
        for i, command in enumerate(plan.actors)
    ]
    return learners, actors
