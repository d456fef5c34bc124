"""Images for GPUs, several learner hosts, and published ports, which tools/prove_images.sh cannot check.

That script builds the images for CPUs through Docker Compose, and trains in them.
"""

import dataclasses
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from seed_rl.actor.actor_config import ActorConfig
from seed_rl.flags.resolve import resolve
from seed_rl.hosts.addresses import find_hosts
from seed_rl.launch.plan import LocalConfig
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.wire.security import SecurityConfig

ROOT = Path(__file__).resolve().parents[2]


def services(**variables):
    """The services of compose.yaml with these variables set, as Docker Compose would put them in."""
    text = (ROOT / "docker" / "compose.yaml").read_text()
    text = re.sub(r"^ *#.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\$\{(\w+):[-?]([^}]*)\}", lambda match: variables.get(match[1]) or match[2], text)
    return yaml.safe_load(text)["services"]


def learner(service):
    argv = ["learner", *service.get("entrypoint", [])[4:], *shlex.split(service["command"])]
    line = resolve(argv, "", (LearnerConfig, SecurityConfig), elsewhere=(ActorConfig, LocalConfig))
    return line, line.read(LearnerConfig)


def actor(service):
    argv = ["actor", *shlex.split(service["command"])]
    classes = (ActorConfig, SecurityConfig)
    line = resolve(argv, "", classes, with_agent=False, elsewhere=(LearnerConfig, LocalConfig))
    return line, line.read(ActorConfig)


@pytest.fixture(autouse=True)
def where_the_presets_are(monkeypatch):
    monkeypatch.chdir(ROOT)


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
    assert found["learner-gpu"]["entrypoint"][:4] == ["python", "-m", "seed_rl", "learner"]
    assert learner(found["learner-gpu"])[1].require_accelerator
    assert not learner(found["learner"])[1].require_accelerator
    # Open to others is TensorBoard, on this machine only.
    ports = {name: service["ports"] for name, service in found.items() if "ports" in service}
    assert ports == {"tensorboard": ["127.0.0.1:6006:6006"]}


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


def requirements(*args):
    command = [sys.executable, "docker/requirements.py", *args]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_the_linter_finds_nothing():
    linter = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([linter, ROOT / "docker/Dockerfile"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "")


ON_CPUS = ["tensorflow-cpu>=2; platform_machine == 'x86_64'", "tensorflow>=2; platform_machine != 'x86_64'"]


@pytest.mark.parametrize(
    ("accelerator", "lines"), [("cpu", ON_CPUS), ("gpu", ["tensorflow>=2", "tensorflow[and-cuda]>=2"])]
)
def test_the_accelerator_picks_the_learners_tensorflow(accelerator, lines):
    found = requirements("--suites=catch", f"--accelerator={accelerator}").stdout.splitlines()
    assert {"keras", "tensorboard", "grpcio"} <= {re.match(r"[\w-]+", line)[0] for line in found}
    assert [re.sub(r">=2[^;]*", ">=2", line) for line in found if line.startswith("tensorflow")] == lines


def test_a_suite_that_does_not_exist_is_one_sentence():
    done = requirements("--suites=atari,atarri")
    assert done.returncode == 2 and done.stdout == ""
    assert "no extra 'atarri' for --suites=atari,atarri; take it out." in done.stderr
