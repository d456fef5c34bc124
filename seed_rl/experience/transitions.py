"""Replay of n-step transitions: DQN's (Mnih et al., 2015), or a prioritized one (Schaul et al., 2016)."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import optree

from seed_rl.experience import replay_file
from seed_rl.experience.base import Batch, MisfitError, ReplaySettings, Setup, StepStore, UnrollConfig
from seed_rl.experience.memory import BufferPool, Leaf, check_fits
from seed_rl.experience.priorities import Draws, EqualPriorities, SumTree
from seed_rl.experience.rate_limiter import LimitedReplay
from seed_rl.experience.replay_file import DamagedError
from seed_rl.types import Nest, Sample

# The policy version of a step, and how many steps of its stream are before it, at most the burn-in.
_TABLE_DTYPES = (np.dtype(np.int64), np.dtype(np.int32))

# More than any environment takes, and far from an overflow.
_MAX_STEPS = 2**60

# Types of the arrays of a step, in a file.
_DTYPE = re.compile(r"[<>|=][biuf]\d+")


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
        """Writes the leaves `[K, ...]` of steps `[K]`, numbers `in_stream` `[K]` of their streams."""
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


class TransitionReplay(LimitedReplay, StepStore):
    """The latest transitions of every environment, as many of each.

    A transition is n + 1 consecutive steps of one stream, together with `burn_in` steps of history before
    them. An environment's steps are numbered as they come in. The transition that begins with number f has
    index `(f % capacity) * num_envs + environment`, which it loses when number `f + capacity` begins a
    complete one, or might have. The rings are longer than the capacity, so all of its steps are there until
    then. Not every step begins a transition: the action at the last step of a truncated episode is never
    executed, and an interrupted stream does not complete its last ones.

    Inference writes steps into the rings directly, so nothing is inserted. A transition may be drawn as soon
    as its last step is there, and counts as added when it has been handed over. After a reset, transitions of
    the interrupted stream that were complete stay.
    """

    keeps_states = False

    def __init__(self, config: ReplaySettings, setup: Setup):
        """Prepares an empty replay; the environments that are served get equal shares of the capacity.

        The `length` of the unrolls is n.

        Raises:
          ValueError: the replay may be larger than the machine's memory, there is too little room for each
            environment, or what is cut is no transitions.
        """
        unroll, size, least = setup.unroll, config.replay_buffer_size, setup.unroll.stored_steps
        LimitedReplay.__init__(self, config, setup)
        StepStore.__init__(self, setup.num_envs, unroll)
        self.store = self
        if unroll.every != 1 or unroll.stagger:
            raise ValueError(f"{unroll} cuts no transitions; set period=1 and stagger=False.")
        self._capacity = -(-size // setup.served)
        if self._capacity < least:
            raise ValueError(
                f"--replay_buffer_size={size} leaves {self._capacity} transitions to each of "
                f"{setup.served} environments, which is too few; make it at least {setup.served * least}."
            )
        # Settings that decide which steps are kept of an environment.
        self._cut = {"transitions": self._capacity, "n_steps": unroll.length, "history": unroll.burn_in}
        self._ring_length = self._capacity + unroll.burn_in + unroll.length
        self._tree = SumTree if config.priority_exponent else EqualPriorities
        self._table_bytes = self._tree.bytes_for(setup.num_envs * self._capacity)
        what = f"The tables alone of --replay_buffer_size={size} take"
        check_fits(what, self._table_bytes, self._max_bytes)
        self._clear()

    def _clear(self) -> None:
        count, config = self._setup.num_envs * self._capacity, self._config
        exponents = config.priority_exponent, config.importance_sampling_exponent
        self._draws = Draws(self._tree(count), *exponents)
        self._next = np.zeros(self._setup.num_envs, np.int64)  # By environment: the number of its next step.
        self._added = 0  # Transitions, including those restored, and those that are gone.
        self._rings: StepRings | None = None
        self._structure: Any = None
        self._truncated = 0  # The place of `truncated` among the leaves.

    def __len__(self) -> int:
        """The number of transitions in replay."""
        return self._draws.count

    @property
    def nbytes(self) -> int:
        """Memory in use, in bytes."""
        if self._rings is None:
            return self._table_bytes
        steps = int(np.minimum(self._next, self._ring_length).sum())
        return self._table_bytes + steps * StepRings.bytes_per_step(self._rings.leaves)

    def append(
        self, env_ids: np.ndarray, step: Nest, starting: np.ndarray, states: Nest, policy_version: int
    ) -> list[int]:
        """Stores a step, without waiting; returns the environments whose transition it completed.

        Raises:
          ValueError: all steps would take too much memory, or they are not like those restored.
        """
        del starting, states
        env_ids = env_ids.astype(np.int64, copy=False)  # Large enough for the number of a slot.
        prev_action, env, agent = step
        # Of the agent's output, losses need the action.
        arrays, structure = optree.tree_flatten((prev_action, env, agent._replace(info={})))
        with self._changed:
            rings = self._rings if self._structure is not None else self._begin(arrays, structure)
            assert rings is not None
            numbers, in_stream, length = self._next[env_ids], self._count[env_ids], self._setup.unroll.length
            rings.write(env_ids, numbers, arrays, in_stream, policy_version)
            self._next[env_ids], self._count[env_ids] = numbers + 1, in_stream + 1
            first, is_complete = numbers - length, in_stream >= length
            if not is_complete.all():
                known = first >= 0
                env_ids, first, is_complete = env_ids[known], first[known], is_complete[known]
            is_complete = is_complete & ~rings.read(self._truncated, env_ids, first)
            self._draws.enter(self._indices(env_ids, first), is_complete)
        return env_ids[is_complete].tolist()

    def hand_over(self, completed: list[int]) -> None:
        """Counts transitions, which are here already, as added, as the replay ratio allows.

        Raises:
          ClosedError: the replay was closed in the meantime.
        """
        count = len(completed)
        with self._changed:
            while count:
                # If nothing can be drawn, training cannot catch up.
                self._wait_for(lambda: self._limiter.may_insert() or not len(self))
                now = min(count, max(1, self._limiter.room(self._added)))
                count -= now
                self._added += now
                self._limiter.inserted(self._added, now)
                self._changed.notify_all()

    def update_priorities(self, handle: Handle, priorities: np.ndarray) -> None:
        """Sets the priorities `[B]` of a batch's transitions, except those overwritten in the meantime."""
        with self._changed:
            there = handle.first > self._newest(handle.env_ids) - self._capacity
            self._draws.update(self._indices(handle.env_ids[there], handle.first[there]), priorities[there])

    def save(self, path: str) -> None:
        """Writes everything to a file, if the settings enable it; may keep other threads waiting."""
        rings = self._rings
        if rings is None or not self.is_saved:
            return
        header = {
            "num_envs": self._setup.num_envs,
            "num_served": self._setup.served,
            "cut": self._cut,
            "leaves": [leaf.describe() for leaf in rings.leaves],
            "highest_priority": self._draws.highest,
        }
        with replay_file.writing(path) as file:
            file.header("transitions", header)
            for env_id in range(self._setup.num_envs):
                with self._changed:
                    steps = self._next[env_id : env_id + 1]
                    priorities = self._draws.get(self._all_of(env_id))
                    for array in (steps, priorities, *rings.of(env_id, int(steps[0]))):
                        file.array(array)

    def _draw(self) -> Callable[[], Batch]:
        indices, weight = self._draws.draw(self._setup.batch_size, self._random)
        env_ids = indices % self._setup.num_envs
        newest = self._newest(env_ids)
        first = newest - (newest - indices // self._setup.num_envs) % self._capacity
        assert self._rings is not None
        batch = Batch(*self._rings.cut(env_ids, first, self._structure, weight), Handle(env_ids, first))
        return lambda: batch

    def _restore(self, path: str, file: replay_file.Reader) -> bool:
        """Reads a file, of which all streams are interrupted."""
        try:
            leaves, self._draws.highest = self._read_header(path, file)
            rings = self._allocate(leaves)
            for env_id in range(self._setup.num_envs):
                self._next[env_id] = steps = int(file.array(np.int64, (1,))[0])
                if not 0 <= steps < _MAX_STEPS:
                    raise DamagedError(f"it counts {steps} steps of an environment")
                priorities = file.array(np.float64, (self._capacity,))
                replay_file.check_priorities(priorities)
                self._draws.put(self._all_of(env_id), priorities)
                for array in rings.of(env_id, steps):
                    file.into(array)
            file.finish()
        except BaseException:  # Nothing of it is used.
            self._clear()
            raise
        if self._setup.updates:
            rings.limit_versions(self._setup.updates)
        self._added = len(self)
        return True

    def _read_header(self, path: str, file: replay_file.Reader) -> tuple[list[Leaf], float]:
        """The arrays of a step, and the highest priority so far, unscaled; see `replay_file.read`."""
        fields, leaves = file.header("transitions"), []
        described, highest = fields.pop("leaves"), fields.pop("highest_priority")
        num_envs, num_served, cut = fields.pop("num_envs"), fields.pop("num_served"), dict(fields.pop("cut"))
        replay_file.check_counts([num_envs, num_served, *cut.values()])
        if fields or not 1 <= num_served <= num_envs or not math.isfinite(highest):
            raise DamagedError("its header has a number that is out of range")
        for shape, dtype in described:
            replay_file.check_counts(shape)
            if not _DTYPE.fullmatch(dtype):
                raise DamagedError(f"its header has {dtype!r} for a type of numbers")
            leaves.append(Leaf(tuple(shape), np.dtype(dtype)))
        if (num_envs, num_served) != (self._setup.num_envs, self._setup.served):
            raise MisfitError(
                f"The restored replay contains transitions of {num_served} environments, not of "
                f"{self._setup.served}; resume with as many, or move its file away to continue with an empty "
                "replay."
            )
        replay_file.check_same(path, "transitions", cut, self._cut)
        return leaves, highest

    def _begin(self, arrays: list[np.ndarray], structure: Any) -> "StepRings":
        """Prepares for steps with this structure, of which these are the first."""
        leaves = [Leaf(array.shape[1:], array.dtype) for array in arrays]
        rings = self._rings or self._allocate(leaves)
        if rings.leaves != leaves:
            raise MisfitError(
                "The restored replay contains other observations or actions than this run's; move its file "
                "away, or resume without --checkpoint_replay."
            )
        nest: Any = optree.tree_unflatten(structure, range(len(leaves)))
        self._truncated = nest[1].truncated
        self._structure = structure
        return rings

    def _allocate(self, leaves: list[Leaf]) -> "StepRings":
        steps = self._setup.served * self._ring_length  # The rings of the others are never touched.
        size = steps * StepRings.bytes_per_step(leaves) + self._table_bytes
        what = f"--replay_buffer_size={self._config.replay_buffer_size} transitions take"
        check_fits(what, size, self._max_bytes)
        self._rings = StepRings(self._setup.num_envs, self._ring_length, self._setup.unroll, leaves)
        return self._rings

    def _newest(self, env_ids: np.ndarray) -> np.ndarray:
        """The numbers `[K]` of the newest steps after which there have been n."""
        return self._next[env_ids] - 1 - self._setup.unroll.length

    def _indices(self, env_ids: np.ndarray, first: np.ndarray) -> np.ndarray:
        return first % self._capacity * self._setup.num_envs + env_ids

    def _all_of(self, env_id: int) -> np.ndarray:
        """All indices of an environment."""
        return np.arange(self._capacity) * self._setup.num_envs + env_id
