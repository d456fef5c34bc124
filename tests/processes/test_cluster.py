"""Runs on a Ray cluster of several nodes on this machine, which lose nodes.

All of it is on the loopback device, and the cluster has token authentication.
"""

import importlib.util
import os
import re
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import unittest.mock
from pathlib import Path

import psutil
import pytest

from seed_rl.cluster.cluster_config import LOOPBACK_ONLY
from tests.environments import slow
from tests.ports import CLUSTER, free_ports

# It must not be imported before its environment variables are set.
if importlib.util.find_spec("ray") is None:
    pytest.skip("needs the extra [ray]", allow_module_level=True)

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
NUM_ACTORS = 4
FOR_EVER = "--total_environment_frames=1000000000000"


class Nodes:
    """A local Ray cluster, whose head node is the first that is added."""

    def __init__(self, directory: str):
        from ray.cluster_utils import Cluster

        self.directory = Path(directory)
        self.temporary = self.directory / "tmp"
        self._cluster = Cluster()

    def add(self, num_cpus: float, num_gpus: int = 0):
        return self._cluster.add_node(
            num_cpus=num_cpus,
            num_gpus=num_gpus,
            node_ip_address="127.0.0.1",
            include_dashboard=False,
            object_store_memory=80 * 2**20,
        )

    def of(self, process: psutil.Process):
        """The node that a process runs on."""
        above = {parent.pid for parent in process.parents()}
        nodes = [self._cluster.head_node, *self._cluster.worker_nodes]
        return next(node for node in nodes if node.all_processes["raylet"][0].process.pid in above)

    def remove(self, node) -> None:
        """Switches a node off: all of its processes are killed."""
        self._cluster.remove_node(node, allow_graceful=False)

    @property
    def address(self) -> str:
        return self._cluster.address

    def close(self) -> None:
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def nodes():
    # Ray reads whether there is a token when it is imported, and pytest has one process for many files.
    assert "ray" not in sys.modules, "a test has imported ray; let it start a process instead"
    directory = tempfile.mkdtemp(prefix="ray_", dir="/tmp")  # A short path: there will be sockets in it.
    os.mkdir(f"{directory}/tmp")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("RAY_TMPDIR", directory),
            ("TMPDIR", f"{directory}/tmp"),
            ("RAY_AUTH_MODE", "token"),
            ("RAY_AUTH_TOKEN", secrets.token_hex(16)),
            ("PYTHONPATH", str(ROOT)),
            (slow.UNTIL, f"{directory}/go"),
            *LOOPBACK_ONLY.items(),
        ):
            patch.setenv(name, value)
        found = Nodes(directory)
        for _ in range(3):
            found.add(1)
        yield found
        found.close()
    shutil.rmtree(directory, ignore_errors=True)


def start(house, nodes, *flags, code=None):
    return house.start(
        "cluster",
        *house.small,
        f"--ray_address={nodes.address}",
        f"--logdir={house.logdir}",
        f"--num_actors={NUM_ACTORS}",
        "--actor_cpus=0.25",
        *flags,
        code=code,
    )


def processes_of(module, *arguments):
    wanted = {"seed_rl", module, *arguments}
    return [p for p in psutil.process_iter(["cmdline"]) if wanted <= set(p.info["cmdline"] or ())]


def tasks(house):
    """The tasks that each actor was given, one list an actor."""
    paths = [house.logdir / f"actor_{i}.log" for i in range(NUM_ACTORS)]
    logs = [path.read_text() if path.exists() else "" for path in paths]
    return [[int(task) for task in re.findall(r"given this actor task (\d+)", log)] for log in logs]


def test_training_goes_on_when_a_node_with_actors_is_lost(house, nodes):
    run = start(house, nodes, FOR_EVER)
    house.wait_until(lambda: all(tasks(house)), "a task for every actor")
    (learner,) = processes_of("learner", f"--settings={house.logdir}/settings.json")
    token = learner.environ()["SEED_RL_TOKEN"]
    lines = [process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"])]
    assert not any(token in argument for line in lines for argument in line)
    address = next(flag for flag in learner.cmdline() if flag.startswith("--server_address="))
    assert nodes.of(learner).is_head()
    homes = [nodes.of(actor) for actor in processes_of("actor", address)]
    assert not homes[0].is_head()
    num_lost = homes.count(homes[0])
    assert 0 < num_lost < NUM_ACTORS
    nodes.remove(homes[0])
    house.wait_until(
        lambda: sum(map(len, tasks(house))) >= NUM_ACTORS + num_lost,
        lambda: f"{num_lost} new actors with a task, not {tasks(house)}; the output is: {run.output}",
    )
    assert sorted(mine[-1] for mine in tasks(house)) == list(range(NUM_ACTORS))
    assert run.output.count("was ended by SIGKILL (seed_rl: Ray lost actor") == num_lost
    frames = house.metrics()[-1]["env_frames"]
    house.wait_for_metrics(lambda line: line["env_frames"] > frames, run)
    run.signal(signal.SIGINT)
    assert run.end() == 130, run.output
    assert not learner.is_running()
    files = [path for path in (*house.path.rglob("*"), *nodes.directory.rglob("*")) if path.is_file()]
    assert len(files) > 20
    assert [path for path in files if token.encode() in path.read_bytes()] == []
    assert list(nodes.temporary.glob("seed_rl_*")) == []


def test_stop_resume_and_end_and_loss_of_the_learners_node(house, nodes):
    """Also SIGTERM, and the node is gone, as by Kubernetes' preStop hook in docs/ray/rayjob.yaml."""
    for _ in range(3):
        nodes.add(1, num_gpus=1)  # Resources that Ray does not detect.
    flags = ("--learner_gpus=1", "--norequire_accelerator", "--save_checkpoint_secs=100000", FOR_EVER)
    settings = f"--settings={house.logdir}/settings.json"

    def stop(run, number):
        run.signal(number)
        assert run.end() == 128 + number, run.output
        assert run.last_line == "seed_rl: stopped; the same command resumes it."
        return len(house.metrics())

    run = start(house, nodes, *flags)
    house.wait_for_metrics(lambda line: line["env_frames"] > 3000, run)
    stopped = stop(run, signal.SIGINT)
    frames = house.metrics()[-1]["env_frames"]

    run = start(house, nodes, *flags)
    house.wait_for_metrics(lambda line: line["env_frames"] > frames, run, after=stopped)
    (learner,) = processes_of("learner", settings)
    assert learner.environ()["CUDA_VISIBLE_DEVICES"] == "0"
    node = nodes.of(learner)
    learner.terminate()
    run.wait_for("a learner was stopped on its node; the learner restarts from the last checkpoint.")
    seen = len(house.metrics())
    saved = house.metrics()[-1]["env_frames"]
    nodes.remove(node)
    assert house.wait_for_metrics(lambda line: True, run, after=seen)["env_frames"] >= saved

    (learner,) = processes_of("learner", settings)
    assert nodes.of(learner) is not node
    nodes.remove(nodes.of(learner))
    run.wait_for("the learner's node was lost; the learner restarts from the last checkpoint.")
    house.wait_until(lambda: processes_of("learner", settings), lambda: f"another learner: {run.output}")
    house.wait_for_metrics(lambda line: line["updates"] > 0, run, after=len(house.metrics()))
    stop(run, signal.SIGTERM)
    assert min(line["env_frames"] for line in house.metrics()[stopped:]) >= frames


def test_two_learners_on_two_nodes_restart_together_when_one_loses_its_node(house, nodes):
    for _ in range(2):
        nodes.add(2)
    total = 6_000
    game = ("--environment=gym", f"--game={slow.GAME}", f"--total_environment_frames={total}")
    flags = ("--num_learners=2", "--learner_cpus=2", "--host_timeout_secs=60", "--save_checkpoint_secs=0.5")
    run = start(house, nodes, *game, *flags)
    house.wait_for_checkpoint(run)
    settings = f"--settings={house.logdir}/settings.json"
    first, second = (processes_of("learner", settings, f"--learner_index={i}")[0] for i in range(2))
    lost = nodes.of(second)
    assert lost is not nodes.of(first)
    nodes.add(2)
    nodes.remove(lost)
    (nodes.directory / "go").touch()
    run.wait_for("learner 1's node was lost; all learners restart from the last checkpoint.")
    assert run.end() == 0, run.output
    assert "Resuming from" in run.output and "Training is complete" in run.output
    assert house.metrics()[-1]["env_frames"] >= total
    assert "Training is complete" in (house.logdir / "learner_1.log").read_text()


# The learner that is started first finds another listener at its port.
TAKEN_ONCE = """
import os, runpy, socket, sys
address = next(arg for arg in sys.argv if arg.startswith("--server_address=")).partition("=")[2]
settings = next(arg for arg in sys.argv if arg.startswith("--settings=")).partition("=")[2]
logdir = os.path.dirname(settings)
if not os.path.exists(logdir + "/taken"):
    open(logdir + "/taken", "w").close()
    host, _, port = address.rpartition(":")
    listener = socket.create_server((host, int(port)))
sys.argv.insert(1, "learner")
runpy.run_module("seed_rl", run_name="__main__")
"""
WITH_THAT_LEARNER = f"""
import dataclasses, sys
from seed_rl.commands import cluster
from seed_rl.flags.errors import run_main
make_plan = cluster.make_plan
def changed_plan(line, address):
    plan = make_plan(line, address)
    (learner,) = plan.learners
    return dataclasses.replace(plan, learners=[[learner[0], "-c", {TAKEN_ONCE!r}, *learner[4:]]])
cluster.make_plan = changed_plan
run_main(cluster.main, ["cluster", *sys.argv[1:]])
"""


def test_a_port_that_is_taken_before_the_learner_listens_is_replaced(house, nodes):
    ports = free_ports(2, CLUSTER)
    flags = (f"--learner_ports={ports[0]}-{ports[-1]}", "--total_environment_frames=3000")
    run = start(house, nodes, *flags, code=WITH_THAT_LEARNER)
    assert run.end() == 0, run.output
    restart = f"port {ports[0]} was taken before a learner listened; the learner restarts on another port."
    assert restart in run.output
    assert f"the learner is at 127.0.0.1:{ports[1]}." in run.output


def test_a_range_without_a_free_port_is_one_sentence(house, nodes):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        run = start(house, nodes, f"--learner_ports={port}")
        assert run.end() == 2
    assert run.last_line == (
        f"seed_rl: error: No port of --learner_ports={port} is free on 127.0.0.1, the learner's node; "
        "give a wider range, or stop what is listening there."
    )
    assert not house.logdir.exists()


NO_TOKEN = "Token authentication is enabled but no authentication token was found"


@pytest.mark.parametrize(
    ("flag", "token", "sentence"),
    [
        ("--num_actors=400", "its own", "The learner and 400 actors need 101 CPUs, but the cluster has "),
        ("--learner_gpus=9", "its own", "--learner_gpus=9 is more than any node of the cluster has ("),
        ("--ray_address=127.0.0.1:1", "its own", "connect to --ray_address=127.0.0.1:1 (nothing answers"),
        ("--ray_address=there", "its own", "it is not auto, none, HOST:PORT or ray://HOST:PORT"),
        (
            "--learner_ports=9-8",
            "its own",
            "--learner_ports=9-8 is not valid; give FIRST-LAST or a single port",
        ),
        ("--init_checkpoint=/nowhere", "its own", "--init_checkpoint=/nowhere"),  # Found by the learner.
        ("--num_actors=4", None, f"Cannot connect to --ray_address={{}} ({NO_TOKEN}"),
        ("--num_actors=4", "0" * 32, "to --ray_address={} (Failed to connect to Ray cluster at 127.0.0.1"),
    ],
)
def test_what_cannot_be_is_one_sentence(house, nodes, tmp_path, monkeypatch, flag, token, sentence):
    if token != "its own":
        monkeypatch.setenv("HOME", str(tmp_path))  # Ray reads a token there.
        monkeypatch.delenv("RAY_AUTH_TOKEN")
        if token:
            monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    run = start(house, nodes, flag)
    assert run.end() == 2
    assert sentence.format(nodes.address) in run.last_line
    is_started = "init_checkpoint" in flag
    if token == "its own" and not is_started:  # Otherwise Ray or a learner has lines, too.
        assert len(run.output.splitlines()) <= 3  # The run may be introduced before, in two lines.
    assert is_started or not house.logdir.exists()
    hint = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN if the cluster has a token"
    assert hint in run.last_line or token == "its own"


def test_two_learners_train_on_one_node_of_a_ray_of_its_own(house, nodes, monkeypatch):
    own = tempfile.mkdtemp(prefix="ray_", dir="/tmp")
    monkeypatch.setenv("RAY_TMPDIR", own)
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    flags = (*house.all_play, "--num_learners=2", "--host_timeout_secs=60", "--learner_cpus=0.5")
    try:
        run = start(house, nodes, "--ray_address=none", "--total_environment_frames=6000", *flags)
        assert run.end() == 0, run.output
    finally:
        shutil.rmtree(own, ignore_errors=True)
    assert "learner 0 is at 127.0.0.1:20" in run.output and "learner 1 is at 127.0.0.1:20" in run.output
    assert run.output.count("Training is complete") == 1
    assert "Training is complete" in (house.logdir / "learner_1.log").read_text()
    assert sorted(task for mine in tasks(house) for task in mine) == list(range(NUM_ACTORS))


def test_all_learners_need_room(nodes, monkeypatch):
    from seed_rl.cluster import run
    from seed_rl.cluster.cluster_config import ClusterConfig
    from seed_rl.flags.errors import UsageError

    of_each = {"Alive": True, "Resources": {"CPU": 4.0, "GPU": 1.0}}
    monkeypatch.setattr(run.ray, "nodes", lambda: [of_each] * 2)
    run.check_room(ClusterConfig(learner_gpus=1), num_actors=6, num_learners=2)
    with pytest.raises(UsageError, match=r"^2 learners and 7 actors need 9 CPUs, but the cluster has 8: "):
        run.check_room(ClusterConfig(), num_actors=7, num_learners=2)
    with pytest.raises(UsageError, match=r"^3 learners need 3 GPUs, but the cluster has 2: "):
        run.check_room(ClusterConfig(learner_gpus=1), num_actors=3, num_learners=3)


@pytest.fixture
def make_host(nodes, monkeypatch):
    """Makes hosts in this process, as if each were on the same node of a cluster."""
    from seed_rl.cluster import remote_child

    ray = unittest.mock.Mock()
    ray.util.get_node_ip_address.return_value = "127.0.0.1"
    monkeypatch.setattr(remote_child, "ray", ray)
    hosts = []

    def make():
        hosts.append(remote_child.Host())
        return hosts[-1]

    yield make
    for one in hosts:
        one.close()


def test_a_learners_gateways_have_the_ports_that_follow(make_host):
    ports = free_ports(7, CLUSTER)
    with socket.create_server(("127.0.0.1", ports[2])):
        assert [make_host().take_port(ports, 1).port for _ in range(2)] == [ports[0], ports[3]]
        assert make_host().take_port(ports, 1).port == ports[5]
        assert make_host().take_port(ports, 7).port is None
