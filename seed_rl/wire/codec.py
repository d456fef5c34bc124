"""Converts environment steps and actions to the raw bytes of the wire, and back.

A step travels as one packed record per environment (protos/inference.proto, message Step). A NumPy
structured dtype describes that record, so messages from many actors become a batch by joining their bytes.
"""

import math
import struct
from typing import NamedTuple

import numpy as np

from seed_rl.types import ArraySpec, EnvironmentSpec, EnvOutput, flatten_like, flatten_spec, pack_like

_HEADER = [("reward", "<f4"), ("done", "?"), ("truncated", "?")]
_HEADER_FORMAT = "<fBB"  # The same layout for `struct`.
_IDLE = 257  # `done` and `truncated`, as one number.


class RecordSize(NamedTuple):
    """Size of a request's part for each environment.

    Attributes:
      record_bytes: bytes.
      most_episodes: how many episodes may end within it.
      what: what it is called in messages.
    """

    record_bytes: int
    most_episodes: int = 1
    what: str = "A step"

    @property
    def agent_steps(self) -> int:
        """The number of agent steps in it: an episode may also end before the first one of an unroll."""
        return max(1, self.most_episodes - 1)

    def problem(self, data: bytes | memoryview, num_envs: int) -> str:
        """Reason that a request's number of bytes is wrong, in one sentence; empty if it is right."""
        if len(data) == num_envs * self.record_bytes:
            return ""
        return (
            f"{self.what} of {num_envs} environments must be {num_envs * self.record_bytes} bytes "
            f"({self.record_bytes} each), not {len(data)}."
        )


class StepCodec:
    """Bytes <-> EnvOutput `[N, ...]` for environments of one spec.

    Attributes:
      record: the structured dtype of one environment's step.
      record_bytes: its size in bytes.
      size: the size of a step.
    """

    def __init__(self, spec: EnvironmentSpec):
        """Prepares the record for the observation of `spec`."""
        self._observation, self._may_idle = spec.observation, spec.num_players > 1
        self._leaves = flatten_spec(spec.observation)
        fields = [
            (f"observation:{name}", np.dtype(leaf.dtype).newbyteorder("<"), leaf.shape)
            for name, leaf in self._leaves
        ]
        self.record = np.dtype(_HEADER + fields)
        self.record_bytes = self.record.itemsize
        self.size = RecordSize(self.record_bytes)
        rest = self.record_bytes - struct.calcsize(_HEADER_FORMAT)
        # Read separately: for the few environments of a message, Python is several times faster than NumPy.
        self._header = struct.Struct(f"{_HEADER_FORMAT}{rest}x")
        self._fields = [name for name, *_ in fields]
        self._float_fields = [f for f in self._fields if self.record[f].base.kind == "f"]
        # `done` and `truncated` as one number.
        self._ends = np.dtype([("reward", "<f4"), ("ends", "<u2"), ("observation", f"V{rest}")])

    def encode(self, output: EnvOutput) -> bytes:
        """The records of N environments, one after the other."""
        records = np.empty(len(output.reward), self.record)
        records["reward"], records["done"], records["truncated"] = output[:3]
        for field, leaf in zip(
            self._fields, flatten_like(self._observation, output.observation), strict=True
        ):
            records[field] = leaf
        return records.tobytes()

    def decode(self, data: bytes | memoryview | np.ndarray) -> EnvOutput:
        """The inverse of `encode`. The arrays are strided views of `data` (uint8); nothing is copied."""
        return self.views(np.frombuffer(data, self.record))

    def views(self, records: np.ndarray) -> EnvOutput:
        """The arrays `[N, ...]` of N records (of dtype `record`), as views of them."""
        observation = pack_like(self._observation, [records[field] for field in self._fields])
        return EnvOutput(records["reward"], records["done"], records["truncated"], observation)

    def are_valid(self, records: np.ndarray) -> bool:
        """Whether `check` would accept N records (of dtype `record`); fast for many of them."""
        ends = records.view(self._ends)["ends"]
        possible = (ends <= 1) | (ends == 256)
        if self._may_idle:
            possible |= ends == _IDLE
        return bool(
            possible.all()
            and np.isfinite(records["reward"]).all()
            and all(np.isfinite(records[field]).all() for field in self._float_fields)
        )

    def check(self, data: bytes | memoryview, num_envs: int) -> None:
        """Refuses a step that must not reach the learner.

        Raises:
          ValueError: the number of bytes is wrong, `done` and `truncated` are not 0 or 1, or are both 1
            although there is one player, or a reward or an observation is not finite; one sentence.
        """
        if sentence := self.size.problem(data, num_envs):
            raise ValueError(sentence)
        for env, (reward, done, truncated) in enumerate(self._header.iter_unpack(data)):
            if not math.isfinite(reward):
                raise _not_finite("reward", env)
            if done > 1 or truncated > 1 or done + truncated > 1 + self._may_idle:
                which = "" if self._may_idle else ", and at most one of them 1"
                raise ValueError(f"Each of done and truncated must be 0 or 1{which}.")
        if self._float_fields:
            records = np.frombuffer(data, self.record)
            for field in self._float_fields:
                finite = np.isfinite(records[field])
                if not finite.all():
                    raise _not_finite("observation", int(np.argmin(finite.reshape(num_envs, -1).all(axis=1))))


def _not_finite(what: str, env: int) -> ValueError:
    return ValueError(
        f"The {what} of environment {env} in the message is NaN or infinite; fix the environment."
    )


class ActionCodec:
    """Bytes <-> actions `[N, ...]` of one spec."""

    def __init__(self, spec: ArraySpec):
        """Prepares for actions of `spec`."""
        self._shape = spec.shape
        self._dtype = np.dtype(spec.dtype).newbyteorder("<")
        is_bounded = spec.is_discrete and spec.maximum is not None
        self._num_values = np.reshape(spec.num_values, spec.shape) if is_bounded else None
        self.action_bytes = spec.nbytes

    def are_possible(self, actions: np.ndarray) -> bool:
        """Whether N actions are in range for an integer spec, or else finite (from a network without NaN)."""
        if self._num_values is None:
            return bool(np.isfinite(actions).all())
        return bool(((actions >= 0) & (actions < self._num_values)).all())

    def encode(self, actions: np.ndarray) -> bytes:
        """The bytes of N actions."""
        return np.ascontiguousarray(actions, self._dtype).tobytes()

    def decode(self, data: bytes | memoryview) -> np.ndarray:
        """The inverse of `encode`; read-only."""
        return np.frombuffer(data, self._dtype).reshape(-1, *self._shape)
