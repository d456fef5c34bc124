r"""Plays runs of a game of several players against each other, every pair, and prints their scores.

Examples:
  seed_rl tournament runs/ppo runs/vtrace runs/r2d2 --episodes=100
  seed_rl tournament runs/ppo/checkpoints/kept/ckpt-* --output=scores.json

Name run directories, whose last checkpoints play, or path prefixes of checkpoints. In the games of a pair,
one policy plays one player, in turn each of them, and the other policy all others. A player wins whose return
is higher than that of every other. Scores are the share of games won, and half of those drawn. With more
than two players, each pair plays twice as many games: either run is the one that has a single player.

Exit codes: 0 when all games were played, 2 if an argument is wrong, 130 after Ctrl-C, 1 otherwise.
"""

import dataclasses
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from seed_rl.evaluation.load import PlayConfig, load_subjects
from seed_rl.files import shortened
from seed_rl.flags.command_line import check_output, parse_options
from seed_rl.flags.errors import UsageError, report_answer, require_package, usage_errors
from seed_rl.loading import quiet_start
from seed_rl.messages import complain, in_columns


def main(argv: list[str]) -> int:
    """Plays a tournament; returns the exit code."""
    config, runs = parse_options(argv, __doc__ or "", PlayConfig, positional=None)
    require_package("tensorflow", "learner")
    if config.output:  # Environments that change the directory play here.
        config = dataclasses.replace(config, output=os.path.abspath(config.output))
        check_output(Path(config.output or ""), "output", config.overwrite)
    found = play_tournament(config, [os.path.abspath(run) for run in runs])
    if "failure" in found:
        complain(found["failure"])
        return 1
    from seed_rl.evaluation.report import write_results

    print(table(found))
    return write_results(Path(config.output), found) if config.output else 0


def play_tournament(config: PlayConfig, runs: Sequence[str]) -> dict[str, Any]:
    """Games of every pair of N runs or checkpoints, each as in an evaluation of the first against the second.

    With more than two players, the second is also evaluated against the first: one player alone against
    the others is another contest than these against one, and subjects that play alike have a score of 1 / P.

    Returns:
      The contents of the JSON file. `scores`, `[N, N]`, are of the row against the column, None on the
      diagonal. The `score` of a subject is the mean of its row, so that all opponents count alike. If a pair
      cannot play its games, `failure` is the reason instead.

    Raises:
      UsageError: there are fewer than two, one is named twice, or they play no equal games; one sentence.
    """
    with quiet_start(), usage_errors():
        subjects = load_subjects(config, runs)
    size, checkpoints = len(runs), [os.path.realpath(one.checkpoint) for one in subjects]
    if len(set(checkpoints)) < max(2, size):
        raise UsageError(f"Name at least two runs or checkpoints, each once, not {checkpoints}.")
    from seed_rl.evaluation.matches import scored, wilson_interval
    from seed_rl.evaluation.report import conditions, play_episodes

    shares, games = np.zeros((size, size)), np.zeros((size, size), int)
    for i, j in itertools.permutations(range(size), 2):
        if i > j and subjects[0].probed.spec.num_players == 2:
            shares[i, j], games[i, j] = 1 - shares[j, i], games[j, i]
            continue
        with usage_errors():
            played, failure = play_episodes(config, (subjects[i], subjects[j]))
        if failure is not None:
            return {"failure": failure}
        shares[i, j], games[i, j] = scored(played)["score"], len(played)
    of_each = []
    for one, share, count in zip(subjects, (shares.sum(1) / (size - 1)).tolist(), games.sum(1), strict=True):
        of_each.append(one.described | {"score": share, "score_interval": wilson_interval(share, int(count))})
    return {
        **conditions(config, subjects[0]),
        "runs": of_each,
        "scores": [[None if i == j else shares[i, j] for j in range(size)] for i in range(size)],
        "games": games.tolist(),
    }


def table(found: dict[str, Any]) -> str:
    """The results as a readable table, the run with the highest score first."""
    runs = found["runs"]
    order = sorted(range(len(runs)), key=lambda i: -runs[i]["score"])  # Of equal ones, the first named.
    rows = [["", "", "score", "95% interval", *(str(number + 1) for number in range(len(runs)))]]
    for number, i in enumerate(order, start=1):
        shares = [runs[i]["score"], *runs[i]["score_interval"], *(found["scores"][i][j] for j in order)]
        score, low, high, *others = ("-" if x is None else f"{100 * x:.1f}%" for x in shares)
        name = str(shortened(Path(runs[i]["checkpoint"])))
        rows.append([str(number), name, score, f"{low} to {high}", *others])
    return "\n".join(in_columns(rows))


if __name__ == "__main__":
    report_answer(PlayConfig, play_tournament)
