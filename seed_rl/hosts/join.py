"""Makes this host's side of several learner hosts. No TensorFlow."""

from collections.abc import Mapping
from typing import Any

from seed_rl.hosts.first import FirstHost
from seed_rl.hosts.other import OtherHost
from seed_rl.hosts.peers import Peers
from seed_rl.serving.listener import Listener
from seed_rl.wire.hosts import LearnerHosts
from seed_rl.wire.security import Security


def peers_of(
    hosts: LearnerHosts,
    listener: Listener,
    timeout_secs: float,
    identity: Mapping[str, Any],
    security: Security = Security(),  # noqa: B008 (immutable)
) -> Peers:
    """The other learner hosts, as this one knows them; for the arguments, see `Peers` and `OtherHost`."""
    if hosts.is_first:
        return FirstHost(hosts, listener, timeout_secs, identity)
    return OtherHost(hosts, listener, timeout_secs, identity, security)
