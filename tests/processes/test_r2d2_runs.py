"""R2D2 in real processes: the same learner, server and actors, with replay in place of the queue."""

import signal

import pytest

pytestmark = pytest.mark.slow

SETTINGS = (
    "--agent=r2d2",
    "--burn_in=2",
    "--num_eval_envs=2",
    "--replay_buffer_size=400",
    "--replay_buffer_min_size=100",
    "--replay_ratio=2",
    "--checkpoint_replay",
)


def local_run(house, *args):
    start = ("catch", "r2d2", "2", "4")
    return house.start("local_main", *start, *house.small, *SETTINGS, f"--logdir={house.logdir}", *args)


def test_trains_stops_and_goes_on_with_a_full_replay(house):
    run = local_run(house)
    house.wait_for_metrics(
        lambda line: line["replay_size"] == 400 and line["updates"] and "mean_evaluation_return" in line, run
    )
    run.signal(signal.SIGINT)
    assert run.end() == 130, run.output
    stopped = house.metrics()[-1]
    assert stopped["replay_size"] == 400
    assert 1.9 < stopped["replay_ratio"] <= 2
    assert stopped["replay_mib"] > 0
    assert (house.logdir / "checkpoints" / "replay.bin").is_file()

    run = local_run(house, f"--total_environment_frames={stopped['env_frames'] + 2000}")
    going_on = house.wait_for_metrics(lambda line: line["env_frames"] > stopped["env_frames"], run)
    assert run.end() == 0, run.output
    assert going_on["replay_size"] == 400  # Not filled again.
    assert house.metrics()[-1]["updates"] > stopped["updates"]
    assert "Training is complete: " in run.last_line
    assert ", in evaluation " in run.last_line


def test_replay_that_does_not_fit_the_run_is_refused(house):
    run = local_run(house, "--total_environment_frames=3000")
    assert run.end() == 0, run.output
    run = local_run(house, "--total_environment_frames=6000", "--burn_in=3")
    assert run.end() == 2
    assert "other unrolls or compression" in run.last_line
    assert "move it away" in run.last_line
