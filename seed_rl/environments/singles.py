"""Single environments, stepped one after the other: turns their episode ends into `done` and `truncated`."""

import functools
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from seed_rl.environments.actions import random_actions
from seed_rl.environments.base import EnvironmentConfig, Info, Suite
from seed_rl.environments.batched import BatchedEnvironment
from seed_rl.environments.failures import NO_FAILURES, FailureConfig, Fault, Watched
from seed_rl.environments.reading import owned_step, parts, start_of_episode, together
from seed_rl.environments.specs import check_spaces
from seed_rl.seeds import derived_seed

# In place of what a step returned: the environment must be reset instead.
_RESET = object()


class SingleEnvironments(BatchedEnvironment):
    """Environments of Gymnasium that are stepped one after the other."""

    def __init__(
        self,
        suite: Suite,
        config: EnvironmentConfig,
        seeds: Sequence[int],
        tolerance: FailureConfig = NO_FAILURES,
        first_env: int = 0,
    ):
        """Makes one environment of the suite per seed; raises what the base class raises.

        By default the first failure is fatal, and there is no limit of time. `first_env` is the id of the
        first environment, for messages.
        """
        seen: set[Any] = set()
        watched = [
            Watched(f"Environment {env_id}", functools.partial(_make, suite, config, seed), tolerance, seen)
            for env_id, seed in enumerate(seeds, first_env)
        ]
        super().__init__(watched, config, len(seeds))
        self._must_reset = [False] * self.num_envs  # Those whose last step was truncated.
        self._is_void = [False] * self.num_envs  # Those whose episode has random actions in it.

    def _reset(self, seeds: Sequence[int] | None, random_start_steps: int) -> None:
        for index in range(self.num_envs):
            self._is_void[index] = False
            seed, actions = None if seeds is None else int(seeds[index]), []
            if seed is not None and random_start_steps:
                space = self._watched[index].env.action_space
                actions = random_actions(space, seed, random_start_steps)
            self._agent_steps -= len(actions)
            self._start_episode(index, 0.0, seed)
            self._play_at_random(index, actions)

    def _step(self, actions: np.ndarray) -> list[dict[Any, Any]]:
        steps = zip(self._watched, self._decode(actions), self._must_reset, strict=True)
        outcomes = [
            _RESET if must_reset else owned_step(watched.step(action))
            for watched, action, must_reset in steps
        ]
        infos = self._write_together(outcomes)
        if infos is None:
            infos = [self._write_outcome(index, outcome) for index, outcome in enumerate(outcomes)]
        return infos

    def _play_at_random(self, index: int, actions: Sequence[Any]) -> None:
        """Takes random actions in the episode that has just started, then calls the observation its first.

        An environment that fails is replaced, and the new one takes no random actions.
        """
        watched, end = self._watched[index], self._agent_steps + len(actions)
        env = watched.env
        for action in actions:
            self._agent_steps, self._is_void[index] = self._agent_steps + 1, True
            self._write_outcome(index, owned_step(watched.step(action)))
            if self._must_reset[index]:
                self._start_episode(index, 0.0)
            if watched.env is not env:
                break
        self._agent_steps = end
        self._write_ends(index, 0.0, True, False)

    def _write_together(self, outcomes: list[Any]) -> list[dict[Any, Any]] | None:
        """Writes the steps of all environments at once, in a fraction of the time of writing them one by one.

        Returns:
          Their info dicts; None if a step ends an episode or is not valid, and each must be written alone.
        """
        found = together(outcomes)
        if found is None:
            return None
        observations, rewards, infos = found
        try:
            arrays = [read(observations) for read in self._readers]
        except Fault:
            return None
        self._reward[:] = rewards
        for buffer, array in zip(self._buffers, arrays, strict=True):
            buffer[:] = array
        self._done[:] = self._truncated[:] = False
        return list(infos)

    def _write_outcome(self, index: int, outcome: Any) -> dict[Any, Any]:
        """Writes one environment's step, and starts a new episode if it must; returns the info dict."""
        if outcome is _RESET:
            self._start_episode(index, 0.0)
            return {}
        watched = self._watched[index]
        try:
            if isinstance(outcome, BaseException):
                raise outcome
            observation, reward, terminated, truncated, info = parts(outcome)
            if not terminated:
                self._write(index, observation, reward, False, truncated)
        except BaseException as error:
            watched.failed("step", error, self._agent_steps)
            self._write_ends(index, 0.0, False, True)
            self._is_void[index] = False
            return {Info.EPISODE_IS_VOID: True}
        if terminated or truncated:
            watched.ended()
            if self._is_void[index]:
                info = {**info, Info.EPISODE_IS_VOID: True}
                self._is_void[index] = bool(info.get(Info.EPISODE_CONTINUES, False))
        if terminated:
            self._start_episode(index, reward)
        return info

    def _start_episode(self, index: int, reward: float, seed: int | None = None) -> None:
        """Resets an environment, which is replaced first if it has failed or its reset fails.

        The seed is that of the reset; a replacement has its own.
        """
        watched = self._watched[index]
        while True:
            method = "make"
            try:
                if watched.is_broken:
                    seed = None
                    check_spaces(watched.name, watched.replace(), self.spec)
                method = "reset"
                self._write(index, start_of_episode(watched.reset(seed)), reward, True, False)
            except BaseException as error:
                watched.failed(method, error, self._agent_steps)
                continue
            watched.started(self._agent_steps)
            return

    def _write(self, index: int, observation: Any, reward: Any, done: bool, truncated: bool) -> None:
        arrays = [read([observation]) for read in self._readers]
        for array, buffer in zip(arrays, self._buffers, strict=True):
            buffer[index] = array[0]
        self._write_ends(index, reward, done, truncated)

    def _write_ends(self, index: int, reward: Any, done: bool, truncated: bool) -> None:
        self._reward[index], self._done[index], self._truncated[index] = reward, done, truncated
        self._must_reset[index] = truncated


def _make(suite: Suite, config: EnvironmentConfig, seed: int, failures: int) -> gymnasium.Env:
    """An environment that replaces one that has failed has another seed."""
    return suite.make(config, derived_seed(seed, failures) if failures else seed)
