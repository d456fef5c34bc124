"""Finding runs in directories, and reading the figure that is drawn."""

import json

import pytest

from seed_rl.plotting.gather import find_runs, gather
from tests.plotting.synthetic import write_run


def refused(*paths, **options):
    with pytest.raises(ValueError) as caught:
        gather(paths, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """Four runs at different depths, and things that are none."""
    path = tmp_path_factory.mktemp("sweep")
    write_run(path / "trial_000" / "seed_1", seed=1)
    write_run(path / "trial_000" / "seed_2", seed=2)
    write_run(path / "trial_001", agent="r2d2", evaluation=True)
    write_run(path / "a" / "b" / "c", seed=3)
    write_run(path / "a" / "b" / "d" / "too_deep", seed=4)
    (path / "empty").mkdir()
    (path / "report.txt").write_text("no run")
    return path


def names(runs, path):
    return [str(run.relative_to(path)) for run in runs]


def drawn(found):
    return sorted(path.name for path in found.directories)


def test_a_directory_of_runs_means_all_runs_in_it(sweep):
    expected = ["a/b/c", "trial_000/seed_1", "trial_000/seed_2", "trial_001"]
    found = find_runs([sweep])
    assert names(found, sweep) == expected and set(found.values()) == {str(sweep)}
    found = find_runs([str(sweep / "trial_001"), sweep])
    assert names(found, sweep) == ["trial_001", *expected[:3]]
    assert list(found.values()) == ["", *[str(sweep)] * 3]


def test_the_source_of_a_trial_is_its_sweep_whatever_is_named(tmp_path):
    trial = write_run(tmp_path / "sweep" / "trial_001" / "seed_1", metrics=False).parent
    write_run(tmp_path / "other" / "trial_001" / "seed_1", metrics=False)
    (tmp_path / "sweep" / "journal.log").write_text("")
    sources = {str(tmp_path / "sweep"), str(tmp_path)}
    assert set(find_runs([tmp_path]).values()) == sources
    for path in (trial, trial / "seed_1"):
        assert list(find_runs([path]).values()) == [str(tmp_path / "sweep")]


def test_runs_are_grouped_and_each_group_has_its_return(sweep):
    groups, skipped = gather([sweep])
    assert skipped == []
    found = {(g.variant.method, len(g.runs)): {run.metric for run in g.runs} for g in groups}
    assert found == {("V-trace", 3): {"mean_return"}, ("R2D2", 1): {"mean_evaluation_return"}}


@pytest.mark.parametrize(
    ("evaluated", "metric"),
    [((True, True), "mean_evaluation_return"), ((True, False), "mean_return"), ((False,), "mean_return")],
)
def test_a_group_is_measured_in_evaluation_if_all_of_its_runs_are(tmp_path, evaluated, metric):
    for seed, evaluation in enumerate(evaluated):
        write_run(tmp_path / str(seed), seed=seed, evaluation=evaluation)
    ((group,), skipped) = gather([tmp_path])
    assert [run.metric for run in group.runs] == [metric] * len(evaluated)
    assert skipped == []


def test_another_metric(sweep):
    groups, _ = gather([sweep], metric="entropy")
    run = groups[0].runs[0]
    assert (run.metric, len(run.curve.value)) == ("entropy", 60)
    assert run.curve.value[0] == pytest.approx(1.8 - 1 / 60)


def test_an_unknown_metric_is_answered_with_those_there_are(sweep):
    text = refused(sweep, metric="entrophy")
    assert "--metric=entrophy" in text
    assert (
        "choose one of: entropy, inference_latency_p50_ms, mean_evaluation_return, mean_return, updates."
        in text
    )


def test_a_metric_that_only_some_runs_have(sweep):
    found = gather([sweep], metric="mean_evaluation_return")
    assert drawn(found) == ["trial_001"]
    assert len(found.skipped) == 3 and all("mean_evaluation_return" in text for text in found.skipped)


def test_values_that_are_not_finite_are_not_drawn(tmp_path):
    run = write_run(tmp_path / "run", periods=4)
    line = {"env_frames": 3_000_000, "seconds": 2000, "mean_return": float("nan")}
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")
    groups, _ = gather([run])
    assert len(groups[0].runs[0].curve.value) == 3


def aborted(path):
    """Runs that cannot be drawn, each for a reason of its own."""
    runs = [
        write_run(path / "fresh", periods=1),
        write_run(path / "silent", metrics=False),
        write_run(path / "empty", metrics=False),
        write_run(path / "broken"),
        write_run(path / "wrong"),
    ]
    (path / "empty" / "metrics.jsonl").write_text("")
    (path / "broken" / "run.json").write_text('{"identity": ')
    (path / "wrong" / "run.json").write_text("[]")
    return runs


def test_runs_that_cannot_be_drawn_are_skipped_by_name(tmp_path):
    bad = aborted(tmp_path)
    write_run(tmp_path / "full")
    found = gather([tmp_path])
    assert drawn(found) == ["full"]
    for run in bad:
        assert sum(str(run) in reason for reason in found.skipped) == 1
    assert len(found.skipped) == len(bad)


def test_nothing_but_runs_that_cannot_be_drawn_is_refused(tmp_path):
    bad = aborted(tmp_path)
    for run in bad:
        assert str(run) in refused(run)
    assert str(len(bad)) in refused(tmp_path)


def test_what_is_no_run_is_refused(sweep, tmp_path):
    assert f"{sweep / 'empty'} contains no run.json, and neither does" in refused(sweep / "empty")
    assert "is not a directory" in refused(tmp_path / "missing")
    assert "is not a directory" in refused(sweep / "report.txt")
    assert "cannot be read (File name too long)" in refused(tmp_path / ("x" * 300))
