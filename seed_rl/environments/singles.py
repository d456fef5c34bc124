"""Single environments, stepped one after the other: turns their episode ends into `done` and `truncated`."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from seed_rl.environments.actions import random_actions
from seed_rl.environments.base import Info, Suite
from seed_rl.environments.batched import BatchedEnvironment, make_seeded
from seed_rl.environments.failures import Fault
from seed_rl.environments.observations import LARGEST
from seed_rl.environments.reading import DICTS, checked_step, owned_step, together

# In place of what a step returned: the environment must be reset instead.
_RESET = object()
_PENDING = object()
_FALSE = np.False_
_REWARDS = frozenset((float, int, np.float64, np.float32))


class SingleEnvironments(BatchedEnvironment):
    """Environments of Gymnasium that are stepped one after the other, one per seed."""

    def _makers(
        self, suite: Suite, seeds: Sequence[int], first_env: int
    ) -> list[tuple[str, Callable[[int], gymnasium.Env]]]:
        return [
            (f"Environment {env_id}", functools.partial(make_seeded, suite, self._config, seed))
            for env_id, seed in enumerate(seeds, first_env)
        ]

    def _prepare(self) -> None:
        self._has_rows, array = self._readers[0].is_bare, self._readers[0].array
        self._rows = np.empty((self.num_envs, *array.shape), array.dtype)
        self._row_of = [self._rows[index, ...] for index in range(self.num_envs)]
        self._has_ends = True  # Whether `done` or `truncated` may be set.
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
        decoded = self._decode(actions)
        rewards: list[Any] = []
        infos: list[Any] = []
        outcomes: list[Any] = []
        with self._deadline.each():
            is_plain = self._has_rows and True not in self._must_reset
            if is_plain and self._play_rows(decoded, rewards, infos, outcomes):
                if self._write_rows(rewards, infos):
                    return infos
                outcomes = _regular(self._row_of, rewards, infos)
            for index in range(len(outcomes), self.num_envs):
                must_reset, watched = self._must_reset[index], self._watched[index]
                outcomes.append(_RESET if must_reset else owned_step(watched.step(decoded[index])))
        found = self._write_together(outcomes)
        return [self._write_outcome(*one) for one in enumerate(outcomes)] if found is None else found

    def _play_rows(
        self, actions: Sequence[Any], rewards: list[Any], infos: list[Any], outcomes: list[Any]
    ) -> bool:
        """Steps the environments the fast way: while they return plain arrays as in their space, and go on.

        An environment may change later what it has returned, and share it with others, so the observation is
        copied into its row before the next one steps.

        Args:
          actions: of the environments.
          rewards: gets their rewards.
          infos: gets their info dicts.
          outcomes: gets what each has returned or raised, up to the first that does anything else.

        Returns:
          Whether none did; then `outcomes` stays empty.
        """
        shape, dtype, deadline = self._rows.shape[1:], self._rows.dtype, self._deadline
        outcome: Any = _PENDING
        try:
            for watched, action, row in zip(self._watched, actions, self._row_of, strict=True):
                outcome = watched.env.step(action)
                deadline.calls += 1
                array, reward, terminated, truncated, info = outcome
                if terminated is not False and terminated is not _FALSE:
                    break
                if truncated is not False and truncated is not _FALSE:
                    break
                if type(array) is not np.ndarray or array.dtype is not dtype or array.shape != shape:
                    break
                row[...] = array
                rewards.append(reward)
                infos.append(info)
                outcome = _PENDING
            else:
                return True
        except BaseException as error:  # Also SystemExit, and what bindings to other languages raise.
            deadline.calls += 1
            if type(error) is KeyboardInterrupt:  # A signal stops this process, perhaps after a whole step.
                raise
            outcome = error if outcome is _PENDING else outcome  # Or that is no sequence of five.
        outcomes += [*_regular(self._row_of, rewards, infos), owned_step(outcome)]
        return False

    def _write_rows(self, rewards: list[Any], infos: list[Any]) -> bool:
        """Writes steps of which none ends an episode, and whose observations are in `_rows`.

        Returns:
          Whether they are written; if not, a reward, an info or an observation has a fault, or is unusual.
        """
        if not (_REWARDS.issuperset(map(type, rewards)) and DICTS.issuperset(map(type, infos))):
            return False
        try:
            if not sum(map(abs, rewards)) <= LARGEST:  # Also if one is NaN.
                return False
            self._buffers[0][:] = self._readers[0].checked(self._rows)
        except (Fault, OverflowError):
            return False
        self._reward[:] = rewards
        if self._has_ends:
            self._done[:] = self._truncated[:] = self._has_ends = False
        return True

    def _play_at_random(self, index: int, actions: Sequence[Any]) -> None:
        """Takes random actions in the episode that has just started, then calls the observation its first.

        An environment that fails is replaced, and the new one takes no random actions.
        """
        watched, end = self._watched[index], self._agent_steps + len(actions)
        env = watched.env
        for action in actions:
            self._agent_steps, self._is_void[index] = self._agent_steps + 1, True
            with self._deadline.each():
                outcome = owned_step(watched.step(action))
            self._write_outcome(index, outcome)
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
            observation, reward, terminated, truncated, info = checked_step(outcome)
            if not terminated:
                self._write(index, self._read(observation), reward, False, truncated)
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
        """Writes the start of an environment's next episode, with the last reward of the one before."""
        self._write(index, self._start(self._watched[index], seed, self._read), reward, True, False)

    def _read(self, observation: Any) -> list[np.ndarray]:
        return [read([observation]) for read in self._readers]

    def _write(self, index: int, arrays: list[np.ndarray], reward: Any, done: bool, truncated: bool) -> None:
        for array, buffer in zip(arrays, self._buffers, strict=True):
            buffer[index] = array[0]
        self._write_ends(index, reward, done, truncated)

    def _write_ends(self, index: int, reward: Any, done: bool, truncated: bool) -> None:
        self._reward[index], self._done[index], self._truncated[index] = reward, done, truncated
        self._has_ends = True
        self._must_reset[index] = truncated


def _regular(rows: Sequence[np.ndarray], rewards: list[Any], infos: list[Any]) -> list[Any]:
    """Results of steps that end no episode, of as many environments as there are rewards."""
    return [(*one, False, False, info) for *one, info in zip(rows, rewards, infos, strict=False)]
