"""Runs on a Ray cluster of several nodes on this machine, all on the loopback device, which lose nodes."""

import concurrent.futures
import importlib.util
import os
import re
import shutil
import signal
import tempfile
import unittest.mock
from pathlib import Path

import psutil
import pytest

from seed_rl.cluster.config import LOOPBACK_ONLY

if (
    importlib.util.find_spec("ray") is None
):  # It must not be imported before its environment variables are set.
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
        """What a node looks like that is switched off: all of its processes are killed."""
        self._cluster.remove_node(node, allow_graceful=False)

    @property
    def address(self) -> str:
        return self._cluster.address

    def close(self) -> None:
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def nodes():
    directory = tempfile.mkdtemp(prefix="ray_", dir="/tmp")  # A short path: there will be sockets in it.
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("RAY_TMPDIR", directory),
            ("PYTHONPATH", str(ROOT)),
            *LOOPBACK_ONLY.items(),
        ):
            patch.setenv(name, value)
        found = Nodes(directory)
        for _ in range(3):
            found.add(1)
        yield found
        found.close()
    shutil.rmtree(directory, ignore_errors=True)


def start(house, nodes, *flags):
    return house.start(
        "cluster_main",
        *house.small,
        f"--ray_address={nodes.address}",
        f"--logdir={house.logdir}",
        f"--num_actors={NUM_ACTORS}",
        "--actor_cpus=0.25",
        *flags,
    )


def processes_of(module, *arguments):
    wanted = {f"seed_rl.{module}", *arguments}
    return [p for p in psutil.process_iter(["cmdline"]) if wanted <= set(p.info["cmdline"] or ())]


def tasks(house):
    """The tasks that each actor was given, one list an actor."""
    paths = [house.logdir / f"actor_{i}.log" for i in range(NUM_ACTORS)]
    logs = [path.read_text() if path.exists() else "" for path in paths]
    return [[int(task) for task in re.findall(r"given this actor task (\d+)", log)] for log in logs]


def test_training_goes_on_when_a_node_with_actors_is_lost(house, nodes):
    run = start(house, nodes, FOR_EVER)
    house.wait_until(lambda: all(tasks(house)), "a task for every actor")
    (learner,) = processes_of("learner_main", f"--logdir={house.logdir}")
    token = learner.environ()["SEED_RL_TOKEN"]
    lines = [process.info["cmdline"] or () for process in psutil.process_iter(["cmdline"])]
    assert not any(token in argument for line in lines for argument in line)
    address = next(flag for flag in learner.cmdline() if flag.startswith("--server_address="))
    assert nodes.of(learner).is_head()
    homes = [nodes.of(actor) for actor in processes_of("actor_main", address)]
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
    assert run.end() == 0, run.output
    assert not learner.is_running()
    files = [path for path in (*house.path.rglob("*"), *nodes.directory.rglob("*")) if path.is_file()]
    assert len(files) > 20
    assert [path for path in files if token.encode() in path.read_bytes()] == []


def test_stop_resume_and_loss_of_the_learners_node(house, nodes):
    for _ in range(2):
        nodes.add(1, num_gpus=1)  # So Ray is told.
    flags = ("--learner_gpus=1", "--norequire_accelerator", FOR_EVER)
    run = start(house, nodes, *flags)
    house.wait_for_metrics(lambda line: line["env_frames"] > 3000, run)
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.output
    assert run.last_line == "seed_rl: stopped; the same command resumes it."
    stopped = len(house.metrics())
    frames = house.metrics()[-1]["env_frames"]

    run = start(house, nodes, *flags)
    house.wait_for_metrics(lambda line: line["env_frames"] > frames, run, after=stopped)
    (learner,) = processes_of("learner_main", f"--logdir={house.logdir}")
    assert learner.environ()["CUDA_VISIBLE_DEVICES"] == "0"
    nodes.remove(nodes.of(learner))
    run.wait_for("the learner's node is lost; it starts again elsewhere, from its last checkpoint.")
    house.wait_until(
        lambda: processes_of("learner_main", f"--logdir={house.logdir}"),
        lambda: f"another learner; the output is: {run.output}",
    )
    lost = len(house.metrics())
    house.wait_for_metrics(lambda line: line["updates"] > 0, run, after=lost)
    run.signal(signal.SIGINT)
    assert run.end() == 0, run.output
    resumed = [line["env_frames"] for line in house.metrics()[stopped:]]
    assert min(resumed) >= frames


def test_a_learner_that_fails_ends_the_run_with_its_own_error(house, nodes):
    run = start(house, nodes, "--init_checkpoint=/nowhere")
    assert run.end() == 2
    assert "--init_checkpoint=/nowhere" in run.last_line


@pytest.mark.parametrize(
    ("flag", "sentence"),
    [
        ("--num_actors=400", "The learner and 400 actors ask for 101 CPUs, and the cluster has "),
        ("--learner_gpus=9", "--learner_gpus=9 is more than any node of the cluster has ("),
        ("--ray_address=127.0.0.1:1", "--ray_address=127.0.0.1:1 cannot be connected to (nobody answers"),
        ("--ray_address=there", "it is not auto, none, HOST:PORT or ray://HOST:PORT"),
    ],
)
def test_what_cannot_be_is_one_sentence_before_anything_starts(house, nodes, flag, sentence):
    run = start(house, nodes, flag)
    assert run.end() == 2
    assert sentence in run.last_line
    assert len(run.output.splitlines()) == 2  # The preset is named before.
    assert not house.logdir.exists()


def test_a_ray_of_its_own_on_this_machine(house, nodes):
    own = tempfile.mkdtemp(prefix="ray_", dir="/tmp")
    os.environ["RAY_TMPDIR"], before = own, os.environ["RAY_TMPDIR"]
    try:
        flags = ("--ray_address=none", "--total_environment_frames=6000", "--learner_cpus=0.5")
        run = start(house, nodes, *flags, "--num_actors=2")
        assert run.end() == 0, run.output
    finally:
        os.environ["RAY_TMPDIR"] = before
        shutil.rmtree(own, ignore_errors=True)
    assert "the learner is at 127.0.0.1:" in run.output


def test_a_restart_that_finds_no_place_stays_a_crash(monkeypatch):
    from seed_rl.cluster import remote_child

    crashed = concurrent.futures.Future()
    crashed.set_result((3, b""))
    host = unittest.mock.Mock()
    host.start.remote.return_value.future.return_value = crashed
    monkeypatch.setattr(remote_child, "ray", unittest.mock.Mock())
    places = [host]
    child = remote_child.RemoteChild(remote_child.Program("actor 0", [], {}), places.pop)
    child.start()
    assert child.poll() == 3
    with pytest.raises(IndexError):
        child.start()
    assert child.poll() == 3
    assert not child.running
