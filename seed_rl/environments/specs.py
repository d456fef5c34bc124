"""Specs of environments from their Gymnasium spaces, and the refusal of wrappers with running statistics."""

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import gymnasium
from gymnasium import spaces, wrappers
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import vector as vectors

from seed_rl.environments.actions import action_spec
from seed_rl.environments.base import EnvironmentConfig
from seed_rl.environments.failures import described
from seed_rl.environments.games import Game
from seed_rl.environments.observations import observation_spec
from seed_rl.messages import warn
from seed_rl.types import EnvironmentSpec


class Spaces(NamedTuple):
    """Gymnasium's spaces of an environment."""

    observation_space: spaces.Space
    action_space: spaces.Space


def environment_spec(
    env: gymnasium.Env | VectorEnv | Spaces | Game, config: EnvironmentConfig
) -> EnvironmentSpec:
    """Spec of an environment, of each one of a vector, or of each player of a game.

    Raises:
      ValueError: a space is missing, or of a kind that is not supported; or a wrapper keeps statistics.
    """
    _refuse_statistics(env)
    action = action_spec(single_space(env, "action_space"))
    observation = observation_spec(single_space(env, "observation_space"))
    num_players = len(env.players) if isinstance(env, Game) else 1
    return EnvironmentSpec(observation, action, config.num_action_repeats, num_players)


def single_space(env: gymnasium.Env | VectorEnv | Spaces | Game, name: str) -> spaces.Space:
    """The `observation_space` or `action_space` of an environment, or of each one of a vector.

    Raises:
      ValueError: it is missing, or none of Gymnasium's.
    """
    name = f"single_{name}" if isinstance(env, VectorEnv) else name
    try:
        space = getattr(env, name)
    except Exception as error:
        raise ValueError(f"The environment has no {name} ({described(error)}); set it.") from error
    if not isinstance(space, spaces.Space):
        raise ValueError(
            f"The environment's {name} is of type {type(space).__name__}; it must be one of gymnasium.spaces."
        )
    return space


_NORMALIZERS = (
    *(wrappers.NormalizeObservation, wrappers.NormalizeReward),
    *(vectors.NormalizeObservation, vectors.NormalizeReward),
)


def without_statistics(env: Any) -> Any:
    """The (vector) environment without Gymnasium's outermost normalizers, which the network can replace."""
    while type(env) in _NORMALIZERS and _is_running(env):
        _warn_of_wrapper(type(env).__name__)
        env = env.env
    return env


def _refuse_statistics(env: Any) -> None:
    """Raises ValueError if the environment, or one that it contains, keeps running statistics."""
    for layer in filter(_is_running, _wrapped(env, set())):
        for name, value in vars(layer).items():
            if any(kind.__name__ == "RunningMeanStd" for kind in type(value).__mro__):  # Of any package.
                kind = type(layer).__name__
                raise ValueError(
                    f"{kind} of the environment keeps running statistics ({name}), which no checkpoint has: "
                    "the agent would get other numbers in evaluation than in training. Take it out and set "
                    f"{_flag_instead(f'{kind} {name}')}, which saves its own."
                )


def _wrapped(env: Any, seen: set[int]) -> Iterator[Any]:
    """An environment and those that its attributes hold, outermost first."""
    if id(env) not in seen and hasattr(env, "__dict__"):
        seen.add(id(env))
        yield env
        for value in list(vars(env).values()):
            for entry in value if isinstance(value, list | tuple) else (value,):
                if isinstance(entry, gymnasium.Env | VectorEnv):
                    yield from _wrapped(entry, seen)


def _is_running(layer: Any) -> bool:
    """False for fixed statistics, which are part of the environment's code."""
    return getattr(layer, "update_running_mean", True) is not False


def _flag_instead(name: str) -> str:
    """The flag that takes the place of a wrapper or of its attribute."""
    kind = "rewards" if "rew" in name.lower() or " ret" in name.lower() else "observations"
    return f"--normalize_{kind} (in Python: normalize_{kind}=True)"


@functools.cache
def _warn_of_wrapper(name: str) -> None:
    warn(
        f"{name} of the environment is left out: no checkpoint has its statistics. Set "
        f"{_flag_instead(name)} instead."
    )
