"""Transitions of all environments: their steps, each stored once, which may be drawn, and how often."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import optree

from seed_rl.experience.base import Batch, MisfitError, ReplaySettings, Setup, UnrollConfig
from seed_rl.experience.memory import BufferPool, Leaf, check_fits
from seed_rl.experience.priorities import Draws, EqualPriorities, SumTree
from seed_rl.experience.replay_file import (
    DamagedError,
    Reader,
    TransitionsHeader,
    Writer,
    check_priorities,
    check_same,
)
from seed_rl.types import Nest, Sample

# The policy version of a step, and how many steps of its stream are before it, at most the burn-in.
_TABLE_DTYPES = (np.dtype(np.int64), np.dtype(np.int32))

# More than any environment takes, and far from an overflow.
_MAX_STEPS = 2**60


class StepRings:
    """One ring per environment and array of a step, `[num_envs, length, ...]`. Not thread-safe.

    An environment's steps are numbered from 0; number n is in slot `n % length`. Memory is only reserved at
    first, and in use from when it is written to.
    """

    def __init__(self, num_envs: int, length: int, unroll: UnrollConfig, leaves: Sequence[Leaf]):
        """Reserves memory for rings of this length, in agent steps; `leaves` are the arrays of a step."""
        self.leaves = list(leaves)
        self._num_envs, self._length, self._burn_in = num_envs, length, unroll.burn_in
        self._offsets = np.arange(-unroll.burn_in, unroll.length + 1)[:, np.newaxis]
        self._pool = BufferPool()
        slots = num_envs * length
        self._rings = [np.zeros((slots, *leaf.shape), leaf.dtype) for leaf in leaves]
        self._versions, self._history = (np.zeros(slots, dtype) for dtype in _TABLE_DTYPES)

    @staticmethod
    def bytes_per_step(leaves: Sequence[Leaf]) -> int:
        """Memory of one step of one environment."""
        return sum(leaf.nbytes for leaf in leaves) + sum(dtype.itemsize for dtype in _TABLE_DTYPES)

    def write(
        self,
        env_ids: np.ndarray,
        steps: np.ndarray,
        arrays: Sequence[np.ndarray],
        in_stream: np.ndarray,
        policy_version: int,
    ) -> None:
        """Writes the leaves `[K, ...]` of steps with these numbers `[K]`; see `TransitionTable.add`."""
        slots = self._slots(env_ids, steps)
        for ring, array in zip(self._rings, arrays, strict=True):
            ring[slots] = array
        self._versions[slots] = policy_version
        self._history[slots] = np.minimum(in_stream, self._burn_in)

    def read(self, leaf: int, env_ids: np.ndarray, steps: np.ndarray) -> np.ndarray:
        """One leaf `[K, ...]` of steps `[K]`."""
        return self._rings[leaf][self._slots(env_ids, steps)]

    def cut(
        self, env_ids: np.ndarray, first: np.ndarray, structure: Any, weight: np.ndarray
    ) -> tuple[Sample, np.ndarray]:
        """The transitions whose first steps have these numbers `[B]`, each after its history.

        The history of a transition is the `burn_in` steps before it. Where the stream has not so many, its
        first step is repeated in the missing places, and `done` is set there, so that nothing from before
        goes into its frame stack.

        Returns:
          A sample of arrays `[S, B, ...]`, and its policy versions `[S, B]`.
        """
        begin = self._slots(env_ids, first)
        available = self._history[begin]
        oldest = first - available
        steps = first + self._offsets
        slots = self._slots(env_ids, np.maximum(steps, oldest))
        arrays = []
        for leaf, ring in zip(self.leaves, self._rings, strict=True):
            array = self._pool.array((*slots.shape, *leaf.shape), leaf.dtype)
            # Slots are never out of range; checking them would take a buffer.
            np.take(ring, slots, axis=0, out=array, mode="clip")
            arrays.append(array)
        nest: Any = optree.tree_unflatten(structure, arrays)
        prev_action, env, agent = nest
        fresh = (steps <= oldest) & (available < self._burn_in)
        env.done[fresh], env.truncated[fresh] = True, False
        return Sample(prev_action, env, agent, (), weight), self._versions[slots]

    def limit_versions(self, newest: int) -> None:
        """Lowers policy versions that are higher, which an earlier start of the learner has counted."""
        np.minimum(self._versions, newest, out=self._versions)

    def of(self, env_id: int, steps: int) -> Iterator[np.ndarray]:
        """Views of the part of each ring of an environment that is in use after this many steps."""
        begin = env_id * self._length
        for ring in (*self._rings, self._versions, self._history):
            yield ring[begin : begin + min(steps, self._length)]

    def _slots(self, env_ids: np.ndarray, steps: np.ndarray) -> np.ndarray:
        return env_ids * self._length + steps % self._length


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

    def __init__(self, config: ReplaySettings, setup: Setup, max_bytes: int):
        """Prepares an empty table; the environments that are served get equal shares of the capacity.

        Raises:
          ValueError: there is too little room for each environment, or too little memory.
        """
        unroll, size, least = setup.unroll, config.replay_buffer_size, setup.unroll.stored_steps
        self._config, self._unroll, self._max_bytes = config, unroll, max_bytes
        self.num_envs, self.num_served, self._newest_version = setup.num_envs, setup.served, setup.updates
        self._capacity = -(-size // self.num_served)
        if self._capacity < least:
            raise ValueError(
                f"--replay_buffer_size={size} leaves {self._capacity} transitions to each of "
                f"{self.num_served} environments, which is too few; make it at least "
                f"{self.num_served * least}."
            )
        self._ring_length = self._capacity + unroll.burn_in + unroll.length
        alpha, beta = config.priority_exponent, config.importance_sampling_exponent
        count, tree = self.num_envs * self._capacity, SumTree if alpha else EqualPriorities
        self._table_bytes = tree.bytes_for(count)
        check_fits(f"The tables alone of --replay_buffer_size={size} take", self._table_bytes, max_bytes)
        self._draws = Draws(tree(count), alpha, beta)
        self._next = np.zeros(self.num_envs, np.int64)  # By environment: the number of its next step.
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
            return self._table_bytes
        steps = int(np.minimum(self._next, self._ring_length).sum())
        return self._table_bytes + steps * StepRings.bytes_per_step(self._rings.leaves)

    def add(self, env_ids: np.ndarray, step: Nest, in_stream: np.ndarray, policy_version: int) -> np.ndarray:
        """Stores a step of environments `[K]`; returns those whose transition it completed.

        Args:
          env_ids: int64 `[K]`, each at most once.
          step: (prev_action, env, agent), nest of `[K, ...]`.
          in_stream: int64 `[K]`, how many steps of the same streams are before it.
          policy_version: how many updates the weights had received that acted on this step.

        Raises:
          ValueError: all steps would take too much memory, or they are not like those restored.
        """
        arrays, structure = optree.tree_flatten(step)
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

    def header(self) -> TransitionsHeader | None:
        """Header of a file; None as long as there is nothing to save."""
        if self._rings is None:
            return None
        envs = self.num_envs, self.num_served
        return TransitionsHeader(*envs, self._cut(), self._rings.leaves, self._draws.highest)

    def save(self, file: Writer, env_id: int) -> None:
        """Writes everything of an environment."""
        assert self._rings is not None
        steps = self._next[env_id : env_id + 1]
        for array in (steps, self._draws.get(self._all_of(env_id)), *self._rings.of(env_id, int(steps[0]))):
            file.array(array)

    def restore(self, path: str, file: Reader) -> None:
        """Reads a file, of which all streams are interrupted, into a table that is empty.

        Raises:
          DamagedError: the contents are not what was written; the table is not to be used.
          MisfitError: they would take too much memory, or are not of these environments and transitions.
        """
        header = TransitionsHeader.read(file)
        if (header.num_envs, header.num_served) != (self.num_envs, self.num_served):
            raise MisfitError(
                f"The restored replay contains transitions of {header.num_served} environments, not of "
                f"{self.num_served}; resume with as many, or move its file away to continue with an empty "
                "replay."
            )
        check_same(path, "transitions", header.cut, self._cut())
        self._allocate(header.leaves)
        self._draws.highest = header.highest_priority
        for env_id in range(self.num_envs):
            self._restore(file, env_id)
        file.finish()
        if self._rings is not None and self._newest_version:
            self._rings.limit_versions(self._newest_version)

    def _restore(self, file: Reader, env_id: int) -> None:
        assert self._rings is not None
        steps = int(file.array(np.int64, (1,))[0])
        if not 0 <= steps < _MAX_STEPS:
            raise DamagedError(f"it counts {steps} steps of an environment")
        self._next[env_id] = steps
        priorities = file.array(np.float64, (self._capacity,))
        check_priorities(priorities)
        self._draws.put(self._all_of(env_id), priorities)
        for array in self._rings.of(env_id, steps):
            file.into(array)

    def _begin(self, arrays: list[np.ndarray], structure: Any) -> None:
        """Prepares for steps with this structure, of which these are the first."""
        leaves = [Leaf(array.shape[1:], array.dtype) for array in arrays]
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
        size = steps * StepRings.bytes_per_step(leaves) + self._table_bytes
        what = f"--replay_buffer_size={self._config.replay_buffer_size} transitions take"
        check_fits(what, size, self._max_bytes)
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
        """Settings that decide which steps are kept of an environment."""
        unroll = self._unroll
        return {"transitions": self._capacity, "n_steps": unroll.length, "history": unroll.burn_in}
