"""Trouble with a run's outputs ends nothing; a checkpoint that cannot be written is not lost in silence."""

import resource
import signal

import pytest

from seed_rl.training.checkpoint import newest_checkpoint

pytestmark = pytest.mark.slow


def start(house):
    learner = house.learner("--save_checkpoint_secs=1", "--log_period_secs=1")
    for _ in range(4):
        house.actor()
    return learner


def checkpoints(house):
    """Numbers of updates of the checkpoints."""
    return sorted(int(p.stem.removeprefix("ckpt-")) for p in house.logdir.glob("checkpoints/ckpt-*.index"))


def test_a_full_disk_costs_checkpoints_only_while_it_is_full(house):
    """No file may grow beyond 60 KB for a while, which is less than a checkpoint and more than all else."""
    learner = start(house)
    house.wait_for_checkpoint(learner)
    no_limit = resource.prlimit(learner.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(learner.pid, resource.RLIMIT_FSIZE, (60_000, no_limit[1]))
    learner.wait_for(" frames cannot be written completely (")
    assert " frames. The learner tries again at the next interval." in learner.output
    seen = len(house.metrics())
    house.wait_for_metrics(lambda line: line["updates"] > 0, learner, after=seen)

    resource.prlimit(learner.pid, resource.RLIMIT_FSIZE, no_limit)
    last = checkpoints(house)[-1]
    house.wait_until(lambda: checkpoints(house)[-1] > last, lambda: f"another checkpoint: {learner.output}")

    resource.prlimit(learner.pid, resource.RLIMIT_FSIZE, (60_000, no_limit[1]))
    said = learner.output.count("cannot be written completely")
    house.wait_until(lambda: learner.output.count("cannot be written completely") > said, "a warning")
    learner.signal(signal.SIGTERM)
    assert learner.end() == 1
    assert "Stopped without a checkpoint: " in learner.output
    assert learner.last_line.startswith("seed_rl: error: The checkpoint at ")
    assert "; File too large); the last checkpoint is from " in learner.last_line
    assert learner.last_line.endswith("Free up space, and run the same command again to resume.")
    assert "Traceback" not in learner.output
    assert newest_checkpoint(house.logdir).endswith(f"ckpt-{checkpoints(house)[-1]}")
    assert not list(house.logdir.glob("checkpoints/unfinished*"))


PIPED = """
import subprocess, sys
script = '"$@" 2>&1 | head -n 1; exit ${PIPESTATUS[0]}'
command = [sys.executable, "-m", "seed_rl", "learner", *sys.argv[1:]]
sys.exit(subprocess.run(["bash", "-c", script, "piped", *command]).returncode)
"""


def test_neither_a_closed_pipe_nor_a_full_disk_under_the_metrics_ends_training(house):
    """As `seed_rl learner … 2>&1 | head -n 1`."""
    learner = house.learner("--total_environment_frames=40000", code=PIPED)
    for _ in range(4):
        house.actor()
    house.wait_for_metrics(lambda line: line["updates"] > 0, learner)
    metrics = house.logdir / "metrics.jsonl"
    metrics.rename(house.path / "written")
    metrics.symlink_to("/dev/full")
    assert learner.end() == 0, learner.output
    assert len(learner.output.splitlines()) == 1
    assert newest_checkpoint(house.logdir)
    assert (house.logdir / "saved_model" / "saved_model.pb").exists()
