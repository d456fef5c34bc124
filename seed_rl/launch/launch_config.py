"""Settings of the local launcher."""

import dataclasses

from seed_rl.options import Options, option


@dataclasses.dataclass(frozen=True)
class LocalConfig(Options):
    """Number of processes on this machine, and directory of the run."""

    num_actors: int = option(4, "Actor processes.", at_least=1)
    env_batch_size: int = option(4, "Environments in each actor process.", at_least=1)
    num_learners: int = option(
        1,
        "Learner processes whose gradients are added up (--learner_hosts). One learner uses all GPUs of a "
        "machine, so several of them on one machine are for trying out what several machines do.",
        at_least=1,
    )
    logdir: str | None = option(
        None,
        "Run directory; by default runs/ENVIRONMENT_AGENT_GAME in the current directory, and with a --seed, "
        "runs/ENVIRONMENT_AGENT_GAME_seedN.",
        is_path=True,
    )
    record_every_minutes: float | None = option(
        None,
        "Record an episode of the newest checkpoint so often, in a process of its own with low priority: "
        "videos/ckpt-UPDATES.mp4 in the run directory. Needs the extra [record]; see --save_checkpoint_secs.",
        above=0,
    )
    server_address: str | None = option(
        None,
        "Address that the learner listens on, unix:PATH or HOST:PORT; by default a unix socket in a new "
        "private temporary directory. Several learners take it and the next ports, or PATH_1 and so on.",
    )
