"""Refusals of streams whose steps cannot be acted on. Imports no TensorFlow."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import optree

from seed_rl.serving.request import BadStep, Request
from seed_rl.types import LARGEST_INPUT, EnvOutput
from seed_rl.wire.codec import StepCodec

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
