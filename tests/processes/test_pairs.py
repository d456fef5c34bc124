"""Each agent trains with computed defaults, from the launcher to the end of a short run."""

import pytest

pytestmark = pytest.mark.slow

# Environment and agent without a preset, and environment frames; in every kind of observation and action.
PAIRS = [
    ("minatar", "a2c", 1_500, ()),
    ("minatar", "appo", 3_000, ()),
    ("recall", "dqn", 3_000, ()),
    ("catch", "rainbow", 3_000, ()),
    ("catch", "btr", 3_000, ()),
    ("atari", "sac", 9_000, ("--replay_buffer_min_size=500",)),
    ("gym", "ppo", 3_000, ("--game=Pendulum-v1",)),
    ("gym", "vtrace", 3_000, ("--game=Pendulum-v1",)),
    ("gym", "pqn", 2_000, ("--game=minigrid:MiniGrid-Empty-5x5-v0",)),
    ("gym", "r2d2", 8_000, ("--game=minigrid:MiniGrid-Empty-5x5-v0", "--replay_buffer_min_size=100")),
]


@pytest.mark.parametrize(("environment", "agent", "frames", "flags"), PAIRS)
def test_a_pair_without_a_preset_trains(house, environment, agent, frames, flags):
    ending = (f"--total_environment_frames={frames}", f"--logdir={house.logdir}", "--log_period_secs=1")
    run = house.start("train", environment, agent, *flags, *ending)
    assert run.end() == 0, run.output
    assert f"no preset for {environment} {agent}: defaults for" in run.output
    last = house.metrics()[-1]
    assert last["env_frames"] >= frames and last["updates"] > 0
