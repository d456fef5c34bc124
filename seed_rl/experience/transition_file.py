"""Saves a replay of transitions to a file: settings, then the arrays of each environment."""

import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from seed_rl.experience.replay_file import DamagedError, Reader, Writer, check_counts, writing
from seed_rl.experience.replay_file import read as read_file
from seed_rl.experience.step_rings import Leaf

_KIND = "transitions"
_DTYPE = re.compile(r"[<>|=][biuf]\d+")


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
        return {"kind": _KIND, **self._asdict(), "leaves": leaves}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Header":
        """The inverse of `to_json`; raises DamagedError or what `replay_file.read` makes one of."""
        if fields.pop("kind") != _KIND:
            raise DamagedError("it is not a replay of transitions")
        leaves = []
        for shape, dtype in fields["leaves"]:
            check_counts(shape)
            if not _DTYPE.fullmatch(dtype):
                raise DamagedError(f"its header has {dtype!r} for a type of numbers")
            leaves.append(Leaf(tuple(shape), np.dtype(dtype)))
        header = cls(**{**fields, "cut": dict(fields["cut"]), "leaves": leaves})
        check_counts([header.num_envs, header.num_served, *header.cut.values()])
        if not 1 <= header.num_served <= header.num_envs or not math.isfinite(header.highest_priority):
            raise DamagedError("its header has a number that is out of range")
        return header


def write(path: str, header: Header, write_part: Callable[[Writer, int], None]) -> None:
    """Writes the file under a temporary name first, then renames it.

    Args:
      path: the file.
      header: what the arrays mean.
      write_part: writes what belongs to the environment with this id.
    """
    with writing(path) as file:
        file.json(header.to_json())
        for env_id in range(header.num_envs):
            write_part(file, env_id)


def read_header(path: str) -> Header | None:
    """The header of what `write` wrote; None if there is no such file.

    Raises:
      DamagedError: the header is not what was written.
      ValueError: the file cannot be read; one sentence.
    """
    return read_file(path, lambda file: Header.from_json(file.json()))


def read(path: str, read_part: Callable[[Reader, int], None]) -> None:
    """Reads the parts of what `write` wrote, of one environment after the other.

    Raises:
      DamagedError: the contents are not what was written.
      ValueError: the file cannot be read; one sentence.
    """

    def read_parts(file: Reader) -> None:
        for env_id in range(Header.from_json(file.json()).num_envs):
            read_part(file, env_id)
        file.finish()

    read_file(path, read_parts)
