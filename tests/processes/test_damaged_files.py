"""Resuming from undamaged files: damaged ones are reported, and neither lost nor deleted."""

import shutil

import pytest

from seed_rl.runs.layout import RunDirectory

pytestmark = pytest.mark.slow

ARGS = {
    "r2d2": ("--replay_buffer_size=400", "--replay_buffer_min_size=20", "--burn_in=2", "--unroll_length=10"),
    "dqn": ("--replay_buffer_size=4000", "--replay_buffer_min_size=50", "--batch_size=8"),
}


def start(house, agent, frames):
    return house.start(
        "train",
        *("catch", agent, "1", "4", *ARGS[agent], "--num_eval_envs=1", "--checkpoint_replay"),
        *(f"--logdir={house.logdir}", f"--total_environment_frames={frames}", "--save_checkpoint_secs=1"),
    )


@pytest.fixture(scope="module")
def trained(open_house):
    """A complete run of an agent, with a replay and at least two checkpoints; made once for each agent."""
    done = {}

    def train(agent):
        if agent not in done:
            house = open_house()
            for frames in (1500, 2000):  # Two sessions, so two checkpoints.
                run = start(house, agent, frames)
                assert run.end() == 0, run.output
            assert len(RunDirectory(house.logdir).checkpoints.prefixes()) >= 2
            done[agent] = house.logdir
        return done[agent]

    return train


def flip(path, place):
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 0x40
    path.write_bytes(content)


def newest_data(run):
    return next(run.checkpoints.path.glob(f"{run.checkpoints.prefixes()[0].name}.data*"))


REPLAY, EMPTY = "replay.bin cannot be used", "replay starts empty"
OLD = b'seed_rl transitions 1\n{"num_envs": 4}\n'

# Damage to the files, and words in the next session's output.
DAMAGED = {
    "dqn, a byte of the replay": (lambda run: flip(run.replay(), 0.6), [REPLAY, EMPTY]),
    "dqn, half of the replay": (lambda run: run.replay().write_bytes(OLD * 100), [REPLAY, "another version"]),
    "r2d2, a byte of the replay": (lambda run: flip(run.replay(), 0.6), [REPLAY, EMPTY]),
    "r2d2, a byte of the newest checkpoint": (
        lambda run: flip(newest_data(run), 0.5),
        ["is damaged, and its"],
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_run_resumes_from_what_is_whole(house, trained, case):
    harm, words = DAMAGED[case]
    agent = case.partition(",")[0]
    shutil.copytree(trained(agent), house.logdir)
    run = RunDirectory(house.logdir)
    harm(run)
    before = sorted(path.read_bytes() for path in run.checkpoints.path.iterdir() if path.is_file())
    resumed = start(house, agent, 2800)
    assert resumed.end() == 0, resumed.output
    for text in [*words, "Resuming from", "Training is complete"]:
        assert text in resumed.output
    assert "Traceback" not in resumed.output
    damaged = [path.read_bytes() for path in run.checkpoints.path.glob("*.damaged")]
    assert damaged and all(content in before for content in damaged)
    again = start(house, agent, 3400)  # The sentence is logged once.
    assert again.end() == 0, again.output
    assert not any(text in again.output for text in words)


@pytest.mark.parametrize("content", ["not UTF-8", "a directory", "files elsewhere"])
def test_a_list_of_checkpoints_means_nothing(house, trained, content):
    shutil.copytree(trained("dqn"), house.logdir)
    run = RunDirectory(house.logdir)
    elsewhere = house.path / "elsewhere"
    shutil.copytree(run.checkpoints.path, elsewhere)
    for directory in (run.checkpoints.path, run.best_checkpoints.path):
        directory.mkdir(exist_ok=True)
        path = directory / "checkpoint"
        if content == "a directory":
            path.mkdir()
        elif content == "not UTF-8":
            path.write_bytes(b"\xff\xfe\x00")
        else:
            prefixes = sorted({file.with_suffix("") for file in elsewhere.glob("ckpt-*")})
            lines = [f'all_model_checkpoint_paths: "{prefix}"\n' for prefix in prefixes]
            path.write_text(f'model_checkpoint_path: "{prefixes[-1]}"\n' + "".join(lines))
    before = {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")}
    left = run.checkpoints.unfinished
    left.mkdir()  # As a process leaves that is killed while it saves.
    resumed = start(house, "dqn", 2800)
    assert resumed.end() == 0, resumed.output
    assert "Resuming from" in resumed.output and "Traceback" not in resumed.output
    assert {path: path.stat().st_mtime_ns for path in elsewhere.rglob("*")} == before
    assert len(run.checkpoints.prefixes()) <= 3
    assert not left.exists()
