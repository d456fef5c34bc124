"""Several players of Google Research Football, on a stand-in for gfootball's arrays.

The real engine is compared in test_football.py, where it is installed.
"""

import sys
import types

import numpy as np
import pytest

from seed_rl.environments.base import Info
from seed_rl.environments.making import make_batch
from seed_rl.environments.suites import football
from seed_rl.environments.suites.football import SUITE, FootballConfig

LENGTH = 3
THREE = FootballConfig(game="academy_3_vs_1", players=3)


class Engine:
    """Player i scores by the action i + 1 in the last frame, for all; each is alone in row i of the map."""

    def __init__(self, game, number_of_left_players_agent_controls, **settings):
        self.size, self.settings = number_of_left_players_agent_controls, settings
        self.action_space = types.SimpleNamespace(nvec=np.full(self.size, 19))
        self.unwrapped = types.SimpleNamespace(_config={})

    def reset(self):
        self.time = 0
        return self.planes()

    def step(self, actions):
        assert len(actions) == self.size
        self.time += 1
        ends = self.time == LENGTH
        goal = float(ends and actions == list(range(1, self.size + 1)))
        return self.planes(), np.full(self.size, goal, np.float32), ends, {"score_reward": goal}

    def planes(self):
        found = np.zeros((self.size, 72, 96, 4), np.uint8)
        found[:, : self.size, self.time, 0] = 255  # The team, which all see.
        for index in range(self.size):
            found[index, index, self.time, 3] = 255
        return found

    def close(self):
        pass


@pytest.fixture(autouse=True)
def engine(monkeypatch, tmp_path):
    engine = types.SimpleNamespace(create_environment=Engine)
    monkeypatch.setattr(football, "_engine", lambda: engine)
    (tmp_path / "academy_3_vs_1.py").touch()
    scenarios = types.SimpleNamespace(__path__=[str(tmp_path)])
    monkeypatch.setitem(sys.modules, "gfootball", types.SimpleNamespace(scenarios=scenarios))


def active(output):
    """The row of the player that each sees as its own."""
    planes = np.unpackbits(output.observation, axis=-1).reshape(-1, 72, 96, 4)
    return np.argmax(planes[..., 3].any(axis=2), axis=1).tolist()


def test_each_player_sees_itself_as_the_controlled_one_and_all_share_goals():
    batch = make_batch(SUITE, THREE, range(6))
    assert (THREE.engine, batch.spec.num_players, batch.spec.action.num_values) == ("gfootball", 3, (19,))
    output = batch.reset(range(6))
    assert active(output) == [0, 1, 2] * 2
    assert output.done.all() and not output.truncated.any()
    actions = np.array([1, 2, 3, 1, 2, 18], np.int32)
    for _ in range(LENGTH):
        assert not output.reward.any()
        output, infos = batch.step(actions)
    assert output.reward.tolist() == [1, 1, 1, 0, 0, 0]
    assert output.done.all() and not output.truncated.any()
    assert [info[Info.PLAYER_EPISODE] for info in infos] == [(1.0, LENGTH)] * 3 + [(0.0, LENGTH)] * 3
    batch.close()


def test_several_players_need_the_original_engine():
    with pytest.raises(ValueError, match=r"^--engine=envpool has .*--players=1 only; use --eng"):
        FootballConfig(engine="envpool", players=3)
    with pytest.raises(ValueError, match="--num_action_repeats=4 is not possible with several players"):
        make_batch(SUITE, FootballConfig(game="academy_3_vs_1", players=3, num_action_repeats=4), range(3))
    with pytest.raises(ValueError, match="3 players, each an environment"):
        make_batch(SUITE, THREE, range(4))
