"""Evaluation of a real run by the command."""

import json
import shutil

import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(finished_run):
    return finished_run.house.logdir


def evaluate(house, *args):
    return house.start("evaluate", *args)


def assert_refused(house, *args, words):
    before = {path: path.stat().st_mtime_ns for path in house.path.rglob("*")}
    process = evaluate(house, *args)
    assert process.end() == 2, process.output
    lines = process.output.strip().splitlines()
    assert len(lines) == 1, process.output
    assert lines[0].startswith("seed_rl: error: ")
    assert words in lines[0]
    after = {path: path.stat().st_mtime_ns for path in house.path.rglob("*")}
    changed = [p for p in set(before) ^ set(after) if not p.name.endswith("_evaluate.txt")]
    assert changed == []


def test_a_catch_run_is_evaluated(house, run):
    pytest.importorskip("imageio")
    output, video = house.path / "out" / "result.json", house.path / "best.gif"
    args = (f"--logdir={run}", "--episodes=40", f"--output={output}", f"--record={video}")
    process = evaluate(house, *args)
    assert process.end() == 0, process.output
    result = json.loads(output.read_text())
    assert result["episodes"] == len(result["returns"]) == 40
    assert result["mean_return"] >= 0.6  # The run was ended by a number of frames, not by being perfect.
    assert result["env_frames"] > 0
    assert result["environment"] == {
        "name": "catch",
        "settings": json.loads((run / "run.json").read_text())["identity"]["environment"]["settings"],
    }
    assert f"mean return      {result['mean_return']:.2f}" in process.output
    assert video.stat().st_size > 1000
    assert list((run / "tensorboard" / "evaluation").iterdir())

    # Existing files are kept without --overwrite.
    content = output.read_bytes()
    assert_refused(house, *args, words="best.gif already exists; add --overwrite")
    assert_refused(house, *args[:3], words="result.json already exists; add --overwrite")
    assert output.read_bytes() == content
    again = evaluate(house, *args[:3], "--overwrite", "--greedy", "--num_envs=3", "--checkpoint=best")
    assert again.end() == 0, again.output
    result = json.loads(output.read_text())
    assert result["policy"] == "greedy" and "checkpoints/best/ckpt-" in result["checkpoint"]


def test_all_checkpoints_that_were_kept_are_evaluated_once(house, run):
    copy = house.path / "copy"
    shutil.copytree(run, copy)
    assert_refused(
        house, str(copy), "--checkpoint=kept", words="train with --keep_checkpoint_every_agent_steps"
    )
    (copy / "checkpoints" / "kept").mkdir()
    (prefix,) = {path.stem for path in (copy / "checkpoints").glob("ckpt-*")}
    prefixes = ["ckpt-1", prefix]
    for path in (copy / "checkpoints").glob("ckpt-*"):
        for name in prefixes:
            shutil.copy(path, copy / "checkpoints" / "kept" / path.name.replace(prefix, name))
    shutil.rmtree(copy / "evaluations", ignore_errors=True)
    for _ in range(2):
        process = evaluate(house, str(copy), "--checkpoint=kept", "--max_agent_steps=200", "--num_envs=4")
        assert process.end() == 0, process.output
        assert {path.stem for path in (copy / "evaluations").iterdir()} == set(prefixes)
    assert process.output.count("its results are in") == len(prefixes)
    result = json.loads((copy / "evaluations" / f"{prefixes[0]}.json").read_text())
    assert result["max_agent_steps"] == 200 and result["episodes_asked"] is None
    assert 100 < sum(result["episode_agent_steps"]) <= 200
    assert_refused(
        house, str(copy), "--checkpoint=kept", "--output=x.json", words="--output and --record name a file"
    )
    process = evaluate(
        house,
        str(copy),
        f"--checkpoint={copy}/checkpoints/kept/{prefixes[0]}",
        "--overwrite",
        "--max_agent_steps=3",
    )
    assert process.end() == 1
    assert "No episode ended within --max_agent_steps=3" in process.output


BAD_USE = {
    "No run is given; add its directory": [],
    "contains no run.json, so it is not a run directory": ["--logdir={house}"],
    "has no last checkpoint yet; wait until the run has saved one": ["--logdir={house}/copy"],
    "--episodes=0 is too low; it must be at least 1": ["--logdir={run}", "--episodes=0"],
    "its name must end in .mp4 or .gif": ["--logdir={run}", "--record=x.avi"],
    "--checkpoint=ckpt-x is not a checkpoint": ["--logdir={run}", "--checkpoint=ckpt-x"],
    "/proc/x/y.json cannot be written": ["--logdir={run}", "--output=/proc/x/y.json"],
}


@pytest.mark.parametrize(("words", "args"), BAD_USE.items())
def test_bad_use_is_one_sentence_and_touches_nothing(house, run, words, args):
    shutil.copytree(run, house.path / "copy", ignore=shutil.ignore_patterns("checkpoints"))
    assert_refused(house, *(arg.format(house=house.path, run=run) for arg in args), words=words)


def test_a_checkpoint_of_another_configuration_names_what_differs(house, run):
    copy = house.path / "copy"
    shutil.copytree(run, copy)
    record = json.loads((copy / "run.json").read_text())
    size = record["identity"]["agent"]["network"]["mlp_sizes"]
    record["identity"]["agent"]["network"]["mlp_sizes"] = record["settings"]["agent"]["mlp_sizes"] = "3"
    (copy / "run.json").write_text(json.dumps(record))
    (checkpoint,) = [p.with_suffix("") for p in (run / "checkpoints").glob("*.index")][-1:]
    words = f"does not match the configuration of {copy} (agent network mlp_sizes: {size} there, 3 now)"
    assert_refused(house, f"--logdir={copy}", f"--checkpoint={checkpoint}", words=words)


MODULE = """
import gymnasium

open("imported", "a").close()
gymnasium.register("Mine-v0", "gymnasium.envs.classic_control:CartPoleEnv", max_episode_steps=20)
"""


def test_code_that_a_run_names_is_imported_only_if_it_is_trusted(house):
    (house.path / "mine.py").write_text(MODULE)
    run = house.start(
        *("train", "gym", "vtrace", "1", "4", "--game=mine:Mine-v0", f"--logdir={house.logdir}"),
        "--total_environment_frames=500",
    )
    assert run.end() == 0, run.output
    own = house.start("evaluate", str(house.logdir), "--episodes=2")
    assert own.end() == 0, own.output  # The user has trained it, in this place.
    (house.path / "imported").unlink()
    copy = shutil.copytree(house.logdir, house.path / "copy")
    evaluate = ("evaluate", f"--logdir={copy}", "--episodes=2", "--overwrite")
    refused = house.start(*evaluate)
    assert refused.end() == 2
    assert "(--game=mine:Mine-v0); if you trust it, add --trust_code to import it." in refused.last_line
    assert not (house.path / "imported").exists()
    trusted = house.start(*evaluate, "--trust_code")
    assert trusted.end() == 0, trusted.output
    assert (house.path / "imported").exists()
