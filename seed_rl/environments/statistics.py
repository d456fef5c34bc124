"""Wrappers that normalize by running statistics: no checkpoint has these, so evaluation would start anew."""

import functools
from collections.abc import Iterator
from typing import Any

import gymnasium
from gymnasium import wrappers
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import vector as vectors

from seed_rl.messages import warn

_NORMALIZERS = (
    *(wrappers.NormalizeObservation, wrappers.NormalizeReward),
    *(vectors.NormalizeObservation, vectors.NormalizeReward),
)


def without_statistics(env: Any) -> Any:
    """The (vector) environment without Gymnasium's outermost normalizers, which the network can replace."""
    while type(env) in _NORMALIZERS and _is_running(env):
        _tell(type(env).__name__)
        env = env.env
    return env


def refuse_statistics(env: Any) -> None:
    """Raises ValueError if the environment, or one that it contains, keeps running statistics."""
    for layer in filter(_is_running, _layers(env, set())):
        for name, value in vars(layer).items():
            if any(kind.__name__ == "RunningMeanStd" for kind in type(value).__mro__):  # Of any package.
                kind = type(layer).__name__
                raise ValueError(
                    f"{kind} of the environment keeps running statistics ({name}), which no checkpoint has: "
                    "the agent would get other numbers in evaluation than in training. Take it out and set "
                    f"{_flag(f'{kind} {name}')}, which saves its own."
                )


def _layers(env: Any, seen: set[int]) -> Iterator[Any]:
    """An environment and those that its attributes hold, outermost first."""
    if id(env) not in seen and hasattr(env, "__dict__"):
        seen.add(id(env))
        yield env
        for value in list(vars(env).values()):
            for entry in value if isinstance(value, list | tuple) else (value,):
                if isinstance(entry, gymnasium.Env | VectorEnv):
                    yield from _layers(entry, seen)


def _is_running(layer: Any) -> bool:
    """False for fixed statistics, which are part of the environment's code."""
    return getattr(layer, "update_running_mean", True) is not False


def _flag(name: str) -> str:
    """The flag that takes the place of a wrapper or of its attribute."""
    what = "rewards" if "rew" in name.lower() or " ret" in name.lower() else "observations"
    return f"--normalize_{what} (in Python: normalize_{what}=True)"


@functools.cache
def _tell(name: str) -> None:
    warn(
        f"{name} of the environment is left out: no checkpoint has its statistics. Set {_flag(name)} instead."
    )
