"""Streams of steps: the newest of an environment acts, others are refused. Imports no TensorFlow."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import optree

from seed_rl.serving.request import BadStep, Request, ServedGroup
from seed_rl.types import LARGEST_INPUT, EnvOutput
from seed_rl.wire.codec import StepCodec


class Turns:
    """Keeps the streams of an environment in order when several threads run inference. Thread-safe.

    When a stream has ended and a newer one has the same environments, a step of the old stream may still be
    in one thread while the first step of the new stream is in another. They must not act at the same time,
    because both write the environments' recurrent states and last actions. And once the new stream has
    acted, a step of the old one must not act at all, because it would become part of the new stream's
    unrolls.
    """

    def __init__(self, num_envs: int):
        """Starts with no stream for any of `num_envs` environments."""
        self._newest = np.full(num_envs, -1, np.int64)  # Keys of groups, which increase.
        # By key: groups that have acted, and are the newest for all of their environments.
        self._current: dict[int, ServedGroup] = {}
        self._acting: dict[int, ServedGroup] = {}
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def take(self, groups: Sequence[ServedGroup]) -> Iterator[tuple[list[ServedGroup], list[ServedGroup]]]:
        """Holds the environments of a batch; waits first until no other thread holds any of them.

        They are held only briefly, while acting and storing the steps, but not while experience may block.
        The context gives the groups whose streams act for the first time, and those that must not act,
        because a newer stream has acted for one of their environments.
        """
        batch = {group.key: group for group in groups}
        with self._changed:
            # No other thread can hold the environments of a current stream: it has one step at a time, and
            # every older stream has ended or is refused.
            is_usual = batch.keys() <= self._current.keys()
            turns = ([], []) if is_usual else self._admit(groups)
            self._acting |= batch
        try:
            yield turns
        finally:
            with self._changed:
                for key in batch:
                    del self._acting[key]
                self._changed.notify_all()

    def _admit(self, groups: Sequence[ServedGroup]) -> tuple[list[ServedGroup], list[ServedGroup]]:
        """Waits for the environments, and finds the streams that are new and those that are over."""
        keys = np.repeat([group.key for group in groups], [group.num_envs for group in groups])
        env_ids = np.concatenate([group.env_ids for group in groups])
        self._changed.wait_for(lambda: not self._is_held(env_ids))
        before = self._newest[env_ids]
        np.maximum.at(self._newest, env_ids, keys)
        for key in before[before < self._newest[env_ids]].tolist():
            self._current.pop(key, None)
        over = [group for group in groups if (self._newest[group.env_ids] > group.key).any()]
        current = {group.key: group for group in groups if group not in over}
        first = [group for key, group in current.items() if key not in self._current]
        self._current |= current
        return first, over

    def _is_held(self, env_ids: np.ndarray) -> bool:
        return any(np.isin(group.env_ids, env_ids).any() for group in self._acting.values())


# The answer to a step of a stream that has ended, which is never read.
OVER = BadStep("A newer stream of these environments has taken over.")

# The place of an answer to a step that has to wait for training; it is not sent.
WAITS = BadStep("These environments wait for training.")

# The most environments that a message names.
_MOST_NAMED = 8


def problems(steps: StepCodec, records: np.ndarray, requests: list[Request]) -> list[BadStep | None]:
    """Problems of the requests' records, of which these `[B]` are the batch's copies; None for valid ones.

    A process that shares memory may change its own records at any time, so those prove nothing.
    """
    end, found = 0, list[BadStep | None]()
    for request in requests:
        begin, end = end, end + request.group.num_envs
        try:
            steps.check(records[begin:end].tobytes(), request.group.num_envs)
            found.append(None)
        except ValueError as error:
            found.append(BadStep(str(error)))
    return found


def too_large(env: EnvOutput) -> np.ndarray:
    """Mask of the environments with numbers in a step `[B]` that may not be trained on: bool `[B]`."""
    found = np.zeros(len(env.reward), bool)
    for is_below in below(env, LARGEST_INPUT):
        found |= ~is_below.all(axis=tuple(range(1, is_below.ndim)))
    return found


def below(nest: Any, largest: float) -> Iterator[np.ndarray]:
    """Whether numbers are finite and below this in absolute value, for each array where they may not be."""
    for leaf in optree.tree_leaves(nest):
        if leaf.dtype.kind == "f" or leaf.dtype.itemsize > 4:
            yield np.abs(leaf if leaf.dtype.kind == "f" else leaf.astype(np.float64)) < largest


def overflow(env_ids: np.ndarray) -> BadStep:
    """The answer to a stream with these environments, for which the network overflows."""
    named = ", ".join(map(str, env_ids[:_MOST_NAMED])) + (", ..." if len(env_ids) > _MOST_NAMED else "")
    return BadStep(
        f"The observations or rewards of these environments make the network overflow: {named}. Check them, "
        "and scale them down in the environment."
    )
