"""seed_rl: scalable, efficient deep reinforcement learning with central inference, on TensorFlow 2.

`train`, `connect`, `load`, `evaluate` and `tournament` are the Python interface. They are imported when they
are first used, because actors import this package, too, and need none of it.
"""

import importlib
import os
from typing import Any

__version__ = "1.0.0rc1"
__all__ = [
    "Run",
    "TrainingEnded",
    "UsageError",
    "check",
    "connect",
    "evaluate",
    "load",
    "tournament",
    "train",
]

# gRPC's core reads this when it is imported. It would write what peers send as it is, escape sequences too.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")
# gRPC would end a process that forks in two threads at once, as VizDoom does, and its handlers break one in a
# few hundred starts of Ray's nodes, which run Python between fork and exec. No forked process uses gRPC.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")

_ELSEWHERE = {
    "TrainingEnded": "seed_rl.actor.attached",
    "check": "seed_rl.commands.check",
    "connect": "seed_rl.actor.attached",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_ELSEWHERE.get(name, "seed_rl.api")), name)
