"""The commands that plot runs and report on them: files, messages and refusals."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

from seed_rl.commands import doctor, plot, report
from seed_rl.flags.errors import UsageError
from seed_rl.metrics.curves import curve, final_value, read_periods
from seed_rl.plotting.groups import gather
from seed_rl.plotting.run_tables import run_table
from seed_rl.runs.scores import published_scores
from tests.plotting.synthetic import write_run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs")
    for seed in (1, 2, 3):
        frames = 1_000_000 * seed
        write_run(path / f"v{seed}", seed=seed, frames=frames, seconds=600.0 * seed, periods=20)
    write_run(path / "ppo", agent="ppo", frames=2_000_000, seconds=1000.0, periods=20)
    write_run(path / "other" / "catch", environment="catch", game=None, periods=20)
    write_run(path / "other" / "aborted", metrics=False)
    (path / "empty").mkdir()
    return path


def main(command, *args):
    return command.main([command.__name__, *map(str, args)])


# Of arguments, `new` is a path of which nothing is there.
REFUSED = [
    (plot, [], "No run is given"),
    (plot, ["--output={new}"], "No run is given"),
    (plot, ["{runs}/v1", "--output={runs}/new.jpg"], "must end in one of: .png, .svg, .pdf"),
    (plot, ["{runs}/v1", "--output={runs}/new"], "must end in one of: .png, .svg, .pdf"),
    (plot, ["{runs}/v1", "--output={runs}/v1/run.json/new.png"], "cannot be written"),
    (plot, ["{runs}/nothing", "--output={new}"], "is not a directory"),
    (plot, ["{runs}/v1/run.json"], "is not a directory"),
    (plot, ["{runs}/empty"], "contains no run.json, and neither does"),
    (plot, ["{runs}/" + 300 * "x"], "cannot be read (File name too long)"),
    (plot, ["{runs}/v1", "--style=bars"], "choose one of: curves, best, aggregate, sorted"),
    (plot, ["{runs}/v1", "--style=aggregate", "--metric=entropy"], "--metric=entropy cannot be normalized"),
    (plot, ["{runs}/v1", "--output={new}", "--smooth=3"], "Unknown flag --smooth"),
    (report, [], "No run is given"),
    (report, ["{runs}/nothing"], "is not a directory"),
    (report, ["{runs}/other/aborted"], "aborted"),
    (report, ["{runs}/ppo", "--format=html"], "choose one of: markdown, csv"),
    (report, ["{runs}/ppo", "--table=6"], "choose one of: 1, 2, 3, 4, 5, 10, 11, 12, 13"),
    (report, ["{runs}/ppo", "--table=4"], "no results of python -m benchmarks impala"),
    (report, ["{runs}/nothing", "--table=13"], "no results of python -m benchmarks impala"),
    (report, ["{runs}/v1/run.json", "--table=5"], "no results of python -m benchmarks impala"),
    (report, ["{runs}/v1/run.json", "--table=10"], "is not a directory"),
    (report, ["{runs}/v1", "{runs}/v2", "--table=11"], "takes one file of figures"),
    (report, ["--table=12", "--label=A"], "and no --label"),
    (report, ["--table=1", "--label=A"], "No run is given"),
    (report, ["{runs}/other/aborted", "--table=1"], "aborted"),
    (report, ["{runs}/ppo", "--label=A,B"], "does not fit"),
    (doctor, [], "No run is given"),
    (doctor, ["{runs}"], "contains no run.json, so it is not a run directory"),
    (doctor, ["{runs}/nothing"], "is not a directory"),
    (doctor, ["{runs}/v1", "{runs}/v2"], "is one too many"),
    (doctor, ["{runs}/v1", "--life"], "--life"),
]


@pytest.mark.parametrize(("command", "args", "words"), REFUSED)
def test_bad_use_is_one_sentence_and_writes_nothing(runs, tmp_path, command, args, words):
    before = sorted(runs.rglob("*"))
    with pytest.raises(UsageError) as caught:
        main(command, *(arg.format(runs=runs, new=tmp_path / "new.png") for arg in args))
    assert words in str(caught.value) and "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []
    assert sorted(runs.rglob("*")) == before


@pytest.mark.parametrize(
    ("style", "ending", "start"), [("curves", "png", b"\x89PNG"), ("sorted", "SVG", b"<?xml")]
)
def test_a_plot_is_written_and_what_is_in_it_and_what_is_skipped_is_said(
    runs, tmp_path, capsys, style, ending, start
):
    path = tmp_path / "new" / f"picture.{ending}"
    assert main(plot, runs, f"--style={style}", f"--output={path}") == 0
    said = capsys.readouterr()
    content = path.read_bytes()
    assert content.startswith(start) and len(content) > 5000
    assert said.out == f"Drew 5 runs in 3 groups: {path}\n"
    assert str(runs / "other" / "aborted") in said.err and said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("names", "place"),
    [(["a/x"], "a/x"), (["a"], "a"), (["a/x", "a/y"], "a"), (["a/x", "b/x"], "."), (["a/x", "a/x"], "a/x")],
)
def test_without_an_output_the_plot_is_beside_the_runs(tmp_path, monkeypatch, capsys, names, place):
    for seed, name in enumerate(("a/x", "a/y", "b/x")):
        write_run(tmp_path / name, seed=seed, periods=3)
    monkeypatch.chdir(tmp_path)
    (tmp_path / place / "plot.png").write_text("an earlier one, which is replaced")
    assert main(plot, *names) == 0
    assert capsys.readouterr().out.endswith(f": {Path(place) / 'plot.png'}\n")
    assert (tmp_path / place / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*.png")] == [Path(place) / "plot.png"]


def test_runs_with_nothing_in_common_are_plotted_in_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert plot.default_output(["/one/run", "/other/run"]) == Path("plot.png")


def test_what_is_there_is_written_over_only_when_asked(runs, tmp_path):
    path = tmp_path / "picture.pdf"
    path.write_text("precious")
    with pytest.raises(UsageError, match="already exists; add --overwrite"):
        main(plot, runs / "v1", f"--output={path}")
    assert path.read_text() == "precious"
    assert main(plot, runs / "v1", f"--output={path}", "--overwrite") == 0
    assert path.read_bytes().startswith(b"%PDF")


def test_a_missing_package_is_named_with_its_extra(runs, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"\[plot\]'"):
        main(plot, runs / "v1")


def test_a_row_per_group_has_means_over_its_seeds_and_none_for_what_is_not_known(runs):
    catch, ppo, row = run_table(gather([runs]).groups).rows
    found = [(each["task"], each["agent"], each["seeds"]) for each in (catch, ppo, row)]
    assert found == [("catch", "V-trace", 1), ("Pong", "PPO", 1), ("Pong", "V-trace", 3)]
    assert (row["frames"], row["minutes"], row["frames_per_second"]) == pytest.approx((2e6, 20.0, 6e6 / 3600))
    curves = [curve(read_periods(runs / f"v{seed}"), "mean_return") for seed in (1, 2, 3)]
    finals = [final_value(found) for found in curves]
    assert row["last_return"] == pytest.approx(np.mean(finals))
    assert row["standard_error"] == pytest.approx(np.std(finals, ddof=1) / 3**0.5)
    assert row["best_return"] == pytest.approx(np.mean([max(found.value) for found in curves]))
    scores = published_scores("atari", "Pong")
    assert row["human_normalized"] == pytest.approx(scores.human_normalized(row["last_return"]))
    assert catch["human_normalized"] is None and catch["standard_error"] is None


def test_markdown_is_a_table_with_aligned_columns(runs, capsys):
    assert main(report, runs) == 0
    said = capsys.readouterr()
    table = [line for line in said.out.splitlines() if line.startswith("|")]
    assert len(table) == 5 and len({(len(line), line.count("|")) for line in table}) == 1
    assert "human normalized" in table[0] and "standard error" in table[0]
    assert str(runs / "other" / "aborted") in said.err
    assert main(report, runs / "other") == 0  # A column without figures is left out.
    assert "human normalized" not in capsys.readouterr().out.splitlines()[0]


def test_csv_has_all_figures(runs, capsys):
    assert main(report, runs, "--format=csv", "--label=Ours,Theirs") == 0
    found = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    table = run_table(gather([runs]).groups, "Ours,Theirs").rows
    assert [float(row["last_return"]) for row in found] == [row["last_return"] for row in table]
    assert sorted({row["agent"] for row in found}) == ["Ours", "Theirs"]
    assert found[0]["human_normalized"] == ""


@pytest.mark.parametrize(
    ("table", "heading"), [("1", "updates per second"), ("2", "median"), ("10", "SEED, published")]
)
def test_each_table_of_runs_is_printed_and_names_what_is_skipped(runs, capsys, table, heading):
    assert main(report, runs, f"--table={table}") == 0
    said = capsys.readouterr()
    assert heading in said.out.splitlines()[0] and "aborted" in said.err
    assert main(report, runs, f"--table={table}", "--format=csv") == 0
    assert len(list(csv.DictReader(io.StringIO(capsys.readouterr().out)))) >= 3


@pytest.mark.parametrize(
    ("table", "rows", "heading"),
    [
        *(("1", 15, "recomputed ratio"), ("2", 12, "maximum"), ("3", 3, "recomputed dollars per hour")),
        *(("4", 6, "recomputed ratio"), ("5", 6, "recomputed dollars"), ("10", 59, "SEED, published")),
        *(("11", 13, "recomputed total"), ("12", 2, "recomputed ratio"), ("13", 7, "recomputed seed ms")),
    ],
)
def test_the_papers_tables_are_printed_without_runs_or_figures(capsys, table, rows, heading):
    assert main(report, f"--table={table}") == 0
    text = capsys.readouterr().out
    assert (
        heading in text.splitlines()[0]
        and len([line for line in text.splitlines() if "|" in line]) == rows + 2
    )
    assert main(report, f"--table={table}", "--format=csv") == 0
    assert len(list(csv.DictReader(io.StringIO(capsys.readouterr().out)))) == rows


def test_figures_of_ones_own_are_columns_of_the_papers_tables(tmp_path, capsys):
    figures = {"frames_per_second": 100.0, "actor_cpu_secs_per_1000": 2.0, "learner_cpu_secs_per_1000": 1.0}
    figures |= {"actor_latency_ms": 7.5, "actor_cores": 2, "learner_cores": 1}
    path = tmp_path / "impala.json"
    path.write_text(json.dumps({"football/grpc/0": figures}))
    for table in ("5", "11", "13"):
        assert main(report, f"--table={table}", path) == 0
        assert "measured" in capsys.readouterr().out.splitlines()[0]
    for table in ("3", "4", "12"):
        with pytest.raises(UsageError, match=f"no figures for Table {table}; leave it out"):
            main(report, f"--table={table}", path)
