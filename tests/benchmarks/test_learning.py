"""Tables of what presets learn: read from metrics that are made up, and once from real runs."""

import dataclasses
import json
import shutil

import pytest

from benchmarks import learning, scores, suites
from benchmarks.harness import ROOT
from benchmarks.learning_runs import Progress, make_case, progress, run_directory
from seed_rl.flags.errors import UsageError
from tests.benchmarks import running


def period(frames, value=None, episodes=200, name="mean_return"):
    figures = {"env_frames": frames, "seconds": frames / 10, "updates": frames // 100, "episodes": episodes}
    return figures if value is None else figures | {name: value}


def write_run(directory, case, seed, periods, label=""):
    logdir = run_directory(directory, make_case(case, label=label), f"seed_{seed}")
    logdir.mkdir(parents=True)
    (logdir / "metrics.jsonl").write_text("".join(json.dumps(p) + "\n" for p in periods))


def result(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_progress_is_the_last_return_and_the_first_time_at_the_mark():
    periods = [period(100), period(200, 0.2), period(300, 0.96), period(400, 0.99), period(500, 0.9)]
    assert progress(periods, 0.95) == Progress(0.9, 0.99, 500, 50.0, 300, 30.0)
    assert progress(periods, 1.0) == Progress(0.9, 0.99, 500, 50.0, None, None)
    assert progress(periods)[:4] == (0.9, 0.99, 500, 50.0)
    assert progress([]) == progress([period(0)])[:3] + progress([])[3:] == Progress(None, None, 0, 0.0)


def test_complete_runs_are_read_and_not_repeated(tmp_path, capsys):
    total = make_case("catch/ppo").total_frames
    for seed, final in ((1, 0.99), (2, 0.5)):
        write_run(tmp_path, "catch/ppo", seed, [period(1000, 0.97), period(total, final)])
    args = ["learning", "catch/ppo", "--seeds=1,2", f"--logdir={tmp_path}"]
    assert learning.main(args) == 0
    lines = capsys.readouterr().out.splitlines()
    found = json.loads(lines[-1])
    assert found["goals"] == {"catch/ppo": 0.95}
    assert [found["figures"]["catch/ppo"][seed]["final"] for seed in "12"] == [0.99, 0.5]
    assert "| catch/ppo | 0.95 | 0.99; 0.5 | 0.99; 0.97 | 400,000; 400,000 | 1.67; 1.67 | 667; 667 |" in lines


def test_a_goal_holds_under_the_presets_own_protocol_only():
    flags = ([], ["--protocol=noops"], ["--protocol=machado"])
    assert [suites.goal(make_case("atari/vtrace/Pong", given).record) for given in flags] == [18, 18, None]


def test_a_run_that_reached_its_goal_is_complete(tmp_path, capsys):
    write_run(tmp_path, "catch/ppo", 1, [period(1000, 0.97), period(1200, 0.9)])
    assert (
        learning.main(["learning", "catch/ppo", "--seeds=1", f"--logdir={tmp_path}", "--stop_at_goal"]) == 0
    )
    assert result(capsys)["figures"]["catch/ppo"]["1"]["frames"] == 1200


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (("catch/none",), "^--agent=none is not valid; choose one of"),
        (("catch",), "^'catch' is no preset; write ENVIRONMENT/AGENT, like catch/ppo"),
        (("catch/ppo", "--learning_rat=1"), "did you mean --learning_rate"),
        (("catch/ppo", "--seeds=one"), "--seeds=one is not valid"),
        (("catch/ppo", "--seeds=1,²"), "--seeds=1,² is not valid"),
        (("catch/ppo", "--seeds=1,2,1"), "--seeds=1,2,1 has a number twice"),
        (("catch/ppo", f"--logdir={__file__}"), "--logdir=.* cannot be used .*name another directory"),
        (("catch/ppo", "--logdir=/proc/runs"), "--logdir=/proc/runs cannot be used"),
        (("--suite=atari", f"--records={__file__}/records"), "--records=.* cannot be used"),
        (("--suite=atary",), "--suite=atary is not valid"),
        (("--suite=atari", "catch/ppo"), "leave out catch/ppo, or --suite"),
        (("--suite=atari", "--learning_rate=1"), "leave out --learning_rate=1, or --suite"),
        (("--suite=atari", "--stop_at_goal"), "leave out --stop_at_goal"),
        (("--suite=atari", "--kill_learner_secs=9"), "leave out --stop_at_goal and --kill_learner_secs"),
    ],
)
def test_bad_input_is_one_sentence(args, sentence, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=sentence):
        learning.main(["learning", *args])


def test_a_record_that_cannot_be_read_is_named_before_anything_is_trained(tmp_path):
    kept = run_directory(tmp_path / "atari", make_case("atari/vtrace/Pong"), "seed_2")
    kept.mkdir(parents=True)
    (kept / "run.json").write_text('{"identity":')
    args = ["learning", "--suite=atari", f"--records={tmp_path}", f"--logdir={tmp_path / 'runs'}"]
    with pytest.raises(UsageError, match=f"^{kept}/run.json cannot be read"):
        learning.main(args)
    with pytest.raises(UsageError, match=f"{kept}/run.json cannot be read"):
        scores.write(tmp_path)


def test_a_run_that_fails_is_a_row_and_an_exit_code(monkeypatch, capsys, tmp_path):
    logdir = tmp_path / "catch_ppo_seed_1"
    logdir.mkdir()
    (logdir / "run.json").write_text("{}")  # Another run's directory, which `seed_rl train` refuses.
    assert learning.main(["learning", "catch/ppo", "--seeds=1", f"--logdir={tmp_path}"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out.splitlines()[-1])["figures"] == {"catch/ppo": {"1": None}}
    assert "catch/ppo, seed 1, failed: " in err
    assert "exit code 2" in err


def test_a_suite_keeps_records_and_trains_nothing_that_has_one(tmp_path, capsys, monkeypatch):
    small = suites.Row("catch/ppo", (1, 2), ("--batch_size=4",), label="small")
    monkeypatch.setitem(suites.SUITES, "atari", suites.Suite((small,), "About it.", partway=200_000))
    runs, kept = tmp_path / "runs", tmp_path / "docs" / "records"
    readme = tmp_path / "README.md"
    readme.write_text("<!-- benchmarks.scores writes this table -->\nold\n<!-- end of the table -->\n")
    args = ["learning", "--suite=atari", f"--logdir={runs}", f"--records={kept}"]
    case = make_case("catch/ppo", ["--batch_size=4"])
    for seed in (1, 2):
        periods = [period(frames, frames / 400_000) for frames in range(1000, case.total_frames + 1, 1000)]
        write_run(runs / "atari", "catch/ppo", seed, periods, "small")
        about = dataclasses.replace(
            case.record, learner_settings={**case.record.learner_settings, "seed": seed}
        )
        settings = {"agent": about.agent_settings, "learner": about.learner_settings}
        content = {"identity": about.identity, "settings": settings, "versions": {}, "processor": "abacus"}
        (runs / "atari" / f"catch_ppo_small_seed_{seed}" / "run.json").write_text(json.dumps(content))
    (kept / "atari" / "catch_ppo_small_seed_1").mkdir(parents=True)  # One that was interrupted left it.
    assert learning.main(args) == 0
    first = result(capsys)["figures"]
    assert first["catch/ppo/small"]["1"]["frames_to_mark"] == 380_000
    page = (kept.parent / "scores.md").read_text()
    cells = (
        "1; 1 | 1 (2 seeds) | 0.495 (2 seeds) at 0.2M | 1.00 | 0.95 | 0.38M, 633.3 min; 0.38M, 633.3 min |"
    )
    assert f"| catch | PPO | 1, 2 | {cells} 0.4 |" in page
    assert "About it." in page
    assert "* A: abacus" in page
    assert (kept.parent / "scores_atari.png").stat().st_size > 1000
    lines = readme.read_text().splitlines()
    assert "| catch | PPO | 1 (2 seeds) | 0.4 | 666.7; 666.7 |" in lines[4]
    assert lines[5:] == ["", "<!-- end of the table -->"]

    shutil.rmtree(runs)  # From here on, only the records have results.
    assert learning.main(args) == 0
    assert result(capsys)["figures"] == first
    assert len((kept / "atari" / "catch_ppo_small_seed_1" / "metrics.jsonl").read_text().splitlines()) <= 102

    changed = small._replace(seeds=(1,), flags=("--batch_size=8",))
    monkeypatch.setitem(suites.SUITES, "atari", suites.Suite((changed,)))
    assert learning.main(args) == 0
    assert "seed 1: recorded with another batch_size: 4 there, 8 now; without" in capsys.readouterr().err


def test_the_docs_say_what_the_records_say(tmp_path):
    shutil.copytree(scores.RECORDS, tmp_path / "docs" / "records")
    shutil.copy(ROOT / "README.md", tmp_path)
    scores.write(tmp_path / "docs" / "records")
    for page in ("README.md", "docs/scores.md"):
        assert (tmp_path / page).read_text() == (ROOT / page).read_text()


@pytest.mark.slow
def test_a_real_run_resumes(tmp_path):
    pytest.importorskip("tensorflow", reason="no TensorFlow")

    def run(*flags):
        every = (f"--logdir={tmp_path}", "--seeds=3", "--log_period_secs=0.3", "--num_actors=1")
        return running.result("learning", "catch/vtrace", *every, *flags)["figures"]["catch/vtrace"]["3"]

    log = tmp_path / "catch_vtrace_seed_3.log"
    first = run("--total_environment_frames=1000")
    assert first["frames"] >= 1000
    frames = first["frames"] + 5000
    second = run(f"--total_environment_frames={frames}")
    assert second["frames"] >= frames
    assert "Resuming from" in log.read_text()
    before = log.read_text()
    assert run(f"--total_environment_frames={frames}") == second
    assert log.read_text() == before


@pytest.mark.slow
def test_a_real_run_learns_although_its_learner_is_killed_again_and_again(tmp_path):
    pytest.importorskip("tensorflow", reason="no TensorFlow")
    args = ("catch/vtrace", f"--logdir={tmp_path}", "--seeds=1", "--num_actors=2", "--log_period_secs=0.5")
    found = running.result("learning", *args, "--save_checkpoint_secs=0.5", "--kill_learner_secs=6")
    found = found["figures"]["catch/vtrace"]["1"]
    assert found["frames"] >= 150_000 and found["final"] > 0.9
    assert "Resuming from" in (tmp_path / "catch_vtrace_seed_1.log").read_text()
