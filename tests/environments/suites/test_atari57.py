"""Every game of Atari-57 plays, by the name that its scores are published under."""

import csv
from pathlib import Path

import numpy as np
import pytest

import seed_rl.runs
from seed_rl.environments.suites.atari import SUITE, AtariConfig
from tests.selection import mostly_slow

pytest.importorskip("ale_py")
pytest.importorskip("cv2")

TABLE = Path(seed_rl.runs.__file__).parent / "data" / "atari57_scores.csv"
GAMES = [row["game"] for row in csv.DictReader(TABLE.open(encoding="utf-8"))]


def test_there_are_57():
    assert len(set(GAMES)) == 57


@pytest.mark.parametrize("game", mostly_slow(GAMES, ["Breakout", "Pong", "Skiing"]))
def test_a_hundred_agent_steps(game):
    env = SUITE.make(AtariConfig(game=game), 0)
    # The paper has 18 actions for every game; the emulator takes only half of them for Skiing.
    assert env.action_space.n == (9 if game == "Skiing" else 18)
    observation, _ = env.reset(seed=1)
    random = np.random.default_rng(0)
    seen = {observation.tobytes()}
    for _ in range(100):
        observation, reward, terminated, truncated, _ = env.step(int(random.integers(env.action_space.n)))
        assert env.observation_space.contains(observation)
        assert np.isfinite(reward)
        seen.add(observation.tobytes())
        if terminated or truncated:
            env.reset()
    assert len(seen) > 10  # Something moves.
    env.close()
