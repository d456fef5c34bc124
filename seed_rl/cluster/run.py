"""A whole run on a cluster: the learner gets a place, then the actors; what is lost gets another place.

One supervisor, the local launcher's, restarts actors whether they crashed or their node is gone; so there is
one rule for all ends, and Ray restarts nothing by itself. A learner whose node is gone starts again from its
last checkpoint, and the actors with it, since its address is another.
"""

import functools
from typing import Any

import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from seed_rl.cluster.config import ClusterConfig
from seed_rl.cluster.connection import head_node
from seed_rl.cluster.host import Host, Program
from seed_rl.cluster.remote_child import RemoteChild, reason
from seed_rl.flags.errors import UsageError
from seed_rl.launch.child import ACTOR_ENV
from seed_rl.launch.credentials import SERVER_NAME, Credentials
from seed_rl.launch.plan import Plan
from seed_rl.launch.supervisor import Supervisor
from seed_rl.messages import say
from seed_rl.runs.layout import RunDirectory

# A learner that is lost this often within its first minute is not lost by accident (out of memory, say).
_MOST_SHORT_LIVES = 3
_SHORT_LIFE_SECS = 60.0
_PATIENCE_SECS = 10.0


def run(plan: Plan, config: ClusterConfig, credentials: Credentials | None) -> int:
    """Runs to the end of training, or until a signal; returns the exit code.

    Args:
      plan: the commands, without the learner's address.
      config: where they run.
      credentials: environment variables of learner and actors; None: neither TLS nor a token.

    Raises:
      UsageError: the learner cannot be started on any node.
    """
    short_lives = 0
    while True:
        host, address = _place_learner(config)
        say(f"the learner is at {address}.")
        learner, actors = _children(plan, config, credentials, host, address)
        supervisor = Supervisor(learner, actors)
        code = supervisor.run()
        if not learner.lost or supervisor.asked_to_stop:
            return code
        short_lives = short_lives + 1 if learner.seconds < _SHORT_LIFE_SECS else 0
        if short_lives == _MOST_SHORT_LIVES:
            say(f"error: the learner was lost {short_lives} times within a minute: {learner.last_line()}")
            return code
        say("the learner's node is lost; it starts again elsewhere, from its last checkpoint.")


def _place_learner(config: ClusterConfig) -> tuple[Any, str]:
    """Waits until Ray has a place for the learner; returns its host and the address to listen on."""
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
    address = host.free_address.remote()
    if not ray.wait([address], timeout=_PATIENCE_SECS)[0]:
        asked = f"{config.learner_cpus:g} CPUs and {config.learner_gpus} GPUs"
        say(f"waiting for a node that has {asked} free, for the learner.")
    try:
        return host, ray.get(address)
    except RayError as error:
        raise UsageError(
            f"The learner cannot be started on the cluster ({reason(error)}); see that every node has "
            "the same seed_rl installed."
        ) from None


def _children(
    plan: Plan, config: ClusterConfig, credentials: Credentials | None, host: Any, address: str
) -> tuple[RemoteChild, list[RemoteChild]]:
    """The learner on its host, and the actors, which get theirs when they start."""
    place_actor = functools.partial(
        ray.remote(Host).options(num_cpus=config.actor_cpus, scheduling_strategy="SPREAD").remote
    )
    secret = credentials or Credentials({}, {})
    shared = [f"--server_address={address}", *([] if credentials else ["--insecure"])]
    name = [f"--tls_server_name={SERVER_NAME}"] if credentials else []
    device = ["--require_accelerator"] if config.learner_gpus else []
    command = [*plan.learner[:3], *device, *plan.learner[3:], *shared]  # The run's own flags win.
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
