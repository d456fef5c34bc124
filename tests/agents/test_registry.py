import subprocess
import sys

import pytest

from seed_rl.agents import registry
from seed_rl.agents.base import Agent
from seed_rl.options import Options
from seed_rl.types import ArraySpec, EnvironmentSpec

SPEC = EnvironmentSpec(ArraySpec((3,), "float32"), ArraySpec((), "int32", (0,), (1,)))


def test_names_and_config_classes_import_no_tensorflow():
    code = (
        "import sys\nfrom seed_rl.agents import registry\n"
        "for name in registry.names(): registry.config_class(name)()\n"
        "sys.exit('tensorflow' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("name", registry.names())
def test_every_agent_is_made_from_its_config_class(name):
    config_class = registry.config_class(name)
    assert issubclass(config_class, Options)
    assert isinstance(registry.make_agent(name, config_class(), SPEC, num_envs=2), Agent)


def test_an_unknown_name_is_refused():
    sentence = "--agent=sarsa is not valid; choose one of: .*vtrace"
    with pytest.raises(ValueError, match=sentence):
        registry.config_class("sarsa")
    with pytest.raises(ValueError, match=sentence):
        registry.make_agent("sarsa", Options(), SPEC, 1)
