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
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seed_rl.evaluation.load import TournamentConfig, load_rivals
from seed_rl.files import shortened, write_atomically
from seed_rl.flags.command_line import check_output, parse_options
from seed_rl.flags.errors import report_answer, require_package, usage_errors
from seed_rl.loading import quiet_start
from seed_rl.messages import complain, reason


def main(argv: list[str]) -> int:
    """Plays a tournament; returns the exit code."""
    config, runs = parse_options(argv, __doc__ or "", TournamentConfig, positional=None)
    require_package("tensorflow", "learner")
    if config.output:  # Environments that change the directory play here.
        config = dataclasses.replace(config, output=os.path.abspath(config.output))
        check_output(Path(config.output or ""), "output", config.overwrite)
    found = _answer(config, [os.path.abspath(run) for run in runs])
    if "sentence" in found:
        complain(found["sentence"])
        return 1
    from seed_rl.evaluation.tournament import table

    print(table(found))
    if config.output:
        output = Path(config.output)
        try:
            output.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(output, json.dumps(found, indent=2) + "\n")
        except OSError as error:
            complain(f"{output} cannot be written ({reason(error)}).")
            return 1
        print(f"Scores: {shortened(output)}")
    return 0


def command(config: TournamentConfig, runs: Sequence[str]) -> list[str]:
    """The command of a process that plays, writes nothing, and reports results or a sentence as JSON."""
    return [sys.executable, "-m", "seed_rl.commands.tournament", json.dumps([config.to_dict(), list(runs)])]


def _answer(config: TournamentConfig, runs: Sequence[str]) -> dict[str, Any]:
    """The results, or the reason why there are none; raises UsageError."""
    with quiet_start(), usage_errors():
        subjects = load_rivals(config, runs)
    from seed_rl.evaluation.tournament import TournamentError, play_tournament

    try:
        with usage_errors():
            return play_tournament(config, subjects)
    except TournamentError as error:
        return {"kind": "failure", "sentence": str(error)}


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    report_answer(lambda: _answer(TournamentConfig.of(**given[0]), given[1]))
