"""Rollouts: every environment plays one unroll; then all of them wait until training is done with these."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from seed_rl.experience.base import Batch, ClosedError, Experience
from seed_rl.experience.slab_store import SlabStore
from seed_rl.experience.unroll_config import UnrollConfig
from seed_rl.types import AgentOutput, EnvOutput, Nest, Unroll


class Rollouts(Experience):
    """Batches of one unroll of every environment, all played by the weights that train on them.

    An environment's last step `[T]` only gives the value to bootstrap from. The environment then waits, and
    the weights that follow choose its action for the same step, as the first one of the next unroll.
    """

    def __init__(self, batch_size: int, is_whole: bool = False):
        """Prepares.

        Args:
          batch_size: unrolls in each of the minibatches that training makes of a rollout.
          is_whole: it makes none: a batch must be a whole rollout.
        """
        self._minibatch_size, self._is_whole = batch_size, is_whole
        self._batches: list[Batch] = []
        self._complete = 0  # Unrolls of the rollout in progress, or of the one that waits for training.
        self._trained = 0  # Rollouts.
        self._held: list[Callable[[], None]] = []
        self._closed = False
        self._changed = threading.Condition()

    def store(
        self,
        num_envs: int,
        unroll: UnrollConfig,
        insert: Callable[[list[Unroll]], None] | None = None,
        num_served: int | None = None,
    ) -> "RolloutStore":
        """The store whose slabs are the rollouts; see `Experience.store`.

        Raises:
          ValueError: the rollouts cannot be split into minibatches.
        """
        del insert
        size = num_envs if num_served is None else num_served
        if self._is_whole and size != self._minibatch_size:
            raise ValueError(
                f"--batch_size={self._minibatch_size} must be {size}, one for each training environment: "
                "this agent trains on whole rollouts."
            )
        if size % self._minibatch_size:
            possible = [n for n in range(1, size + 1) if size % n == 0]
            raise ValueError(
                f"--batch_size={self._minibatch_size} does not divide the {size} unrolls of a rollout, one "
                f"of each training environment; choose one of: {', '.join(map(str, possible))}."
            )
        return RolloutStore(num_envs, unroll, size, self)

    def add(self, completed: int, batches: list[Batch]) -> None:
        """Counts completed unrolls, and takes the rollout if they complete it."""
        with self._changed:
            self._complete += completed
            self._batches += batches
            if batches:
                self._changed.notify_all()

    def wait_for_room(self) -> None:
        """Does not wait: environments whose unrolls are complete are held back one by one.

        Raises:
          ClosedError: the experience has been closed.
        """
        with self._changed:
            if self._closed:
                raise ClosedError

    def sample(self) -> Batch:
        """Waits for a rollout."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or bool(self._batches))
            if self._closed:
                raise ClosedError
            return self._batches.pop(0)

    def batch_ready(self) -> bool:
        """Whether a rollout is complete."""
        with self._changed:
            return bool(self._batches)

    def trained(self) -> None:
        """Lets the environments continue."""
        with self._changed:
            self._trained += 1
            self._complete = 0
            held, self._held = self._held, []
        for resume in held:
            resume()

    def hold(self, played: int, resume: Callable[[], None]) -> bool:
        """Whether an environment that has played so many unrolls must wait.

        Args:
          played: rollouts that it has played its part of.
          resume: called, from the training thread, when it need not wait any more.
        """
        with self._changed:
            must_wait = played > self._trained
            if must_wait:
                self._held.append(resume)
        return must_wait

    def figures(self) -> dict[str, float]:
        """The number of unrolls that are complete, of the rollout that is being played or trained on."""
        with self._changed:
            return {"rollout_unrolls": float(self._complete)}

    def close(self) -> None:
        """Ends every wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()


class RolloutStore(SlabStore):
    """Fills one slab `[T + 1, N, ...]` for each rollout of N environments."""

    holds = True

    def __init__(self, num_envs: int, unroll: UnrollConfig, num_served: int, rollouts: Rollouts):
        """Prepares an empty store.

        Args:
          num_envs: number of environments; their ids are 0 to num_envs - 1.
          unroll: T is its length; rollouts neither overlap nor are they staggered.
          num_served: N, how many of the environments this learner host serves.
          rollouts: take the batches.
        """
        # The last step of an unroll is acted on again, as the first of the next.
        cut = UnrollConfig(unroll.length, period=unroll.length + 1, stagger=False)
        super().__init__(num_envs, cut, num_served, rollouts)
        self._rollouts = rollouts
        self._played = np.zeros(num_envs, np.int64)  # Rollouts that an environment has played its part of.

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
        """Adds one step; see `StepStore.append`."""
        self._played[env_ids[self._is_last(env_ids)]] += 1
        return super().append(env_ids, prev_action, env, agent, starting, states, policy_version)

    def closes(self, env_ids: np.ndarray) -> bool:
        """Whether the next step of these environments is the last of their unroll; see `StepStore.closes`."""
        return bool(self._is_last(env_ids).any())

    def hold(self, env_ids: np.ndarray, resume: Callable[[], None]) -> bool:
        """Whether these environments must wait; see `StepStore.hold`."""
        return len(env_ids) > 0 and self._rollouts.hold(int(self._played[env_ids].max()), resume)

    def _is_last(self, env_ids: np.ndarray) -> np.ndarray:
        return self._count[env_ids] % self._period == self._period - 1
