"""A whole run on a cluster: first the learner is placed, then the actors; lost processes are placed again.

The local launcher's supervisor restarts actors whether they crashed or lost their node, so one rule covers
all cases, and Ray itself restarts nothing. If the learner ends because of its node, it restarts from its last
checkpoint, and the actors restart with it, since its address has changed.
"""

import functools
import signal
import time
from collections.abc import Collection
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from seed_rl.cluster.config import ClusterConfig
from seed_rl.cluster.connection import head_node
from seed_rl.cluster.host import Host, Place, Program
from seed_rl.cluster.remote_child import RemoteChild, reason
from seed_rl.flags.errors import USAGE_EXIT_CODE, UsageError
from seed_rl.launch.child import ACTOR_ENV
from seed_rl.launch.credentials import SERVER_NAME, Credentials
from seed_rl.launch.plan import Plan
from seed_rl.launch.supervisor import Supervisor
from seed_rl.messages import say
from seed_rl.runs.layout import RunDirectory
from seed_rl.signals import exit_code

# If a learner ends this often within its first minute, it is no accident (it runs out of memory, say).
_MOST_SHORT_LIVES = 3
_SHORT_LIFE_SECS = 60.0
_PATIENCE_SECS = 10.0
# How long a node that is being taken away may take to leave the cluster before the learner is placed again.
_LEAVING_SECS = 30.0
_POLL_SECS = 0.5


def run(plan: Plan, config: ClusterConfig, credentials: Credentials | None) -> int:
    """Runs until training is complete or a signal arrives; returns the exit code.

    Args:
      plan: the commands, without the learner's address.
      config: where to run them.
      credentials: environment variables of learner and actors; None: neither TLS nor a token.

    Raises:
      UsageError: the learner cannot be started on any node, or no port is free there.
    """
    short_lives = 0
    taken: set[int] = set()
    while True:
        host, place = _place_learner(config, taken)
        say(f"the learner is at {place.address}.")
        learner, actors = _children(plan, config, credentials, host, place.address)
        supervisor = Supervisor(learner, actors)
        code = supervisor.run()
        if supervisor.asked_to_stop:
            return code
        end = _end_that_heals(learner, code, place)
        if end is None:
            return code
        short_lives = short_lives + 1 if learner.seconds < _SHORT_LIFE_SECS else 0
        if short_lives == _MOST_SHORT_LIVES:
            say(f"error: the learner ended {short_lives} times within a minute: {learner.last_line()}")
            return code
        say(end)
        if code == USAGE_EXIT_CODE:
            assert place.port is not None
            taken.add(place.port)
        elif not learner.lost:
            _wait_until_gone(place.node)


def _end_that_heals(learner: RemoteChild, code: int, place: Place) -> str | None:
    """The message about a restart, if the learner ended because of its place; None if it must not restart."""
    if learner.lost:
        return "the learner's node was lost; the learner restarts elsewhere from its last checkpoint."
    if code == exit_code(signal.SIGTERM):
        return "the learner was stopped on its node; it restarts elsewhere from its checkpoint."
    if (
        code == USAGE_EXIT_CODE
        and f"Cannot listen on --server_address={place.address}:" in learner.last_line()
    ):
        return f"port {place.port} was taken before the learner listened; it restarts on another port."
    return None


def _wait_until_gone(node: str) -> None:
    """Waits until a node has left the cluster, but not for long: it may not be leaving at all."""
    deadline = time.monotonic() + _LEAVING_SECS
    while time.monotonic() < deadline and any(n["NodeID"] == node and n["Alive"] for n in ray.nodes()):
        time.sleep(_POLL_SECS)


def _place_learner(config: ClusterConfig, taken: Collection[int]) -> tuple[Any, Place]:
    """Waits until Ray has placed the learner; returns its host and where it is to listen."""
    head = None if config.learner_gpus else head_node()
    host = (
        ray.remote(Host)
        .options(
            num_cpus=config.learner_cpus,
            num_gpus=config.learner_gpus,
            scheduling_strategy=NodeAffinitySchedulingStrategy(head, soft=True) if head else "DEFAULT",
        )
        .remote()
    )
    answer = host.take_port.remote([port for port in config.ports if port not in taken])
    if not ray.wait([answer], timeout=_PATIENCE_SECS)[0]:
        asked = f"{config.learner_cpus:g} CPUs and {config.learner_gpus} GPUs"
        say(f"waiting for a node with {asked} free for the learner.")
    try:
        place = ray.get(answer)
    except RayError as error:
        raise UsageError(
            f"The learner cannot be started on the cluster ({reason(error)}); make sure that every node has "
            "the same seed_rl installed."
        ) from None
    if place.port is None:
        raise UsageError(
            f"No port of --learner_ports={config.learner_ports} is free on {place.host}, the learner's node; "
            "give a wider range, or stop what is listening there."
        )
    return host, place


def _children(
    plan: Plan, config: ClusterConfig, credentials: Credentials | None, host: Any, address: str
) -> tuple[RemoteChild, list[RemoteChild]]:
    """The learner on its host, and the actors, which get their hosts when they start."""
    place_actor = functools.partial(
        ray.remote(Host).options(num_cpus=config.actor_cpus, scheduling_strategy="SPREAD").remote
    )
    secret = credentials or Credentials({}, {})
    shared = [f"--server_address={address}", *([] if credentials else ["--insecure"])]
    name = [f"--tls_server_name={SERVER_NAME}"] if credentials else []
    command = [*config.learner_command(plan.learner), *shared]
    learner = Program("the learner", command, {"PYTHONUNBUFFERED": "1", **secret.learner})
    actors = [
        RemoteChild(
            Program(f"actor {i}", [*command, *shared, *name], {**ACTOR_ENV, **secret.actor}),
            place_actor,
            RunDirectory(plan.logdir).actor_log(i),
        )
        for i, command in enumerate(plan.actors)
    ]
    return RemoteChild(learner, lambda: host), actors
