"""Queues of batches: a bounded first-in-first-out queue, and rollouts, for which all environments wait."""

import collections
import threading
from collections.abc import Callable

import numpy as np
import optree

from seed_rl.experience.base import Batch, Experience, MisfitError, Setup, UnrollConfig
from seed_rl.experience.unroll_store import RingStore
from seed_rl.types import AgentOutput, EnvOutput, Nest, Sample

# Rollouts' worth of agent steps for which a player waits for the others of its game.
_MOST_SURPLUS_ROLLOUTS = 200


class Fifo(Experience, RingStore):
    """Each batch is trained on once, or a few times (V-trace).

    Inference stacks unrolls into batches `[S, B, ...]` as they become complete, so nothing is inserted. The
    memory of a batch is used again when nothing refers to its arrays any more: neither the queue, which may
    make several passes, nor a tensor that shares their memory.

    Inference, and with it the actors, wait while the queue is full (back-pressure). With more than one pass,
    a batch that was trained on goes back to the end of the queue.
    """

    def __init__(
        self, setup: Setup, capacity: int | None = None, passes: int = 1, max_policy_lag: int | None = None
    ):
        """Prepares an empty queue.

        Args:
          setup: what it is made for.
          capacity: most complete unrolls that may wait for their first pass, whether their batch is full or
            not; None for one batch.
          passes: how many times each batch is trained on.
          max_policy_lag: most updates from the weights that acted first in an unroll to those that it trains;
            None for any number.

        Raises:
          ValueError: the capacity is less than a batch, so no batch could ever be filled.
        """
        Experience.__init__(self)
        RingStore.__init__(self, setup.num_envs, setup.unroll)
        self.store = self
        self._batch_size = setup.batch_size
        self._capacity = setup.batch_size if capacity is None else capacity
        self._passes, self._max_policy_lag = passes, max_policy_lag
        # Every batch that is handed out is an update, so these are the updates before the next one.
        self._burn_in, self._updates = setup.unroll.burn_in, setup.updates
        self._dropped = 0  # Unrolls, since `figures` was last called.
        if self._capacity < setup.batch_size:
            raise ValueError(
                f"--queue_capacity={capacity} is less than --batch_size={setup.batch_size}, so no batch "
                "would ever fill; raise it."
            )
        self._arrays: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])  # Of the batch in progress.
        self._filled = 0  # Unrolls in it.
        self._stacking = threading.Lock()
        self._entries: collections.deque[tuple[Batch, int]] = collections.deque()  # With passes left.
        self._new = 0  # Unrolls that wait for their first pass.

    def hand_over(self, completed: list[int]) -> None:
        """Waits until no more unrolls than the capacity wait for their first pass.

        Raises:
          ClosedError: the queue was closed in the meantime.
        """
        if completed:
            with self._changed:
                self._wait_for(lambda: self._new <= self._capacity)

    def insert(self, env_ids: np.ndarray, steps: Nest, states: Nest) -> list[int]:
        """Copies whole unrolls into the batch in progress; returns their environments.

        Args:
          env_ids: of the environments `[N]`.
          steps: (prev_action, env, agent, policy version), each `[S, N, ...]`.
          states: recurrent states before the first step, nest of `[N, ...]`.
        """
        leaves, structure = optree.tree_flatten(steps)
        state_leaves, state_structure = optree.tree_flatten(states)
        self._prepare([leaf[0] for leaf in leaves], state_leaves, (structure, state_structure))

        def copy(begin: int, count: int, column: int) -> None:
            here, there = slice(begin, begin + count), slice(column, column + count)
            for array, leaf in zip(self._arrays[0], leaves, strict=True):
                array[:, there] = leaf[:, here]
            for array, leaf in zip(self._arrays[1], state_leaves, strict=True):
                array[there] = leaf[here]

        self._stack(len(env_ids), copy)
        return env_ids.tolist()

    def _finish(self, env_ids: np.ndarray, first: np.ndarray) -> list[int]:
        """Copies unrolls into the batch in progress; returns their environments."""

        def copy(begin: int, count: int, column: int) -> None:
            here = slice(begin, begin + count)
            self._copy(env_ids[here], first[here], *self._arrays, column)

        self._stack(len(env_ids), copy)
        return env_ids.tolist()

    def _stack(self, num_unrolls: int, copy: Callable[[int, int, int], None]) -> None:
        """Fills batches; `copy` gets the first unroll, how many to copy, and the first of their columns."""
        batches, begin = [], 0
        with self._stacking:
            while begin < num_unrolls:
                if not self._filled:
                    self._arrays = self._memory(self._batch_size)
                count = min(num_unrolls - begin, self._batch_size - self._filled)
                copy(begin, count, self._filled)
                begin, self._filled = begin + count, self._filled + count
                if self._filled == self._batch_size:
                    batches.append(self._batch())
            self.add(num_unrolls, batches)

    def _batch(self) -> Batch:
        *nests, versions = self._nests(*self._arrays)
        self._arrays, self._filled = ([], []), 0
        return Batch(Sample(*nests, np.ones(self._batch_size, np.float32)), versions, None)

    def add(self, completed: int, batches: list[Batch]) -> None:
        """Counts completed unrolls and appends batches, each of unrolls counted now or before."""
        with self._changed:
            self._new += completed
            self._entries.extend((batch, self._passes) for batch in batches)
            if batches:
                self._changed.notify_all()

    def drop(self, num_unrolls: int) -> None:
        """Counts unrolls that are not added."""
        with self._changed:
            self._dropped += num_unrolls

    def sample(self) -> Batch:
        """Takes the first batch from the queue; waits for one."""
        with self._changed:
            self._wait_for(self._has_batch)
            batch, left = self._entries.popleft()
            if left > 1:
                self._entries.append((batch, left - 1))
            self._left(left)
            batch = self._without_old(batch)
            self._updates += 1
        return batch

    def batch_ready(self) -> bool:
        """Whether there is a batch."""
        with self._changed:
            return self._has_batch()

    def _has_batch(self) -> bool:
        """Whether there is a batch; drops those before it whose unrolls are all too old."""
        while self._entries and not np.any(self._is_fresh(self._entries[0][0])):
            batch, left = self._entries.popleft()
            self._left(left)
            self._dropped += batch.policy_version.shape[1]
        return bool(self._entries)

    def _left(self, passes_left: int) -> None:
        """Counts a batch that has left its place in the queue."""
        if passes_left == self._passes:
            self._new -= self._batch_size
        self._changed.notify_all()

    def _is_fresh(self, batch: Batch) -> np.ndarray | bool:
        """Mask of the unrolls that are not too old for the next update: bool `[B]`, or True for all."""
        if self._max_policy_lag is None:
            return True
        return self._updates - batch.policy_version[self._burn_in] <= self._max_policy_lag

    def _without_old(self, batch: Batch) -> Batch:
        """The batch with a weight of 0 for unrolls that are too old, and without their versions.

        The others weigh more in return, so that the loss is their mean. The batch keeps its shape, for which
        the update was compiled.
        """
        is_fresh = self._is_fresh(batch)
        if np.all(is_fresh):
            return batch
        self._dropped += int(np.sum(~is_fresh))
        weight = (is_fresh / np.mean(is_fresh)).astype(np.float32)
        return Batch(batch.sample._replace(weight=weight), batch.policy_version[:, is_fresh], batch.handle)

    def figures(self) -> dict[str, float]:
        """The number of unrolls that wait for their first pass; those beyond the capacity are not counted.

        Also how many were dropped since the last call, with a limit on the policy lag or if there were any.
        """
        with self._changed:
            figures = {"queue_depth": float(min(self._new, self._capacity))}
            if self._max_policy_lag is not None or self._dropped:
                figures["dropped_unrolls"], self._dropped = float(self._dropped), 0
        return figures


class Rollouts(Fifo):
    """Batches of one unroll of every environment, all played by the weights that train on them.

    An environment whose unroll is complete waits until training is done with the rollout. Its last step `[T]`
    is not acted on before that: it only gives the value to bootstrap from. The weights that follow act on it,
    as the first step of the next unroll.
    """

    holds = True

    def __init__(self, setup: Setup, is_whole: bool = False):
        """Prepares; the batch size is that of minibatches, or, if `is_whole`, of the whole rollout.

        Of how steps are cut, only the length counts: rollouts are not staggered.

        Raises:
          ValueError: the rollouts cannot be split into minibatches.
        """
        size = setup.served
        if is_whole and size != setup.batch_size:
            raise ValueError(
                f"--batch_size={setup.batch_size} must be {size}, one for each training environment: "
                "this agent trains on whole rollouts."
            )
        if size % setup.batch_size:
            possible = [n for n in range(1, size + 1) if size % n == 0]
            raise ValueError(
                f"--batch_size={setup.batch_size} does not divide the {size} unrolls of a rollout, one "
                f"of each training environment; choose one of: {', '.join(map(str, possible))}."
            )
        # The last step of an unroll comes twice: here it is closed with, later it begins the next one.
        unroll = UnrollConfig(setup.unroll.length, period=setup.unroll.length + 1, stagger=False)
        super().__init__(setup._replace(batch_size=size, unroll=unroll))
        self._complete = 0  # Unrolls of the rollout in progress, or of the one that waits for training.
        self._trained = 0  # Rollouts.
        # By environment: rollouts that it has played its part of.
        self._played = np.zeros(setup.num_envs, np.int64)
        self._surplus = np.zeros(setup.num_envs, np.int64)  # Agent steps since then.
        self._held: list[Callable[[], None]] = []

    def add(self, completed: int, batches: list[Batch]) -> None:
        """Counts completed unrolls, and takes the rollout if they complete it."""
        with self._changed:
            self._complete += completed
            super().add(completed, batches)

    def trained(self) -> None:
        """Lets the environments continue."""
        with self._changed:
            self._trained += 1
            self._complete = 0
            held, self._held = self._held, []
        for resume in held:
            resume()

    def closing(self, env_ids: np.ndarray) -> np.ndarray:
        """Mask of the environments whose next step is the last of their unrolls: bool `[B]`."""
        return self._count[env_ids] % self._period == self._period - 1

    def takes(self, env_ids: np.ndarray) -> np.ndarray:
        """Mask of the environments that have not ended their part of the rollout; see `StepStore.takes`.

        Raises:
          MisfitError: one has gone on for so long that others of its group seem never to be to move.
        """
        takes = self._played[env_ids] <= self._trained
        if not takes.all():
            self._surplus[env_ids] += ~takes
            if (longest := self._surplus[env_ids].max()) > _MOST_SURPLUS_ROLLOUTS * self._period:
                raise MisfitError(
                    f"A player has taken {longest} agent steps more than its rollout needs, because another "
                    "one of its game hardly ever is to move, and rollouts wait for all players; use "
                    "--agent=vtrace, which does not."
                )
        return takes

    def end_unrolls(self, env_ids: np.ndarray, env: EnvOutput) -> list[int]:
        """Completes the unrolls of environments; `prev_action` is what their step before was acted on with.

        What the agent would answer is zeros, and the policy version is -1. See `StepStore.end_unrolls`.
        """
        before = env_ids.astype(np.intp) * self._stored + (self._count[env_ids] - 1) % self._stored
        rings: Nest = optree.tree_unflatten(self._structure[0], self._rings)
        agent: AgentOutput = rings[2]
        prev_action = optree.tree_map(lambda ring: ring[before], agent.action)
        zeros = optree.tree_map(lambda ring: np.zeros((len(before), *ring.shape[1:]), ring.dtype), agent)
        self._played[env_ids] += 1
        self._surplus[env_ids] = 0
        step: Nest = (prev_action, env, zeros, np.full(len(before), -1))
        return self._add(env_ids, optree.tree_leaves(step))

    def hold(self, env_ids: np.ndarray, resume: Callable[[], None]) -> bool:
        """Whether these environments must wait; see `StepStore.hold`. `resume` is called by training."""
        with self._changed:
            must_wait = len(env_ids) > 0 and int(self._played[env_ids].min()) > self._trained
            if must_wait:
                self._held.append(resume)
        return must_wait

    def figures(self) -> dict[str, float]:
        """The number of unrolls that are complete, of the rollout that is being played or trained on."""
        with self._changed:
            return {"rollout_unrolls": float(self._complete)}
