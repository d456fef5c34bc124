"""Tournament of trained policies: every pair plays games of several players; scores of pairs and of each."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seed_rl.evaluation.load import Subject, TournamentConfig
from seed_rl.evaluation.matches import PlayedGame, scored, wilson_interval
from seed_rl.evaluation.report import play_episodes
from seed_rl.files import shortened


class TournamentError(RuntimeError):
    """A pair cannot play its games, because the environment fails or no game ends; one sentence."""


def play_tournament(config: TournamentConfig, subjects: Sequence[Subject]) -> dict[str, Any]:
    """Games of every pair of N subjects, each as in an evaluation of the first against the second.

    With more than two players, the second is also evaluated against the first: one player alone against
    the others is another contest than these against one, and subjects that play alike have a score of 1 / P.

    Returns:
      The contents of the JSON file. `scores`, `[N, N]`, are of the row against the column, None on the
      diagonal. The `score` of a subject is the mean of its row, so that all opponents count alike.

    Raises:
      TournamentError: a pair cannot play its games.
    """
    size, first = len(subjects), subjects[0]
    shares, games = np.zeros((size, size)), np.zeros((size, size), int)
    pairs = itertools.combinations if first.num_players == 2 else itertools.permutations
    for i, j in pairs(range(size), 2):
        played, failure = play_episodes(config, subjects[i], subjects[j])
        if failure is not None:
            raise TournamentError(failure)
        shares[i, j] = scored([game for game in played if isinstance(game, PlayedGame)])["score"]
        games[i, j] = len(played)
        if first.num_players == 2:
            shares[j, i], games[j, i] = 1 - shares[i, j], games[i, j]
    means = (shares.sum(1) / (size - 1)).tolist()
    intervals = [
        wilson_interval(mean, count) for mean, count in zip(means, games.sum(1).tolist(), strict=True)
    ]
    of_each = [
        {"score": mean, "score_interval": bounds} for mean, bounds in zip(means, intervals, strict=True)
    ]
    return {
        "environment": {"name": first.run.environment, "settings": first.environment_config.to_dict()},
        "policy": "greedy" if config.greedy else "as the agent evaluates",
        "seed": config.seed,
        "runs": [one.described | own for one, own in zip(subjects, of_each, strict=True)],
        "scores": [[None if i == j else shares[i, j] for j in range(size)] for i in range(size)],
        "games": games.tolist(),
    }


def table(found: dict[str, Any]) -> str:
    """The results as a readable table, the run with the highest score first."""
    runs = found["runs"]
    order = sorted(range(len(runs)), key=lambda i: -runs[i]["score"])  # Of equal ones, the first named.
    names = [str(shortened(Path(runs[i]["checkpoint"]))) for i in order]
    width = max(map(len, names))
    lines = [
        f"     {'':<{width}}   score  95% interval  " + "".join(f"{n:>8}" for n in range(1, len(runs) + 1))
    ]
    for number, (name, i) in enumerate(zip(names, order, strict=True), start=1):
        low, high = (f"{100 * x:.1f}" for x in runs[i]["score_interval"])
        shares = [found["scores"][i][j] for j in order]
        cells = "".join("       -" if x is None else f"{100 * x:>7.1f}%" for x in shares)
        lines.append(
            f"{number:>3}  {name:<{width}}  {100 * runs[i]['score']:5.1f}%  {low:>5} to {high:>5}  {cells}"
        )
    return "\n".join(lines)
