r"""An actor process: steps environments and asks the learner for actions. Needs no TensorFlow.

Which environments it plays, and with which settings, the learner tells it.

Examples:
  seed_rl actor --server_address=unix:/tmp/seed_rl.sock --env_batch_size=8
  seed_rl actor --server_address=learner.example:8686 --tls_authority=ca.pem \
    --token_file=token --env_batch_size=16 --num_env_groups=2

Exit codes: 0 when training has ended, 2 when the learner refuses this actor or a flag is wrong, 130 after
Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, 1 otherwise. A second signal ends the actor at once.
"""

from seed_rl.actor.loop import Actor
from seed_rl.launch.actor_process import run_actor


def main(argv: list[str]) -> int:
    """Runs an actor until training has ended; returns the exit code."""
    return run_actor(argv, __doc__, lambda: Actor)
