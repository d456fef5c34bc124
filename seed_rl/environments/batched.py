"""Environments that step together: the contract, which single and vector environments fulfil."""

import abc
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from seed_rl.environments.actions import action_decoder
from seed_rl.environments.base import EnvironmentConfig
from seed_rl.environments.failures import Watched
from seed_rl.environments.reading import leaf_readers
from seed_rl.environments.specs import check_spaces, environment_spec, single_space
from seed_rl.types import EnvironmentSpec, EnvOutput, flatten_like, flatten_spec, pack_like

_log = logging.getLogger(__name__)


class BatchedEnvironment(abc.ABC):
    """E environments that step together; each is reset when its episode ends.

    Follows "Episode ends" in `seed_rl.types`. After a termination the environment is reset at once: `done` is
    set, the observation is the first of the new episode, and the reward is the last of the previous one.
    After a truncation (termination wins if both are set) the last observation is returned with `truncated`;
    at the next step the action is ignored, the environment is reset, the reward is 0 and `done` is set.

    An environment that raises, hangs, or returns anything that its spaces do not allow, is replaced, as often
    as is tolerated. Its episode is void: the last good observation is returned again with `truncated`,
    reward 0 and `info[Info.EPISODE_IS_VOID]`, and the next step is the reset.

    The next `reset` or `step` overwrites the arrays that `reset` and `step` return.

    Attributes:
      spec: the spec of each environment.
      num_envs: E.
    """

    def __init__(self, watched: Sequence[Watched], config: EnvironmentConfig, num_envs: int):
        """Makes the environments of `watched`: E single ones, or one vector environment of E.

        Raises:
          ValueError: E is 0, making one refuses the configuration, a space is not supported, or the
            environments do not have the same spaces.
          ImportError: the suite's engine is not installed.
          EnvironmentFailedError: an environment could not be made.
        """
        if not num_envs:
            raise ValueError("A batch needs at least one environment; set --env_batch_size to 1 or more.")
        self._watched, self.num_envs = watched, num_envs
        try:
            envs = [one.make() for one in watched]
            self.spec = spec = environment_spec(envs[0], config)
            for one in watched:
                check_spaces(one.name, one.env, spec)
        except BaseException:
            for one in watched:
                one.close()
            raise
        self._readers = leaf_readers(single_space(envs[0], "observation_space"))
        self._decode = action_decoder(single_space(envs[0], "action_space"))
        self._action_shape = (num_envs, *spec.action.shape)
        self._action_kinds = "iu" if spec.action.is_discrete else "f"
        self._agent_steps = 0
        self._started = False
        self.write_to(empty_output(spec, num_envs))

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
            (`random_actions`). What is returned comes after them, as the start of an episode; that
            episode is void when it ends, and one that ends before is not returned.

        Returns:
          Arrays `[E, ...]`: reward 0 and done True.

        Raises:
          ValueError: there are not E seeds, or these environments have no random starts.
          EnvironmentFailedError: an environment failed too often.
        """
        if seeds is None and random_start_steps:
            raise ValueError("Random starts need a seed per environment.")
        if seeds is not None and len(seeds) != self.num_envs:
            raise ValueError(
                f"There are {self.num_envs} environments, but {len(seeds)} seeds; pass one per environment."
            )
        self._reset(seeds, random_start_steps)
        self._started = True
        return self._output

    def step(self, actions: np.ndarray) -> tuple[EnvOutput, list[dict[Any, Any]]]:
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
        return self._output, self._step(actions)

    def close(self) -> None:
        """Closes the environments; a second call does nothing."""
        for watched in self._watched:
            if problem := watched.close():
                _log.warning("%s", problem)

    @property
    def failures(self) -> int:
        """Number of failures of environments so far."""
        return sum(watched.failures for watched in self._watched)

    @abc.abstractmethod
    def _reset(self, seeds: Sequence[int] | None, random_start_steps: int) -> None: ...

    @abc.abstractmethod
    def _step(self, actions: np.ndarray) -> list[dict[Any, Any]]: ...


def empty_output(spec: EnvironmentSpec, num_envs: int) -> EnvOutput:
    """Memory for the outputs of E environments with this spec: zeros, `[E, ...]`."""
    leaves = [leaf.zeros(num_envs) for _, leaf in flatten_spec(spec.observation)]
    done, truncated = np.zeros((2, num_envs), bool)
    return EnvOutput(np.zeros(num_envs, np.float32), done, truncated, pack_like(spec.observation, leaves))
