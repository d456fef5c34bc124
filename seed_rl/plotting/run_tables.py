"""Tables of runs: one row per group, or Tables 1, 2 and 10 of the SEED RL paper; as Markdown and as CSV.

Each one is made of `groups`, what `gather` has found, measured by the return (Table 1: by `updates`). Without
any, the paper's tables have its rows alone. `label` are names from the user; see `variant_labels`, which also
says what all of them raise.
"""

import contextlib
import csv
import io
from collections import defaultdict
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from seed_rl.files import parse_json
from seed_rl.paper import tables
from seed_rl.plotting.groups import (
    GameTask,
    RunCurve,
    RunGroup,
    by_task,
    searches,
    setting_text,
    span,
    task_labels,
    variant_labels,
)
from seed_rl.runs.layout import RunDirectory
from seed_rl.runs.record import RunRecord
from seed_rl.runs.scores import Scores, game_key, published_games, published_scores

Row = Mapping[str, Any]


class Table(NamedTuple):
    """A table, and the text below it that explains the figures.

    The rows are values by column. The first one has all columns; those that another row lacks, or where it
    has None, are empty.
    """

    rows: Sequence[Row]
    note: str

    def as_csv(self) -> str:
        """The values of all rows, with all digits."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self.rows[0]), extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()

    def as_markdown(self) -> str:
        """The table with aligned columns, and the note below it; columns without any text are left out."""
        lines: list[list[str]] = [[] for _ in range(2 + len(self.rows))]
        for name in self.rows[0]:
            values = [row.get(name) for row in self.rows]
            cells, heading = [_cell(value) for value in values], name.replace("_", " ")
            width, is_text = max(map(len, [heading, *cells])), any(isinstance(value, str) for value in values)
            rule = "-" * width if is_text else "-" * (width - 1) + ":"
            for line, cell in zip(lines, [heading, rule, *cells] if any(cells) else (), strict=False):
                line.append(cell.ljust(width) if is_text else cell.rjust(width))
        return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", self.note, ""])


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value or "").replace("|", r"\|")


_RUNS_NOTE = (
    "Frames are environment frames. Frames, minutes and returns are means over seeds. The last return, with\n"
    "its standard error and human-normalized in percent, is the mean over the last tenth of a run; the best\n"
    "return is its highest period."
)


def run_table(groups: Sequence[RunGroup], label: str | None = None) -> Table:
    """The table of groups, games in alphabetical order and groups in the order in which they are named.

    `minutes` are of training, and `frames_per_second` the frames of all runs by their seconds of training.
    `standard_error` is None for a single run, and `human_normalized` without a published human score.
    """
    names = variant_labels(groups, label)
    tasks = by_task(groups)
    rows = [
        {"task": title, "agent": names[group.variant], **_run_row(group)}
        for task, title in task_labels(tasks).items()
        for group in tasks[task]
    ]
    return Table(rows, _RUNS_NOTE)


def _run_row(group: RunGroup) -> dict[str, Any]:
    frames = np.array([run.curve.env_frames[-1] for run in group.runs])
    seconds = np.array([run.curve.seconds[-1] for run in group.runs])
    count, scores = len(group.runs), published_scores(*group.task)
    return {
        "seeds": count,
        "frames": float(frames.mean()),
        "minutes": float(seconds.mean()) / 60,
        "frames_per_second": float(frames.sum() / max(seconds.sum(), 1e-9)),
        "last_return": group.final,
        "standard_error": float(np.std(group.finals, ddof=1) / np.sqrt(count)) if count > 1 else None,
        "best_return": float(np.mean([run.curve.value.max() for run in group.runs])),
        "human_normalized": scores.human_normalized(group.final) if scores else None,
    }


_SPEED_NOTE = (
    "Environment frames and updates per second, without the first tenth of each run. The ratio compares\n"
    "frames/s with the suite's first row, which is of the run that is named first. Rows without runs are\n"
    "Table 1 of the SEED RL paper; their ratios compare with its own baselines, and are recomputed from its\n"
    "speeds."
)
_WARM_UP = 0.1  # The share of a run's seconds that is left out of its speed.
# These settings tell the rows of Table 1 apart, also where they are not part of the variant.
_OF_SPEED = ("num_envs", "training_devices", "inference_devices", "batch_size")


def speed_table(groups: Sequence[RunGroup], label: str | None = None) -> Table:
    """Table 1: the speed of each variant in each suite, in the order in which the runs are given."""
    names = variant_labels(groups, label)
    alike: defaultdict[tuple[Any, ...], list[RunCurve]] = defaultdict(list)
    for group in groups:
        for run in group.runs:
            settings = (run.record.learner_settings[name] for name in _OF_SPEED)
            alike[group.task.environment, names[group.variant], *settings].append(run)
    rows: list[Row] = []
    published = tables.read("seed/table_1")
    for suite in sorted({suite for suite, *_ in alike} or {row.suite for row in published}):
        first = None
        for key, runs in alike.items():
            if key[0] == suite:
                frames, updates = _speed(runs)
                row = dict(zip(("suite", "agent", *_OF_SPEED), key, strict=True))
                row |= {"frames_per_second": frames, "updates_per_second": updates}
                ratio = {"ratio": frames / first if first else None, "recomputed_ratio": None}
                rows.append(row | ratio | {"runs": len(runs)})
                first = frames if first is None else first
        rows += [_published_speed(row, published) for row in published if row.suite == suite]
    return Table(rows, _SPEED_NOTE)


def _published_speed(row: SimpleNamespace, published: Sequence[SimpleNamespace]) -> Row:
    """A row of the paper's Table 1 with the columns of `speed_table`."""
    devices, trains = f"{row.accelerators} {row.accelerator}", row.training_accelerators
    first = next(other for other in published if (other.suite, other.model) == (row.suite, row.model))
    return {
        "suite": row.suite,
        "agent": f"{row.architecture}, {row.model} model",
        "num_envs": row.environments,
        "training_devices": f"{trains} of {devices}" if trains else devices,
        "inference_devices": "the others" if trains else "",
        **{name: getattr(row, name) for name in ("batch_size", "actor_cpus", "frames_per_second", "ratio")},
        "recomputed_ratio": None if row is first else row.frames_per_second / first.frames_per_second,
    }


def _speed(runs: Sequence[RunCurve]) -> tuple[float, float]:
    """Environment frames and updates per second of all runs, once they are under way."""
    done = np.zeros(3)
    for run in runs:
        curve = np.stack([run.curve.env_frames, run.curve.value, run.curve.seconds])  # [3, N]
        begin = int(np.searchsorted(run.curve.seconds, _WARM_UP * run.curve.seconds[-1]))
        is_long = begin < curve.shape[1] - 1
        done += curve[:, -1] - (curve[:, begin] if is_long else 0.0)
    frames, updates = done[:2] / max(done[2], 1e-9)
    return float(frames), float(updates)


_SEARCH_NOTE = (
    "Median, maximum and minimum are over the combinations of settings of a search. The value of a\n"
    "combination is the mean over its seeds of the mean return over the last tenth of a run. Rows without a\n"
    "best one are from Table 2 of the SEED RL paper."
)


def search_table(groups: Sequence[RunGroup], label: str | None = None) -> Table:
    """Table 2: the median and the maximum over the combinations of settings of each search on each game."""
    rows: list[Row] = []
    found = searches(groups, label)
    hard_match = GameTask("football", "11_vs_11_hard_stochastic")
    for task, title in task_labels(by_task(groups) or [hard_match]).items():
        for name, several in found.items():
            ranked = [group for group in several if group.task == task]
            finals = [group.final for group in ranked]
            if ranked:
                numbers = {"median": float(np.median(finals)), "maximum": finals[0], "minimum": finals[-1]}
                extremes = {"best": _varied(ranked[0], ranked), "worst": _varied(ranked[-1], ranked)}
                seeds = span([len(group.runs) for group in ranked])
                counts = {"combinations": len(ranked), "seeds": seeds}
                rows.append({"task": title, "agent": name, **counts, **numbers, **extremes})
        if task == hard_match:
            for row in tables.read("seed/table_2"):  # Score differences.
                devices = f"{row.accelerators} {row.accelerator}"
                agent = ", ".join([row.architecture, row.model, devices, row.rewards])
                count = None if row.median is None else 40  # Section 4.2.
                values = {"combinations": count, "median": row.median, "maximum": row.maximum}
                rows.append({"task": title, "agent": agent, "seeds": "3", **values})
    return Table(rows, _SEARCH_NOTE)


def _varied(group: RunGroup, ranked: Sequence[RunGroup]) -> str:
    """The settings of a combination that the others of its search do not all have."""
    common = set.intersection(*(set(other.variant.settings) for other in ranked))
    return ", ".join(setting_text(*setting) for setting in group.variant.settings if setting not in common)


# The agents whose returns are published, by column of the published scores.
_PUBLISHED = {"r2d2": "R2D2, published", "seed_8_tpu_v3": "SEED, published"}
_ATARI_NOTE = (
    "Returns of runs are means over seeds: of their last evaluations (seed_rl evaluate) where all seeds\n"
    "have one, else of the last tenth of training. 0% is the score of a random policy, 100% a human's. R2D2\n"
    "(3 seeds) and SEED (1 seed, 40e9 environment frames, 200 episodes) are from the paper's Table 10."
)


def atari_table(groups: Sequence[RunGroup], label: str | None = None) -> Table:
    """Table 10: each game's published scores and the last return of each variant; then medians and means.

    All of Atari-57 is in the table if a run plays an Atari game, with empty cells where there is no run.
    Medians and means are of human-normalized scores: over all games, and over those that all variants played.

    Raises:
      ValueError: a name is that of another column; the message is one sentence.
    """
    names = variant_labels(groups, label)
    agents = [*_PUBLISHED.values(), *names.values()]
    if taken := {"game", "random", "human", *_PUBLISHED.values()} & set(names.values()):
        raise ValueError(f"Table 10 has another column named {min(taken)}; choose other names with --label.")
    returns: defaultdict[GameTask, dict[str, float]] = defaultdict(dict)
    for group in groups:
        returns[group.task][names[group.variant]] = _evaluated(group)
    titles = task_labels(by_task(groups))
    ours = {game_key(task.game or ""): task for task in titles if task.environment == "atari"}
    in_print: dict[GameTask, str] = {}
    for game, scores in published_games("atari").items() if ours or not groups else ():
        task = ours.get(game_key(game), GameTask("atari", game))
        in_print[task] = game
        returns[task] |= {agent: scores[column] for column, agent in _PUBLISHED.items()}
    rows = [
        _game_row(title, published_scores(*task), returns[task], agents)
        for task, title in (in_print | {t: name for t, name in titles.items() if t not in in_print}).items()
    ]
    return Table([*rows, *_summary(rows[: len(in_print)], agents)], _ATARI_NOTE)


def _evaluated(group: RunGroup) -> float:
    """The mean over runs of the last evaluation if each has one, else of the end of training."""
    means = [_last_evaluation(run.record) for run in group.runs]
    found = [mean for mean in means if mean is not None]
    return float(np.mean(found)) if len(found) == len(means) else group.final


def _last_evaluation(run: RunRecord) -> float | None:
    """The mean return of a run's evaluation (`seed_rl evaluate`) after the most training.

    None if there is none. Those of a single episode, or with other settings of the environment, do not count.
    """
    found: list[tuple[float, float]] = []
    for path in RunDirectory(run.logdir).evaluations.glob("*.json"):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):  # Somebody else's file.
            results = parse_json(path.read_text(encoding="utf-8"))
            if results["environment"]["settings"] == run.environment_settings and len(results["returns"]) > 1:
                found.append((float(results["env_frames"]), float(np.mean(results["returns"]))))
    return max(found)[1] if found else None


_PERCENT = "{}, % of human".format


def _game_row(game: str, scores: Scores | None, returns: Mapping[str, float], agents: Sequence[str]) -> Row:
    """The known scores of a game, and the return of each agent as it is and human-normalized."""
    row: dict[str, Any] = {"game": game, "random": scores and scores.random, "human": scores and scores.human}
    for agent in agents:
        value = row[agent] = returns.get(agent)
        row[_PERCENT(agent)] = None if scores is None or value is None else scores.human_normalized(value)
    return row


def _summary(rows: Sequence[Row], agents: Sequence[str]) -> list[Row]:
    """Medians and means of human-normalized returns, over all games and over those that all agents played.

    An agent that has played none of these games, but others, does not count.
    """
    here = [agent for agent in agents if any(row[agent] is not None for row in rows)]
    played = [row for row in rows if all(row[agent] is not None for agent in here)]
    found: list[Row] = []
    for some in [rows, played] if len(played) < len(rows) else [rows]:
        for word, statistic in (("median", np.median), ("mean", np.mean)) if some else ():
            summary = {"game": f"{word} of {'all ' * (some is rows)}{len(some)} games, % of human"}
            values = {name: [row[name] for row in some] for name in map(_PERCENT, agents)}
            found.append(summary | {n: None if None in v else float(statistic(v)) for n, v in values.items()})
    return found
