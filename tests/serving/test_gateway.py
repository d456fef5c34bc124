"""Behaviour of gateways alone; test_server.py checks that the rest is as without one."""

import pytest

from seed_rl.serving.gateway import gateway_addresses, private_address
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.shared_memory import is_supported
from tests.serving.harness import DEADLINE_SECS, open_gateway
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not is_supported(), reason="needs Linux: gateways need shared memory")


@pytest.fixture
def harness(open_harness):
    return open_harness("gateway")


def test_the_memory_is_the_gateways(harness):
    player = harness.player(can_share_memory=True)
    assert not player.get_ready().HasField("memory")
    assert player.ask(1, 2) == [1, 2]
    (connection,) = harness.server._connections._connections
    assert connection.memory is not None


def test_one_message_may_have_the_steps_of_several_groups(harness):
    player = harness.join(num_envs=4, num_groups=2)
    harness.answering.clear()
    episodes = [pb.Episode(env=1, episode_return=2.5, agent_steps=3)]
    steps = [pb.Step(group=group, records=player.write(group, 5), episodes=episodes) for group in (1, 0)]
    player.say(steps=steps)
    harness.answering.set()
    assert [player.answer(0), player.answer(1)] == [[0, 5], [1, 5]]
    assert sorted(episode.env for episode in harness.episodes) == [1, 3]
    player.send_zeros(0, 1)
    assert [player.answer(0), player.answer(1)] == [[0, 0]] * 2


def test_without_memory_or_a_learner_actors_are_told_to_come_back(harness, monkeypatch, tmp_path):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.posix_fallocate", fail)
    code, sentence = harness.player().status()
    assert sentence.startswith("The gateway cannot share memory with the learner (There are")
    assert code == "UNAVAILABLE"
    monkeypatch.undo()
    assert harness.join().ask(1, 2) == [1, 2]
    harness.address, _ = open_gateway(f"unix:{tmp_path}/nobody", harness._stack)
    assert harness.player().status()[0] == "UNAVAILABLE"


def test_a_gateway_that_stops_frees_the_environments_for_others(harness, tmp_path, monkeypatch):
    monkeypatch.setattr("seed_rl.serving.listener._GRACE_SECS", 0.1)
    player = harness.join()
    assert player.ask(1, 2) == [1, 2]
    harness.listener.stop()
    assert player.answer() is None
    harness.address = f"unix:{tmp_path}/s"
    wait_until(lambda: not harness.server._connections._connections, "the end", DEADLINE_SECS)
    other = harness.player(process_id=2)
    assert other.get_ready().must_reset
    assert other.ask(3, 4) == [3, 4]


@pytest.mark.parametrize(
    ("server", "gateways"),
    [
        ("unix:/tmp/s", ("unix:/tmp/s.gateway0", "unix:/tmp/s.gateway1")),
        ("0.0.0.0:8686", ("0.0.0.0:8687", "0.0.0.0:8688")),
        ("[::1]:8686", ("[::1]:8687", "[::1]:8688")),
        ("dns:///learner:8686", ("dns:///learner:8687", "dns:///learner:8688")),
        ("localhost:65533", ("localhost:65534", "localhost:65535")),
    ],
)
def test_gateways_follow_the_learner(server, gateways):
    assert gateway_addresses(server, 2) == gateways


@pytest.mark.parametrize("server", ["localhost:0", "localhost:65534", "localhost", "unix-abstract:x"])
def test_an_address_without_ports_after_it_is_one_sentence(server):
    with pytest.raises(ValueError, match=f"={server}; give a port from 1 to 65533"):
        gateway_addresses(server, 2)
    assert gateway_addresses(server, 0) == ()


def test_the_learners_own_address_for_gateways_is_private():
    assert private_address("unix:/tmp/s") == "unix:/tmp/s.learner"
    first, second = private_address("0.0.0.0:8686"), private_address("0.0.0.0:8686")
    assert first.startswith("unix-abstract:") and first != second
