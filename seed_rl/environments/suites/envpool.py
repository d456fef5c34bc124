"""EnvPool: 1,651 environments that are stepped in C++, and come in one wheel (extra `[envpool]`).

`--environment=envpool --game=ID`. The suites football and atari use it as their engine.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from seed_rl.environments.base import EnvironmentConfig, KwargsConfig, Suite, hint
from seed_rl.environments.failures import foreign
from seed_rl.environments.vector import RESET_MASK, SEEDS, OneOf
from seed_rl.messages import how_to_install
from seed_rl.options import option
from seed_rl.types import ACTION_MASK

# Settings without stacked frames: the learner stacks them.
_SINGLE_FRAMES = {"stack_num": 1, "frame_stack": 1}
# VizDoom's own action is a number for each button; this makes it the choice of a combination. No other
# game has this setting.
_COMBINED = {"use_combined_action": True}
# Arguments of `envpool.make` that other settings decide.
_NOT_KWARGS = dict.fromkeys(("num_envs", "batch_size"), "set --env_batch_size and --num_env_groups") | {
    "num_threads": "set --envpool_threads",
    "seed": "set --seed",
    "task_id": "set --game",
    "env_type": "leave it out",
    "gym_reset_return_info": "leave it out",
    "render_mode": "seed_rl evaluate RUN --record=FILE makes pictures",
}
# Entries of its info dicts that do not describe an episode.
_NO_FIGURES = frozenset(("env_id", "players", "elapsed_step"))


@dataclasses.dataclass(frozen=True)
class PoolConfig(EnvironmentConfig):
    """Settings of environments that EnvPool may step."""

    envpool_threads: int = option(
        1, "Threads with which EnvPool steps the environments of a group; an actor uses one core.", at_least=1
    )


@dataclasses.dataclass(frozen=True)
class EnvPoolConfig(PoolConfig, KwargsConfig):
    """Settings of EnvPool's environments."""

    game: str = option("CartPole-v1", "Id of EnvPool, such as CoinrunEasy-v0.")

    @property
    def is_vector(self) -> bool:
        """Always True."""
        return True

    def validate(self) -> None:
        """Checks `env_kwargs`, and that no frame is repeated."""
        self._check_kwargs(_NOT_KWARGS)
        if self.num_action_repeats != 1:
            raise ValueError(
                f"--num_action_repeats={self.num_action_repeats} is not possible with EnvPool; where a game "
                """repeats actions, write --env_kwargs='{"frame_skip": 4}'."""
            )


def library() -> ModuleType:
    """The module envpool.

    Raises:
      ImportError: it is not installed; a sentence.
    """
    try:
        import envpool
    except ImportError as error:
        raise ImportError(
            f"EnvPool cannot be imported ({error}); {how_to_install('envpool')}. It has wheels for Linux, "
            "macOS on ARM, and Windows."
        ) from error
    return envpool


class Pool(VectorEnv):
    """Environments of EnvPool as Gymnasium describes vector environments, with their own seeds and resets."""

    _has_begun: bool

    def __init__(
        self,
        game: str,
        seeds: Sequence[int],
        settings: Mapping[str, Any],
        threads: int = 1,
        render_mode: str | None = None,
        convert: Callable[[Any], Any] | None = None,
        observation_space: spaces.Space | None = None,
    ):
        """Makes one environment per seed.

        `settings` are those of `envpool.make`. `convert` changes observations `[N, ...]` into those of
        `observation_space`, which is that of one environment.

        Raises:
          ValueError: the game has several players.
          ImportError: EnvPool, or a library that the game needs, is not installed.
        """
        render = {"render_mode": render_mode} if render_mode else {}
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP, RESET_MASK: True, SEEDS: True}
        self.metadata["render_modes"] = ["rgb_array"]
        self.render_mode, self.num_envs, self.spec = render_mode, len(seeds), None
        self._make = functools.partial(
            library().make,
            game,
            env_type="gymnasium",
            num_envs=len(seeds),
            num_threads=threads,
            **settings,
            **render,
        )
        self._forks = len(seeds) > 1 and not _COMBINED.keys().isdisjoint(settings)
        self._start(seeds)
        players = self._pool.config["max_num_players"]
        if players > 1:
            raise ValueError(
                f"--game={game} has {players} players, who act in turn; choose a game for one, such as "
                "Breakout-v5."
            )
        self._convert = convert or (lambda observation: observation)
        space = observation_space or _with_mask(_unbounded(self._pool.observation_space))
        self._has_mask = isinstance(space, spaces.Dict) and ACTION_MASK in space.spaces
        self.single_observation_space, self.single_action_space = space, _unbounded(self._pool.action_space)
        self.observation_space = batch_space(space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts episodes, in the environments of `options["reset_mask"]` or in all.

        A seed is a number or one for each environment; with other seeds than before, EnvPool starts over.
        The observations of other environments than those of the mask are zeros.
        """
        if seed is not None:
            seeds = [seed + index for index in range(self.num_envs)] if isinstance(seed, int) else list(seed)
            if self._has_begun or seeds != self._seeds:
                self._start(seeds)
        self._has_begun = True
        mask = (options or {}).get(RESET_MASK)
        if mask is None:
            observation, info = self._pool.reset()
            return self._converted(observation), _figures(info)
        observation, info = self._pool.reset(np.flatnonzero(mask).astype(np.int32))
        return _placed(self._converted(observation), mask), {}

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Takes an agent step."""
        observation, reward, terminated, truncated, info = self._pool.step(actions)
        # A reset has no reward; some games repeat the last one.
        reward = np.where(info["elapsed_step"] == 0, 0.0, reward)
        return self._converted(observation), reward, terminated, truncated, _figures(info)

    def render(self) -> Any:
        """EnvPool's picture of the first environment, uint8 `[1, height, width, 3]`."""
        return self._pool.render()

    def close(self, **kwargs: Any) -> None:
        """Closes EnvPool's environments."""
        self._pool.close()

    def _start(self, seeds: Sequence[int]) -> None:
        self._seeds, self._has_begun = list(seeds), False
        # A fork stops OpenBLAS's threads, and may hang where several threads fork at once. So VizDoom first
        # starts one environment alone.
        if self._forks:
            foreign(self._make, seed=self._seeds[:1], num_envs=1).close()
        self._pool: Any = foreign(self._make, seed=self._seeds)

    def _converted(self, observation: Any) -> Any:
        observation = self._convert(observation)
        if self._has_mask:
            mask = observation[ACTION_MASK].astype(np.bool_)
            mask[~mask.any(axis=1)] = True  # At the end of an episode.
            return {**observation, ACTION_MASK: mask}
        return observation


def _figures(info: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: values for name, values in info.items() if name not in _NO_FIGURES}
    if "success" in found:
        found.setdefault("is_success", found["success"])
    return found


def _placed(observation: Any, mask: np.ndarray) -> Any:
    """Observations of the environments of a mask, in arrays of all of them, with zeros for the others."""
    if isinstance(observation, Mapping):
        return {name: _placed(part, mask) for name, part in observation.items()}
    placed = np.zeros((len(mask), *observation.shape[1:]), observation.dtype)
    placed[mask] = observation
    return placed


def _unbounded(space: spaces.Space) -> spaces.Space:
    """The space with infinite bounds, where EnvPool writes the least positive and the largest number."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: _unbounded(part) for name, part in space.spaces.items()})
    if not isinstance(space, spaces.Box) or space.dtype.kind != "f":
        return space
    least, most = (getattr(np.finfo(np.float64), name) for name in ("tiny", "max"))
    low = np.where(space.low == least, -np.inf, space.low)
    high = np.where(space.high == most, np.inf, space.high)
    return spaces.Box(low.astype(space.dtype), high.astype(space.dtype), dtype=space.dtype)


def _with_mask(space: spaces.Space) -> spaces.Space:
    """The space with bools for its action mask, if it has one."""
    if not isinstance(space, spaces.Dict) or ACTION_MASK not in space.spaces:
        return space
    size = space.spaces[ACTION_MASK].shape or ()
    mask: spaces.Space = spaces.Box(0, 1, size, np.bool_)
    return spaces.Dict({**space.spaces, ACTION_MASK: mask})


def find_own_id(name: str) -> str | None:
    """The name, if it is an id that EnvPool has and Gymnasium has not; None also without EnvPool."""
    try:
        return name if name not in gymnasium.registry and name in library().list_all_envs() else None
    except ImportError:
        return None


def make_vector(config: EnvPoolConfig, seeds: Sequence[int], render_mode: str | None = None) -> Pool:
    """EnvPool's environments of a game; frames are single ones where EnvPool can give them.

    Raises:
      ValueError: EnvPool has no such game or setting, or the game has several players.
      ImportError: EnvPool, or a library that the game needs, is not installed.
    """
    envpool = library()
    known = envpool.list_all_envs()
    if config.game not in known:
        raise ValueError(f"--game={config.game} is not an id of EnvPool{hint(config.game, known)}.")
    names = foreign(envpool.make_spec, config.game)._config_keys
    for name in config.kwargs:
        if name not in names:
            raise ValueError(
                f"--game={config.game} does not take the argument {name!r} of --env_kwargs"
                + hint(name, names, f"; its arguments are: {', '.join(sorted(names))}")
                + "."
            )
    ours = {name: value for name, value in (_SINGLE_FRAMES | _COMBINED).items() if name in names}
    return Pool(config.game, seeds, ours | config.kwargs, config.envpool_threads, render_mode)


def make(config: EnvPoolConfig, seed: int, render_mode: str | None = None) -> gymnasium.Env:
    """One environment, as `Suite.make` says."""
    return OneOf(make_vector(config, [seed], render_mode))


SUITE = Suite(EnvPoolConfig, make, make_vector)
