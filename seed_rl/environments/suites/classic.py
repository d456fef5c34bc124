"""Any Gymnasium id: `--environment=gym --game=CartPole-v1`; ids of OpenAI's old gym use an adapter.

With `--game=module:Id-v0` the module, which registers the id, is imported first. With `--game=pickle:PATH` a
function in a file makes the environment; `seed_rl.train` writes such files with cloudpickle. With
`--vectorization`, Gymnasium's vector environments step those of a group.
"""

import contextlib
import dataclasses
import functools
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import VectorizeMode
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from seed_rl.environments import function_file
from seed_rl.environments.action_mask import masked
from seed_rl.environments.base import PICKLE, Info, KwargsConfig, Suite, hint, nearest, repeat_actions
from seed_rl.environments.failures import foreign
from seed_rl.environments.games import refuse_players
from seed_rl.environments.specs import without_statistics
from seed_rl.environments.suites import old_gym
from seed_rl.environments.vector import OneOf
from seed_rl.messages import how_to_install
from seed_rl.options import option

# Modules that register ids, by the beginning of these.
_MODULES = {"MiniGrid-": "minigrid", "BabyAI-": "minigrid"}
_ID = re.compile(r"^[\w/-]+-v\d+$")
# Our extras that install packages, by a word of the error that says that one is missing.
_EXTRAS = {"mujoco": "mujoco", "box2d": "box2d", "minigrid": "minigrid", "pygame": "record"}
_EXTRAS |= {"'mpe2'": "pettingzoo", "'pettingzoo'": "pettingzoo"}


class StaggeredStart(gymnasium.Wrapper):
    """Cuts the first episode after a random number of environment frames; that episode is not counted.

    Environments that start together and only ever end at their time limit would play the same part of an
    episode at the same time forever, and a training batch would contain nothing else.
    """

    def __init__(self, env: gymnasium.Env, time_limit: int, seed: int):
        """Draws where the first episode ends: 1 to `time_limit` - 1 environment frames."""
        super().__init__(env)
        self._time_limit = time_limit
        self._frames = 0
        self._first_limit: int | None = self._draw(seed)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Starts an episode; with a seed it counts as the first again."""
        if seed is not None:
            self._first_limit = self._draw(seed)
        elif self._frames:
            self._first_limit = None
        self._frames = 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """Plays one environment frame."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._frames += 1
        if self._frames == self._first_limit and not (terminated or truncated):
            return observation, reward, terminated, True, {**info, Info.EPISODE_IS_VOID: True}
        return observation, reward, terminated, truncated, info

    def _draw(self, seed: int) -> int:
        return int(np.random.default_rng(seed).integers(1, self._time_limit))


# Arguments of `gymnasium.make` that are none of an environment's, or that other settings decide.
_NOT_KWARGS = {
    "id": "set --game",
    "env_id": "set --game",  # shimmy's environments import the module that it names.
    "max_episode_steps": "set --max_episode_frames",
    "disable_env_checker": "leave it out",
    "render_mode": "seed_rl evaluate RUN --record=FILE makes pictures",
}


@dataclasses.dataclass(frozen=True)
class GymConfig(KwargsConfig):
    """Settings of Gymnasium environments."""

    game: str = option(
        "CartPole-v1",
        "Gymnasium id, such as CartPole-v1, or module:id to import a module first.",
        is_code=True,
    )
    max_episode_frames: int | None = option(
        None,
        "Time limit of an episode, in environment frames; a longer episode is truncated. Default: the "
        "environment's own limit.",
        at_least=1,
    )
    staggered_start: bool = option(
        False,
        "Whether to cut the first episode of each environment at a random frame and not count it, so that "
        "environments whose episodes all end at the time limit do not all play the same part at once.",
    )
    vectorization: str = option(
        "none",
        "What steps the environments of a group. none: the actor, one after the other. sync, async: "
        "Gymnasium's vector environments of single ones, async with a process for each. native: the vector "
        "environment that the game's authors have registered. Evaluation uses single environments.",
        choices=("none", "sync", "async", "native"),
    )

    @property
    def is_vector(self) -> bool:
        """Whether `make_vector` makes the environments of a group."""
        return self.vectorization != "none"

    def validate(self) -> None:
        """Checks `env_kwargs`, and that a native vector environment needs no wrapper."""
        if self.vectorization == "native" and (self.staggered_start or self.num_action_repeats > 1):
            name = "staggered_start" if self.staggered_start else "num_action_repeats"
            raise ValueError(
                f"--{name} changes single environments, and --vectorization=native has none; leave out one "
                "of the two, or use --vectorization=sync."
            )
        self._check_kwargs(_NOT_KWARGS)

    def for_evaluation(self) -> "GymConfig":
        """The same settings, but with whole episodes from the start."""
        return dataclasses.replace(self, random_start_steps=0, staggered_start=False, vectorization="none")


def make(config: GymConfig, seed: int, render_mode: str | None = None) -> gymnasium.Env:
    """One environment, as its authors registered it.

    Raises:
      ValueError: the id is not registered, its constructor does not take one of `env_kwargs`, or an
        environment without a time limit cannot be staggered.
      ImportError: the module before the ':', or a package that the environment needs, is not installed.
    """
    render = {"render_mode": render_mode} if render_mode else {}  # Not every environment accepts it.
    with refusals(config.game, config.kwargs) as kwargs:
        if config.game.startswith(f"{PICKLE}:"):
            env = _unpickled(config, kwargs, {"num_envs": 1, **render})
            if isinstance(env, VectorEnv):
                return OneOf(without_statistics(env))
        else:
            env_id = _registered(config.game)
            limit = config.max_episode_frames
            if env_id not in gymnasium.registry and old_gym.knows(env_id):
                env = old_gym.make(env_id, limit, kwargs, **render)
            elif gymnasium.spec(env_id).entry_point is None:
                return OneOf(without_statistics(_native(config, kwargs | render, 1)))
            else:
                settings = {"max_episode_steps": limit, "disable_env_checker": True, **kwargs, **render}
                env = foreign(gymnasium.make, env_id, **settings)
        return _finished(env, config, seed)


def make_vector(config: GymConfig, seeds: Sequence[int]) -> VectorEnv:
    """A vector environment, as `--vectorization` says; a native one has no seed before it is reset.

    Raises:
      ValueError: as `make`; or there is no native one, or async cannot carry the observations.
      ImportError: as `make`.
    """
    if config.vectorization == "native":
        with refusals(config.game, config.kwargs) as kwargs:
            if config.game.startswith(f"{PICKLE}:"):
                return without_statistics(_unpickled(config, kwargs, {"num_envs": len(seeds)}))
            return without_statistics(_native(config, kwargs, len(seeds)))
    functions = [functools.partial(make, config, seed) for seed in seeds]
    if config.vectorization == "sync":
        return SyncVectorEnv(functions)
    try:  # A fork would take over this process's threads' locks.
        return AsyncVectorEnv(functions, context="forkserver")
    except gymnasium.error.CustomSpaceError as error:
        raise ValueError(
            f"--vectorization=async cannot carry the observations of --game={config.game}; use sync."
        ) from error


def _native(config: GymConfig, kwargs: dict[str, Any], num_envs: int) -> VectorEnv:
    env_id = _registered(config.game)
    if gymnasium.spec(env_id).vector_entry_point is None:
        raise ValueError(
            f"--game={config.game} has no vector environment of its own; use --vectorization=none or sync."
        )
    limit = {"max_episode_steps": config.max_episode_frames} if config.max_episode_frames else {}
    try:
        return foreign(
            gymnasium.make_vec, env_id, num_envs, VectorizeMode.VECTOR_ENTRY_POINT, **limit, **kwargs
        )
    except gymnasium.error.Error as error:
        raise ValueError(f"--game={config.game} makes no vector environment ({error}).") from error


@contextlib.contextmanager
def refusals(game: str, kwargs: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Gives the arguments of `env_kwargs`; what is wrong with them and what is missing becomes a sentence."""
    try:
        yield kwargs
    except TypeError as error:
        match = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if not match or match[1] not in kwargs:
            raise
        raise ValueError(
            f"--game={game} does not take the argument {match[1]!r} of --env_kwargs; leave it out, or "
            "look up the names that its constructor takes."
        ) from error
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        extra = next((extra for word, extra in _EXTRAS.items() if word in str(error).lower()), None)
        remedy = f"; {how_to_install(extra)}." if extra else f": {error}"
        raise ImportError(f"--game={game} needs a package that is not installed{remedy}") from error


def _registered(game: str) -> str:
    """The id in the value of --game, whose module is imported."""
    module, _, env_id = game.rpartition(":")
    if module:
        import_for(game, module)
    if env_id in gymnasium.registry or not old_gym.knows(env_id):
        _check_id(game, env_id)
    return env_id


def import_for(game: str, module: str) -> ModuleType:
    """The module that `--game` names, imported; raises ValueError if there is none."""
    if module.endswith(".py"):
        raise ValueError(f"--game={game} names a file; write --game={game.replace('.py:', ':', 1)}.")
    try:
        return foreign(importlib.import_module, module)
    except ModuleNotFoundError as error:
        if not f"{module}.".startswith(f"{error.name}.") or module in _MODULES.values():
            raise
        raise ValueError(
            f"--game={game} names the module {module}, which is neither in the current directory nor on "
            "PYTHONPATH nor installed; go to its directory, or add that to PYTHONPATH."
        ) from error


def _finished(env: gymnasium.Env, config: GymConfig, seed: int) -> gymnasium.Env:
    """The environment after its first reset, with what the settings and its action masks add to it."""
    env = without_statistics(env)
    returned = foreign(env.reset, seed=seed)
    info = returned[1] if isinstance(returned, tuple) and len(returned) == 2 else None
    env = masked(env, info, config)
    if config.staggered_start:
        limit = config.max_episode_frames or (env.spec.max_episode_steps if env.spec else None)
        if limit is None or limit < 2:
            raise ValueError(
                "--staggered_start needs a time limit of 2 or more environment frames, but "
                f"--game={config.game} has {limit or 'none'}; set --max_episode_frames."
            )
        env = StaggeredStart(env, limit, seed)
    return repeat_actions(env, config)


def _unpickled(config: GymConfig, kwargs: dict[str, Any], offered: dict[str, Any]) -> Any:
    """Environment that the function in a file makes from those of the offered arguments that it has."""
    function = function_file.load(config.game.removeprefix(f"{PICKLE}:"))
    takes = inspect.signature(function).parameters.keys()
    env = foreign(function, **kwargs, **{name: value for name, value in offered.items() if name in takes})
    refuse_players(env)
    if not isinstance(env, gymnasium.Env | VectorEnv):
        raise ValueError(
            f"The function must return a gymnasium.Env, and returned {type(env).__name__}; wrap what it "
            "makes in a class that inherits from gymnasium.Env."
        )
    limit = config.max_episode_frames
    if not limit:
        return env
    if isinstance(env, VectorEnv):
        raise ValueError(f"--max_episode_frames={limit} limits single environments; let the function do it.")
    return gymnasium.wrappers.TimeLimit(env, limit)


def find_id(name: str) -> str | None:
    """The value of --game that somebody may mean by a name; None if it is not the form of an id."""
    if name in gymnasium.registry:
        return name
    for start, module in _MODULES.items():
        if name.startswith(start):
            return f"{module}:{name}"
    module, _, env_id = name.rpartition(":")
    if not _ID.match(env_id):
        return None
    return name if module else next(iter(nearest(name, gymnasium.registry, count=1)), None)


def _check_id(game: str, env_id: str) -> None:
    try:
        gymnasium.spec(env_id)
    except gymnasium.error.Error as error:
        known = find_id(game) if game.startswith(tuple(_MODULES)) else None
        module = game.removesuffix(env_id)
        near = [module + close for close in nearest(env_id, gymnasium.registry)]
        own = "" if module else "; one that a module of yours registers is MODULE:ID"
        choice = f"; write --game={known}" if known else hint(game, near, own)
        raise ValueError(f"--game={game} is not a Gymnasium id{choice}.") from error


def suite_of(function: Callable[..., gymnasium.Env | VectorEnv]) -> Suite:
    """A suite whose environments a function of this process makes, as those of a pickled one are made."""

    def make_here(config: GymConfig, seed: int) -> gymnasium.Env:
        takes_size = "num_envs" in inspect.signature(function).parameters
        env = foreign(function, **config.kwargs, **({"num_envs": 1} if takes_size else {}))
        refuse_players(env)
        return OneOf(without_statistics(env)) if isinstance(env, VectorEnv) else _finished(env, config, seed)

    return Suite(GymConfig, make_here)


SUITE = Suite(GymConfig, make, make_vector)
