"""Vector environments: one object that steps N environments, as `gymnasium.vector.VectorEnv` defines it."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import iterate

from seed_rl.environments.actions import shown
from seed_rl.environments.base import EnvironmentConfig, Info, Suite
from seed_rl.environments.batched import BatchedEnvironment
from seed_rl.environments.failures import Fault
from seed_rl.environments.reading import (
    INFO_DEPTH,
    StepResult,
    checked_step,
    entry_of,
    info_of,
    owned,
    reset_outcome,
)
from seed_rl.seeds import derived_seed
from seed_rl.types import ACTION_MASK

# A vector environment's metadata has this key, and True, if its `reset` obeys `options={"reset_mask": mask}`.
# Gymnasium demands that of the autoreset mode DISABLED only; its own vector environments obey in each mode.
RESET_MASK = "reset_mask"
# Likewise, if its `reset` takes a list with a seed for each environment.
SEEDS = "seed_per_env"


class VectorEnvironment(BatchedEnvironment):
    """N environments that a vector environment steps.

    Its autoreset mode decides when an environment is reset whose episode has ended. With NEXT_STEP and a
    reset mask, everything is as it is with single environments. Else this differs:

    * NEXT_STEP without a reset mask: after a termination, the last observation is shown as well, with
      `info[Info.TERMINAL_IS_SHOWN]`. The action that answers it is ignored, and the next step is the reset.
    * SAME_STEP and DISABLED: after a truncation, the environment has been reset already. It takes the action
      that should be ignored. With a reset mask it is then reset once more; else the observation after that
      action is shown as the first of the episode.

    If the vector environment fails, the episodes of all its environments are void, and it is replaced.
    """

    def _makers(
        self, suite: Suite, seeds: Sequence[int], first_env: int
    ) -> list[tuple[str, Callable[[int], VectorEnv]]]:
        name = f"Environments {first_env} to {first_env + len(seeds) - 1}"
        return [(name, functools.partial(make_vector, suite, self._config, seeds))]

    def _prepare(self) -> None:
        (self._vector,) = self._watched
        env = self._vector.env
        self._action_dtype = env.single_action_space.dtype
        self._mode, self._takes_mask = env.metadata["autoreset_mode"], _takes_mask(env)
        # Those whose last observation is shown: the next action is ignored, and the next step is the reset.
        self._shows_last = np.zeros(self.num_envs, bool)

    def _reset(self, seeds: Sequence[int] | None, random_start_steps: int) -> None:
        if random_start_steps:
            raise ValueError("A vector environment has no random starts.")
        self._start_all(seeds)

    def _step(self, actions: np.ndarray) -> list[dict[Any, Any]]:
        if self._vector.is_broken:
            self._start_all(None)
            return [{} for _ in range(self.num_envs)]
        with self._deadline.each():
            outcome = self._vector.step(np.array(self._decode(actions), self._action_dtype))
        try:
            if isinstance(outcome, BaseException):
                raise outcome
            step = checked_step(outcome, self.num_envs)
            arrays = self._read(step.observation)
            if not (self._shows_last.any() or step.terminated.any() or step.truncated.any()):
                self._write(arrays, step.reward, False, False)
                return self._infos(step, np.zeros(self.num_envs, bool))
            return self._write_ends(step, [array.copy() for array in arrays])
        except BaseException as error:
            self._vector.failed("step", error, self._agent_steps)
        # The last good observations stay where they are.
        self._reward[:], self._done[:], self._truncated[:] = 0.0, False, True
        self._shows_last[:] = True
        return [{Info.EPISODE_IS_VOID: True} for _ in range(self.num_envs)]

    def _write_ends(self, step: StepResult, arrays: list[np.ndarray]) -> list[dict[Any, Any]]:
        """Writes a step in which an episode ends or the next one begins; `arrays` may be changed."""
        resets, mode = self._shows_last.copy(), self._mode
        if mode is AutoresetMode.NEXT_STEP:
            self._check_resets(resets, step)
        ends = (step.terminated | step.truncated) & ~resets
        if ends.any():
            self._vector.ended()
        terminated, truncated = step.terminated & ends, step.truncated & ~step.terminated & ends
        infos = self._infos(step, ends)
        shown = np.zeros_like(ends)
        if mode is AutoresetMode.SAME_STEP:
            self._show_final(step, truncated, arrays)
            again = resets if self._takes_mask else shown
        elif "final_obs" in step.info and ends.any():
            raise Fault(f"returned final_obs, so it resets at once, but its autoreset mode is {mode.name}")
        elif mode is AutoresetMode.DISABLED:
            again = resets | ends
        else:
            again = terminated if self._takes_mask else np.zeros_like(ends)
            shown = terminated & ~again
        if again.any():
            self._reset_some(again, again & ~truncated, arrays)
        for index in np.flatnonzero(shown):
            infos[index] = {**infos[index], Info.TERMINAL_IS_SHOWN: True}
        self._write(arrays, np.where(resets, 0.0, step.reward), resets | (terminated & ~shown), truncated)
        self._shows_last[:] = truncated | shown
        return infos

    def _check_resets(self, resets: np.ndarray, step: StepResult) -> None:
        wrong = resets & (step.terminated | step.truncated | (step.reward != 0))
        if wrong.any():
            raise Fault(
                f"gave environment {int(np.argmax(wrong))} of {self.num_envs} a reward or an end in the step "
                "that must reset it, because its autoreset mode is NEXT_STEP"
            )

    def _show_final(self, step: StepResult, truncated: np.ndarray, arrays: list[np.ndarray]) -> None:
        """Puts the last observations of truncated episodes in the place of those of the next episodes."""
        for index in np.flatnonzero(truncated):
            if "final_obs" not in step.info:
                raise Fault(
                    "returned no final_obs for a truncated episode, as its autoreset mode SAME_STEP demands"
                )
            final = entry_of(step.info["final_obs"], index)
            for reader, array in zip(self._readers, arrays, strict=True):
                array[index] = reader([final])[0]

    def _reset_some(self, mask: np.ndarray, rows: np.ndarray, arrays: list[np.ndarray]) -> None:
        """Resets the environments of a mask, and writes the observations of some of them to their rows."""
        found = self._read(owned(reset_outcome(self._vector.reset(None, {RESET_MASK: mask}))[0]))
        for array, new in zip(arrays, found, strict=True):
            array[rows] = new[rows]

    def _start_all(self, seeds: Sequence[int] | None) -> None:
        """Starts an episode of each environment; all are replaced first if they have failed."""
        seed = None if seeds is None or self._vector.is_broken else _seeds_for(self._vector.env, seeds)
        self._write(self._start(self._vector, seed, self._read), 0.0, True, False)
        self._shows_last[:] = False

    def _read(self, observation: Any) -> list[np.ndarray]:
        return [reader.of_batch(observation, self.num_envs) for reader in self._readers]

    def _write(self, arrays: list[np.ndarray], reward: Any, done: Any, truncated: Any) -> None:
        for array, buffer in zip(arrays, self._buffers, strict=True):
            buffer[:] = array
        self._reward[:], self._done[:], self._truncated[:] = reward, done, truncated

    def _infos(self, step: StepResult, ends: np.ndarray) -> list[dict[Any, Any]]:
        """Infos of the environments' steps: at the end of an episode all keys, else only those of `Info`."""
        always = [key for key in step.info if isinstance(key, Info)]
        last = step.info
        if self._mode is AutoresetMode.SAME_STEP:
            last = last.get("final_info", last)
        return [
            owned(info_of(last, index), INFO_DEPTH) if ended else info_of(step.info, index, always)
            for index, ended in enumerate(ends.tolist())
        ]


class OneOf(gymnasium.Env):
    """The first environment of a vector environment, `vector`; the others get the same actions."""

    def __init__(self, env: VectorEnv):
        self.vector = env
        self.observation_space, self.action_space = env.single_observation_space, env.single_action_space
        self.metadata, self.spec, self.render_mode = env.metadata, env.spec, env.render_mode

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[Any, Any]]:
        """Starts an episode, in all environments."""
        observation, infos = reset_outcome(self.vector.reset(seed=seed, options=options))
        return self._first(observation), info_of(infos, 0)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[Any, Any]]:
        """Takes an agent step."""
        size, dtype = self.vector.num_envs, self.action_space.dtype
        step = checked_step(self.vector.step(np.array([action] * size, dtype)), size)
        observation, infos = self._first(step.observation), step.info
        terminated, truncated = bool(step.terminated[0]), bool(step.truncated[0])
        if (terminated or truncated) and self.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP:
            observation = entry_of(infos.get("final_obs", step.observation), 0)
            infos = infos.get("final_info", infos)
        return observation, float(step.reward[0]), terminated, truncated, info_of(infos, 0)

    def render(self) -> Any:
        """The vector environment's picture of this environment."""
        frames: Any = self.vector.render()
        return frames[0]

    def close(self) -> None:
        """Closes the vector environment."""
        self.vector.close()

    def _first(self, observation: Any) -> Any:
        return next(iter(iterate(self.vector.observation_space, observation)))


def make_vector(
    suite: Suite, config: EnvironmentConfig, seeds: Sequence[int], failures: int = 0, any_size: bool = False
) -> VectorEnv:
    """The vector environment of a suite with one environment per seed; with `any_size` it may have others.

    One that replaces others, after so many failures, has other seeds.

    Raises:
      ValueError: the suite refuses the configuration; or what it makes is no vector environment, has another
        size or no autoreset mode, or has features of single environments only.
      ImportError: the suite's engine is not installed.
    """
    if config.random_start_steps:
        raise ValueError(
            f"--random_start_steps={config.random_start_steps} needs single environments, and these are a "
            "vector; use --random_start_steps=0."
        )
    assert suite.make_vector is not None
    env = suite.make_vector(config, [derived_seed(seed, failures) if failures else seed for seed in seeds])
    try:
        _check(env, None if any_size else len(seeds))
    except ValueError:
        env.close()
        raise
    return env


def _check(env: Any, size: int | None) -> None:
    if not isinstance(env, VectorEnv):
        raise ValueError(
            f"A vector environment must be a gymnasium.vector.VectorEnv, not {type(env).__name__}."
        )
    if size is not None and env.num_envs != size:
        raise ValueError(
            f"The vector environment has {env.num_envs} environments and the group {size}; make it with "
            f"num_envs={size}, or set --env_batch_size to {env.num_envs} times --num_env_groups."
        )
    if not isinstance(env.metadata.get("autoreset_mode"), AutoresetMode):
        raise ValueError(
            "The vector environment does not say when it resets: set metadata['autoreset_mode'] to one of "
            f"gymnasium.vector.AutoresetMode, in place of {env.metadata.get('autoreset_mode')!r}."
        )
    space = env.single_observation_space
    mask = space.spaces.get(ACTION_MASK) if isinstance(space, gymnasium.spaces.Dict) else None
    if mask is not None and (mask.dtype != np.bool_ or len(mask.shape or ()) != 1):
        raise ValueError(
            f"The {ACTION_MASK} of a vector environment must be a Box of bools, one for each action, and is "
            f"{shown(mask)}; change it, or use --vectorization=none."
        )


def _is_of_singles(env: VectorEnv) -> bool:
    return isinstance(env.unwrapped, SyncVectorEnv | AsyncVectorEnv)


def _takes_mask(env: VectorEnv) -> bool:
    is_disabled = env.metadata["autoreset_mode"] is AutoresetMode.DISABLED
    return is_disabled or _is_of_singles(env) or bool(env.metadata.get(RESET_MASK, False))


def _seeds_for(env: VectorEnv, seeds: Sequence[int]) -> Any:
    """Seeds as `reset` takes them: one for each single environment, or else one number for all."""
    takes_list = _is_of_singles(env) or env.metadata.get(SEEDS, False)
    return [int(seed) for seed in seeds] if takes_list else int(seeds[0])
