"""docker/compose*.yaml: their commands have flags that the programs know, and their services fit together.

tools/prove_images.sh has Docker Compose itself read it and run it.
"""

import dataclasses
import re
import shlex
from pathlib import Path

import pytest
import yaml

from seed_rl.actor.config import ActorConfig
from seed_rl.flags.command_line import parse
from seed_rl.launch.config import LocalConfig
from seed_rl.learner.config import LearnerConfig
from seed_rl.wire.hosts import find_hosts
from seed_rl.wire.security import SecurityConfig

ROOT = Path(__file__).resolve().parents[2]


def content(name="compose.yaml", **variables):
    """A file of Compose, with these variables set, as Docker Compose would put them in."""
    text = (ROOT / "docker" / name).read_text()
    text = re.sub(r"^ *#.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\$\{(\w+):[-?]([^}]*)\}", lambda match: variables.get(match[1]) or match[2], text)
    assert "$" not in text
    return yaml.safe_load(text)


def services(name="compose.yaml", **variables):
    return content(name, **variables)["services"]


def learner(service):
    argv = ["learner_main", *service.get("entrypoint", [])[3:], *shlex.split(service["command"])]
    line = parse(argv, "", (LearnerConfig, SecurityConfig), elsewhere=(ActorConfig, LocalConfig))
    return line, line.read(LearnerConfig)


def actor(service):
    argv = ["actor_main", *shlex.split(service["command"])]
    classes = (ActorConfig, SecurityConfig)
    line = parse(argv, "", classes, with_agent=False, elsewhere=(LearnerConfig, LocalConfig))
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
    hosts = {f"learner-host-{i}": ["hosts"] for i in range(2)}
    assert profiles == {"learner": ["cpu"], "learner-gpu": ["gpu"], **hosts}
    assert found["learner-gpu"]["command"] == found["learner"]["command"]
    assert found["learner-gpu"]["build"]["args"]["ACCELERATOR"] == "gpu"
    devices = found["learner-gpu"]["deploy"]["resources"]["reservations"]["devices"]
    assert devices == [{"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}]


def test_one_service_builds_each_image():
    images = [service["image"] for service in services().values() if "build" in service]
    assert sorted(images) == sorted(set(images))
    assert len(images) == len(services())


def test_an_image_is_made_from_the_stage_of_its_name():
    stages = re.findall(r"^FROM \S+ AS (\S+)$", (ROOT / "docker" / "Dockerfile").read_text(), re.MULTILINE)
    for name, service in services().items():
        target = service["build"]["target"]
        assert target in stages and service["image"].startswith(f"seed_rl-{target}"), name


def test_the_gpu_profile_demands_a_gpu():
    found = services()
    assert found["learner-gpu"]["entrypoint"][:3] == ["python", "-m", "seed_rl.learner_main"]
    assert learner(found["learner-gpu"])[1].require_accelerator
    assert not learner(found["learner"])[1].require_accelerator


def test_two_learner_hosts_know_each_other_and_the_actors_know_the_first():
    found = services(SEED_RL_LEARNER_FLAGS="--num_envs=64")
    names = ["learner-host-0", "learner-host-1"]
    configs = [learner(found[name])[1] for name in names]
    same = [dataclasses.replace(config, learner_index=0) for config in configs]
    assert same[0] == same[1] and same[0].num_envs == 64
    hosts = [find_hosts(config.learner_hosts, config.learner_index, {}) for config in configs]
    assert [host.index for host in hosts] == [0, 1]
    hosts[0].check(learner(services()["learner-host-0"])[1].num_envs, 0, configs[0].batch_size)
    assert hosts[0].address == actor(found["actor"])[1].server_address
    assert configs[0].logdir == learner(found["learner"])[1].logdir
    for name, host in zip(names, hosts, strict=True):
        service = found[name]
        directory = host.address.removeprefix("unix:").rpartition("/")[0]
        assert (
            f"socket:{directory}" in service["volumes"] and f"socket:{directory}" in found["actor"]["volumes"]
        )
        # TensorFlow's connections between them are on the loopback device of a network that both use.
        assert host.machine() == "127.0.0.1" and service["network_mode"] == "service:tensorboard"
    assert found[names[1]]["healthcheck"]["test"][-1] == hosts[1].address
    assert "profiles" not in found["tensorboard"]


def test_two_machines_meet_over_tls_with_a_token():
    for name, service in services("compose.tls-learner.yaml").items():
        line, config = learner(service)
        security = line.read(SecurityConfig)
        assert config.server_address == "0.0.0.0:8686"
        assert config.logdir == learner(services()[name])[1].logdir
        assert service["ports"] == ["0.0.0.0:8686:8686"]
        assert not security.insecure
        mine = {security.tls_certificate, security.tls_key, security.token_file}
        assert mine == {f"/run/secrets/{secret}" for secret in service["secrets"]}
        assert service["healthcheck"]["test"][-2:] == [security.tls_certificate, "seed-rl-learner"]
    (service,) = services("compose.tls-actors.yaml", SEED_RL_LEARNER="learner.example").values()
    line, config = actor(service)
    security = line.read(SecurityConfig)
    assert config.server_address == "learner.example:8686" and not security.insecure
    assert security.tls_server_name == "seed-rl-learner"
    theirs = {security.tls_authority, security.token_file}
    assert theirs == {f"/run/secrets/{secret}" for secret in service["secrets"]}
    assert "/run/secrets/learner.key" in mine - theirs
    assert service["network_mode"] != services()["actor"]["network_mode"] == "none"


@pytest.mark.parametrize("name", ["compose.tls-learner.yaml", "compose.tls-actors.yaml"])
def test_secrets_are_files_of_one_folder_that_git_ignores(name):
    found = content(name)
    used = {secret for service in found["services"].values() for secret in service["secrets"]}
    assert {name: secret["file"] for name, secret in found["secrets"].items()} == {
        name: f"./secrets/{name}" for name in used
    }
    assert "/docker/secrets/" in (ROOT / ".gitignore").read_text().splitlines()


def test_what_is_open_to_others_is_tensorboard_on_this_machine_only():
    found = services()
    assert {name: service["ports"] for name, service in found.items() if "ports" in service} == {
        "tensorboard": ["127.0.0.1:6006:6006"]
    }
