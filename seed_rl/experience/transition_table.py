"""The transitions of all environments: where they are, which may be drawn, and how often."""

from typing import Any, NamedTuple

import numpy as np
import optree

from seed_rl.experience import transition_file
from seed_rl.experience.base import Batch, MisfitError
from seed_rl.experience.config import TransitionReplayConfig
from seed_rl.experience.memory_limit import check_tables
from seed_rl.experience.priorities import PrioritizedDraws, UniformDraws
from seed_rl.experience.replay_file import DamagedError, Reader, Writer, check_priorities
from seed_rl.experience.step_rings import Leaf, StepRings
from seed_rl.experience.sum_tree import SumTree
from seed_rl.experience.unroll_config import UnrollConfig

# More than any environment takes, and far from an overflow.
_MAX_STEPS = 2**60


class Handle(NamedTuple):
    """Drawn transitions: their environments and the numbers of their first steps, int64 `[B]`."""

    env_ids: np.ndarray
    first: np.ndarray


class TransitionTable:
    """The latest transitions of every environment, as many of each. Not thread-safe.

    A transition is n + 1 consecutive steps of one stream, together with `burn_in` steps of history before
    them. An environment's steps are numbered as they come in. The transition that begins with number f has
    index `(f % capacity) * num_envs + environment`, which it loses when number `f + capacity` begins a
    complete one, or might have. The rings are longer than the capacity, so all of its steps are there until
    then. Not every step begins a transition: the action at the last step of a truncated episode is never
    executed, and an interrupted stream does not complete its last ones.
    """

    def __init__(
        self,
        config: TransitionReplayConfig,
        unroll: UnrollConfig,
        max_bytes: int,
        num_envs: int,
        num_served: int,
    ):
        """Prepares an empty table.

        Args:
          config: settings.
          unroll: how transitions are cut: `length` is n.
          max_bytes: memory that it may take.
          num_envs: number of environments; their ids are 0 to num_envs - 1.
          num_served: how many of them there will be steps of; they get equal shares of the capacity.

        Raises:
          ValueError: there is too little room for each environment, or too little memory.
        """
        size, least = config.replay_buffer_size, unroll.stored_steps
        self._config, self._unroll, self._max_bytes = config, unroll, max_bytes
        self.num_envs, self.num_served, self._capacity = num_envs, num_served, -(-size // num_served)
        if self._capacity < least:
            raise ValueError(
                f"--replay_buffer_size={size} leaves {self._capacity} transitions to each of {num_served} "
                f"environments, which is too few; make it at least {num_served * least}."
            )
        self._ring_length = self._capacity + unroll.burn_in + unroll.length
        alpha, beta = config.priority_exponent, config.importance_sampling_exponent
        count = num_envs * self._capacity
        check_tables(size, SumTree.bytes_for(count) if alpha else count, max_bytes)
        self._draws = PrioritizedDraws(count, alpha, beta) if alpha else UniformDraws(count)
        self._next = np.zeros(num_envs, np.int64)  # By environment: the number of its next step.
        self._rings: StepRings | None = None
        self._structure: Any = None
        self._truncated = 0  # The place of `truncated` among the leaves.

    def __len__(self) -> int:
        """The number of transitions."""
        return self._draws.count

    @property
    def nbytes(self) -> int:
        """Memory in use, in bytes."""
        if self._rings is None:
            return self._draws.nbytes
        return self._draws.nbytes + int(np.minimum(self._next, self._ring_length).sum()) * (
            StepRings.bytes_per_step(self._rings.leaves)
        )

    def add(
        self,
        env_ids: np.ndarray,
        step: tuple[list[np.ndarray], Any],
        in_stream: np.ndarray,
        policy_version: int,
    ) -> np.ndarray:
        """Stores a step of environments `[K]`; returns those whose transition it completed.

        Args:
          env_ids: int64 `[K]`, each at most once.
          step: from `flatten`, arrays `[K, ...]`.
          in_stream: int64 `[K]`, how many steps of the same streams are before it.
          policy_version: number of updates that the policy had received.

        Raises:
          ValueError: all steps would take too much memory, or they are not like those restored.
        """
        arrays, structure = step
        if self._structure is None:
            self._begin(arrays, structure)
        assert self._rings is not None
        numbers = self._next[env_ids]
        self._rings.write(env_ids, numbers, arrays, in_stream, policy_version)
        self._next[env_ids] = numbers + 1
        first, is_complete = numbers - self._unroll.length, in_stream >= self._unroll.length
        if not is_complete.all():
            known = first >= 0
            env_ids, first, is_complete = env_ids[known], first[known], is_complete[known]
        is_complete = is_complete & ~self._rings.read(self._truncated, env_ids, first)
        self._draws.enter(self._indices(env_ids, first), is_complete)
        return env_ids[is_complete]

    def draw(self, batch_size: int, random: np.random.Generator) -> Batch:
        """Draws a batch in proportion to priority^alpha, or uniformly; a transition may occur twice."""
        indices, weight = self._draws.draw(batch_size, random)
        env_ids = indices % self.num_envs
        newest = self._newest(env_ids)
        first = newest - (newest - indices // self.num_envs) % self._capacity
        assert self._rings is not None
        sample, versions = self._rings.cut(env_ids, first, self._structure, weight)
        return Batch(sample, versions, Handle(env_ids, first))

    def update(self, handle: Handle, priorities: np.ndarray) -> None:
        """Sets the priorities `[B]` of transitions, except those that are gone."""
        there = handle.first > self._newest(handle.env_ids) - self._capacity
        self._draws.update(self._indices(handle.env_ids[there], handle.first[there]), priorities[there])

    def header(self) -> transition_file.Header | None:
        """What a file begins with; None as long as there is nothing to save."""
        if self._rings is None:
            return None
        envs = self.num_envs, self.num_served
        return transition_file.Header(*envs, self._cut(), self._rings.leaves, self._draws.highest)

    def save(self, file: Writer, env_id: int) -> None:
        """Writes everything of an environment."""
        assert self._rings is not None
        steps = self._next[env_id : env_id + 1]
        for array in (steps, self._draws.get(self._all_of(env_id)), *self._rings.of(env_id, int(steps[0]))):
            file.array(array)

    def prepare(self, path: str, header: transition_file.Header) -> None:
        """Makes room for the contents of a file.

        Raises:
          ValueError: transitions were cut in another way, or they would take too much memory.
        """
        if self._cut() != header.cut:
            raise ValueError(
                f"{path} contains a replay with other transitions ({header.cut} for each of "
                f"{header.num_served} environments, not {self._cut()}); use the flags that it was written "
                "with, or move it away to continue with an empty replay."
            )
        self._allocate(header.leaves)
        self._draws.highest = header.highest_priority

    def restore(self, file: Reader, env_id: int) -> None:
        """Reads what `save` wrote, after `prepare`. The environment's stream is interrupted."""
        assert self._rings is not None
        steps = int(file.array(np.int64, (1,))[0])
        if not 0 <= steps < _MAX_STEPS:
            raise DamagedError(f"it counts {steps} steps of an environment")
        self._next[env_id] = steps
        priorities = file.array(np.float64, (self._capacity,))
        check_priorities(priorities)
        self._draws.restore(self._all_of(env_id), priorities)
        for array in self._rings.of(env_id, steps):
            file.into(array)

    def _begin(self, arrays: list[np.ndarray], structure: Any) -> None:
        """Prepares for steps with this structure, of which these are the first."""
        leaves = [Leaf.of(array) for array in arrays]
        if self._rings is None:
            self._allocate(leaves)
        elif self._rings.leaves != leaves:
            raise MisfitError(
                "The restored replay contains other observations or actions than this run's; move its file "
                "away, or resume without --checkpoint_replay."
            )
        nest: Any = optree.tree_unflatten(structure, range(len(leaves)))
        self._truncated = nest[1].truncated
        self._structure = structure

    def _allocate(self, leaves: list[Leaf]) -> None:
        steps = self.num_served * self._ring_length  # The rings of the others are never touched.
        size = steps * StepRings.bytes_per_step(leaves) + self._draws.nbytes
        if size > self._max_bytes:
            raise MisfitError(
                f"--replay_buffer_size={self._config.replay_buffer_size} transitions take {_gib(size)}, but "
                f"replay may use {_gib(self._max_bytes)}; lower it, or raise --replay_max_bytes (half of the "
                "machine's memory by default)."
            )
        self._rings = StepRings(self.num_envs, self._ring_length, self._unroll, leaves)

    def _newest(self, env_ids: np.ndarray) -> np.ndarray:
        """The numbers `[K]` of the newest steps after which there have been n."""
        return self._next[env_ids] - 1 - self._unroll.length

    def _indices(self, env_ids: np.ndarray, first: np.ndarray) -> np.ndarray:
        return first % self._capacity * self.num_envs + env_ids

    def _all_of(self, env_id: int) -> np.ndarray:
        """All indices of an environment."""
        return np.arange(self._capacity) * self.num_envs + env_id

    def _cut(self) -> dict[str, int]:
        """What decides which steps are kept of an environment."""
        unroll = self._unroll
        return {"transitions": self._capacity, "n_steps": unroll.length, "history": unroll.burn_in}


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f} GiB"
