"""Tables of what presets learn: read from metrics that are made up, and once from real runs."""

import json

import pytest

from benchmarks import learning
from benchmarks.learning_runs import Progress, make_case, progress, run_directory
from seed_rl.flags.errors import UsageError
from tests.benchmarks import running


def period(frames, value=None, episodes=200, name="mean_return"):
    figures = {"env_frames": frames, "seconds": frames / 10, "updates": frames // 100, "episodes": episodes}
    return figures if value is None else figures | {name: value}


def write_run(directory, case, seed, periods):
    logdir = run_directory(directory, make_case(case), f"seed_{seed}")
    logdir.mkdir(parents=True)
    (logdir / "metrics.jsonl").write_text("".join(json.dumps(p) + "\n" for p in periods))


def result(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_progress_is_the_last_return_and_the_first_time_at_the_mark():
    periods = [period(100), period(200, 0.2), period(300, 0.96), period(400, 0.99), period(500, 0.9)]
    assert progress(periods, 0.95) == Progress(0.9, 0.99, 500, 50.0, 300, 30.0, 3)
    assert progress(periods, 1.0) == Progress(0.9, 0.99, 500, 50.0, None, None, None)
    assert progress(periods)[:4] == (0.9, 0.99, 500, 50.0)
    assert progress([]) == progress([period(0)])[:3] + progress([])[3:] == Progress(None, None, 0, 0.0)


def test_complete_runs_are_read_and_not_repeated(tmp_path, capsys):
    total = make_case("catch/ppo").total_frames
    for seed, final in ((1, 0.99), (2, 0.5)):
        write_run(tmp_path, "catch/ppo", seed, [period(1000, 0.97), period(total, final)])
    args = ["learning", "catch/ppo", "--seeds=1,2", f"--logdir={tmp_path}"]
    assert learning.main(args) == 0
    found = result(capsys)
    assert found["goals"] == {"catch/ppo": 0.95}
    assert [found["figures"]["catch/ppo"][seed]["final"] for seed in "12"] == [0.99, 0.5]

    assert learning.main([*args, "--markdown"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "| catch/ppo | 0.95 | 0.99; 0.5 | 0.99; 0.97 | 400,000; 400,000 | 1.67; 1.67 | 667; 667 |" in lines


@pytest.mark.parametrize("flags", [("--stop_at_goal",), ("--minutes=2",)])
def test_a_run_that_reached_its_goal_or_its_limit_is_complete(tmp_path, capsys, flags):
    write_run(tmp_path, "catch/ppo", 1, [period(1000, 0.97), period(1200, 0.9)])
    assert learning.main(["learning", "catch/ppo", "--seeds=1", f"--logdir={tmp_path}", *flags]) == 0
    assert result(capsys)["figures"]["catch/ppo"]["1"]["frames"] == 1200


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("catch/none",), "^--agent=none is not valid; choose one of"),
        (("catch",), "^'catch' is no preset; write ENVIRONMENT/AGENT, like catch/ppo"),
        (("catch/rainbow",), "^There is no preset for catch/rainbow"),
        (("catch/ppo", "--learning_rat=1"), "did you mean --learning_rate"),
        (("catch/ppo", "--seeds=one"), "--seeds=one is not valid"),
    ],
)
def test_bad_input_is_one_sentence(args, sentence):
    with pytest.raises(UsageError, match=sentence):
        learning.main(["learning", *args])


def test_a_run_that_fails_is_a_row_and_an_exit_code(monkeypatch, capsys, tmp_path):
    logdir = tmp_path / "catch_ppo_seed_1"
    logdir.mkdir()
    (logdir / "run.json").write_text("{}")  # Another run's directory, which `seed_rl train` refuses.
    assert learning.main(["learning", "catch/ppo", "--seeds=1", f"--logdir={tmp_path}"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out.splitlines()[-1])["figures"] == {"catch/ppo": {"1": None}}
    assert "catch/ppo, seed 1, failed: " in err
    assert "exit code 2" in err


@pytest.mark.slow
def test_a_real_run_stops_at_the_limit_and_resumes(tmp_path):
    pytest.importorskip("tensorflow", reason="no TensorFlow")

    def run(*flags):
        every = (f"--logdir={tmp_path}", "--seeds=3", "--log_period_secs=0.3", "--num_actors=1")
        return running.result("learning", "catch/vtrace", *every, *flags)["figures"]["catch/vtrace"]["3"]

    log = tmp_path / "catch_vtrace_seed_3.log"
    first = run("--minutes=0.02")
    assert first["frames"] < 400_000  # None yet, on a busy machine.
    assert first["seconds"] >= 1.2
    assert "Stopped with a checkpoint" in log.read_text()
    frames = first["frames"] + 5000
    second = run(f"--total_environment_frames={frames}")
    assert second["frames"] >= frames
    assert "Resuming from" in log.read_text()
    before = log.read_text()
    assert run(f"--total_environment_frames={frames}") == second
    assert log.read_text() == before
