"""Tournament of trained policies: every pair plays games for several players; scores of pairs and of each."""

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

    Returns:
      The contents of the JSON file. The matrices `scores`, `wins` and `games`, `[N, N]`, are of the row
      against the column; there is no score (None) on the diagonal. The `score` of a subject is the mean
      of its row, so that all opponents count alike.

    Raises:
      TournamentError: a pair cannot play its games.
    """
    size = len(subjects)
    wins, games = np.zeros((2, size, size), int)
    shares = np.zeros((size, size))
    for i, j in itertools.combinations(range(size), 2):
        played, failure = play_episodes(config, subjects[i], subjects[j])
        if failure is not None:
            raise TournamentError(failure)
        found = scored([game for game in played if isinstance(game, PlayedGame)])
        shares[i, j], shares[j, i] = found["score"], 1 - found["score"]
        wins[i, j], wins[j, i] = found["wins"], found["losses"]
        games[i, j] = games[j, i] = len(played)
    means = shares.sum(1) / (size - 1)
    entries = [
        {
            "run": str(one.run.logdir),
            "checkpoint": one.checkpoint,
            "env_frames": one.env_frames,
            "agent": one.run.agent,
            "score": float(mean),
            "score_interval": wilson_interval(float(mean), int(count)),
        }
        for one, mean, count in zip(subjects, means, games.sum(1), strict=True)
    ]
    of_pairs = [[None if i == j else shares[i, j] for j in range(size)] for i in range(size)]
    return {
        "environment": {
            "name": subjects[0].run.environment,
            "settings": subjects[0].environment_config.to_dict(),
        },
        "policy": "greedy" if config.greedy else "as the agent evaluates",
        "seed": config.seed,
        "runs": entries,
        "scores": of_pairs,
        "wins": wins.tolist(),
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
