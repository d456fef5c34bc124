"""Several real learner hosts on this machine, each with actors: they train as one, and end as one."""

import signal

import numpy as np
import psutil
import pytest

from tests.ports import is_reached, outer_addresses
from tests.waiting import wait_until


class Hosts:
    """Two learners and their actors in a house."""

    def __init__(self, house, count=2):
        self.house, self.count = house, count
        self.addresses = [f"unix:{house.path}/{index}" for index in range(count)]

    def learner(self, index, *args, code=None):
        return self.house.learner(
            f"--server_address={self.addresses[index]}",
            f"--learner_hosts={','.join(self.addresses)}",
            f"--learner_index={index}",
            "--host_timeout_secs=60",
            *args,
            code=code,
        )

    def learners(self, *args):
        return [self.learner(index, *args) for index in range(self.count)]

    def actors(self, *args, count=4):
        """Actors that all join at the last host."""
        return [self.house.actor(f"--server_address={self.addresses[-1]}", *args) for _ in range(count)]

    def name(self, index):
        return f"learner host {index} ({self.addresses[index]})"

    def training(self, *args):
        """Learners that train, and their actors."""
        learners, actors = self.learners(*args), self.actors()
        self.house.wait_for_metrics(lambda line: line["updates"] > 5, learners[0])
        return learners, actors


@pytest.fixture
def hosts(house):
    return Hosts(house)


@pytest.mark.slow
def test_two_hosts_train_as_one_and_one_resumes_their_run(hosts, monkeypatch):
    """Also where the environment names a proxy for the web, which here is not there."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    house = hosts.house
    for run in range(2):
        frames = f"--total_environment_frames={6_000 * (run + 1)}"
        if run == 0:
            # One with all environments of each host: no host can train without its own.
            learners = hosts.learners(frames)
            learners[0].wait_for("Waiting for actors")
            check_ports(learners)
            actors = hosts.actors("--env_batch_size=8", count=2)
        else:
            learners, actors = [house.learner(frames)], [house.only_actor()]
        assert [learner.end() for learner in learners] == [0] * len(learners), learners[0].output
        assert [actor.end() for actor in actors] == [0] * len(actors)
        assert ("Resuming from" in learners[0].output) == (run > 0)
        last = house.metrics()[-1]
        assert last["env_frames"] >= 6_000 * (run + 1)
        assert last["episodes"] > 450 * (run + 1)  # Both hosts': Catch takes some nine agent steps.
        assert np.isfinite([line["loss"] for line in house.metrics() if "loss" in line]).all()
    assert learners[0].output.count("Training is complete") == 1


LOST = "seed_rl: error: {} is lost: its connection ended."
# The signal, the host that gets it, and the exit codes and last words of both; None: not looked at.
SIGNALS = {
    "stops all": ("SIGTERM", 1, 143, 143, "Stopped with a checkpoint"),
    "stops all, without actors": ("SIGTERM", 0, 143, 143, "Stopped with a checkpoint"),
    "kills the first": ("SIGKILL", 0, -9, 1, LOST),
    "kills the second": ("SIGKILL", 1, -9, 1, LOST),
    "freezes": ("SIGSTOP", 1, None, 1, "{}"),
}


@pytest.mark.slow
@pytest.mark.parametrize(("number", "index", "code", "of_other", "words"), SIGNALS.values(), ids=SIGNALS)
def test_a_signal_to_one_host_ends_all(hosts, number, index, code, of_other, words):
    """Also if there is no batch, because there are no actors any more."""
    learners, actors = hosts.training(*["--host_timeout_secs=20"] * (number == "SIGSTOP"))
    for actor in actors if (number, index) == ("SIGTERM", 0) else ():
        actor.kill()
    learners[index].signal(signal.Signals[number])
    other = learners[1 - index]
    assert other.end(seconds=60) == of_other
    assert words.format(hosts.name(index)) in learners[0 if code == of_other else 1 - index].last_line
    assert code is None or learners[index].end() == code
    assert code != 143 or list((hosts.house.logdir / "checkpoints").glob("*.index"))


def check_ports(learners):
    """No other machine reaches a port of these.

    TensorFlow's is on all interfaces, so this tries it at an address that other machines could use.
    """
    opened = [
        c.laddr
        for learner in learners
        for c in psutil.Process(learner.pid).net_connections("inet")
        if c.status == psutil.CONN_LISTEN
    ]
    ports = {address.port for address in opened if address.ip not in ("127.0.0.1", "::1")}
    assert ports and outer_addresses()
    assert [(host, port) for host in outer_addresses() for port in ports if is_reached(host, port)] == []
    assert all(is_reached("127.0.0.1", port) for port in ports)


def test_a_host_that_never_comes_is_one_sentence(hosts):
    learner = hosts.learner(0, "--host_timeout_secs=1")
    assert learner.end() == 2
    (line,) = learner.said
    assert line.startswith(f"seed_rl: error: {hosts.name(1)} did not come within 1 s;")
    assert not hosts.house.logdir.exists()


def test_a_host_that_waits_for_another_can_be_stopped(hosts):
    learner = hosts.learner(0)
    wait_until(lambda: hosts.house.logdir.exists(), "the lock")
    learner.signal(signal.SIGTERM)
    assert learner.end() == 143
    assert learner.said == []


@pytest.mark.slow
def test_a_host_that_fails_at_the_start_ends_the_other(hosts):
    """It fails after the hosts have met, while the other one waits for it in TensorFlow."""
    learner = hosts.learner(0, "--host_timeout_secs=15")
    code = (
        "from seed_rl.commands import learner\n"
        "from seed_rl.flags.errors import run_main\n"
        "from seed_rl.launch import learner_process\n"
        "def fail(*_): raise RuntimeError('no memory')\n"
        "learner_process._import_tensorflow = fail\n"
        "run_main(learner.main)\n"
    )
    failing = hosts.learner(1, "--host_timeout_secs=15", code=code)
    assert failing.end() == 1, failing.output
    assert learner.end(seconds=100) != 0
    # Whether TensorFlow has begun to wait for it, which lets no other thread run, depends on the moment.
    failed = f"seed_rl: error: {hosts.name(1)} failed: no memory"
    unreached = f"seed_rl: error: TensorFlow did not reach {hosts.name(1)} within 15 s; look at the "
    assert learner.last_line.startswith((failed, unreached))
