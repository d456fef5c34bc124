"""Each agent trains in each environment, from the launcher to metrics."""

import math
import signal

import pytest

from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.runs import record

# Environment and agent without a preset, and environment frames; in every kind of observation and action.
PAIRS = [
    ("minatar", "a2c", 1_500, ()),
    ("minatar", "appo", 3_000, ()),
    ("recall", "dqn", 3_000, ()),
    ("catch", "rainbow", 3_000, ()),
    ("atari", "sac", 9_000, ("--replay_buffer_min_size=500",)),
    ("gym", "ppo", 3_000, ("--game=Pendulum-v1",)),
    ("gym", "vtrace", 3_000, ("--game=Pendulum-v1",)),
    ("gym", "pqn", 2_000, ("--game=minigrid:MiniGrid-Empty-5x5-v0",)),
    ("gym", "r2d2", 8_000, ("--game=minigrid:MiniGrid-Empty-5x5-v0", "--replay_buffer_min_size=100")),
]


@pytest.mark.slow
@pytest.mark.parametrize(("environment", "agent", "frames", "flags"), PAIRS)
def test_a_pair_without_a_preset_trains(house, environment, agent, frames, flags):
    ending = (f"--total_environment_frames={frames}", f"--logdir={house.logdir}", "--log_period_secs=1")
    run = house.start("train", environment, agent, *flags, *ending)
    assert run.end() == 0, run.output
    assert f"no preset for {environment} {agent}: defaults for" in run.output
    last = house.metrics()[-1]
    assert last["env_frames"] >= frames and last["updates"] > 0


AGENTS = algorithms.choices()
# Environments, with a game of continuous actions besides; and the kind of actions.
ENVIRONMENTS = [*((name, (), "discrete") for name in environments.names())]
ENVIRONMENTS += [("gym", ("--game=Pendulum-v1",), "continuous")]


@pytest.mark.long
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize(("environment", "game", "action"), ENVIRONMENTS)
def test_every_pair_trains_for_20_seconds_or_is_refused(house, environment, game, action, agent):
    """With the settings that the command has by itself, on a small machine."""
    if environment == "dmlab":
        (house.path / "deepmind_lab.py").write_text(
            "from tests.environments.suites.dmlab_double import Lab\n"
        )
    if environment == "football":
        pytest.importorskip("gfootball")
    flags = (f"--logdir={house.logdir}", "--log_period_secs=1")
    run = house.start("train", environment, agent, *game, *flags)
    if algorithms.config_class(algorithms.base(agent)).refusal(action):
        assert run.end() == 2 and f"--agent={algorithms.base(agent)} needs" in run.last_line
        return

    def trained():
        lines = house.metrics()
        return not run.running or (lines and lines[-1]["updates"] and lines[-1]["seconds"] >= 20)

    house.wait_until(trained, lambda: f"20 s of training; the output is: {run.output}", 300)
    if run.running:
        run.signal(signal.SIGINT)
    assert run.end() in (0, 128 + signal.SIGINT), run.output
    assert record.read(str(house.logdir)).learner_settings["total_environment_frames"] < 10**9
    last = house.metrics()[-1]
    assert last["updates"] > 0 and all(map(math.isfinite, last.values()))
    print(f"{environment} {' '.join(game)} {agent}: {last['env_frames']:,} frames, {last['updates']} updates")
