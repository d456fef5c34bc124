"""What inference writes into: the steps of every environment, cut into unrolls."""

import abc
from collections.abc import Callable
from typing import Any

import numpy as np

from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.types import AgentOutput, EnvOutput, Nest


class StepStore(abc.ABC):
    """Counts the steps of every environment, and so knows where its unrolls begin (see `UnrollConfig`).

    The recurrent state that belongs to an unroll is the one just before its FIRST step, whatever the burn-in.

    Thread-safe as long as each environment has one thread at a time from `starting` to `append`, and for
    `reset` (see `inference.turns`).

    Attributes:
      keeps_states: whether it needs the recurrent states of environments at `starting`.
      holds: whether environments ever have to wait for training one by one (see `hold`).
    """

    keeps_states: bool = True
    holds: bool = False

    def __init__(self, num_envs: int, unroll: UnrollConfig):
        """Starts before the first step of every environment.

        Args:
          num_envs: number of environments; their ids are 0 to num_envs - 1.
          unroll: how their steps are cut.

        Raises:
          ValueError: unrolls of this store come with states and the settings say without, or the reverse.
        """
        if unroll.keeps_state != self.keeps_states:
            raise ValueError(f"{type(self).__name__} needs keeps_state={self.keeps_states}, unlike {unroll}.")
        self._period, self._stored = unroll.every, unroll.stored_steps
        offsets = np.arange(num_envs, dtype=np.int64) * self._period // num_envs if unroll.stagger else 0
        self._first_count = np.zeros(num_envs, np.int64) - offsets
        self._count = self._first_count.copy()  # Steps seen; unrolls begin at multiples of the period.

    def starting(self, env_ids: np.ndarray) -> np.ndarray:
        """Positions (int64) in `env_ids` of environments whose next step is the first of an unroll.

        Their recurrent states are needed; so there are none where no states are kept.
        """
        if not self.keeps_states:
            return np.empty(0, np.int64)
        count = self._count[env_ids]
        return ((count >= 0) & (count % self._period == 0)).nonzero()[0]

    def reset(self, env_ids: np.ndarray, stream: int) -> None:
        """Drops the unfinished unrolls of environments whose steps are interrupted.

        Args:
          env_ids: of the environments.
          stream: number of the stream that their next steps belong to.
        """
        del stream
        self._count[env_ids] = np.maximum(self._first_count[env_ids], np.minimum(self._count[env_ids], 0))

    def closes(self, env_ids: np.ndarray) -> bool:
        """Whether the next step of these environments is to be appended twice; never by default.

        First, it is the last step of an unroll: the policy is asked for its values only. Then the
        environments must wait, and the policy that comes out of training acts on the same step.
        """
        del env_ids
        return False

    def hold(self, env_ids: np.ndarray, resume: Callable[[], None]) -> bool:
        """Whether these environments must wait for training before they act; never by default.

        Args:
          env_ids: int `[B]`, of one group.
          resume: if they must wait, this is called, from another thread, when they need not any more.
        """
        del env_ids, resume
        return False

    @abc.abstractmethod
    def append(
        self,
        env_ids: np.ndarray,
        prev_action: np.ndarray,
        env: EnvOutput,
        agent: AgentOutput,
        starting: np.ndarray,
        states: Nest,
        policy_version: int,
    ) -> list[Any]:
        """Adds one step `[B, ...]`, each row from a different environment.

        Args:
          env_ids: int `[B]`, each at most once.
          prev_action: `[B, ...]`.
          env: `[B, ...]`.
          agent: `[B, ...]`.
          starting: what `starting(env_ids)` returned for this step, `[K]`.
          states: recurrent states before this step of the environments at `starting`, nest of `[K, ...]`.
          policy_version: number of updates that the policy had received.

        Returns:
          For each unroll that this step completed, what `hand_over` takes.
        """

    @abc.abstractmethod
    def hand_over(self, completed: list[Any]) -> None:
        """Leaves unrolls to training; blocks while training has to catch up (back-pressure).

        Args:
          completed: what `append` returned.

        Raises:
          ClosedError: the experience was closed in the meantime.
        """
