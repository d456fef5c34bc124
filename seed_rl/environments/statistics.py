"""Wrappers that normalize by running statistics: no checkpoint has these, so evaluation would start anew.

Gymnasium's own are left out where nothing above them depends on them; the network can do the same and saves
its statistics. All others are refused.
"""

import functools
from collections.abc import Iterator
from itertools import islice
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
# Wrappers that neither see nor change observations and rewards.
_INDIFFERENT = (
    *(wrappers.TimeLimit, wrappers.OrderEnforcing, wrappers.PassiveEnvChecker, wrappers.ClipAction),
    *(wrappers.RescaleAction, wrappers.RecordEpisodeStatistics, vectors.RecordEpisodeStatistics),
)


def without_statistics(env: Any) -> Any:
    """The (vector) environment without Gymnasium's normalizing wrappers, where that is right."""
    outer, layer = None, env
    while type(layer) in (*_NORMALIZERS, *_INDIFFERENT):
        if type(layer) in _INDIFFERENT or not _is_running(layer):
            outer = layer
        else:
            _tell(type(layer).__name__, _flag(type(layer).__name__))
            if outer is None:
                env = layer.env
            else:
                outer.env = layer.env
        layer = layer.env
    return env


def refuse_statistics(env: gymnasium.Env | VectorEnv) -> None:
    """Raises ValueError if the environment, or one that it contains, keeps running statistics."""
    for layer in _layers(env, set()):
        for name, value in vars(layer).items():
            entries = islice(value.values(), 9) if type(value) is dict else (value,)
            if any(map(_is_statistic, entries)) and _is_running(layer):
                raise ValueError(
                    f"{type(layer).__name__} of the environment keeps running statistics ({name}), which no "
                    "checkpoint has: the agent would get other numbers in evaluation than in training. Take "
                    f"it out and set {_flag(f'{type(layer).__name__} {name}')}, which saves its own."
                )


def _layers(env: Any, seen: set[int]) -> Iterator[Any]:
    """An environment and those that its attributes hold, outermost first."""
    if id(env) in seen or not hasattr(env, "__dict__"):
        return
    seen.add(id(env))
    yield env
    for value in list(vars(env).values()):
        for entry in value if isinstance(value, list | tuple) else (value,):
            if isinstance(entry, gymnasium.Env | VectorEnv):
                yield from _layers(entry, seen)


def _is_statistic(value: Any) -> bool:
    """Whether this is a RunningMeanStd, Gymnasium's or one of those that were copied from Baselines."""
    return any(kind.__name__ == "RunningMeanStd" for kind in type(value).__mro__)


def _is_running(layer: Any) -> bool:
    """False for fixed statistics, which are part of the environment's code."""
    return getattr(layer, "update_running_mean", True) is not False


def _flag(name: str) -> str:
    """The flag that takes the place of a wrapper or of its attribute."""
    what = "rewards" if "rew" in name.lower() or " ret" in name.lower() else "observations"
    return f"--normalize_{what} (in Python: normalize_{what}=True)"


@functools.cache
def _tell(name: str, flag: str) -> None:
    warn(
        f"{name} of the environment is left out, since no checkpoint has its statistics; set {flag} instead."
    )
