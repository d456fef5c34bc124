"""The files in docs/ray, which nothing here can apply: their shape, and the commands in them."""

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from seed_rl.cluster.cluster_config import ClusterConfig
from seed_rl.commands import cluster
from seed_rl.launch.plan import make_plan

MANIFESTS = Path(__file__).resolve().parents[2] / "docs" / "ray"


@pytest.fixture
def job():
    return yaml.safe_load((MANIFESTS / "rayjob.yaml").read_text())


def groups(job):
    cluster = job["spec"]["rayClusterSpec"]
    return {"head": cluster["headGroupSpec"]} | {g["groupName"]: g for g in cluster["workerGroupSpecs"]}


def pod(group):
    return group["template"]["spec"]


def test_every_pod_may_write_to_the_claim(job):
    assert job["kind"] == "RayJob"
    for group in groups(job).values():
        assert pod(group)["securityContext"]["fsGroup"] == 100
        (container,) = pod(group)["containers"]
        (mount,) = container["volumeMounts"]
        (volume,) = pod(group)["volumes"]
        assert mount["name"] == volume["name"]
        assert mount["mountPath"] == "/shared"


def test_the_jobs_entrypoint_is_a_command_that_its_cluster_has_room_for(job):
    python, dash_m, program, command, *args = shlex.split(job["spec"]["entrypoint"])
    assert (python, dash_m, program, command) == ("python", "-m", "seed_rl", "cluster")
    settings = cluster.resolved(["cluster", *args])
    config, plan = settings.read(ClusterConfig), make_plan(settings, None)
    cpus = {
        name: group.get("replicas", 1) * int(pod(group)["containers"][0]["resources"]["limits"]["cpu"])
        for name, group in groups(job).items()
    }
    assert groups(job)["head"]["rayStartParams"]["num-cpus"] == "0"
    assert config.learner_cpus == cpus["learner"]
    assert config.actor_cpus * len(plan.actors) <= cpus["actors"]
    limits = pod(groups(job)["learner"])["containers"][0]["resources"]["limits"]
    assert str(config.learner_gpus) == limits["nvidia.com/gpu"]
    assert plan.logdir.is_relative_to("/shared")


def test_the_learners_hook_ends_learners_only_and_waits_for_them(job, tmp_path):
    (container,) = pod(groups(job)["learner"])["containers"]
    shell, dash_c, script = container["lifecycle"]["preStop"]["exec"]["command"]
    assert script.endswith("\nray stop\n")
    code = "import time; print(flush=True); time.sleep(600)"
    other_commands = ["python -m seed_rl actor", "bash -c learners=$(grep 'seed_rl learner')"]
    processes = []
    try:
        for command in ("python -m seed_rl learner --logdir=/shared/runs/breakout", *other_commands):
            processes.append(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE))
            processes[-1].stdout.read(1)
            directory = tmp_path / str(processes[-1].pid)
            directory.mkdir()
            (directory / "cmdline").write_bytes(command.replace(" ", "\0").encode() + b"\0")
        # Real process ids, of which a directory in the place of /proc says what they run.
        script = script.replace("/proc/[0-9]*", f"{tmp_path}/[0-9]*").replace(
            "cut -d/ -f3", f"cut -d/ -f{len(tmp_path.parts) + 1}"
        )
        script = script.replace("\nray stop\n", "\necho left\n")
        processes.append(subprocess.Popen([shell, dash_c, script], stdout=subprocess.PIPE, text=True))
        learner, *others, hook = processes
        assert learner.wait(60) == -signal.SIGTERM
        assert hook.communicate(timeout=60)[0] == "left\n"
        assert [process.poll() for process in others] == [None, None]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_machines_install_a_wheel_that_was_built_once():
    cluster = yaml.safe_load((MANIFESTS / "cluster.yaml").read_text())
    (folder,) = [target for target, source in cluster["file_mounts"].items() if source == "dist"]
    installs = [line for line in cluster["setup_commands"] if "pip install" in line]
    assert installs
    assert all(f"{folder}/seed_rl-*.whl" in line for line in installs)
    for commands in ("head_start_ray_commands", "worker_start_ray_commands"):
        assert cluster[commands][-1].startswith("RAY_AUTH_MODE=token ")


def test_nothing_is_installed_from_pypi_by_a_name_that_is_not_ours():
    for path in (*MANIFESTS.iterdir(), MANIFESTS.parent / "ray.md"):
        for line in path.read_text().splitlines():
            if "pip install" in line:
                assert not any(word.lstrip("'\"").startswith("seed_rl") for word in line.split()), line
