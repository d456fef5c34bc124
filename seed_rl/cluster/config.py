"""Settings of the launcher on Ray."""

import dataclasses

from seed_rl.options import Options, option

# For a Ray of one machine, before Ray is imported. The first is Ray's own switch for systems where it keeps
# to the loopback device; without it Ray puts the machine's outer address in the place of 127.0.0.1, and its
# ports are open to all.
LOOPBACK_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}


@dataclasses.dataclass(frozen=True)
class ClusterConfig(Options):
    """Where on a Ray cluster the processes run."""

    ray_address: str = option(
        "auto",
        "The cluster: auto (the one in RAY_ADDRESS, or that this machine belongs to), HOST:PORT, "
        "ray://HOST:PORT, or none, which starts Ray on this machine for this run.",
    )
    actor_cpus: float = option(1.0, "CPUs that Ray sets aside for each actor; 0.25 is possible.", above=0)
    learner_cpus: float = option(1.0, "CPUs that Ray sets aside for the learner.", above=0)
    learner_gpus: int = option(
        0,
        "GPUs of the learner's node; with 0 the learner runs on the head node if there is room.",
        at_least=0,
    )
