"""Writes the steps of every environment into a replay of transitions."""

from typing import Any, Protocol

import numpy as np

from seed_rl.experience.step_rings import flatten
from seed_rl.experience.step_store import StepStore
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.types import AgentOutput, EnvOutput, Nest


class Transitions(Protocol):
    """Where steps go. Thread-safe."""

    def add(
        self,
        env_ids: np.ndarray,
        step: tuple[list[np.ndarray], Any],
        in_stream: np.ndarray,
        policy_version: int,
    ) -> np.ndarray:
        """Stores a step; returns environments whose transition it completed. See `TransitionTable.add`."""

    def wait_for_room(self, count: int) -> None:
        """Counts transitions as added, as the replay ratio allows; raises ClosedError when closed."""


class TransitionStore(StepStore):
    """Keeps nothing itself but how many steps there were in each environment's stream.

    After a reset, transitions of the interrupted stream that were complete stay in replay.
    """

    keeps_states = False

    def __init__(self, num_envs: int, unroll: UnrollConfig, replay: Transitions):
        """Prepares.

        Args:
          num_envs: number of environments; their ids are 0 to num_envs - 1.
          unroll: how their steps are cut.
          replay: takes the steps.

        Raises:
          ValueError: what is cut is no transitions.
        """
        super().__init__(num_envs, unroll)
        if unroll.every != 1 or unroll.stagger:
            raise ValueError(f"{unroll} cuts no transitions; set period=1 and stagger=False.")
        self._replay = replay

    def append(
        self,
        env_ids: np.ndarray,
        prev_action: np.ndarray,
        env: EnvOutput,
        agent: AgentOutput,
        starting: np.ndarray,
        states: Nest,
        policy_version: int,
    ) -> list[int]:
        """Adds one step; returns the environments whose transition it completed. See `StepStore.append`."""
        del starting, states
        env_ids = env_ids.astype(np.int64, copy=False)  # Large enough for the number of a slot.
        in_stream = self._count[env_ids]
        completed = self._replay.add(env_ids, flatten(prev_action, env, agent), in_stream, policy_version)
        self._count[env_ids] = in_stream + 1
        return completed.tolist()

    def hand_over(self, completed: list[int]) -> None:
        """Waits until training has caught up with these transitions, which are in replay already."""
        if completed:
            self._replay.wait_for_room(len(completed))
