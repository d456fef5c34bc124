"""Saves a replay of transitions to a file: settings as JSON, then arrays of each environment."""

import json
from collections.abc import Callable
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from seed_rl.experience.replay_file import parse
from seed_rl.experience.step_rings import Leaf
from seed_rl.files import replacing

_MAGIC = b"seed_rl transitions 1\n"

# Writes, or reads, what belongs to the environment with this id.
Part = Callable[[BinaryIO, int], None]


class Header(NamedTuple):
    """What the arrays mean.

    num_envs, num_served: environments of the run, and those with steps. cut: what decides how many steps are
    kept of each, in agent steps. leaves: the arrays of a step. highest_priority: so far, unscaled.
    """

    num_envs: int
    num_served: int
    cut: dict[str, int]
    leaves: list[Leaf]
    highest_priority: float

    def to_json(self) -> dict[str, Any]:
        """All of it in a form that JSON supports."""
        leaves = [[list(leaf.shape), leaf.dtype.str] for leaf in self.leaves]
        return {**self._asdict(), "leaves": leaves}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Header":
        """The inverse of `to_json`."""
        leaves = [Leaf(tuple(shape), np.dtype(dtype)) for shape, dtype in fields["leaves"]]
        return cls(**{**fields, "leaves": leaves})


def write(path: str, header: Header, write_part: Part) -> None:
    """Writes the file under a temporary name first, then renames it."""
    with replacing(path) as file:
        file.write(_MAGIC)
        file.write(json.dumps(header.to_json()).encode() + b"\n")
        for env_id in range(header.num_envs):
            write_part(file, env_id)


def read_header(path: str) -> Header | None:
    """The header of what `write` wrote; None if there is no such file.

    Raises:
      ValueError: it is not such a file.
    """
    return parse(path, _read_header)


def read(path: str, read_part: Part) -> None:
    """Reads the parts of what `write` wrote.

    Raises:
      ValueError: the file is damaged, or a part cannot be read.
    """

    def read_parts(file: BinaryIO) -> None:
        for env_id in range(_read_header(file).num_envs):
            read_part(file, env_id)

    parse(path, read_parts)


def _read_header(file: BinaryIO) -> Header:
    if file.readline() != _MAGIC:
        raise ValueError("it is not a replay of transitions")
    return Header.from_json(json.loads(file.readline()))
