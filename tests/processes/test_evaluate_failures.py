"""Evaluation of a real run whose environment fails, or cannot be rendered."""

import json
import re
import shutil

import pytest

from tests.evaluation import fragile
from tests.processes.conftest import ROOT

pytestmark = pytest.mark.slow

EPISODES = 30
OK = ""  # No error is printed.
FAILED = "seed_rl: error: Environment "
# Fault, more flags, the exit code, and how the error begins.
FAULTS = {
    "nothing": ("", ["--record", f"--seed={2**63}"], 0, OK),
    "a step, by chance": ("step once 40", [], 0, OK),
    "steps, for good": ("step exit 81", ["--max_environment_failures=1"], 1, FAILED),
    "render": ("render raise", [], 0, OK),
}
# Fault before an episode has ended, more flags, the exit code, and the sentence.
AT_THE_START = {
    "make": (
        "make raise",
        [],
        2,
        r"Environment 0 failed: make\(\) raised OSError: the engine\\nis gone \(.*_fails\); .*",
    ),
    "make exits": (
        "make exit",
        [],
        2,
        r"Environment 0 failed: make\(\) raised SystemExit: 3 \(.*_fails\); .*",
    ),
    "reset": ("reset nothing 6", [], 1, r"Environment \d failed: reset\(\) returned .*"),
    "step": ("step nan", [], 1, r"Environment 0 failed in episode 4 at agent step 1: step\(\) returned .*"),
    "video": (
        "render raise",
        ["--record"],
        2,
        r"There is no video: The environment cannot be rendered as pictures \(render\(\) .*",
    ),
}


@pytest.fixture(scope="module")
def trained(open_house):
    """A house with a short run in it."""
    house = open_house()
    game = (f"--game={fragile.GAME}", "--total_environment_frames=500", f"--logdir={house.logdir}")
    run = house.start("train", "gym", "vtrace", "1", "2", *game)
    assert run.end() == 0, run.output
    return house


def evaluate(house, *args):
    return house.start("evaluate", "--trust_code", *args)


@pytest.mark.parametrize(("fault", "flags", "code", "error"), FAULTS.values(), ids=FAULTS.keys())
def test_the_report_survives(trained, tmp_path, monkeypatch, fault, flags, code, error):
    if "--record" in flags:
        pytest.importorskip("imageio")
    monkeypatch.setenv(fragile.FAULT, fault)
    monkeypatch.setenv(fragile.ENDED, str(tmp_path / "ended"))
    output, video = tmp_path / "result.json", tmp_path / "video.gif"
    flags = [f"--record={video}" if flag == "--record" else flag for flag in flags]
    args = (f"--logdir={trained.logdir}", f"--episodes={EPISODES}", "--num_envs=4", f"--output={output}")
    process = evaluate(trained, *args, *flags)
    assert process.end() == code, process.output
    assert "Traceback" not in process.output
    assert process.output.count("seed_rl: error: ") == (error != OK)
    assert (process.last_line if error else "").startswith(error)

    result = json.loads(output.read_text())
    asked = str(EPISODES)
    if code == 1:
        assert 0 < result["episodes"] == len((tmp_path / "ended").read_bytes()) < EPISODES
        asked = f"{result['episodes']} of {EPISODES}"
        assert process.last_line == f"seed_rl: error: {result['failure']}"
    else:
        assert (result["episodes"], result["failure"]) == (EPISODES, None)
    assert f"episodes         {asked}\n" in process.output
    assert len(set(result["seeds"])) == result["episodes"] == len(result["returns"])
    assert set(result["returns"]) == {fragile.LENGTH}
    assert video.exists() == (code == 0 and any("record" in flag for flag in flags))
    assert list((trained.logdir / "tensorboard" / "evaluation").iterdir())


@pytest.mark.parametrize(("fault", "flags", "code", "sentence"), AT_THE_START.values(), ids=AT_THE_START)
def test_what_never_works_is_one_sentence(trained, tmp_path, monkeypatch, fault, flags, code, sentence):
    monkeypatch.setenv(fragile.FAULT, fault)
    monkeypatch.setenv(fragile.ENDED, str(tmp_path / "ended"))
    output, video = tmp_path / "result.json", tmp_path / "video.gif"
    if flags:
        pytest.importorskip("imageio")
        flags = [f"--record={video}"]
    process = evaluate(trained, f"--logdir={trained.logdir}", "--num_envs=3", f"--output={output}", *flags)
    assert process.end() == code, process.output
    assert f"{ROOT}/seed_rl/" not in process.output  # Only the environment's own frames may be there.
    assert re.fullmatch(f"seed_rl: error: {sentence}", process.last_line)
    assert not any(path.exists() for path in (output, video))
    assert not flags or not (tmp_path / "ended").exists()


def test_a_report_that_tensorboard_cannot_show_is_printed_and_written(trained, tmp_path):
    copy = tmp_path / "run"
    shutil.copytree(trained.logdir, copy, ignore=shutil.ignore_patterns("tensorboard"))
    (copy / "tensorboard").write_text("in the way")
    process = evaluate(trained, f"--logdir={copy}", "--episodes=5")
    assert process.end() == 0, process.output
    assert "Traceback" not in process.output
    assert "Nothing in TensorBoard: " in process.output
    assert len(list((copy / "evaluations").iterdir())) == 1


def test_an_environment_that_cannot_be_made_ends_a_run_with_one_sentence(house, monkeypatch):
    """The learner makes one to learn its spaces."""
    monkeypatch.setenv(fragile.FAULT, "make raise")
    game = f"--game={fragile.GAME}"
    learner = house.learner("--environment=gym", game)
    run = house.start("train", "gym", "vtrace", "1", "2", game, f"--logdir={house.path}/other")
    for process in (learner, run):
        assert process.end() == 2, process.output
        assert f"{ROOT}/seed_rl/" not in process.output and process.output.count("Traceback") == 1
        assert process.output.count("seed_rl: error: Environment 0 failed: make() raised OSError") == 1
