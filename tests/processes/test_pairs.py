"""Each agent trains in each environment, from the launcher to metrics."""

import math
import signal

import pytest

from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.runs import record
from tests.selection import mostly_long

AGENTS = algorithms.choices()
# Environments, with a game of continuous actions besides; and the kind of actions.
ENVIRONMENTS = [*((name, (), "discrete") for name in environments.names())]
PENDULUM, MINIGRID = "--game=Pendulum-v1", "--game=minigrid:MiniGrid-Empty-5x5-v0"
ENVIRONMENTS += [("gym", (PENDULUM,), "continuous"), ("gym", (MINIGRID,), "discrete")]
PAIRS = [(*environment, agent) for environment in ENVIRONMENTS for agent in AGENTS]
# Pairs without a preset, in every kind of observation and action, by environment or game.
OFTEN = {
    **{"minatar": ("a2c", "appo"), "recall": ("dqn",), "catch": ("rainbow",), "atari": ("sac",)},
    **{PENDULUM: ("ppo", "vtrace"), MINIGRID: ("pqn", "r2d2")},
}


def is_often(environment, game, action, agent):
    return agent in OFTEN.get(*game or (environment,), ())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("environment", "game", "action", "agent"),
    mostly_long(PAIRS, [pair for pair in PAIRS if is_often(*pair)]),
)
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
    if is_often(environment, game, action, agent):
        assert f"no preset for {environment} {agent}: defaults for" in run.output
    assert record.read(str(house.logdir)).learner_settings["total_environment_frames"] < 10**9
    last = house.metrics()[-1]
    assert last["updates"] > 0 and all(map(math.isfinite, last.values()))
    print(f"{environment} {' '.join(game)} {agent}: {last['env_frames']:,} frames, {last['updates']} updates")
