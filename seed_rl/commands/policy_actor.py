r"""An actor process that holds the policy, for a learner with --inference=actor. Needs TensorFlow.

It gets the policy and newer weights from the learner, chooses the actions itself, and sends whole unrolls, as
IMPALA's actors do. In all else it is like `seed_rl actor`.

Examples:
  seed_rl policy_actor --server_address=unix:/tmp/seed_rl.sock --env_batch_size=8
  seed_rl policy_actor --server_address=learner.example:8686 --token_file=token --env_batch_size=16

Exit codes: as those of `seed_rl actor`.
"""

from seed_rl.actor.loop import Actor
from seed_rl.flags.errors import require_package
from seed_rl.launch.actor_process import run_actor
from seed_rl.loading import fast_tensorflow_import, quiet_start


def main(argv: list[str]) -> int:
    """Runs an actor until training has ended; returns the exit code."""
    return run_actor(argv, __doc__, _actor_class)


def _actor_class() -> type[Actor]:
    require_package("tensorflow", "learner")
    with quiet_start(), fast_tensorflow_import():
        from seed_rl.policy_actor.player import PolicyActor

    return PolicyActor
