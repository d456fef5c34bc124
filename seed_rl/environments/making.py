"""Environments of a suite: those that step together, and one for its spaces."""

import contextlib
import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
from gymnasium.vector import VectorEnv

from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.batched import BatchedEnvironment
from seed_rl.environments.failures import (
    NO_FAILURES,
    Deadline,
    EnvironmentFailedError,
    FailureConfig,
    Watched,
)
from seed_rl.environments.games import Game
from seed_rl.environments.players import PlayersEnvironment
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.environments.spaces_json import dump_spaces
from seed_rl.environments.specs import Spaces, environment_spec, single_space
from seed_rl.environments.vector import OneOf, VectorEnvironment, make_vector
from seed_rl.seeds import derived_seed
from seed_rl.types import EnvironmentSpec


def make_batch(
    suite: Suite,
    config: EnvironmentConfig,
    seeds: Sequence[int],
    tolerance: FailureConfig = NO_FAILURES,
    first_env: int = 0,
) -> BatchedEnvironment:
    """One environment per seed: single ones, a vector or players; raises what these raise."""
    if config.has_players:
        return PlayersEnvironment(suite, config, seeds, tolerance, first_env)
    batch = VectorEnvironment if config.is_vector else SingleEnvironments
    return batch(suite, config, seeds, tolerance, first_env)


class Probed(NamedTuple):
    """Facts about a suite's environments, found by making one.

    Attributes:
      spec: of each environment.
      name: Gymnasium's id or PettingZoo's name, or that of the class of an environment that has none.
      is_vector: whether a vector environment was made.
      pickled_spaces: of each environment; empty if they cannot be pickled.
      spaces_as_json: likewise; empty if there is no such text.
      keys: keys for a person who plays, with their actions, by `get_keys_to_action` as Gymnasium's games
        have it: each the characters that are pressed together, in order; empty if there are none.
      action_names: of discrete actions, by `get_action_meanings`; empty if there are none.
    """

    spec: EnvironmentSpec
    name: str
    is_vector: bool
    pickled_spaces: bytes = b""
    spaces_as_json: str = ""
    keys: tuple[tuple[str, int], ...] = ()
    action_names: tuple[str, ...] = ()

    def spaces(self) -> Spaces:
        """The spaces of each environment.

        Raises:
          ValueError: they cannot be pickled.
        """
        if not self.pickled_spaces:
            raise ValueError(f"The spaces of {self.name} cannot be pickled; use those of gymnasium.spaces.")
        return Spaces(*pickle.loads(self.pickled_spaces))


class ProbeError(ValueError):
    """An environment that cannot be made; one sentence, with the traceback of the user's code as a note."""


def suite_spec(suite: Suite, config: EnvironmentConfig, seed: int) -> EnvironmentSpec:
    """The spec of a suite's environments; see `examine`."""
    return examine(suite, config, seed, FailureConfig()).spec


def examine(suite: Suite, config: EnvironmentConfig, seed: int, tolerance: FailureConfig) -> Probed:
    """Facts about a suite's environments; makes one, and closes it.

    Its seed is derived from `seed`. Making it may fail and take time as `tolerance` says.

    Raises:
      ValueError: the suite refuses the configuration, a space is not supported, or the environment fails.
      ImportError: the suite's engine is not installed.
    """

    def make(failures: int) -> object:
        own = derived_seed(seed, 0, failures)
        if config.is_vector:
            return make_vector(suite, config, [own], any_size=True)
        return suite.make(config, own)

    watched = Watched("Environment 0", make, tolerance, Deadline(tolerance.env_step_timeout_secs))
    try:
        env = watched.make()
        spec = environment_spec(env, config)
        if isinstance(env, Game):
            return Probed(spec, env.name, False, *_shown_spaces(env))
        inner = env.vector if isinstance(env, OneOf) else env
        name = inner.spec.id if inner.spec else type(inner.unwrapped).__name__
        return Probed(spec, name, isinstance(inner, VectorEnv), *_shown_spaces(inner), *_controls(inner))
    except EnvironmentFailedError as error:
        raise ValueError(f"{error.what}; fix the environment.") from error
    finally:
        watched.close()


def _shown_spaces(env: gymnasium.Env | VectorEnv | Game) -> tuple[bytes, str]:
    """The spaces of each environment, pickled and as JSON."""
    import cloudpickle  # No actor needs it.

    spaces = Spaces(single_space(env, "observation_space"), single_space(env, "action_space"))
    pickled, text = b"", ""
    with contextlib.suppress(Exception):  # Anything, from the environment's own classes.
        pickled = cloudpickle.dumps(list(spaces))
    with contextlib.suppress(ValueError):
        text = dump_spaces(spaces)
    return pickled, text


def _controls(env: gymnasium.Env | VectorEnv) -> tuple[tuple[tuple[str, int], ...], tuple[str, ...]]:
    """The key map of an environment, and the names of its actions; empty if it has none."""
    game: Any = env.unwrapped
    keys, names = dict[str, int](), list[str]()
    with contextlib.suppress(Exception):  # Anything, from the environment's own methods.
        for pressed, action in game.get_keys_to_action().items():
            characters = (pressed,) if isinstance(pressed, int) else pressed
            keys["".join(sorted(c if isinstance(c, str) else chr(c) for c in characters))] = int(action)
    with contextlib.suppress(Exception):
        names = [str(name) for name in game.get_action_meanings()]
    return tuple(keys.items()), tuple(names)
