"""Messages between several learner hosts, as the learner's loop receives them."""

import json

from seed_rl.hosts.peers import Peers
from seed_rl.learner.team import Team
from seed_rl.metrics.run import RunMetrics
from seed_rl.serving.listener import Listener
from seed_rl.wire.hosts import SERVICE, LearnerHosts


class Collective:
    """Stands in for TensorFlow's reductions, which are tested with real processes."""

    def agree(self, has_batch, stop, agent_steps, reached):
        return has_batch, stop, agent_steps, reached

    def abort(self, sentence):
        raise AssertionError(sentence)


def run_figures():
    return RunMetrics(1, 0, 0.0, 0, 4, 20)


def test_a_learner_that_is_alone_agrees_with_itself():
    team = Team()
    assert team.agree(True, False, 5) == (True, False, 5, False)
    assert team.agree(True, True, 5) == (False, True, 5, False)
    assert team.agree(True, False, 5, True) == (False, False, 5, True)
    assert team.agree(False, False, 5) == (False, False, 5, False)
    assert team.exchange({"queue_depth": 1.0}) == {"queue_depth": 1.0}
    assert (team.is_first, team.num_envs(8)) == (True, 8)


def test_the_first_host_combines_the_figures_of_all(tmp_path):
    teams, listeners, peers = [], [], []
    addresses = tuple(f"unix:{tmp_path}/{index}" for index in range(2))
    for index in range(2):
        hosts = LearnerHosts(addresses, index)
        listeners.append(Listener(hosts.address, 10_000, (SERVICE,)))
        peers.append(Peers(hosts, listeners[-1], 20.0, {}))
        teams.append(Team(listeners[-1], peers[-1], Collective()))
        teams[-1].report_with(run_figures())
    try:
        assert [team.is_first for team in teams] == [True, False]
        assert [team.num_envs(8) for team in teams] == [4, 4]
        mine = {"queue_depth": 4.0, "inference_batch_size": 8.0, "version_spread_max_updates": 3.0}
        assert teams[1].exchange(mine) == mine
        peers[0].on_report(1, json.loads(json.dumps(peers[1].take_report())))
        first = {"queue_depth": 2.0, "inference_batch_size": 4.0, "version_spread_max_updates": 1.0}
        found = teams[0].exchange(first | {"replay_ratio": 0.5})
        assert found == {
            **{"queue_depth": 6.0, "inference_batch_size": 6.0, "version_spread_max_updates": 3.0},
            "replay_ratio": 0.5,
        }
        for team in teams:
            assert team.agree(True, False, 5) == (True, False, 5, False)
            assert 0.0 <= team.exchange({"queue_depth": 1.0})["hosts_waiting_share"] <= 1.0
    finally:
        for host in reversed(peers):
            host.leave("the test is over")
        for listener in listeners:
            listener.stop()
