"""The learner hosts of a run: addresses, TensorFlow's ports, and the environments that each one serves.

Whatever connects to a learner or starts one may import it: no TensorFlow and no gRPC.
"""

import dataclasses
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from seed_rl.files import parse_json

# TensorFlow's own variable, as schedulers set it for its programs.
TF_CONFIG = "TF_CONFIG"

# Service and method between learners, beside the service for actors.
SERVICE = "seed_rl.Learners"
METHOD = "Meet"


@dataclasses.dataclass(frozen=True)
class LearnerHosts:
    """All learner hosts of a run, and which of them this process is.

    Attributes:
      addresses: unix:PATH or HOST:PORT of each host, for actors and for the other hosts.
      index: of this host; 0 keeps the run directory.
    """

    addresses: tuple[str, ...]
    index: int = 0

    @property
    def count(self) -> int:
        """Number of learner hosts."""
        return len(self.addresses)

    @property
    def is_first(self) -> bool:
        """Whether this host keeps the run directory."""
        return self.index == 0

    @property
    def address(self) -> str:
        """This host's address."""
        return self.addresses[self.index]

    def name(self, index: int) -> str:
        """A host in words, for messages."""
        return f"learner host {index} ({self.addresses[index]})"

    def machine(self) -> str:
        """This host's name or IP address, for connections between the hosts."""
        return "127.0.0.1" if self.address.startswith("unix") else self.address.rpartition(":")[0]

    def served(self, num_envs: int, index: int | None = None) -> range:
        """The ids of the environments that a host serves, by default this one."""
        share = num_envs // self.count
        first = (self.index if index is None else index) * share
        return range(first, first + share)

    def check(self, num_envs: int, num_eval_envs: int, batch_size: int) -> None:
        """Checks that the run can be split.

        Raises:
          ValueError: environments or the batch cannot be split evenly, or a host would have only environments
            that evaluate; one sentence.
        """
        for flag, value in (("num_envs", num_envs), ("batch_size", batch_size)):
            if value % self.count:
                raise ValueError(
                    f"--{flag}={value} cannot be split evenly over {self.count} learner hosts; make it a "
                    f"multiple of {self.count}."
                )
        if self.count > 1 and num_eval_envs >= num_envs // self.count:
            raise ValueError(
                f"All {num_envs // self.count} environments of {self.name(self.count - 1)} would only "
                f"evaluate; raise --num_envs={num_envs} or have fewer than {num_envs // self.count} "
                "evaluation environments."
            )


def find_hosts(learner_hosts: str, learner_index: int, environ: Mapping[str, str]) -> LearnerHosts | None:
    """The learner hosts that the flags name, or else TF_CONFIG; None: there is one host, without a name.

    Args:
      learner_hosts: the value of --learner_hosts.
      learner_index: the value of --learner_index.
      environ: environment variables.

    Raises:
      ValueError: the hosts or the index are not valid; one sentence.
    """
    addresses = [address.strip() for address in learner_hosts.split(",") if address.strip()]
    source = f"--learner_hosts={learner_hosts}"
    if not addresses and environ.get(TF_CONFIG):
        source = TF_CONFIG
        addresses, learner_index = _from_tf_config(environ[TF_CONFIG])
    if not addresses:
        if learner_index:
            raise ValueError(f"--learner_index={learner_index} needs --learner_hosts, the list of all hosts.")
        return None
    for address in addresses:
        if not address.startswith("unix:") and not address.rpartition(":")[2].isdigit():
            raise ValueError(
                f"{source} contains {address!r}, which is no address; give HOST:PORT or unix:PATH for each."
            )
    if len(set(addresses)) < len(addresses):
        twice = next(address for address in addresses if addresses.count(address) > 1)
        raise ValueError(f"{source} contains {twice} twice; each learner host needs an address of its own.")
    if not 0 <= learner_index < len(addresses):
        raise ValueError(
            f"--learner_index={learner_index} is not among the {len(addresses)} hosts of {source}; the first "
            "one is 0."
        )
    return LearnerHosts(tuple(addresses), learner_index)


def _from_tf_config(text: str) -> tuple[list[str], int]:
    """Addresses and index from TF_CONFIG: an optional `chief`, which comes first, and `worker`s.

    Its other fields may contain secrets, so errors show nothing of it.
    """
    try:
        config: Any = parse_json(text)
        cluster, task = config.get("cluster", {}), config.get("task", {})
        jobs = {job: list(cluster.get(job, ())) for job in ("chief", "worker")}
        if not any(jobs.values()):
            return [], 0
        before = len(jobs["chief"]) if task["type"] == "worker" else 0
        if task["type"] not in jobs:
            raise ValueError(f"its task type {task['type']!r} is neither chief nor worker")
        return [*map(str, jobs["chief"]), *map(str, jobs["worker"])], before + int(task["index"])
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise ValueError(
            f"{TF_CONFIG} does not describe learner hosts ({error!r}); correct it, unset it, or give "
            "--learner_hosts and --learner_index."
        ) from None


def listen(machine: str) -> socket.socket:
    """A socket that listens on a free port, which is TensorFlow's once it is closed."""
    host = machine.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host if host in ("localhost", "127.0.0.1", "::1") else "", 0), family=family)


def unreached(hosts: LearnerHosts, addresses: Sequence[str], seconds: float) -> str:
    """Tries to reach the ports of all hosts, HOST:PORT each; returns a sentence if one cannot be reached."""
    for index, address in enumerate(addresses):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), seconds).close()
        except OSError as error:
            return (
                f"{hosts.name(hosts.index)} cannot reach {hosts.name(index)} at {address} ({error}); learner "
                "hosts need all ports open among them."
            )
    return ""
