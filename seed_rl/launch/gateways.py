"""Keeps a learner's gateways running. No TensorFlow."""

import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from seed_rl.launch.child import ACTOR_ENV, Child
from seed_rl.launch.watch import ChildEnded, Timing, Watch
from seed_rl.messages import warn

# Gateways pass on the end of training to their actors. Actors wait for them, so they are soon started again.
_TIMING = Timing(terminate_grace=5.0, longest_backoff=2.0)


def gateway_commands(
    addresses: Sequence[str], learner_address: str, security: Mapping[str, Any]
) -> list[list[str]]:
    """The command of each gateway at `addresses`, with the learner's settings of its connections."""
    flags = [f"--{name}={value}" for name, value in security.items() if value is not None]
    main = [sys.executable, "-m", "seed_rl", "gateway", f"--learner_address={learner_address}", *flags]
    return [[*main, f"--server_address={address}"] for address in addresses]


class Gateways:
    """Starts gateways, and starts each again that ends, until `stop`.

    The system ends a gateway with the thread that started it, so that is one which lives as long as they do.
    """

    def __init__(self, commands: Sequence[Sequence[str]], timing: Timing = _TIMING):
        self._children = [Child(f"gateway {i}", command, env=ACTOR_ENV) for i, command in enumerate(commands)]
        self._running: list[bool] = []
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep, args=(timing,), name="gateways", daemon=True)
        self._thread.start()

    @property
    def pids(self) -> list[int]:
        """Process ids of those that have started."""
        return [child.pid for child in self._children if child.pid is not None]

    def live(self, addresses: Sequence[str]) -> list[str]:
        """Those of the addresses, in the order of the commands, whose gateways run."""
        return [address for address, runs in zip(addresses, self._running, strict=False) if runs]

    def stop(self) -> None:
        """Ends them; a second call does nothing."""
        self._stopping.set()
        self._thread.join()

    def _keep(self, timing: Timing) -> None:
        watch = Watch(timing=timing, say=warn)
        for child in self._children:
            watch.start(child)
        for event in watch:
            self._running = [child.running for child in self._children]
            if self._stopping.is_set():
                break
            if isinstance(event, ChildEnded):
                watch.restart(event)
        watch.end(self._children, timing.terminate_grace)
