"""Trains on a Ray cluster with one command: a learner and its actors, each on a node that Ray chooses.

Imports no TensorFlow, and imports Ray only when it runs.
"""

import os
from collections.abc import Callable

from seed_rl.cluster.cluster_config import LOOPBACK_ONLY, ClusterConfig
from seed_rl.flags.errors import require_package
from seed_rl.flags.resolve import Launching
from seed_rl.flags.settings import Settings
from seed_rl.launch.credentials import make_credentials
from seed_rl.launch.directory import check_directory, introduce, is_done, made_directory, say_next
from seed_rl.launch.plan import LocalConfig, make_plan, resolve_run
from seed_rl.messages import say
from seed_rl.wire.security import SecurityConfig

DESCRIPTION = """
Trains on a Ray cluster: one learner, or several, and the actor processes, spread over the nodes.

Examples:
  seed_rl cluster catch vtrace --num_actors=8 --logdir=/shared/runs/catch
  seed_rl cluster atari vtrace 64 16 --game=Breakout --learner_gpus=1 --logdir=/shared/breakout

The form is [environment] [agent] [actors] [environments per actor] [--flags].
It works like `seed_rl train`, but on several machines: it has the same presets, Ctrl-C stops the run with a
checkpoint, and the same command resumes it. --logdir must be a directory that every node has at the same
path. With --num_learners=2, gradients are added up over two learners, on a node each if possible.
Connections are secured by TLS and a token, both created for the run. docs/ray.md has the details.
"""

_LEFT_OUT = {
    LocalConfig: ("server_address", "record_every_minutes"),
    ClusterConfig: (),
    SecurityConfig: ("tls_certificate", "tls_key", "tls_authority", "tls_server_name", "token_file"),
}


def main(argv: list[str]) -> int:
    """Runs the launcher; returns its exit code."""
    notes: list[str] = []
    settings = resolved(argv, notes.append)
    config, plan = settings.read(ClusterConfig), make_plan(settings, None)
    require_package("ray", "ray")
    check_directory(plan)
    if is_done(plan, argv):
        return 0
    credentials = None if settings.read(SecurityConfig).insecure else make_credentials("ray")
    for note in notes:
        say(note)
    introduce(plan)

    if config.ray_address == "none":
        os.environ.update(LOOPBACK_ONLY)
    from seed_rl.cluster.run import check_room, connected, run

    with connected(config.ray_address):
        check_room(config, len(plan.actors), len(plan.learners))
        with made_directory(plan):
            code = run(plan, config, credentials)
    if code == 0:
        say_next(plan, argv)
    return code


def resolved(argv: list[str], tell: Callable[[str], object] = lambda note: None) -> Settings:
    """The settings of a command line. Learners with GPUs have to use them, unless a flag turns that off."""
    settings = resolve_run(argv, DESCRIPTION, _LEFT_OUT, Launching(tell))
    if settings.values["learner_gpus"] and not settings.is_chosen("require_accelerator"):
        return settings.replaced("flag learner_gpus", require_accelerator=True)
    return settings
