"""Action masks: bool arrays in the observation, of the discrete actions that are allowed now."""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.environments.actions import shown, whole_numbers
from seed_rl.environments.base import EnvironmentConfig
from seed_rl.environments.failures import Fault
from seed_rl.environments.reading import checked_step, reset_outcome
from seed_rl.types import ACTION_MASK


class MaskedObservations:
    """Observations with a mask: dicts whose `action_mask` is bool `[A]`, from an environment's own or `info`.

    An observation that is no dict becomes the entry `observation`.

    Attributes:
      space: the space of these observations.
    """

    def __init__(self, space: spaces.Space, num_values: np.ndarray):
        """`num_values` `[k]` says how many values each of the k discrete actions takes; A is their sum."""
        self._starts, self._size = np.cumsum(num_values) - num_values, int(num_values.sum())
        inner = entries_of(space)
        self._is_observed = ACTION_MASK in inner
        inner[ACTION_MASK] = spaces.Box(0, 1, (self._size,), np.bool_)
        self.space = spaces.Dict(inner)

    def __call__(self, observation: Any, info: dict, is_last: bool) -> dict[str, Any]:
        """The observation with its mask as bools `[A]`.

        After an episode's last step, all are true if the mask is missing or all false.

        Raises:
          Fault: the mask is missing, has another form, or allows no action.
        """
        found = entries_of(observation)
        return {**found, ACTION_MASK: self._checked((found if self._is_observed else info), is_last)}

    def _checked(self, source: dict, is_last: bool) -> np.ndarray:
        mask = source.get(ACTION_MASK)
        if mask is None:
            if is_last:
                return np.ones(self._size, np.bool_)
            raise Fault(f"returned no {ACTION_MASK}; every step that does not end an episode must give one")
        array = np.asarray(mask)
        is_bool = array.dtype.kind == "b"
        fits = array.shape == (self._size,) and array.dtype.kind in "biuf"
        if not fits or not (is_bool or ((array == 0) | (array == 1)).all()):
            raise Fault(
                f"returned {array.dtype}{list(array.shape)} for the {ACTION_MASK}, but it must be a bool (or "
                f"0 or 1) for each of the {self._size} values of the action"
            )
        allowed = array.astype(np.bool_)
        if not np.logical_or.reduceat(allowed, self._starts).all():
            if is_last:
                return np.ones(self._size, np.bool_)
            raise Fault(f"returned an {ACTION_MASK} that forbids all actions; it must allow at least one")
        return allowed


class _Masked(gymnasium.Wrapper):
    """An environment whose observations have their masks."""

    def __init__(self, env: gymnasium.Env, with_mask: MaskedObservations):
        super().__init__(env)
        self._with_mask, self.observation_space = with_mask, with_mask.space

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        observation, info = reset_outcome(self.env.reset(seed=seed, options=options))
        return self._with_mask(observation, info, is_last=False), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        observation, reward, terminated, truncated, info = checked_step(self.env.step(action))
        observation = self._with_mask(observation, info, is_last=terminated or truncated)
        return observation, reward, terminated, truncated, info


def entries_of(value: Any) -> dict[str, Any]:
    """The entries of an observation or its space; `observation` if it is no dict."""
    return dict(value) if isinstance(value, Mapping | spaces.Dict) else {"observation": value}


def masked_observations(env: Any, info: Any) -> MaskedObservations | None:
    """Observations of an environment, or a game, with their masks; None if there are none.

    There are masks if the observation space is a Dict with the key `action_mask`, or if `info`, that of a
    reset, has this key. A mask has 0s and 1s; those of MultiDiscrete actions follow one another.

    Raises:
      ValueError: there are masks, but the actions are not discrete.
    """
    space: Any = getattr(env, "observation_space", None)
    action_space: Any = getattr(env, "action_space", None)
    is_observed = isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces
    if not is_observed and not (isinstance(info, dict) and ACTION_MASK in info):
        return None
    if (numbers := whole_numbers(action_space)) is None:
        raise ValueError(
            f"The environment has an {ACTION_MASK}, but its actions are {shown(action_space)}; only "
            "discrete actions can be masked. If it is no mask, give it another name."
        )
    return MaskedObservations(space, np.reshape(numbers[1], -1))


def masked(env: gymnasium.Env, info: Any, config: EnvironmentConfig) -> gymnasium.Env:
    """The environment with its `masked_observations`; the environment itself if there are no masks.

    Raises:
      ValueError: there are, but its actions are not discrete, or settings repeat them or draw them at random.
    """
    if (with_mask := masked_observations(env, info)) is None:
        return env
    config.refuse_own_actions(f"could take actions that the environment's {ACTION_MASK} forbids")
    return _Masked(env, with_mask)
