"""The command: files, messages and refusals."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from seed_rl.commands import plot
from seed_rl.flags.errors import UsageError
from tests.plotting.synthetic import write_run

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs")
    for seed in (1, 2):
        write_run(path / f"seed_{seed}", seed=seed, periods=10)
    write_run(path / "other" / "catch", environment="catch", game=None, periods=10)
    write_run(path / "other" / "fresh", agent="r2d2", metrics=False)
    return path


def main(*args):
    return plot.main(["plot", *map(str, args)])


def refused(*args):
    with pytest.raises(UsageError) as caught:
        main(*args)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def process(*args):
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *args], env=env, timeout=120, capture_output=True, text=True)


def test_writes_a_picture_and_says_what_is_in_it(runs, tmp_path, capsys):
    path = tmp_path / "new" / "picture.png"
    assert main(runs / "seed_1", runs / "seed_2", f"--output={path}") == 0
    assert path.stat().st_size > 5000
    assert capsys.readouterr().out == f"Drew 2 runs in 1 group: {path}\n"


@pytest.mark.parametrize("style", ["curves", "sorted"])
def test_runs_that_are_skipped_are_named(runs, tmp_path, capsys, style):
    path = tmp_path / "picture.svg"
    assert main(runs, f"--style={style}", f"--output={path}") == 0
    said = capsys.readouterr()
    assert said.out == f"Drew 3 runs in 2 groups: {path}\n"
    (note,) = said.err.splitlines()
    assert str(runs / "other" / "fresh") in note


@pytest.mark.parametrize(
    ("names", "place"),
    [(["a/x"], "a/x"), (["a"], "a"), (["a/x", "a/y"], "a"), (["a/x", "b/x"], "."), (["a/x", "a/x"], "a/x")],
)
def test_without_an_output_the_plot_is_beside_the_runs(tmp_path, monkeypatch, capsys, names, place):
    for seed, name in enumerate(("a/x", "a/y", "b/x")):
        write_run(tmp_path / name, seed=seed, periods=3)
    monkeypatch.chdir(tmp_path)
    (tmp_path / place / "plot.png").write_text("an earlier one, which is replaced")
    assert main(*names) == 0
    assert capsys.readouterr().out.endswith(f": {Path(place) / 'plot.png'}\n")
    assert (tmp_path / place / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*.png")] == [Path(place) / "plot.png"]


def test_runs_with_nothing_in_common_are_plotted_in_the_current_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert plot.default_output(["/one/run", "/other/run"]) == Path("plot.png")


def test_what_is_there_is_written_over_only_when_asked(runs, tmp_path):
    path = tmp_path / "picture.pdf"
    path.write_text("precious")
    assert "already exists; add --overwrite" in refused(runs / "seed_1", f"--output={path}")
    assert path.read_text() == "precious"
    assert main(runs / "seed_1", f"--output={path}", "--overwrite") == 0
    assert path.read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ([], "No run is given"),
        (["--output={out}"], "No run is given"),
        (["{runs}/seed_1", "--output={runs}/new.jpg"], "must end in one of: .png, .svg, .pdf"),
        (["{runs}/seed_1", "--output={runs}/new"], "must end in one of: .png, .svg, .pdf"),
        (["{runs}/seed_1", "--output={runs}/seed_1/run.json/new.png"], "cannot be written"),
        (["{runs}/nothing", "--output={out}"], "is not a directory"),
        (
            ["{runs}/seed_1", "--output={out}", "--style=bars"],
            "choose one of: curves, best, aggregate, sorted",
        ),
        (
            ["{runs}/seed_1", "--output={out}", "--style=aggregate", "--metric=entropy"],
            "--metric=entropy cannot be normalized",
        ),
        (["{runs}/seed_1", "--output={out}", "--smooth=3"], "Unknown flag --smooth"),
    ],
)
def test_bad_use_is_one_sentence_and_writes_nothing(runs, tmp_path, args, words):
    before = sorted(runs.rglob("*"))
    assert words in refused(*(arg.format(runs=runs, out=tmp_path / "new.png") for arg in args))
    assert list(tmp_path.iterdir()) == []
    assert sorted(runs.rglob("*")) == before


def test_a_missing_package_is_named_with_its_extra(runs, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "[plot]'" in refused(runs / "seed_1", f"--output={tmp_path / 'new.png'}")


def test_drawing_leaves_tensorflow_out(runs, tmp_path):
    code = (
        "import sys; from seed_rl.commands.plot import main; main(sys.argv)\n"
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    done = process("-c", code, str(runs / "seed_1"), f"--output={tmp_path / 'new.png'}")
    assert done.returncode == 0, done.stderr or "seed_rl.plot imports TensorFlow"
