"""Steps environments as a batch; the only place that turns episode ends into `done` and `truncated`."""

import math
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np

from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import Spares, Watched
from seed_rl.environments.random_start import random_actions
from seed_rl.environments.reading import LeafReader
from seed_rl.environments.specs import (
    action_decoder,
    check_spaces,
    environment_spec,
    observation_leaves,
)
from seed_rl.types import EnvironmentSpec, EnvOutput, flatten_like, flatten_spec, pack_like

# Distance between the seeds of an environment and of its replacements.
_SPARE_SEEDS = 500_009


class BatchedEnvironment:
    """Steps E environments, one after the other, and resets each of them when its episode ends.

    Follows "Episode ends" in `seed_rl.types`. After a termination the environment is reset at once: `done` is
    set, the observation is the first of the new episode, and the reward is the last of the previous one.
    After a truncation (termination wins if both are set) the last observation is returned with `truncated`;
    at the next step the action is ignored, the environment is reset, the reward is 0 and `done` is set.

    An environment that raises, or returns NaN or anything else that its spaces do not allow, is replaced if
    there are `spares`. Its episode is void: the last good observation is returned again with `truncated`,
    reward 0 and `info["episode_is_void"]`, and the next step is the reset.

    The next `reset` or `step` overwrites the arrays that `reset` and `step` return.

    Attributes:
      spec: the spec of each environment.
      num_envs: E.
    """

    def __init__(self, envs: Sequence[gymnasium.Env], spec: EnvironmentSpec, spares: Spares | None = None):
        """Takes ownership of the environments: `close` closes them.

        Args:
          envs: E >= 1 environments with equal spaces.
          spec: their spec.
          spares: replacements for environments that fail; by default the first failure is fatal.

        Raises:
          ValueError: an environment does not have this spec.
        """
        for index, env in enumerate(envs):
            check_spaces(index, env, spec)
        self.spec = spec
        self.num_envs = len(envs)
        self._watched = [Watched(env, index, spares or Spares()) for index, env in enumerate(envs)]
        self._decode = action_decoder(envs[0].action_space)
        self._readers = [LeafReader(leaf) for leaf in observation_leaves(envs[0].observation_space)]
        self._action_shape = (self.num_envs, *spec.action.shape)
        self._action_kinds = "iu" if spec.action.is_discrete else "f"
        buffers = [leaf.zeros(self.num_envs) for _, leaf in flatten_spec(spec.observation)]
        self.write_to(
            EnvOutput(
                reward=np.zeros(self.num_envs, np.float32),
                done=np.zeros(self.num_envs, bool),
                truncated=np.zeros(self.num_envs, bool),
                observation=pack_like(spec.observation, buffers),
            )
        )
        self._must_reset = [False] * self.num_envs  # Those whose last step was truncated.
        self._is_void = [False] * self.num_envs  # Those whose episode has random actions in it.
        self._agent_steps = 0
        self._started = False
        self._closed = False

    def write_to(self, output: EnvOutput) -> None:
        """Makes `reset` and `step` write to these arrays `[E, ...]` and return them; call `reset` next."""
        self._output = output
        self._reward, self._done, self._truncated, _ = output
        self._buffers = flatten_like(self.spec.observation, output.observation)

    def reset(self, seeds: Sequence[int] | None = None, random_start_steps: int = 0) -> EnvOutput:
        """Starts a new episode everywhere.

        Args:
          seeds: one per environment; None leaves the environments' random state as it is.
          random_start_steps: the most random agent steps that each environment then takes, which needs seeds
            (`environments.random_start`). What is returned comes after them, as the start of an episode; that
            episode is void when it ends, and one that ends before is not returned.

        Returns:
          Arrays `[E, ...]`: reward 0 and done True.

        Raises:
          ValueError: there are not E seeds, or an environment's observation does not match the spec.
          EnvironmentFailedError: an environment failed too often in its random agent steps.
        """
        if seeds is None and random_start_steps:
            raise ValueError("Random starts need a seed per environment.")
        if seeds is not None and len(seeds) != self.num_envs:
            raise ValueError(
                f"There are {self.num_envs} environments, but {len(seeds)} seeds; pass one per environment."
            )
        for index, watched in enumerate(self._watched):
            observation, _ = watched.env.reset(seed=None if seeds is None else int(seeds[index]))
            self._write(index, observation, 0.0, True, False)
            self._is_void[index] = False
            actions: list[Any] = []
            if seeds is not None and random_start_steps:
                actions = random_actions(watched.env.action_space, int(seeds[index]), random_start_steps)
            watched.started(self._agent_steps - len(actions))
            self._play_at_random(index, actions)
        self._started = True
        return self._output

    def step(self, actions: np.ndarray) -> tuple[EnvOutput, list[dict[str, Any]]]:
        """One agent step of every environment.

        Args:
          actions: `[E, ...]`, matching `spec.action`, in environment order.

        Returns:
          Arrays `[E, ...]`, and the E info dicts of the environments' steps; an info dict is empty if the
          environment was reset instead.

        Raises:
          RuntimeError: `reset` was never called.
          ValueError: the actions do not match the spec.
          EnvironmentFailedError: an environment failed too often.
        """
        if not self._started:
            raise RuntimeError("Call reset() before the first step().")
        if actions.shape != self._action_shape or actions.dtype.kind not in self._action_kinds:
            raise ValueError(
                f"Actions must be {self.spec.action.dtype}{list(self._action_shape)}, not "
                f"{actions.dtype}{list(actions.shape)}."
            )
        self._agent_steps += 1
        outcomes = self._play(self._decode(actions))
        infos = self._write_together(outcomes)
        if infos is None:
            infos = [self._write_outcome(index, outcome) for index, outcome in enumerate(outcomes)]
        return self._output, infos

    def close(self) -> None:
        """Closes the environments; a second call does nothing."""
        if not self._closed:
            self._closed = True
            for watched in self._watched:
                watched.env.close()

    def _play(self, actions: Sequence[Any]) -> list[Any]:
        """Steps the environments; returns what each returned or raised, None if it must be reset instead."""
        outcomes: list[Any] = []
        for watched, action, must_reset in zip(self._watched, actions, self._must_reset, strict=True):
            try:
                outcomes.append(None if must_reset else watched.env.step(action))
            except Exception as error:
                outcomes.append(error)
        return outcomes

    def _play_at_random(self, index: int, actions: Sequence[Any]) -> None:
        """Takes random actions in the episode that has just started, then calls the observation its first.

        An environment that fails is replaced, and the new one takes no random actions.
        """
        watched, now = self._watched[index], self._agent_steps
        env = watched.env
        for left, action in zip(reversed(range(len(actions))), actions, strict=True):
            self._agent_steps, self._is_void[index] = now - left, True
            outcome: Any
            try:
                outcome = env.step(action)
            except Exception as error:
                outcome = error
            self._write_outcome(index, outcome)
            if self._must_reset[index]:
                self._start_episode(index, 0.0)
            if watched.env is not env:
                break
        self._agent_steps = now
        self._write_ends(index, 0.0, True, False)

    def _write_together(self, outcomes: list[Any]) -> list[dict[str, Any]] | None:
        """Writes the steps of all environments at once, in a fraction of the time of writing them one by one.

        Returns:
          Their info dicts; None if a step ends an episode or is not valid, and each must be written alone.
        """
        try:
            observations, rewards, terminated, truncated, infos = zip(*outcomes, strict=True)
            if any(terminated) or any(truncated) or not math.isfinite(sum(rewards)):
                return None
            arrays = [read(observations) for read in self._readers]
            self._reward[:] = rewards
        except (TypeError, ValueError):
            return None
        for buffer, array in zip(self._buffers, arrays, strict=True):
            buffer[:] = array
        self._done[:] = self._truncated[:] = False
        return list(infos)

    def _write_outcome(self, index: int, outcome: Any) -> dict[str, Any]:
        """Writes one environment's step, and starts a new episode if it must; returns the info dict."""
        if outcome is None:
            self._start_episode(index, 0.0)
            return {}
        watched = self._watched[index]
        try:
            if isinstance(outcome, Exception):
                raise outcome
            observation, reward, terminated, truncated, info = outcome
            if not math.isfinite(reward):
                raise ValueError(f"the reward is {reward}")
            if not terminated:
                self._write(index, observation, reward, False, bool(truncated))
        except Exception as error:
            watched.failed(error, self._agent_steps)
            self._write_ends(index, 0.0, False, True)
            self._is_void[index] = False
            return {"episode_is_void": True}
        if terminated or truncated:
            watched.ended()
            if self._is_void[index]:
                info = {**info, "episode_is_void": True}
                self._is_void[index] = bool(info.get("episode_continues", False))
        if terminated:
            self._start_episode(index, float(reward))
        return info

    def _start_episode(self, index: int, reward: float) -> None:
        """Resets an environment, which is replaced first if it has failed or its reset fails."""
        watched = self._watched[index]
        while True:
            try:
                if watched.is_broken:
                    check_spaces(index, watched.replace(), self.spec)
                observation, _ = watched.env.reset()
                self._write(index, observation, reward, True, False)
            except Exception as error:
                watched.failed(error, self._agent_steps)
                continue
            watched.started(self._agent_steps)
            return

    def _write(self, index: int, observation: Any, reward: Any, done: bool, truncated: bool) -> None:
        arrays = [read([observation], index) for read in self._readers]
        for array, buffer in zip(arrays, self._buffers, strict=True):
            buffer[index] = array[0]
        self._write_ends(index, reward, done, truncated)

    def _write_ends(self, index: int, reward: Any, done: bool, truncated: bool) -> None:
        self._reward[index], self._done[index], self._truncated[index] = reward, done, truncated
        self._must_reset[index] = truncated


def make_batched(
    suite: Suite,
    config: EnvironmentConfig,
    seeds: Sequence[int],
    max_failures: int = 0,
    first_env: int = 0,
) -> BatchedEnvironment:
    """Makes one environment of the suite per seed.

    Args:
      suite: makes the environments.
      config: their settings.
      seeds: one per environment.
      max_failures: how often each may fail and be replaced without finishing an episode.
      first_env: the id of the first environment, for messages.

    Raises:
      ValueError: there are no seeds, the suite refuses the configuration, or a space is not supported.
      ImportError: the suite's engine is not installed.
    """
    if not seeds:
        raise ValueError("A batch needs at least one environment; set --env_batch_size to 1 or more.")
    envs: list[gymnasium.Env] = []
    try:
        for seed in seeds:
            envs.append(suite.make(config, seed))
        spares = Spares(
            lambda index, count: suite.make(config, seeds[index] + _SPARE_SEEDS * count),
            max_failures,
            first_env,
        )
        return BatchedEnvironment(envs, environment_spec(envs[0], config), spares)
    except BaseException:
        for env in envs:
            env.close()
        raise
