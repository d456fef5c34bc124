"""Writes docs/scores.md, its plots, and README's table from the records of training runs.

    python -m benchmarks scores

A record is what benchmarks.learning keeps of a run of a suite. No figure is written by hand.
"""

import re
import string
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.harness import ROOT, markdown, read_metrics
from benchmarks.learning_runs import Progress, progress
from benchmarks.suites import SUITES, goal, protocol
from seed_rl.files import write_atomically
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.options import Options
from seed_rl.plotting.groups import RunGroup, Variant, by_task, gather, variant_labels
from seed_rl.plotting.lines import FEWEST_SEEDS, band, interquartile_mean
from seed_rl.plotting.picture import draw_runs
from seed_rl.runs.scores import published_scores

RECORDS = ROOT / "docs" / "records"

_HEAD = """# Scores

`python -m benchmarks scores` has written this page from the records in `docs/records`. `seed_rl plot` and
`seed_rl report` read those as they read run directories.

A return is the mean over the last 100 episodes of training, or, if the run evaluates, over the last 20 in
evaluation (CrossQ: 5). The interval is the bootstrap's 95% interval of the mean over seeds, from three seeds
on. Partway is the mean return after so many frames of the same runs. End/best is the return at the end as a
share of the best one, of the seed where that is lowest. Frames are environment frames, and minutes those of
training.
"""

_COLUMNS = (
    "task",
    "agent",
    "seeds",
    "return at the end",
    "mean return",
    "partway",
    "end/best",
    "goal",
    "until the goal",
    "million frames",
    "minutes",
    "frames/s",
    "machine",
)
# README has a part of them, without the runs that a preset was chosen from.
_README_COLUMNS = ("task", "agent", "mean return", "million frames", "minutes")
_NOT_IN_README = "study"
_TABLE = re.compile(r"(<!-- benchmarks.scores writes this table -->\n).*?(?=<!-- end of the table -->)", re.S)


class _Seed(NamedTuple):
    """A run: its seed, what it reached, its return partway (NaN if it has none), and its machine."""

    seed: int
    found: Progress
    partway: float
    machine: str


def main(argv: list[str]) -> int:
    """Writes the page."""
    parse_options(argv, __doc__ or "", Options)
    write(RECORDS)
    return 0


def write(records: Path) -> None:
    """Writes scores.md and its plots beside the directory of the records, and the table of a README above.

    Raises:
      UsageError: there are no records, or one cannot be read.
    """
    suites = [suite for suite in SUITES if (records / suite).is_dir()]
    if not suites:
        raise UsageError(f"{records} has no records; python -m benchmarks learning --suite=SUITE makes them.")
    page, machines = records.with_name("scores.md"), dict[str, str]()
    text, summary = _HEAD, list[dict[str, str]]()
    for suite in suites:
        with usage_errors():
            found = gather([records / suite])
        if found.skipped:
            raise UsageError(" ".join(found.skipped))
        names = variant_labels(found.groups)
        rows = _rows(found.groups, names, SUITES[suite].partway, machines)
        picture = page.with_name(f"scores_{suite}.png")
        draw_runs([records / suite], picture)
        text += _section(suite, rows, _aggregate(found.groups, names), picture)
        summary += [] if suite == _NOT_IN_README else rows
    text += "\n## Machines\n\n" + "".join(f"* {letter}: {name}\n" for name, letter in machines.items())
    write_atomically(page, text)
    print(f"Wrote {page}")
    _write_readme(page.parent.with_name("README.md"), summary)


def _write_readme(readme: Path, rows: Sequence[dict[str, str]]) -> None:
    """Replaces the table of a README that has a place for it."""
    if not readme.exists():
        return
    text = readme.read_text(encoding="utf-8")
    table = _table(_README_COLUMNS, rows)
    replaced = _TABLE.sub(lambda found: f"{found[1]}\n{table}\n", text)
    if replaced != text:
        write_atomically(readme, replaced)
        print(f"Wrote the table of {readme}")


def _section(suite: str, rows: Sequence[dict[str, str]], aggregate: str, picture: Path) -> str:
    command = f"python -m benchmarks learning --suite={suite}"
    plot = f"![Mean returns of the suite {suite} over frames]({picture.name})"
    about = "".join(f"\n{line}" for line in textwrap.wrap(SUITES[suite].about, 110))
    columns = [name for name in _COLUMNS if name != "partway" or SUITES[suite].partway]
    return f"\n## {suite}\n{about}\n\n    {command}\n\n{_table(columns, rows)}{aggregate}\n{plot}\n"


def _table(columns: Sequence[str], rows: Sequence[dict[str, str]]) -> str:
    return markdown(columns, [[row[name] for name in columns] for row in rows])


def _rows(
    groups: Sequence[RunGroup], names: Mapping[Variant, str], partway: int | None, machines: dict[str, str]
) -> list[dict[str, str]]:
    """The cells of a suite's table by column; new machines get the next letters."""
    rows = []
    for task, several in by_task(groups).items():
        for group in several:
            record = group.runs[0].record
            mark = goal(record)
            seeds = sorted(_seeds(group, mark, partway))
            letters = {
                machines.setdefault(one.machine, string.ascii_uppercase[len(machines)]) for one in seeds
            }
            played = ", ".join(filter(None, (": ".join(filter(None, task)), protocol(record))))
            who = [played, names[group.variant]]
            cells = [*who, *_cells(seeds, mark, partway), ", ".join(sorted(letters))]
            rows.append(dict(zip(_COLUMNS, cells, strict=True)))
    return rows


def _seeds(group: RunGroup, mark: float | None, partway: int | None) -> list[_Seed]:
    found = []
    for run in group.runs:
        until = run.curve.env_frames <= (partway or 0)
        found.append(
            _Seed(
                run.record.learner_settings["seed"],
                progress(read_metrics(run.record.logdir), mark),
                float(run.curve.value[until][-1]) if until.any() else np.nan,
                run.record.processor or "not recorded",
            )
        )
    return found


def _cells(seeds: Sequence[_Seed], mark: float | None, partway: int | None) -> list[str]:
    """The columns from seeds to frames/s."""
    runs = [one.found for one in seeds]
    finals = [np.nan if run.final is None else run.final for run in runs]
    shares = [run.final / run.best for run in runs if run.final is not None and run.best and run.best > 0]
    return [
        ", ".join(str(one.seed) for one in seeds),
        "; ".join(map(_number, finals)),
        _mean(finals),
        f"{_mean([one.partway for one in seeds])} at {partway / 1e6:g}M" if partway else "",
        f"{min(shares):.2f}" if shares else "",
        "" if mark is None else _number(mark),
        "" if mark is None else "; ".join(map(_until_mark, runs)),
        f"{np.mean([run.frames for run in runs]) / 1e6:.3g}",
        "; ".join(f"{run.seconds / 60:.1f}" for run in runs),
        f"{sum(run.frames for run in runs) / max(sum(run.seconds for run in runs), 1e-9):,.0f}",
    ]


def _mean(values: Sequence[float]) -> str:
    """The mean over seeds with its interval or, where seeds are too few for one, with their number."""
    low, high = band([np.array(values)[:, np.newaxis]], np.mean)
    seeds = f"{len(values)} seed{'s' * (len(values) > 1)}"
    about = seeds if low is None or high is None else f"{_number(low[0])} to {_number(high[0])}"
    return f"{_number(float(np.mean(values)))} ({about})"


def _until_mark(run: Progress) -> str:
    if run.frames_to_mark is None or run.seconds_to_mark is None:
        return "not reached"
    return f"{run.frames_to_mark / 1e6:.2f}M, {run.seconds_to_mark / 60:.1f} min"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _aggregate(groups: Sequence[RunGroup], names: Mapping[Variant, str]) -> str:
    """A sentence on the human-normalized returns of the games with three seeds; empty without two games."""
    games: dict[str, list[np.ndarray]] = {}
    for group in groups:
        scores = published_scores(*group.task)
        if scores is not None and len(group.runs) >= FEWEST_SEEDS:
            finals = [[scores.human_normalized(run.curve.value[-1])] for run in group.runs]
            games.setdefault(names[group.variant], []).append(np.array(finals))
    sentences = []
    for name, several in games.items():
        if len(several) < 2:
            continue
        middle = float(interquartile_mean(*several, axis=0)[0])
        low, high = band(several, interquartile_mean)
        assert low is not None
        assert high is not None
        sentences.append(
            f"\n{name}: the interquartile mean (IQM) of the human-normalized returns of {len(several)} games "
            f"and {sum(map(len, several))} runs is {middle:.0f}% (95% interval {low[0]:.0f}% to "
            f"{high[0]:.0f}%, stratified bootstrap)."
        )
    return "\n".join(sentences) + "\n" if sentences else ""
