r"""An actor process: steps environments and asks the learner for actions. Needs no TensorFlow.

Which environments it plays, and with which settings, the learner tells it.

Examples:
  seed_rl actor --server_address=unix:/tmp/seed_rl.sock --env_batch_size=8
  seed_rl actor --server_address=learner.example:8686 --tls_authority=ca.pem \
    --token_file=token --env_batch_size=16 --num_env_groups=2

Exit codes: 0 when training has ended, 2 when the learner refuses this actor or a flag is wrong, 130 after
Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, 1 otherwise. A second signal ends the actor at once.
"""

import os

from seed_rl.actor.config import ActorConfig
from seed_rl.actor.environments import EnvironmentRefusedError
from seed_rl.actor.loop import Actor
from seed_rl.actor.memory import keep_freed_memory
from seed_rl.environments.failures import EnvironmentFailedError
from seed_rl.flags.command_line import parse
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.messages import complain, log_lines
from seed_rl.signals import last_resort
from seed_rl.wire.client import LearnerGoneError, RefusedError
from seed_rl.wire.security import SecurityConfig, check_connecting, load_security

# Shorter than a launcher waits for its actors, so that the message still reaches the log.
_STOP_SECS = 4.0
_LATE = (
    f"the actor did not stop within {_STOP_SECS:g} s after the signal and was ended; an environment "
    "probably hangs."
)
_SECOND = "the actor was ended at once; its environments were not closed."


def main(argv: list[str]) -> int:
    """Runs an actor until training has ended; returns the exit code."""
    with last_resort(_SECOND, _LATE, _STOP_SECS):
        return _play(argv)


def _play(argv: list[str]) -> int:
    log_lines()
    keep_freed_memory()
    line = parse(argv, __doc__, (ActorConfig, SecurityConfig), with_agent=False)
    config, security_config = line.read(ActorConfig), line.read(SecurityConfig)
    with usage_errors():
        security = load_security(security_config, os.environ)
        check_connecting(config.server_address, security_config, security)
        actor = Actor(config, security, line.given_environment())
    try:
        actor.run()
    except (RefusedError, EnvironmentRefusedError) as error:
        raise UsageError(str(error)) from None
    except (LearnerGoneError, EnvironmentFailedError) as error:
        complain(str(error))
        return 1
    finally:
        actor.close()
    return 0
