"""Published scores, returns normalized by them, and returns at which a game counts as solved.

* Atari-57: human scores from Table 10 of the SEED RL paper; random scores as published with the benchmark
  (up to 30 no-ops, 108K frames).
* DMLab-30: human and random scores as published with the levels.
* Gymnasium's environments: the `reward_threshold` that they are registered with.
"""

import contextlib
import csv
from pathlib import Path
from typing import NamedTuple

import gymnasium

from seed_rl.environments.suites import dmlab_levels

_DATA = Path(__file__).parent / "data"
_FILES = {"atari": "atari57_scores.csv", "dmlab": "dmlab30_scores.csv"}
# The best return is 1; a policy that samples misses a few.
_GOALS = {"catch": 0.95, "recall": 0.95}


class Scores(NamedTuple):
    """Mean returns of a random policy and of a human player."""

    random: float
    human: float

    def human_normalized(self, value: float) -> float:
        """A mean return in percent: 0 is the random policy's score, 100 the human's."""
        return 100.0 * (value - self.random) / (self.human - self.random)


def published_scores(environment: str, game: str | None) -> Scores | None:
    """The scores of a suite's game; None if there are no published ones.

    `game` is as `--game` takes it: "MsPacman" and "ms_pacman" are the same. A level of DMLab-30 has the
    scores of its test variant.
    """
    if environment not in _FILES or not game:
        return None
    if environment == "dmlab":
        with contextlib.suppress(ValueError):
            game = dmlab_levels.level(game, held_out=True)
    return _table(environment).get(_key(game))


def human_normalized(environment: str, game: str | None, value: float) -> float:
    """A mean return in percent of the human score; see `Scores`.

    Raises:
      ValueError: there are no published scores for the game; the message is one sentence.
    """
    scores = published_scores(environment, game)
    if scores is None:
        name = " ".join(filter(None, (environment, game)))
        raise ValueError(
            f"There are no published human and random scores for {name}, so its return cannot be "
            "normalized; leave it out, or choose another style."
        )
    return scores.human_normalized(value)


def goal(environment: str, game: str | None) -> float | None:
    """The mean return at which a suite's game counts as solved; None if nobody has set one."""
    if environment == "gym":
        spec = gymnasium.registry.get(game or "")
        return None if spec is None else spec.reward_threshold
    return _GOALS.get(environment)


def _table(environment: str) -> dict[str, Scores]:
    with open(_DATA / _FILES[environment], newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    header = rows[0]
    random, human = header.index("random"), header.index("human")
    return {_key(row[0]): Scores(float(row[random]), float(row[human])) for row in rows[1:]}


def _key(game: str) -> str:
    return game.replace("_", "").lower()
