"""Whole unrolls as bytes, for actors that hold the policy."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import optree
import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.inference.env_table import LARGEST_INFO, first_step
from seed_rl.inference.streams import below
from seed_rl.types import LARGEST_INPUT, AgentOutput, EnvironmentSpec, EnvOutput, Nest
from seed_rl.wire.codec import ActionCodec, RecordSize
from seed_rl.wire.ranges import problem

# Arrays `[S, N, ...]` of a step: what `experience.base.StepStore.append` takes, and the policy version.
Steps = tuple[Nest, EnvOutput, AgentOutput, np.ndarray]


class UnrollCodec:
    """Bytes <-> the unrolls of N environments: array by array, first those of steps, then those of states.

    Attributes:
      size: the size of an unroll.
      length: T, in agent steps.
    """

    def __init__(self, policy: Policy, spec: EnvironmentSpec, length: int):
        """Determines the structure of the policy's outputs, by calling it once."""
        self.length, self._actions = length, ActionCodec(spec.action)
        (prev_action, env, env_ids), state = first_step(spec), policy.initial_state(1)
        output, _ = policy.act(prev_action, env, state, env_ids)
        tensors = (prev_action, env, output), state
        (prev_action, env, output), state = tf.nest.map_structure(lambda x: x.numpy(), tensors)
        step: Any = (prev_action, env, output, np.zeros(1, np.int64))
        leaves, self._structure = optree.tree_flatten(step)
        states, self._state_structure = optree.tree_flatten(state)
        self._leaves = [(x.dtype.newbyteorder("<"), x.shape[1:]) for x in leaves]
        self._states = [(x.dtype.newbyteorder("<"), x.shape[1:]) for x in states]
        shapes = [(dtype, (length + 1, *shape)) for dtype, shape in self._leaves] + self._states
        total = sum(dtype.itemsize * int(np.prod(shape)) for dtype, shape in shapes)
        self.size = RecordSize(total, length + 1, "An unroll")

    def leaves(self, data: bytes | memoryview | np.ndarray) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """The arrays of steps `[S, N, ...]` and of states `[N, ...]`, as views of the data (uint8)."""
        raw = np.frombuffer(data, np.uint8)
        num_envs = len(raw) // self.size.record_bytes
        steps = [(dtype, (self.length + 1, num_envs, *shape)) for dtype, shape in self._leaves]
        states = [(dtype, (num_envs, *shape)) for dtype, shape in self._states]
        found = list(_views(raw, [*steps, *states]))
        return found[: len(steps)], found[len(steps) :]

    def nests(self, data: bytes | memoryview) -> tuple[Steps, Nest]:
        """The leaves of `leaves` as nests."""
        steps, states = self.leaves(data)
        nest: Any = optree.tree_unflatten(self._structure, steps)
        return nest, optree.tree_unflatten(self._state_structure, states)

    def problem(self, steps: Steps, states: Nest) -> str:
        """Reason that unrolls must not be trained on, in one sentence; empty if they may."""
        prev_action, env, agent, versions = steps
        ends = env.done.view(np.uint8) + env.truncated.view(np.uint8).astype(int)
        if env.done.view(np.uint8).max() > 1 or env.truncated.view(np.uint8).max() > 1 or ends.max() > 1:
            return "Each of done and truncated of an unroll must be 0 or 1, and at most one of them 1."
        for version in (versions.min(), versions.max()):
            if sentence := problem("Unroll", "version", version):
                return sentence
        for what, nest, largest in (
            ("rewards or observations", (env.reward, env.observation), LARGEST_INPUT),
            ("answers of the agent", agent.info, LARGEST_INFO),
            ("recurrent states", states, np.inf),
        ):
            if not all(is_below.all() for is_below in below(nest, largest)):
                return f"The unrolls of this actor have {what} that are not finite or too large; check both."
        if not all(self._actions.are_possible(actions) for actions in (prev_action, agent.action)):
            return (
                "The unrolls of this actor have actions that there are not; install the same seed_rl on both."
            )
        return ""


def _views(raw: np.ndarray, arrays: list[tuple[np.dtype, tuple[int, ...]]]) -> Iterator[np.ndarray]:
    sizes = [dtype.itemsize * int(np.prod(shape)) for dtype, shape in arrays]
    begins = itertools.accumulate(sizes, initial=0)
    for (dtype, shape), begin, size in zip(arrays, begins, sizes, strict=False):
        yield raw[begin : begin + size].view(dtype).reshape(shape)
