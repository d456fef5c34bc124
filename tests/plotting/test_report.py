"""The table of runs, and the command that prints it."""

import csv
import io

import numpy as np
import pytest

from seed_rl.commands import report
from seed_rl.flags.errors import UsageError
from seed_rl.metrics.curves import curve, final_value, read_periods
from seed_rl.plotting.groups import gather
from seed_rl.plotting.run_tables import run_table
from seed_rl.runs.scores import published_scores
from tests.plotting.synthetic import write_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs")
    for seed in (1, 2, 3):
        frames = 1_000_000 * seed
        write_run(path / f"v{seed}", seed=seed, frames=frames, seconds=600.0 * seed, periods=20)
    write_run(path / "ppo", agent="ppo", frames=2_000_000, seconds=1000.0, periods=20)
    write_run(path / "catch", environment="catch", game=None, periods=20)
    write_run(path / "aborted", metrics=False)
    return path


def main(*args):
    return report.main(["report", *map(str, args)])


def test_a_row_per_group_with_means_over_its_seeds(runs):
    table = run_table(gather([runs]).groups).rows
    assert [(row["task"], row["agent"], row["seeds"]) for row in table] == [
        ("catch", "V-trace", 1),
        ("Pong", "PPO", 1),
        ("Pong", "V-trace", 3),
    ]
    row = table[2]
    assert (row["frames"], row["minutes"], row["frames_per_second"]) == pytest.approx((2e6, 20.0, 6e6 / 3600))
    curves = [curve(read_periods(runs / f"v{seed}"), "mean_return") for seed in (1, 2, 3)]
    finals = [final_value(found) for found in curves]
    assert row["last_return"] == pytest.approx(np.mean(finals))
    assert row["standard_error"] == pytest.approx(np.std(finals, ddof=1) / 3**0.5)
    assert row["best_return"] == pytest.approx(np.mean([max(found.value) for found in curves]))
    assert row["human_normalized"] == pytest.approx(
        published_scores("atari", "Pong").human_normalized(row["last_return"])
    )


def test_what_is_not_known_is_none(runs):
    catch, ppo, _ = run_table(gather([runs]).groups).rows
    assert catch["human_normalized"] is None and ppo["human_normalized"] is not None
    assert catch["standard_error"] is None


def test_markdown_is_a_table_with_aligned_columns(runs, capsys):
    assert main(runs) == 0
    said = capsys.readouterr()
    table = [line for line in said.out.splitlines() if line.startswith("|")]
    assert len(table) == 5 and len({len(line) for line in table}) == 1
    assert len({line.count("|") for line in table}) == 1
    assert "human normalized" in table[0] and "standard error" in table[0]
    assert str(runs / "aborted") in said.err


def test_a_column_without_figures_is_left_out(runs, capsys):
    assert main(runs / "catch") == 0
    assert "human normalized" not in capsys.readouterr().out.splitlines()[0]


def test_csv_has_all_figures(runs, capsys):
    assert main(runs, "--format=csv", "--label=Ours,Theirs") == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    table = run_table(gather([runs]).groups, "Ours,Theirs").rows
    assert [float(row["last_return"]) for row in found] == [row["last_return"] for row in table]
    assert sorted({row["agent"] for row in found}) == ["Ours", "Theirs"]
    assert found[0]["human_normalized"] == ""


@pytest.mark.parametrize(
    ("table", "heading"), [("1", "updates per second"), ("2", "median"), ("10", "SEED, published")]
)
def test_each_table_of_the_paper_is_printed_and_names_what_is_skipped(runs, capsys, table, heading):
    assert main(runs, f"--table={table}") == 0
    said = capsys.readouterr()
    assert heading in said.out.splitlines()[0] and str(runs / "aborted") in said.err
    assert main(runs, f"--table={table}", "--format=csv") == 0
    assert len(list(csv.DictReader(io.StringIO(capsys.readouterr().out)))) >= 3


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "No run is given"),
        (["{runs}/nothing"], "is not a directory"),
        (["{runs}/aborted"], "aborted"),
        (["{runs}/ppo", "--format=html"], "choose one of: markdown, csv"),
        (["{runs}/ppo", "--table=3"], "choose one of: 1, 2, 10"),
        (["{runs}/aborted", "--table=1"], "aborted"),
        (["{runs}/ppo", "--label=A,B"], "does not fit"),
    ],
)
def test_bad_use_is_one_sentence(runs, args, words):
    with pytest.raises(UsageError) as caught:
        main(*(arg.format(runs=runs) for arg in args))
    assert words in str(caught.value) and "\n" not in str(caught.value)
