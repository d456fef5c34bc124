"""An evaluation: plays its episodes, and reports statistics as a table, as JSON and in TensorBoard."""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
import tqdm

from seed_rl.environments.failures import EnvironmentFailedError
from seed_rl.evaluation.agent import PlayedEpisode
from seed_rl.evaluation.load import PlayConfig, Subject, check_plays
from seed_rl.evaluation.matches import play_games, policy_sides, scored
from seed_rl.files import shortened, write_atomically
from seed_rl.messages import complain, reason, say
from seed_rl.metrics.episodes import OWN, OwnMetrics, means
from seed_rl.runs.layout import RunDirectory
from seed_rl.runs.record import RunRecord
from seed_rl.runs.scores import published_scores

# Seconds between lines with the number of episodes that have ended, without a terminal; later, a tenth of
# the time since the start.
_SILENT_SECS = 5.0
_OF_PLAYER = "mean_return_of_player_"


def play_episodes(config: PlayConfig, subjects: Sequence[Subject]) -> tuple[list[PlayedEpisode], str | None]:
    """The episodes in the order of their numbers, and the reason if there are fewer than requested, or none.

    In games, the first subject plays all players, or one in turn, and a second subject the others. Raises
    what `play_games` raises before the first episode, and ValueError if nothing here can play.
    """
    check_plays(subjects[0])
    episodes: list[PlayedEpisode] = []
    parts, sides = (subjects[0].suite, subjects[0].environment_config), policy_sides(subjects, config)
    failure, total = None, 0.0
    asked, start = config.episodes_asked, time.monotonic()
    due = start + _SILENT_SECS
    with tqdm.tqdm(total=asked, unit=" episodes", dynamic_ncols=True, disable=None) as bar:
        try:
            for episode in play_games(*parts, sides, config):
                episodes.append(episode)
                total += episode.episode_return
                bar.update()
                mean_return = f"mean return {total / len(episodes):.2f}"
                bar.set_postfix_str(mean_return, refresh=False)
                if bar.disable and (now := time.monotonic()) >= due:  # In a file or a pipe.
                    of = "" if asked is None else f" of {asked}"
                    say(f"{len(episodes)}{of} episodes, {mean_return}.")
                    due = now + max(_SILENT_SECS, (now - start) / 10)
        except EnvironmentFailedError as error:
            failure = str(error)
    if not episodes and not failure:
        steps = config.max_agent_steps
        failure = f"No episode ended within --max_agent_steps={steps}; raise it, or lower --num_envs."
    return sorted(episodes, key=lambda episode: episode.number), failure


def results(
    config: PlayConfig, subjects: Sequence[Subject], episodes: Sequence[PlayedEpisode], failure: str | None
) -> dict[str, Any]:
    """The contents of the JSON file: the statistics, every episode, and what was evaluated."""
    of_games = {
        "against": subjects[1].described if subjects[1:] else None,
        "player_returns": [game.returns for game in episodes],
        "players": [game.players for game in episodes],
    }
    return {
        **subjects[0].described,
        **conditions(config, subjects[0]),
        "versions": subjects[0].run.versions,
        **summarize(subjects[0].run, episodes),
        "episodes_asked": config.episodes_asked,
        "max_agent_steps": config.max_agent_steps,
        "failure": failure,
        "seeds": [episode.seed for episode in episodes],
        "returns": [episode.episode_return for episode in episodes],
        "episode_agent_steps": [episode.agent_steps for episode in episodes],
        **(of_games if episodes[0].returns else {}),
    }


def conditions(config: PlayConfig, subject: Subject) -> dict[str, Any]:
    """The environment, and other conditions that the results depend on."""
    return {
        "policy": "greedy" if config.greedy else "as the agent evaluates",
        "seed": config.seed,
        "environment": {"name": subject.run.environment, "settings": subject.environment_config.to_dict()},
    }


def summarize(run: RunRecord, episodes: Sequence[PlayedEpisode]) -> dict[str, Any]:
    """Statistics over episodes, by name.

    For games, `mean_return` and others are those of the mean over the run's own players in each,
    `mean_return_of_player_P` is of the games in which the run has that player, and against an opponent there
    are the figures of `scored`.
    `standard_error` is that of the mean, from the sample standard deviation; None for a single episode.
    `episode/NAME` is the mean of a figure of the environment's own, over the episodes that have it.
    `human_normalized` is the human-normalized mean return in percent, for games with published scores.
    """
    returns = np.array([episode.episode_return for episode in episodes])
    lengths = np.array([episode.agent_steps for episode in episodes])
    spread = float(returns.std(ddof=1) / np.sqrt(len(returns))) if len(returns) > 1 else None
    summary: dict[str, Any] = {
        "episodes": len(episodes),
        "mean_return": float(returns.mean()),
        "median_return": float(np.median(returns)),
        "standard_error": spread,
        "min_return": float(returns.min()),
        "max_return": float(returns.max()),
        "mean_episode_agent_steps": float(lengths.mean()),
    }
    for player in sorted({player for game in episodes for player in game.players}):
        own_returns = [game.returns[player] for game in episodes if player in game.players]
        summary[f"{_OF_PLAYER}{player}"] = float(np.mean(own_returns))
    if len(episodes[0].players) < len(episodes[0].returns):
        summary |= scored(episodes)
    own = OwnMetrics()
    summary |= means([own.keep(episode.figures) for episode in episodes], OWN)
    scores = published_scores(run.environment, run.game)
    if scores is not None:
        summary["human_normalized"] = scores.human_normalized(summary["mean_return"])
        summary["random_score"], summary["human_score"] = scores
    return summary


def table(summary: Mapping[str, Any], repeats: int, asked: int | None) -> str:
    """The summary as a readable table, one row per line.

    An agent step has `repeats` environment frames; `asked` episodes were to be played; None: as many as
    a number of agent steps allowed.
    """
    found = dict(summary)
    count, steps, error = (found[name] for name in ("episodes", "mean_episode_agent_steps", "standard_error"))
    of = "" if asked in (None, count) else f" of {asked}"
    spread = "" if error is None else f" ± {error:.2f} (standard error)"
    rows = {
        "episodes": f"{count}{of}",
        "mean return": f"{found['mean_return']:.2f}{spread}",
        "median return": f"{found['median_return']:.2f}",
        "lowest, highest": f"{found['min_return']:.2f}, {found['max_return']:.2f}",
        "mean length": f"{steps:,.1f} agent steps, {steps * repeats:,.0f} environment frames",
    }
    rows |= {name.replace("_", " "): f"{v:.2f}" for name, v in found.items() if name.startswith(_OF_PLAYER)}
    if "wins" in found:
        rows["wins, draws, losses"] = f"{found['wins']}, {found['draws']}, {found['losses']}"
        low, high = (f"{100 * found[name]:.1f}%" for name in ("score_low", "score_high"))
        rows["score"] = f"{100 * found['score']:.1f}% (95% interval: {low} to {high}; draws are half)"
    rows |= {f"mean {n.removeprefix(OWN)}": f"{v:.4g}" for n, v in found.items() if n.startswith(OWN)}
    if "human_normalized" in found:
        scores = f"random {found['random_score']:g}, human {found['human_score']:g}"
        rows["human-normalized"] = f"{found['human_normalized']:.1f}% ({scores})"
    width = max(map(len, rows))
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows.items())


def write_results(path: Path, found: dict[str, Any]) -> int:
    """Writes results as JSON; returns the exit code."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(found, indent=2) + "\n")
    except OSError as error:
        complain(f"{path} cannot be written ({reason(error)}).")
        return 1
    print(f"Results: {shortened(path)}")
    return 0


def write_board(logdir: Path, env_frames: int, summary: Mapping[str, Any]) -> None:
    """Adds the figures of an evaluation to the TensorBoard events of a run, at the frames that it had then.

    Raises:
      OSError: they cannot be written.
    """
    try:
        writer = tf.summary.create_file_writer(str(RunDirectory(logdir).evaluation_events))
        with writer.as_default(step=env_frames):
            for name, value in summary.items():
                if value is not None:
                    tf.summary.scalar(f"evaluation/{name}", value)
        writer.close()
    except tf.errors.OpError as error:
        raise OSError(error.message) from error
