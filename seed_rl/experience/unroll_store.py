"""Collects the steps of every environment in rings, and hands out unrolls one by one."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import optree

from seed_rl.experience.step_store import StepStore
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.types import AgentOutput, EnvOutput, Nest, Unroll


class UnrollStore(StepStore):
    """A ring buffer of `S = burn_in + T + 1` steps per environment.

    An unroll is complete when it is handed out, so it may be used even if its environment has been reset in
    the meantime. Its `stream` distinguishes it from unrolls before and after a reset, in whatever order they
    arrive.
    """

    def __init__(self, num_envs: int, unroll: UnrollConfig, insert: Callable[[list[Unroll]], None]):
        """Prepares an empty store.

        Args:
          num_envs: number of environments; their ids are 0 to num_envs - 1.
          unroll: how their steps are cut.
          insert: takes the unrolls that are handed over; may block.
        """
        super().__init__(num_envs, unroll)
        self._insert = insert
        # Unrolls in progress at the same time, each with the state and policy version of its first step.
        self._heads = -(-self._stored // self._period) + 1
        self._stream = np.zeros(num_envs, np.int64)  # Resets so far.
        self._versions = np.zeros((num_envs, self._heads), np.int64)
        self._rings: list[np.ndarray] = []  # One per leaf of a step, then one per leaf of a state.
        self._states: list[np.ndarray] = []
        self._structure: Any = None
        self._allocating = threading.Lock()

    def reset(self, env_ids: np.ndarray, stream: int) -> None:
        """Drops unfinished unrolls; see `StepStore.reset`."""
        super().reset(env_ids, stream)
        self._stream[env_ids] = stream

    def append(
        self,
        env_ids: np.ndarray,
        prev_action: np.ndarray,
        env: EnvOutput,
        agent: AgentOutput,
        starting: np.ndarray,
        states: Nest,
        policy_version: int,
    ) -> list[Unroll]:
        """Adds one step, and returns the unrolls that it completed; see `StepStore.append`."""
        env_ids = env_ids.astype(np.intp, copy=False)  # Once here; NumPy would do it for each array.
        step: Any = (prev_action, env, agent)
        leaves, structure = optree.tree_flatten(step)
        state_leaves, state_structure = optree.tree_flatten(states)
        if self._structure is None:
            with self._allocating:
                if self._structure is None:
                    self._rings = self._allocate(self._stored, leaves)
                    self._states = self._allocate(self._heads, state_leaves)
                    self._structure = structure, state_structure
        if len(starting):
            self._begin(env_ids[starting], state_leaves, policy_version)
        count = self._count[env_ids]
        slots = count % self._stored
        used = count >= 0
        if not used.all():
            slots = np.where(used, slots, 0)  # Overwritten before an unroll begins.
        for ring, leaf in zip(self._rings, leaves, strict=True):
            ring[env_ids, slots] = leaf
        self._count[env_ids] = count + 1
        first = count + 1 - self._stored
        complete = (first >= 0) & (first % self._period == 0)
        return self._unrolls(env_ids[complete], first[complete]) if complete.any() else []

    def hand_over(self, completed: list[Unroll]) -> None:
        """Inserts unrolls; see `StepStore.hand_over`."""
        if completed:
            self._insert(completed)

    def _allocate(self, length: int, leaves: list[Any]) -> list[np.ndarray]:
        return [np.zeros((len(self._count), length, *leaf.shape[1:]), leaf.dtype) for leaf in leaves]

    def _begin(self, env_ids: np.ndarray, states: list[np.ndarray], policy_version: int) -> None:
        head = self._head(self._count[env_ids])
        self._versions[env_ids, head] = policy_version
        for kept, leaf in zip(self._states, states, strict=True):
            kept[env_ids, head] = leaf

    def _head(self, first: np.ndarray) -> np.ndarray:
        return (first // self._period) % self._heads

    def _unrolls(self, env_ids: np.ndarray, first: np.ndarray) -> list[Unroll]:
        """The unrolls `[S, ...]` of these environments that begin at their steps `first`."""
        order = (first[:, np.newaxis] + np.arange(self._stored)) % self._stored
        head = self._head(first)
        # Leaf by leaf over all unrolls: mapping a function over every unroll's nest takes four times as long.
        steps = zip(*(ring[env_ids[:, np.newaxis], order] for ring in self._rings), strict=True)
        states = [kept[env_ids, head] for kept in self._states]
        of_each = (self._versions[env_ids, head], env_ids, first, self._stream[env_ids])
        origins = zip(*(numbers.tolist() for numbers in of_each), strict=True)
        structure, state_structure = self._structure
        unrolls = []
        for index, (step, numbers) in enumerate(zip(steps, origins, strict=True)):
            state = optree.tree_unflatten(state_structure, [leaf[index] for leaf in states])
            nest: Any = optree.tree_unflatten(structure, step)
            prev_action, env, agent = nest
            unrolls.append(Unroll(prev_action, env, agent, state, *numbers))
        return unrolls
