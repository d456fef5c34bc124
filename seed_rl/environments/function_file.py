"""Files with a function that makes environments, and with what its process had that actors would lack.

That is the user's part of the search path for modules, and the ids that are registered with Gymnasium.
"""

import dataclasses
import functools
import os
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator

from seed_rl.environments.fingerprint import fingerprint, is_installed, is_own
from seed_rl.messages import reason, warn


def contents(function: Callable[..., Any]) -> tuple[bytes, str]:
    """The contents of a function's file, and the `fingerprint` of the function.

    Raises:
      ValueError: the function cannot be pickled; one sentence.
    """
    import cloudpickle

    path = [os.path.abspath(place) for place in sys.path if not is_installed(place)]
    path = list(filter(os.path.exists, path))  # Editable installs add entries that are no paths.
    specs, own = {}, []
    for env_id, spec in sorted(gymnasium.registry.items()):
        module = _module(spec)
        package = module.partition(".")[0]
        if module == "__main__" and isinstance(spec.entry_point, str):
            creator: Any = load_env_creator(spec.entry_point)
            spec = dataclasses.replace(spec, entry_point=creator)
        if is_own(module) or (callable(spec.entry_point) and package != "gymnasium"):
            own += [spec, sys.modules.get(module)]
        if package != "gymnasium":
            try:
                specs[env_id] = cloudpickle.dumps(spec)
            except Exception as error:
                warn(
                    f"actors will lack the Gymnasium id {env_id}, which cannot be pickled ({reason(error)})."
                )
    try:
        return pickle.dumps((path, specs)) + cloudpickle.dumps(function), fingerprint(function, *own)
    except Exception as error:
        raise ValueError(
            f"The function cannot be pickled ({reason(error)}); make the environment inside it."
        ) from error


def _module(spec: EnvSpec) -> str:
    entry = spec.entry_point or spec.vector_entry_point
    return entry.partition(":")[0] if isinstance(entry, str) else getattr(entry, "__module__", "")


def load(path: str) -> Callable[..., Any]:
    """The function in a file; the same object each time, so that environments share what it refers to.

    Raises:
      OSError: the file cannot be read.
    """
    return _load(path, os.stat(path).st_mtime_ns)


@functools.lru_cache
def _load(path: str, changed: int) -> Callable[..., Any]:
    with open(path, "rb") as file:
        found = pickle.load(file)
        if callable(found):  # The file has the function only.
            return found
        places, specs = found
        sys.path[:0] = [place for place in places if place not in sys.path]
        function = pickle.load(file)  # Imports modules that register their ids.
        if missing := specs.keys() - gymnasium.registry.keys():
            gymnasium.registry.update({env_id: pickle.loads(specs[env_id]) for env_id in missing})
            # Later on, environments import modules that register theirs again.
            warnings.filterwarnings("ignore", ".*Overriding environment")
        return function
