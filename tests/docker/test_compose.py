"""docker/compose.yaml: its commands have flags that the programs know, and its services fit together.

tools/prove_images.sh has Docker Compose itself read it and run it.
"""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from seed_rl.actor.config import ActorConfig
from seed_rl.flags.command_line import parse
from seed_rl.launch.config import LocalConfig
from seed_rl.learner.config import LearnerConfig

ROOT = Path(__file__).resolve().parents[2]


def services(**variables):
    """The services, with these variables set, as Docker Compose would put them in."""
    text = (ROOT / "docker" / "compose.yaml").read_text()
    text = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda match: variables.get(match[1]) or match[2], text)
    assert "$" not in text
    return yaml.safe_load(text)["services"]


def learner(service):
    argv = ["learner_main", *shlex.split(service["command"])]
    line = parse(argv, "", (LearnerConfig,), elsewhere=(ActorConfig, LocalConfig))
    return line, line.read(LearnerConfig)


def actor(service):
    argv = ["actor_main", *shlex.split(service["command"])]
    line = parse(argv, "", (ActorConfig,), with_agent=False, elsewhere=(LearnerConfig, LocalConfig))
    return line, line.read(ActorConfig)


@pytest.fixture(autouse=True)
def where_the_presets_are(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize("name", ["learner", "learner-gpu"])
def test_the_learner_knows_its_flags(name):
    line, config = learner(services()[name])
    assert (line.environment, line.agent) == ("catch", "vtrace")
    assert config.server_address == "unix:/run/seed_rl/learner.sock"
    assert config.logdir == "/runs/catch_vtrace_small"


def test_the_actor_knows_its_flags_and_leases_a_task():
    line, config = actor(services()["actor"])
    assert line.environment == "catch"
    assert config.server_address == learner(services()["learner"])[1].server_address
    assert "--task=auto" in shlex.split(services()["actor"]["command"])


def test_variables_choose_what_is_trained():
    chosen = services(
        SEED_RL_PRESET="atari_vtrace",
        SEED_RL_FLAGS="--game=Pong --num_action_repeats=2",
        SEED_RL_LEARNER_FLAGS="--num_envs=256 --logdir=/runs/pong",
        SEED_RL_ACTOR_FLAGS="--env_batch_size=16 --num_env_groups=2",
    )
    learner_line, learner_config = learner(chosen["learner"])
    actor_line, actor_config = actor(chosen["actor"])
    assert learner_line.environment_config() == actor_line.environment_config()
    assert learner_line.environment_config().game == "Pong"
    assert (learner_config.num_envs, learner_config.logdir) == (256, "/runs/pong")
    assert (actor_config.env_batch_size, actor_config.num_env_groups) == (16, 2)


def test_one_learner_runs_by_default_and_the_other_has_the_gpu():
    found = services()
    assert "COMPOSE_PROFILES=cpu" in (ROOT / "docker" / ".env").read_text().splitlines()
    profiles = {name: service["profiles"] for name, service in found.items() if "profiles" in service}
    assert profiles == {"learner": ["cpu"], "learner-gpu": ["gpu"]}
    assert found["learner-gpu"]["command"] == found["learner"]["command"]
    assert found["learner-gpu"]["build"]["args"]["ACCELERATOR"] == "gpu"
    devices = found["learner-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert devices == [{"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}]


def test_what_is_open_to_others_is_tensorboard_on_this_machine_only():
    found = services()
    assert {name: service["ports"] for name, service in found.items() if "ports" in service} == {
        "tensorboard": ["127.0.0.1:6006:6006"]
    }
