"""The report of an evaluation: statistics over episodes, as a table, as JSON and in TensorBoard."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.evaluation.episodes import PlayedEpisode
from seed_rl.metrics.episodes import OWN, OwnMetrics, means
from seed_rl.runs.layout import RunDirectory
from seed_rl.runs.record import RunRecord
from seed_rl.runs.scores import published_scores


def write_board(
    logdir: Path, env_frames: int, summary: Mapping[str, Any], picture: np.ndarray | None
) -> None:
    """Adds an evaluation to the TensorBoard events of a run, at the frames that it was trained for.

    It has figures by name, and may have a picture of gameplay, uint8 `[height, width, 3]`.

    Raises:
      OSError: they cannot be written.
    """
    try:
        writer = tf.summary.create_file_writer(str(RunDirectory(logdir).evaluation_events))
        with writer.as_default(step=env_frames):
            for name, value in summary.items():
                if value is not None:
                    tf.summary.scalar(f"evaluation/{name}", value)
            if picture is not None:
                tf.summary.image("evaluation/gameplay", picture[np.newaxis])
        writer.close()
    except tf.errors.OpError as error:
        raise OSError(error.message) from error


def summarize(run: RunRecord, episodes: Sequence[PlayedEpisode]) -> dict[str, Any]:
    """Statistics over episodes, by name.

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
    own = OwnMetrics()
    summary |= means([own.keep(episode.figures) for episode in episodes], OWN)
    scores = published_scores(run.environment, run.game)
    if scores is not None:
        summary["human_normalized"] = scores.human_normalized(summary["mean_return"])
        summary["random_score"], summary["human_score"] = scores
    return summary


def table(summary: dict[str, Any], repeats: int, asked: int | None) -> str:
    """The summary as a readable table, one row per line.

    An agent step has `repeats` environment frames; `asked` episodes were to be played; None: as many as
    a number of agent steps allowed.
    """
    steps = summary["mean_episode_agent_steps"]
    error, count = summary["standard_error"], summary["episodes"]
    rows = [
        ("episodes", f"{count}" + ("" if asked in (None, count) else f" of {asked}")),
        (
            "mean return",
            f"{summary['mean_return']:.2f}" + ("" if error is None else f" ± {error:.2f} (standard error)"),
        ),
        ("median return", f"{summary['median_return']:.2f}"),
        ("lowest, highest", f"{summary['min_return']:.2f}, {summary['max_return']:.2f}"),
        ("mean length", f"{steps:,.1f} agent steps, {steps * repeats:,.0f} environment frames"),
    ]
    rows += [
        (f"mean {name.removeprefix(OWN)}", f"{value:.4g}")
        for name, value in summary.items()
        if name.startswith(OWN)
    ]
    if "human_normalized" in summary:
        rows.append(
            (
                "human-normalized",
                f"{summary['human_normalized']:.1f}% (random {summary['random_score']:g}, "
                f"human {summary['human_score']:g})",
            )
        )
    width = max(len(name) for name, _ in rows)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in rows)
