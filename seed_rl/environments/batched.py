"""Environments that step together: the contract, which single and vector environments fulfil."""

import abc
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from seed_rl.environments.actions import action_decoder
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import NO_FAILURES, Deadline, FailureConfig, Watched
from seed_rl.environments.observations import observation_leaves
from seed_rl.environments.reading import owned, reset_outcome
from seed_rl.environments.specs import environment_spec, single_space
from seed_rl.seeds import derived_seed
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

    def __init__(
        self,
        suite: Suite,
        config: EnvironmentConfig,
        seeds: Sequence[int],
        tolerance: FailureConfig = NO_FAILURES,
        first_env: int = 0,
    ):
        """Makes the suite's environments, E single ones or a vector environment of E, from E seeds.

        By default the first failure is fatal, and there is no limit of time. `first_env` is the id of the
        first environment, for messages.

        Raises:
          ValueError: E is 0, making one refuses the configuration, a space is not supported, or the
            environments do not have the same spaces.
          ImportError: the suite's engine is not installed.
          EnvironmentFailedError: an environment could not be made.
        """
        if not len(seeds):
            raise ValueError("A batch needs at least one environment; set --env_batch_size to 1 or more.")
        self.num_envs, self._config = len(seeds), config
        self._deadline = Deadline(tolerance.env_step_timeout_secs)
        shared: Any = tolerance, self._deadline, set()
        self._watched: list[Watched] = []
        try:
            for name, make in self._makers(suite, seeds, first_env):
                self._watched.append(Watched(name, make, *shared))
                self._watched[-1].make()
            env = self._watched[0].env
            self.spec = spec = environment_spec(env, config)
            for watched in self._watched:
                self._check_spaces(watched)
        except BaseException:
            for watched in self._watched:
                watched.close()
            raise
        self._readers = observation_leaves(single_space(env, "observation_space"))
        self._decode = action_decoder(single_space(env, "action_space"))
        self._action_shape = (self.num_envs, *spec.action.shape)
        self._action_kinds = "iu" if spec.action.is_discrete else "f"
        self._agent_steps = 0
        self._started = False
        self.write_to(empty_output(spec, self.num_envs))
        self._prepare()

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

    def _check_spaces(self, watched: Watched) -> None:
        """Raises ValueError unless an environment of the batch, or all of a vector, have the batch's spec."""
        if (spec := environment_spec(watched.env, self._config)) != self.spec:
            raise ValueError(
                f"{watched.name} has {spec}, but the batch has {self.spec}; environments that step together "
                "must have equal spaces."
            )

    def _start(self, watched: Watched, seed: Any, read: Callable[[Any], Any]) -> Any:
        """Resets an environment, which is replaced first if it has failed or its reset fails.

        The seed is that of the reset; a replacement has its own.

        Returns:
          What `read` makes of the first observation.
        """
        while True:
            method = "make"
            try:
                if watched.is_broken:
                    seed = None
                    watched.replace()
                    self._check_spaces(watched)
                method = "reset"
                arrays = read(owned(reset_outcome(watched.reset(seed))[0]))
            except BaseException as error:
                watched.failed(method, error, self._agent_steps)
                continue
            watched.started(self._agent_steps)
            return arrays

    @abc.abstractmethod
    def _makers(
        self, suite: Suite, seeds: Sequence[int], first_env: int
    ) -> Iterable[tuple[str, Callable[[int], Any]]]:
        """Names for messages, with functions that make the environments after so many failures.

        Each environment is made before the next name is asked for.
        """

    @abc.abstractmethod
    def _prepare(self) -> None:
        """Makes what the steps need, once the environments are made."""

    @abc.abstractmethod
    def _reset(self, seeds: Sequence[int] | None, random_start_steps: int) -> None: ...

    @abc.abstractmethod
    def _step(self, actions: np.ndarray) -> list[dict[Any, Any]]: ...


def make_seeded(suite: Suite, config: EnvironmentConfig, seed: int, failures: int) -> Any:
    """An environment, which has another seed if it replaces one that has failed."""
    return suite.make(config, derived_seed(seed, failures) if failures else seed)


def empty_output(spec: EnvironmentSpec, num_envs: int) -> EnvOutput:
    """Memory for the outputs of E environments with this spec: zeros, `[E, ...]`."""
    leaves = [leaf.zeros(num_envs) for _, leaf in flatten_spec(spec.observation)]
    done, truncated = np.zeros((2, num_envs), bool)
    return EnvOutput(np.zeros(num_envs, np.float32), done, truncated, pack_like(spec.observation, leaves))
