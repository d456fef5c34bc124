"""Published scores, returns normalized by them, and returns at which a game counts as solved.

* Atari-57: scores of humans, R2D2 and SEED from Table 10 of the SEED RL paper; random scores as published
  with the benchmark (up to 30 no-ops, 108K frames).
* DMLab-30: human and random scores as published with the levels.
* Gymnasium's environments: the `reward_threshold` that they are registered with.
"""

import contextlib
import csv
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, TypeVar

import gymnasium
import numpy as np

from seed_rl.environments.suites import dmlab

_DATA = Path(__file__).parent / "data"
_FILES = {"atari": "atari57_scores.csv", "dmlab": "dmlab30_scores.csv"}
# The best return is 1; a policy that samples misses a few.
_GOALS = {"catch": 0.95, "recall": 0.95}
# Median human-normalized scores on Atari-57, in percent, at the end of training (SEED RL, 2020, section 4.3).
_ATARI57_MEDIANS = {"SEED in 1.8 days,\nR2D2 in 5 days": 1880.0, "SEED with 1,200\nactors, about": 1000.0}
_Returns = TypeVar("_Returns", float, np.ndarray)


class Scores(NamedTuple):
    """Mean returns of a random policy and of a human player."""

    random: float
    human: float

    def human_normalized(self, value: _Returns) -> _Returns:
        """A mean return, or each of several, in percent: 0 is the random policy's score, 100 the human's."""
        return 100.0 * (value - self.random) / (self.human - self.random)


def published_scores(environment: str, game: str | None) -> Scores | None:
    """The scores of a suite's game; None if there are no published ones.

    `game` is as `--game` takes it: "MsPacman" and "ms_pacman" are the same. A level of DMLab-30 has the
    scores of its test variant.
    """
    if environment == "dmlab":
        with contextlib.suppress(ValueError):
            game = dmlab.level(game or "", held_out=True)
    for name, columns in published_games(environment).items():
        if game_key(name) == game_key(game or ""):
            return Scores(columns["random"], columns["human"])
    return None


def goal(environment: str, game: str | None) -> float | None:
    """The mean return at which a suite's game counts as solved; None if nobody has set one."""
    if environment == "gym":
        spec = gymnasium.registry.get(game or "")
        return None if spec is None else spec.reward_threshold
    return _GOALS.get(environment)


def published_medians(tasks: Iterable[tuple[str, str | None]]) -> dict[str, float]:
    """The published median scores of environments and their games, if these are Atari-57; in percent."""
    played = {(environment, game_key(game or "")) for environment, game in tasks}
    is_atari57 = played == {("atari", game_key(game)) for game in published_games("atari")}
    return _ATARI57_MEDIANS if is_atari57 else {}


def published_games(environment: str) -> dict[str, dict[str, float]]:
    """All published scores of a suite: mean returns by game and by column; empty if there are none.

    Columns are `random`, `human` and, for Atari-57, `r2d2` and `seed_8_tpu_v3`.
    """
    if environment not in _FILES:
        return {}
    with open(_DATA / _FILES[environment], newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    return {row[0]: dict(zip(header[1:], map(float, row[1:]), strict=True)) for row in rows}


def game_key(game: str) -> str:
    """Key that is equal for the ways to write a game's name: "MsPacman" and "ms_pacman"."""
    return game.replace("_", "").lower()
