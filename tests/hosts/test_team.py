"""Messages between several learner hosts, as the learner's loop receives them, and the watchdog."""

import contextlib
import json
import subprocess
import sys

import pytest

from seed_rl.hosts.addresses import SERVICE, LearnerHosts
from seed_rl.hosts.peers import HostLostError
from seed_rl.hosts.team import Team
from seed_rl.metrics.run import RunMetrics
from seed_rl.serving.listener import Listener


class Collective:
    """Stands in for TensorFlow's reductions, which are tested with real processes."""

    errors = (OSError,)

    def sum(self, numbers):
        return [2.0 * number for number in numbers]


@pytest.fixture
def teams(tmp_path):
    """Two hosts that have not met."""
    addresses = tuple(f"unix:{tmp_path}/{index}" for index in range(2))
    with contextlib.ExitStack() as stack:
        found = []
        for index, address in enumerate(addresses):
            listener = Listener(address, 10_000, (SERVICE,))
            stack.callback(listener.stop)
            team = Team(listener, LearnerHosts(addresses, index), 0.5, {})
            stack.push(lambda *_, team=team: team._peers.leave("the test is over"))
            team._collective = Collective()
            team.report_with(RunMetrics(1, 0, 0.0, 0, 4, 20))
            found.append(team)
        yield found


@pytest.mark.parametrize(
    ("mine", "agreed"),
    [
        ((True, False, 5), (True, False, 5, False)),
        ((True, True, 5), (False, True, 5, False)),
        ((True, False, 5, True), (False, False, 5, True)),
        ((False, False, 5), (False, False, 5, False)),
    ],
)
def test_all_agree(teams, mine, agreed):
    alone = Team()
    assert alone.agree(*mine) == agreed
    both = (*agreed[:2], 10, agreed[3])
    assert [team.agree(*mine) for team in teams] == [both, both]
    assert alone.exchange({"queue_depth": 1.0}) == {"queue_depth": 1.0}
    for team in teams:
        assert 0.0 <= team.exchange({"queue_depth": 1.0})["hosts_waiting_share"] <= 1.0


def test_each_host_serves_its_share(teams):
    assert [team.is_first for team in (Team(), *teams)] == [True, True, False]
    assert [team.num_envs(8) for team in (Team(), *teams)] == [8, 4, 4]
    assert Team().meet(lambda: False)


def test_the_first_host_combines_the_metrics_of_all(teams):
    mine = {"queue_depth": 4.0, "inference_batch_size": 8.0, "version_spread_max_updates": 3.0}
    assert teams[1].exchange(mine) == mine
    teams[0]._peers.on_report(1, json.loads(json.dumps(teams[1]._peers.take_report())))
    first = {"queue_depth": 2.0, "inference_batch_size": 4.0, "version_spread_max_updates": 1.0}
    assert teams[0].exchange(first | {"replay_ratio": 0.5}) == {
        **{"queue_depth": 6.0, "inference_batch_size": 6.0, "version_spread_max_updates": 3.0},
        "replay_ratio": 0.5,
    }


def test_an_error_of_a_reduction_is_the_loss_of_a_host(teams):
    with (
        pytest.raises(HostLostError, match=r"hosts failed \(cut\)"),
        teams[0].explaining(),
    ):
        raise OSError("cut")
    teams[1]._peers.problem = "learner host 0 is lost"
    with pytest.raises(HostLostError, match="learner host 0 is lost"), teams[1].explaining():
        raise OSError("cut")
    for team, error in ((teams[0], ValueError), (Team(), OSError)):
        with pytest.raises(error), team.explaining():
            raise error


CODE = """
import ctypes, sys
from seed_rl.hosts.team import ended_after
with ended_after(float(sys.argv[1]), "It hangs.", 2):
    ctypes.PyDLL(None).usleep(int(sys.argv[2]))  # PyDLL keeps the lock.
print("done")
"""


@pytest.mark.parametrize(
    ("seconds", "microseconds", "ended"),
    [(0.3, 60_000_000, (-9, "", "seed_rl: error: It hangs.\n")), (100, 1, (0, "done\n", ""))],
)
def test_a_call_that_hangs_with_pythons_lock_is_ended(seconds, microseconds, ended):
    command = [sys.executable, "-c", CODE, str(seconds), str(microseconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == ended
