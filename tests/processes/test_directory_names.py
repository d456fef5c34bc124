"""Run directories may have any printable name, for every command."""

import pytest

from tests.selection import mostly_long

pytestmark = pytest.mark.slow


def succeeds(process):
    assert process.end() == 0, process.output
    assert "Traceback" not in process.output
    return process.output


def train(house, logdir, frames, *args):
    return house.start(
        *("train", "catch", "vtrace", "1", "4", f"--logdir={logdir}", "--intra_op_threads=1"),
        *(f"--total_environment_frames={frames}", "--log_period_secs=0.25", *args),
    )


@pytest.mark.parametrize("name", mostly_long(["lr[1]", "a b*ü?/", "./x/../back\\slash"], ["a b*ü?/"]))
def test_every_command_takes_any_name(house, monkeypatch, name):
    """Also the home directory's: a shell leaves the tilde as it is after `--logdir=`."""
    monkeypatch.setenv("HOME", str(house.path))
    (house.path / "x").mkdir()
    succeeds(train(house, name, 1500))
    assert "Resuming from" in succeeds(train(house, name, 3000))
    assert "mean return" in succeeds(house.start("evaluate", f"--logdir={name}", "--episodes=3"))
    succeeds(house.start("plot", name, "--output=[x]*.png"))
    assert (house.path / "[x]*.png").is_file()
    assert "periods" in succeeds(house.start("doctor", name))
    succeeds(train(house, "~/other", 500, f"--init_checkpoint={name}"))
    assert (house.path / "other" / "run.json").is_file() and not (house.path / "~").exists()
    (house.path / "link").symlink_to(house.path / name, target_is_directory=True)
    assert "Resuming from" in succeeds(train(house, "link", 4000))
    assert "mean return" in succeeds(
        house.start("evaluate", "--logdir=link", "--episodes=3", "--checkpoint=last")
    )


def test_a_sweep_takes_any_name(house):
    (house.path / "space[1].yaml").write_text(
        "environment: catch\nagent: vtrace\nspace: {learning_rate: {choice: [0.001]}}\n"
    )
    args = ("sweep", "space[1].yaml", "--trials=1", "--logdir=all [of] them")
    succeeds(house.start(*args, "--total_environment_frames=1500"))
    assert (house.path / "all [of] them" / "sorted.png").is_file()
    succeeds(house.start(*args, "--total_environment_frames=1500"))
