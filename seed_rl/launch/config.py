"""Settings of the local launcher."""

import dataclasses

from seed_rl.options import Options, option


@dataclasses.dataclass(frozen=True)
class LocalConfig(Options):
    """How many processes run on this machine, and where the run is stored."""

    num_actors: int = option(4, "Actor processes.", at_least=1)
    env_batch_size: int = option(4, "Environments in each actor process.", at_least=1)
    logdir: str | None = option(
        None, "Run directory; by default runs/ENVIRONMENT_AGENT_GAME in the current directory."
    )
    server_address: str | None = option(
        None,
        "Address that the learner listens on, unix:PATH or HOST:PORT; by default a unix socket in a new "
        "private temporary directory.",
    )
