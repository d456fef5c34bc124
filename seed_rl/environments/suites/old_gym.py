"""Environments registered with OpenAI's gym, the predecessor of Gymnasium, through shimmy."""

import contextlib
import importlib
import io
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import gymnasium

from seed_rl.environments.failures import foreign
from seed_rl.loading import load
from seed_rl.messages import how_to_install


def import_gym() -> ModuleType:
    """Imports the old gym, without its messages on import and whenever an environment is made.

    Raises:
      ImportError: it is not installed.
    """
    with contextlib.redirect_stderr(io.StringIO()):
        gym = importlib.import_module("gym")
    gym.logger.set_level(gym.logger.ERROR)
    return gym


def knows(env_id: str) -> bool:
    """Whether gym is installed and has this id. The module that registers the id must be imported first."""
    try:
        gym = import_gym()
    except ImportError:
        return False
    try:
        gym.spec(env_id)
    except gym.error.Error:
        return False
    return True


def make(
    env_id: str,
    max_episode_frames: int | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    **render: str,
) -> gymnasium.Env:
    """One environment, as a Gymnasium environment.

    The registered class is made directly: `gym.make` wraps it in checks that fail on NumPy 2.

    The time limit, in environment frames, is the registered one by default. `env_kwargs` are arguments of the
    constructor. `knows(env_id)` must be true.

    Raises:
      ImportError: shimmy is not installed.
      ValueError: an observation or action space is of a kind that Gymnasium does not have.
      Fault: the environment's own code raised ValueError.
    """
    gym = import_gym()
    try:
        from shimmy import openai_gym_compatibility as shimmy
    except ImportError as error:
        raise ImportError(
            f"--game={env_id} is an environment of the old gym, and shimmy is not installed; "
            f"{how_to_install('gym')}."
        ) from error
    spec = gym.spec(env_id)
    make_env = spec.entry_point if callable(spec.entry_point) else load(spec.entry_point)
    kwargs = dict(getattr(spec, "kwargs", None) or getattr(spec, "_kwargs", None) or {})
    kwargs |= env_kwargs or {}
    version = [int(part) for part in gym.__version__.split(".")[:2]]
    try:
        if version < [0, 26]:  # reset() returns an observation, step() four values
            env = shimmy.GymV21CompatibilityV0(env=foreign(make_env, **kwargs), **render)
        else:
            env = shimmy.GymV26CompatibilityV0(env=foreign(make_env, **kwargs | render))
    except NotImplementedError as error:
        raise ValueError(f"--game={env_id} cannot be used: {error}") from error
    limit = max_episode_frames or spec.max_episode_steps
    return gymnasium.wrappers.TimeLimit(env, limit) if limit else env
