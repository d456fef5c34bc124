"""Tables of runs: one row per group, or Tables 1, 2 and 10 of the SEED RL paper; as Markdown and as CSV.

Each one is made of `groups`, what `gather` has found, measured by the return (Table 1: by `updates`). `label`
are names from the user; see `variant_labels`, which also says what all of them raise.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from seed_rl.paper import tables
from seed_rl.plotting.groups import Group, Run, Task, by_task
from seed_rl.plotting.labels import searches, settings_text, span, task_labels, variant_labels
from seed_rl.runs.curves import last_evaluation
from seed_rl.runs.scores import Scores, game_key, published_games, published_scores

Row = Mapping[str, Any]


class Table(NamedTuple):
    """A table.

    Attributes:
      rows: values by column of the CSV, with all digits. The first row has all columns; those that another
        row lacks, or where it has None, are empty.
      columns: the columns to read, by heading: the text of a row's cell.
      words: headings of the columns that are aligned to the left; the others are numbers.
      note: text below the table that explains the figures.
    """

    rows: Sequence[Row]
    columns: Mapping[str, Callable[[Row], str]]
    words: Collection[str]
    note: str

    def as_csv(self) -> str:
        """The values of all rows."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(self.rows[0]), extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue()

    def as_markdown(self) -> str:
        """The table with aligned columns, and the note below it; columns without any text are left out."""
        lines: list[list[str]] = [[] for _ in range(2 + len(self.rows))]
        for name, text in self.columns.items():
            cells = [text(row).replace("|", r"\|") for row in self.rows]
            width, is_words = max(map(len, [name, *cells])), name in self.words
            rule = "-" * width if is_words else "-" * (width - 1) + ":"
            for line, cell in zip(lines, [name, rule, *cells] if any(cells) else (), strict=False):
                line.append(cell.ljust(width) if is_words else cell.rjust(width))
        return "\n".join([*(f"| {' | '.join(line)} |" for line in lines), "", self.note, ""])


def _cells(names: Iterable[str], form: str = "{}") -> dict[str, Callable[[Row], str]]:
    """Columns whose headings are their names in the CSV; `form` as in `_cell`."""
    return {name: _cell(name, form) for name in names}


def _cell(name: str, form: str = "{}") -> Callable[[Row], str]:
    """The text of one value of a row in a format such as `{:,.0f}`; empty for None."""
    return lambda row: "" if row.get(name) is None else form.format(row[name])


_RUNS_NOTE = (
    "Frames are environment frames. Frames, minutes and returns are means over seeds; ± is the standard\n"
    "error. The last return is the mean over the last tenth of a run; the best return is its highest period."
)


def run_table(groups: Sequence[Group], label: str | None = None) -> Table:
    """The table of groups, games in alphabetical order and groups in the order of their labels.

    `frames` (environment frames), `minutes` (of training), `last_return` (the mean over the last tenth of a
    run) and `best_return` (its highest period) are means over the runs of a group. `frames_per_second` are
    the frames of all runs by their seconds of training. `standard_error` is that of `last_return`, None for a
    single run. `human_normalized` is `last_return` in percent of the human score, None without a published
    one.
    """
    names = variant_labels(groups, label)
    order, tasks = list(names), by_task(groups)
    rows = [
        {"task": title, "agent": names[group.variant], **_run_row(group)}
        for task, title in task_labels(tasks).items()
        for group in sorted(tasks[task], key=lambda group: order.index(group.variant))
    ]
    columns = {
        **_cells(("task", "agent", "seeds")),
        "frames": _cell("frames", "{:,.0f}"),
        "minutes": _cell("minutes", "{:,.1f}"),
        "frames/s": _cell("frames_per_second", "{:,.0f}"),
        "last return": lambda row: f"{row['last_return']:,.2f}" + _cell("standard_error", " ± {:,.2f}")(row),
        "best return": _cell("best_return", "{:,.2f}"),
        "human-normalized": _cell("human_normalized", "{:,.1f}%"),
    }
    return Table(rows, columns, ("task", "agent"), _RUNS_NOTE)


def _run_row(group: Group) -> dict[str, Any]:
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
    "Table 1 of the SEED RL paper; their ratios compare with its own baselines."
)
_WARM_UP = 0.1  # The share of a run's seconds that is left out of its speed.
# These settings tell the rows of Table 1 apart, also where they are not part of the variant.
_OF_SPEED = ("num_envs", "training_devices", "inference_devices", "batch_size")


def speed_table(groups: Sequence[Group], label: str | None = None) -> Table:
    """Table 1: the speed of each variant in each suite, in the order in which the runs are given."""
    names = variant_labels(groups, label)
    alike: defaultdict[tuple[Any, ...], list[Run]] = defaultdict(list)
    for group in groups:
        for run in group.runs:
            settings = (run.record.learner_settings[name] for name in _OF_SPEED)
            alike[group.task.environment, names[group.variant], *settings].append(run)
    rows: list[Row] = []
    for suite in sorted({suite for suite, *_ in alike}):
        first = None
        for key, runs in alike.items():
            if key[0] == suite:
                frames, updates = _speed(runs)
                row = dict(zip(("suite", "agent", *_OF_SPEED), key, strict=True))
                row |= {"frames_per_second": frames, "updates_per_second": updates}
                rows.append(row | {"ratio": frames / first if first else None, "runs": len(runs)})
                first = frames if first is None else first
        rows += _published_speeds(suite)
    columns = {
        **_cells(("suite", "agent")),
        "training devices": _cell("training_devices"),
        "inference devices": _cell("inference_devices"),
        "environments": _cell("num_envs", "{:,}"),
        "batch size": _cell("batch_size", "{:,}"),
        "frames/s": _cell("frames_per_second", "{:,.0f}"),
        "updates/s": _cell("updates_per_second", "{:,.1f}"),
        "ratio": lambda row: _cell("ratio", "{:.2f}x")(row) or "—",
        "runs": _cell("runs"),
    }
    words = ("suite", "agent", "training devices", "inference devices")
    return Table(rows, columns, words, _SPEED_NOTE)


def _published_speeds(suite: str) -> list[Row]:
    """The suite's rows of the paper's Table 1, with columns of `speed_table`."""
    rows: list[Row] = []
    for row in tables.read("seed/table_1"):
        if row.suite == suite:
            devices, trains = f"{row.accelerators} {row.accelerator}", row.training_accelerators
            columns = {
                "suite": suite,
                "agent": f"{row.architecture}, {row.model} model",
                "num_envs": row.environments,
                "training_devices": f"{trains} of {devices}" if trains else devices,
                "inference_devices": "the others" if trains else "",
            }
            rows.append(vars(row) | columns)
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


_SEARCH_NOTE = (
    "Median, maximum and minimum are over the combinations of settings of a search. The value of a\n"
    "combination is the mean over its seeds of the mean return over the last tenth of a run. Rows without a\n"
    "best one are from Table 2 of the SEED RL paper."
)


def search_table(groups: Sequence[Group], label: str | None = None) -> Table:
    """Table 2: the median and the maximum over the combinations of settings of each search on each game."""
    found = searches(groups, label)
    rows: list[Row] = []
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
        if task == Task("football", "11_vs_11_hard_stochastic"):
            for row in tables.read("seed/table_2"):  # Score differences.
                devices = f"{row.accelerators} {row.accelerator}"
                agent = ", ".join([row.architecture, row.model, devices, row.rewards])
                count = None if row.median is None else 40  # Section 4.2.
                numbers = {"combinations": count, "median": row.median, "maximum": row.maximum}
                rows.append({"task": title, "agent": agent, "seeds": "3", **numbers})
    columns = {
        **_cells(("task", "agent", "combinations", "seeds")),
        **_cells(("median", "maximum", "minimum"), "{:,.2f}"),
        **_cells(("best", "worst")),
    }
    return Table(rows, columns, ("task", "agent", "best", "worst"), _SEARCH_NOTE)


def _varied(group: Group, ranked: Sequence[Group]) -> str:
    """The settings of a combination that the others of its search do not all have."""
    common = set.intersection(*(set(other.variant.settings) for other in ranked))
    return settings_text(dict(setting for setting in group.variant.settings if setting not in common))


# Headings of the columns of published scores.
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
        task = by_key.get(game_key(game), Task("atari", game))
        left.pop(task, None)
        rows.append(_game_row(game, scores, finals[task], variants))
    summary = _summary(rows, variants)
    for task, title in left.items():
        known = published_scores(*task)
        rows.append(_game_row(title, known._asdict() if known else {}, finals[task], variants))
    columns = _cells(("game",))
    columns |= {_PUBLISHED.get(name, name): _cell(name, "{:,.1f}") for name in rows[0] if name != "game"}
    return Table(rows + summary, columns, ("game",), _ATARI_NOTE)


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
        row[variant] = ours.get(variant)
        row[_NORMALIZED.format(variant)] = _normalized(row, variant)
    return row


def _normalized(row: Mapping[str, Any], name: str) -> float | None:
    """A column in percent of a human's score; None where the game has no such scores or the cell is empty."""
    if row[name] is None or row["human"] is None:
        return None
    return Scores(row["random"], row["human"]).human_normalized(row[name])


def _summary(rows: Sequence[Mapping[str, Any]], variants: Sequence[str]) -> list[dict[str, Any]]:
    """Medians and means, in percent of a human's, over all games and over those that all variants played.

    A variant that has played none of these games, but others, does not count.
    """
    here = [variant for variant in variants if any(row[variant] is not None for row in rows)]
    played = [row for row in rows if all(row[variant] is not None for variant in here)]
    # The column of each mean, and that of the values.
    columns = {"r2d2": "r2d2", "seed_8_tpu_v3": "seed_8_tpu_v3"}
    columns |= {_NORMALIZED.format(variant): variant for variant in variants}
    found = []
    for some in [rows, played] if len(played) < len(rows) else [rows]:
        for word, statistic in (("median", np.median), ("mean", np.mean)) if some else ():
            title = f"{word} of {'all ' * (some is rows)}{len(some)} games, % of human"
            summary: dict[str, Any] = {"game": title}
            for name, of in columns.items():
                mine = [value for row in some if (value := _normalized(row, of)) is not None]
                summary[name] = float(statistic(mine)) if len(mine) == len(some) else None
            found.append(summary)
    return found
