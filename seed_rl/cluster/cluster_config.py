"""Settings of the launcher on Ray."""

import dataclasses
import re

from seed_rl.options import Options, option

# Set before Ray is imported, for a Ray on one machine. The first is Ray's own switch for systems where it
# stays on the loopback device; without it, Ray replaces 127.0.0.1 with the machine's external address, and
# its ports are open to everyone.
LOOPBACK_ONLY = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0", "RAY_USAGE_STATS_ENABLED": "0"}

_LAST_PORT = 2**16 - 1


@dataclasses.dataclass(frozen=True)
class ClusterConfig(Options):
    """Placement of the processes on a Ray cluster."""

    ray_address: str = option(
        "auto",
        "The cluster: auto (the one in RAY_ADDRESS, or the one this machine belongs to), HOST:PORT, "
        "ray://HOST:PORT, or none, which starts Ray on this machine for this run.",
    )
    actor_cpus: float = option(1.0, "CPUs that Ray reserves for each actor; 0.25 is possible.", above=0)
    learner_cpus: float = option(
        1.0,
        "CPUs that Ray reserves for a learner. Ray does not limit a process to its reservation, and "
        "places actors on the node's other CPUs: to give the learner a node to itself, reserve all CPUs.",
        above=0,
    )
    learner_gpus: int = option(
        0,
        "GPUs that Ray reserves for each learner; with 0 a single learner runs on the head node if there is "
        "room.",
        at_least=0,
    )
    # Above the ports of Ray's own workers (10002 to 19999) and below the system's ephemeral ports.
    learner_ports: str = option(
        "20000-20999",
        "Ports that the learner may listen on, FIRST-LAST or a single one; the first that is free on its "
        "node is used.",
    )

    def validate(self) -> None:
        """Checks the range of ports."""
        ports = self.ports
        if not (ports and ports[0] >= 1 and ports[-1] <= _LAST_PORT):
            raise ValueError(
                f"--learner_ports={self.learner_ports} is not valid; give FIRST-LAST or a single port, "
                f"between 1 and {_LAST_PORT}."
            )

    @property
    def ports(self) -> range:
        """The ports of `learner_ports`; empty if it is not a range."""
        match = re.fullmatch(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", self.learner_ports)
        return range(int(match[1]), int(match[2] or match[1]) + 1) if match else range(0)
