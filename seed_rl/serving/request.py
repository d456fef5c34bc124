"""Requests and answers in the batcher: plain data, free of gRPC and threads. No TensorFlow."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np


@dataclasses.dataclass(frozen=True)
class ServedGroup:
    """Environments `first_env` to `first_env + num_envs - 1`, which act together.

    Attributes:
      key: the number of the group among all groups of all connections; later ones have higher numbers.
      holder: the number of the process that plays them, as `Tasks.begin` gave it.
      first_env: the id of the first environment.
      num_envs: the number of environments.
      is_restart: whether another process has been ready to play some of them since this one was.
    """

    key: int
    holder: int
    first_env: int
    num_envs: int
    is_restart: bool

    @functools.cached_property
    def env_ids(self) -> np.ndarray:
        """int32 `[num_envs]`."""
        return np.arange(self.first_env, self.first_env + self.num_envs, dtype=np.int32)


class Request(NamedTuple):
    """One step of a group, which has one at a time.

    Attributes:
      group: the sender.
      records: as many bytes as the message Step must have; their contents are not checked yet.
      arrived: the arrival time, in seconds of the monotonic clock.
      applied: with a group's first step, how many actions its environments have applied since its process
        has had them; then None.
      episodes: those that ended with the step, as messages.
    """

    group: ServedGroup
    records: bytes | memoryview
    arrived: float
    applied: int | None = None
    episodes: Sequence[Any] = ()


class Episode(NamedTuple):
    """A finished episode.

    Attributes:
      env: the id of the environment.
      episode_return: the sum of the raw rewards.
      agent_steps: its length, in agent steps.
      figures: those of the environment's own, not checked yet.
    """

    env: int
    episode_return: float
    agent_steps: int
    figures: Mapping[str, float] = {}


class BadStep(NamedTuple):
    """The answer to a step that must not reach the learner; the answer to others is the bytes of actions.

    Attributes:
      sentence: why its connection ends.
      error: what the step has raised, if anything.
    """

    sentence: str
    error: Exception | None = None


Answer: TypeAlias = bytes | BadStep
