"""Tables 1, 2 and 10 of the SEED RL paper, with figures of runs."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seed_rl.paper import tables
from seed_rl.plotting.groups import Group, Run, Task, by_task
from seed_rl.plotting.labels import settings_text, span, task_labels, variant_labels
from seed_rl.plotting.render import Table, cell
from seed_rl.plotting.searches import searches
from seed_rl.runs.curves import last_evaluation
from seed_rl.runs.scores import Scores, game_key, published_games, published_scores

_SPEED_NOTE = (
    "Environment frames and updates per second, without the first tenth of each run. The ratio compares\n"
    "frames/s with the suite's first row, which is of the run that is named first. Rows without runs are\n"
    "Table 1 of the SEED RL paper; their ratios compare with its own baselines."
)
_WARM_UP = 0.1  # The share of a run's seconds that is left out of its speed.
# These settings tell the rows of Table 1 apart, also where they are not part of the variant.
_OF_SPEED = ("num_envs", "training_devices", "inference_devices", "batch_size")


def speed_table(groups: Sequence[Group], label: str | None = None) -> Table:
    """Table 1: the speed of each variant in each suite, in the order in which the runs are given.

    Args:
      groups: what `gather` has found, measured by `updates`.
      label: names from the user; see `variant_labels`, which also says what is raised.
    """
    names = variant_labels(groups, label)
    alike: defaultdict[tuple[str, str, tuple[Any, ...]], list[Run]] = defaultdict(list)
    for group in groups:
        for run in group.runs:
            settings = tuple(run.record.learner_settings[name] for name in _OF_SPEED)
            alike[group.task.environment, names[group.variant], settings].append(run)
    rows: list[dict[str, Any]] = []
    for (suite, name, settings), runs in sorted(alike.items(), key=lambda item: item[0][0]):
        frames, updates = _speed(runs)
        first = next((row["frames_per_second"] for row in rows if row["suite"] == suite), None)
        rows.append(
            {
                "suite": suite,
                "agent": name,
                **dict(zip(_OF_SPEED, settings, strict=True)),
                "frames_per_second": frames,
                "updates_per_second": updates,
                "ratio": frames / first if first else None,
                "runs": len(runs),
            }
        )
    suites = dict.fromkeys(row["suite"] for row in rows)
    rows = [
        row
        for suite in suites
        for row in [*(r for r in rows if r["suite"] == suite), *_published_speeds(suite)]
    ]
    columns = {
        "suite": cell("suite"),
        "agent": cell("agent"),
        "training devices": cell("training_devices"),
        "inference devices": cell("inference_devices"),
        "environments": cell("num_envs", ","),
        "batch size": cell("batch_size", ","),
        "frames/s": cell("frames_per_second", ",.0f"),
        "updates/s": cell("updates_per_second", ",.1f"),
        "ratio": lambda row: "—" if row["ratio"] is None else f"{row['ratio']:.2f}x",
        "runs": cell("runs"),
    }
    words = ("suite", "agent", "training devices", "inference devices")
    return Table(rows, columns, words, _SPEED_NOTE)


def _published_speeds(suite: str) -> list[dict[str, Any]]:
    """The suite's rows of the paper's Table 1, with the columns of `speed_table`."""
    rows = []
    for row in tables.read("seed/table_1"):
        if row.suite == suite:
            devices = f"{row.accelerators} {row.accelerator}"
            trains = row.training_accelerators
            rows.append(
                {
                    "suite": suite,
                    "agent": f"{row.architecture}, {row.model} model",
                    "num_envs": row.environments,
                    "training_devices": devices if trains is None else f"{trains} of {devices}",
                    "inference_devices": "" if trains is None else "the others",
                    "batch_size": row.batch_size,
                    "frames_per_second": row.frames_per_second,
                    "updates_per_second": None,
                    "ratio": row.ratio,
                    "runs": None,
                }
            )
    return rows


def _speed(runs: Sequence[Run]) -> tuple[float, float]:
    """Environment frames and updates per second of all runs, once they are under way."""
    done = np.zeros(3)
    for run in runs:
        curve = np.stack([run.curve.env_frames, run.curve.value, run.curve.seconds])  # [3, N]
        begin = int(np.searchsorted(run.curve.seconds, _WARM_UP * run.curve.seconds[-1]))
        is_long = begin < curve.shape[1] - 1
        done += curve[:, -1] - (curve[:, begin] if is_long else 0.0)
    frames, updates, seconds = done
    return float(frames / max(seconds, 1e-9)), float(updates / max(seconds, 1e-9))


_FOOTBALL_MATCH = ("football", "11_vs_11_hard_stochastic")
_COMBINATIONS = 40  # Section 4.2.
_SEARCH_NOTE = (
    "Median, maximum and minimum are over the combinations of settings of a search. The value of a\n"
    "combination is the mean over its seeds of the mean return over the last tenth of a run. Rows without a\n"
    "best one are from Table 2 of the SEED RL paper."
)


def search_table(groups: Sequence[Group], label: str | None = None) -> Table:
    """Table 2: the median and the maximum over the combinations of settings of each search on each game.

    Args:
      groups: what `gather` has found, measured by its return.
      label: names from the user; see `searches`, which also says what is raised.
    """
    found = searches(groups, label)
    rows: list[dict[str, Any]] = []
    for task, title in task_labels(by_task(groups)).items():
        for search in found:
            if ranked := search.on(task):
                finals = [group.final for group in ranked]
                rows.append(
                    {
                        "task": title,
                        "agent": search.name,
                        "combinations": len(ranked),
                        "seeds": span([len(group.runs) for group in ranked]),
                        "median": float(np.median(finals)),
                        "maximum": finals[0],
                        "minimum": finals[-1],
                        "best": _varied(ranked[0], ranked),
                        "worst": _varied(ranked[-1], ranked),
                    }
                )
        if (task.environment, task.game) == _FOOTBALL_MATCH:
            rows += _published_scores(title)
    numbers = {name: cell(name, ",.2f") for name in ("median", "maximum", "minimum")}
    columns = {
        **{name: cell(name) for name in ("task", "agent", "combinations", "seeds")},
        **numbers,
        **{name: cell(name) for name in ("best", "worst")},
    }
    return Table(rows, columns, ("task", "agent", "best", "worst"), _SEARCH_NOTE)


def _published_scores(task: str) -> list[dict[str, Any]]:
    """The paper's Table 2, with the columns of `search_table`: score differences in Football's hard match."""
    return [
        dict.fromkeys(("minimum", "best", "worst"))
        | {
            "task": task,
            "agent": f"{row.architecture}, {row.model}, {row.accelerators} {row.accelerator}, {row.rewards}",
            "seeds": "3",
            "combinations": None if row.median is None else _COMBINATIONS,
            "median": row.median,
            "maximum": row.maximum,
        }
        for row in tables.read("seed/table_2")
    ]


def _varied(group: Group, ranked: Sequence[Group]) -> str:
    """The settings of a combination that the others of its search do not all have."""
    common = set.intersection(*(set(other.variant.settings) for other in ranked))
    return settings_text(dict(setting for setting in group.variant.settings if setting not in common))


_PUBLISHED = {
    "random": "random",
    "human": "human",
    "r2d2": "R2D2, published",
    "seed_8_tpu_v3": "SEED, published",
}
_NORMALIZED = "{}, % of human"
_ATARI_NOTE = (
    "Returns of runs are means over seeds: of their last evaluations (seed_rl evaluate) where all seeds\n"
    "have one, else of the last tenth of training. 0% is the score of a random policy, 100% a human's. R2D2\n"
    "(3 seeds) and SEED (1 seed, 40e9 environment frames, 200 episodes) are from the paper's Table 10."
)


def atari_table(groups: Sequence[Group], label: str | None = None) -> Table:
    """Table 10: each game's published scores and the last return of each variant; then medians and means.

    All of Atari-57 is in the table if a run plays an Atari game, with empty cells where there is no run.
    Medians and means are of human-normalized scores: over all games, and over those that all variants played.

    Args:
      groups: what `gather` has found, measured by its return.
      label: names from the user; see `variant_labels`, which also says what is raised.

    Raises:
      ValueError: a name is that of another column; the message is one sentence.
    """
    names = variant_labels(groups, label)
    variants = list(names.values())
    if taken := {"game", *_PUBLISHED} & set(variants):
        raise ValueError(f"Table 10 has another column named {min(taken)}; choose other names with --label.")
    finals: defaultdict[Task, dict[str, float]] = defaultdict(dict)
    for group in groups:
        finals[group.task][names[group.variant]] = _evaluated(group)
    left = task_labels(by_task(groups))
    by_key = {game_key(task.game or ""): task for task in left if task.environment == "atari"}
    rows: list[dict[str, Any]] = []
    for game, scores in published_games("atari").items() if by_key else ():
        if task := by_key.get(game_key(game)):
            del left[task]
        rows.append(_game_row(game, scores, finals[task] if task else {}, variants))
    summary = _summary(rows, variants)
    for task, title in left.items():
        known = published_scores(*task)
        rows.append(_game_row(title, known._asdict() if known else {}, finals[task], variants))
    rows += summary
    columns = {"game": cell("game")}
    columns |= {_PUBLISHED.get(name, name): cell(name, ",.1f") for name in rows[0] if name != "game"}
    return Table(rows, columns, ("game",), _ATARI_NOTE)


def _evaluated(group: Group) -> float:
    """The mean over runs of the last evaluation if each has one, else of the end of training."""
    found = [last_evaluation(run.record.logdir, run.record.environment_settings) for run in group.runs]
    means = [mean for mean in found if mean is not None]
    return float(np.mean(means)) if len(means) == len(found) else group.final


def _game_row(
    game: str, scores: Mapping[str, float], ours: Mapping[str, float], variants: Sequence[str]
) -> dict[str, Any]:
    row: dict[str, Any] = {"game": game, **{name: scores.get(name) for name in _PUBLISHED}}
    for variant in variants:
        row[variant] = value = ours.get(variant)
        is_known = value is not None and "human" in scores
        row[_NORMALIZED.format(variant)] = _normalized(row, value) if is_known else None
    return row


def _normalized(row: Mapping[str, Any], value: Any) -> float:
    return Scores(row["random"], row["human"]).human_normalized(value)


def _summary(rows: Sequence[Mapping[str, Any]], variants: Sequence[str]) -> list[dict[str, Any]]:
    """Medians and means, in percent of a human's, over all games and over those that all variants played.

    A variant that has played none of these games, but others, does not count.
    """
    here = [variant for variant in variants if any(row[variant] is not None for row in rows)]
    played = [row for row in rows if all(row[variant] is not None for variant in here)]
    found = []
    for some in [rows, played] if len(played) < len(rows) else [rows]:
        if not some:
            continue
        for word, statistic in (("median", np.median), ("mean", np.mean)):
            summary: dict[str, Any] = dict.fromkeys(rows[0])
            summary["game"] = f"{word} of {'all ' * (some is rows)}{len(some)} games, % of human"
            for name in ("r2d2", "seed_8_tpu_v3"):
                summary[name] = float(statistic([_normalized(row, row[name]) for row in some]))
            for name in map(_NORMALIZED.format, variants):
                mine = [row[name] for row in some]
                summary[name] = None if None in mine else float(statistic(mine))
            found.append(summary)
    return found
