"""The names of methods in print."""

import pytest

from seed_rl.algorithms import registry as algorithms
from seed_rl.flags.configs import configs_directory
from seed_rl.launch.plan import parse_local
from seed_rl.plotting.methods import method_name
from tests.plotting.synthetic import make_record


@pytest.mark.parametrize(
    ("preset", "name"),
    [
        ("paper/others/atari_rainbow", "Rainbow"),
        ("small/atari_rainbow_pong", "ε-Rainbow"),
        ("small/minatar_rainbow", "Rainbow"),
        ("paper/others/atari_btr", "BTR in part"),
        ("paper/others/atari_dqn", "DQN"),
        ("paper/accelerated_methods/atari_dqn_epsilon_rainbow", "ε-Rainbow"),
        ("small/minatar_dqn", "DQN"),
        ("small/catch_vtrace", "V-trace"),
    ],
)
def test_names_of_presets(preset, name):
    line = parse_local(["train", f"--flagfile={configs_directory() / preset}.flags"], "")
    assert method_name(make_record(agent=line.agent, **line.agent_config().to_dict())) == name


def test_every_agent_has_a_name_and_one_of_another_package_keeps_its_own():
    names = {agent: method_name(make_record(agent=agent)) for agent in algorithms.names()}
    assert len(set(names.values())) == len(names)
    assert method_name(make_record(agent="their_agent")) == "their_agent"
