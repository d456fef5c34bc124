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


def test_a_directory_of_runs_means_all_runs_in_it(sweep):
    expected = ["a/b/c", "trial_000/seed_1", "trial_000/seed_2", "trial_001"]
    assert names(find_runs([sweep]), sweep) == expected
    assert names(find_runs([str(sweep / "trial_001"), sweep]), sweep) == ["trial_001", *expected[:3]]


def test_runs_are_grouped_and_each_group_has_its_return(sweep):
    groups, left_out = gather([sweep])
    assert left_out == []
    found = {(g.variant.agent, len(g.runs)): {run.metric for run in g.runs} for g in groups}
    assert found == {("vtrace", 3): {"mean_return"}, ("r2d2", 1): {"mean_evaluation_return"}}


def test_a_group_is_measured_in_evaluation_if_one_of_its_runs_is(tmp_path):
    write_run(tmp_path / "a", seed=1, evaluation=True)
    write_run(tmp_path / "b", seed=2)
    assert "b has no mean_evaluation_return yet" in refused(tmp_path)


def test_another_metric(sweep):
    groups, _ = gather([sweep], metric="entropy")
    run = groups[0].runs[0]
    assert (run.metric, len(run.curve.value)) == ("entropy", 60)
    assert run.curve.value[0] == pytest.approx(1.8 - 1 / 60)


def test_an_unknown_metric_is_answered_with_those_there_are(sweep):
    text = refused(sweep, metric="entrophy")
    assert "--metric=entrophy" in text
    assert "choose one of: entropy, inference_latency_p50_ms, mean_evaluation_return, mean_return." in text


def test_a_metric_that_only_other_runs_have(sweep):
    text = refused(sweep, metric="mean_evaluation_return")
    assert "has no mean_evaluation_return; leave the run out, or choose one of: entropy" in text


def test_values_that_are_not_finite_are_not_drawn(tmp_path):
    run = write_run(tmp_path / "run", periods=4)
    line = {"env_frames": 3_000_000, "seconds": 2000, "mean_return": float("nan")}
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")
    groups, _ = gather([run])
    assert len(groups[0].runs[0].curve.value) == 3


def test_runs_without_the_figure_are_an_error_or_left_out(tmp_path):
    write_run(tmp_path / "full")
    fresh = write_run(tmp_path / "fresh", periods=1)
    silent = write_run(tmp_path / "silent", metrics=False)
    assert f"{fresh} has no mean_return yet" in refused(tmp_path / "full", fresh)
    assert f"{silent} has no metrics.jsonl" in refused(silent)
    groups, left_out = gather([tmp_path], leave_out=True)
    assert [run.record.logdir for group in groups for run in group.runs] == [tmp_path / "full"]
    assert sorted(left_out) == [fresh, silent]
    assert "No run has a return yet" in refused(fresh, silent, leave_out=True)


def test_what_is_no_run_is_refused(sweep, tmp_path):
    assert f"{sweep / 'empty'} contains no run.json, and neither does" in refused(sweep / "empty")
    assert "is not a directory" in refused(tmp_path / "missing")
    assert "is not a directory" in refused(sweep / "report.txt")
    assert "cannot be read (File name too long)" in refused(tmp_path / ("x" * 300))
