"""Real learners with gateways: actors come and go through them, and none of them outlives its learner."""

import contextlib
import signal
import socket
import sys
import threading

import psutil
import pytest
import trustme

from tests.ports import GATEWAYS, free_ports

# An actor's line when it has joined, and how soon that is; ten seconds on a machine that is not busy.
IN, SOON_SECS = "has given this actor task", 20.0

TOKEN = "not-to-be-seen-anywhere-0123456789"

needs_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: gateways need shared memory")


@pytest.fixture
def ports(house):
    """The learner's port and those of two gateways; the house's address is the learner's."""
    found = free_ports(3, GATEWAYS)
    house.address = f"localhost:{found[0]}"
    return found


@pytest.fixture
def secured(house, ports):
    """Flags of a learner and of an actor that trust each other."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(house.path / "learner.pem")
    certificate.private_key_pem.write_to_path(house.path / "learner.key")
    authority.cert_pem.write_to_path(house.path / "ca.pem")
    (house.path / "token").write_text(TOKEN)
    (house.path / "other_token").write_text("another-token-0123456789")
    keys = [f"--tls_certificate={house.path}/learner.pem", f"--tls_key={house.path}/learner.key"]
    token = f"--token_file={house.path}/token"
    return [*keys, token], [f"--tls_authority={house.path}/ca.pem", token]


def start_learner(house, *flags):
    return house.learner("--num_gateways=2", "--num_envs=16", *flags)


def start_actor(house, *flags):
    return house.actor("--transport=grpc", *flags)


def gateway(learner, port):
    return learner.child(f"--server_address=localhost:{port}")


def command_line(process):
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def has_connections(process, port):
    """Whether the process, an actor's, exchanges anything with this port."""
    try:
        found = psutil.Process(process.pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(c.raddr and c.raddr.port == port and c.status == psutil.CONN_ESTABLISHED for c in found)


@needs_linux
@pytest.mark.slow
def test_gateways_share_the_actors_and_one_that_is_killed_costs_them_only_a_moment(house, ports, secured):
    of_learner, of_actor = secured
    learner = start_learner(house, *of_learner, "--total_environment_frames=1000000000")
    actors = [start_actor(house, *of_actor) for _ in range(4)]
    for port in ports[1:]:
        house.wait_until(
            lambda port=port: sum(has_connections(a, port) for a in actors) == 2, f"two actors at {port}"
        )
    house.wait_for_progress(learner)
    killed = gateway(learner, ports[1])
    killed.kill()
    learner.wait_for("gateway 0 was ended by SIGKILL; restart 1.")
    house.wait_until(
        lambda: all(any(has_connections(a, port) for port in ports[1:]) for a in actors), "all to be back"
    )
    house.wait_for_progress(learner)
    gateways = [gateway(learner, port) for port in ports[1:]]
    assert not any(map(house.leaves_memory, [learner, *gateways]))
    learner.signal(signal.SIGTERM)
    assert learner.end() == 143, learner.output
    assert not any(process.is_running() for process in gateways)
    assert all(actor.running for actor in actors)  # Until the learner is there again.


def end_again_and_again(learner, stopping):
    """Kills each gateway of a learner as soon as it runs."""
    while not stopping.wait(0.05):
        for process in learner.children():
            if any("seed_rl" in part for part in command_line(process)):
                with contextlib.suppress(psutil.Error):
                    process.kill()


@needs_linux
@pytest.mark.slow
@pytest.mark.parametrize("ended", ["frozen", "killed again and again"])
def test_actors_are_soon_in_while_no_gateway_works(house, ports, ended):
    learner = start_learner(house, "--total_environment_frames=1000000000")
    first = start_actor(house)
    house.wait_for_progress(learner)
    stopping, ending = threading.Event(), None
    if ended == "frozen":
        for port in ports[1:]:
            gateway(learner, port).suspend()
    else:
        ending = threading.Thread(target=end_again_and_again, args=(learner, stopping))
        ending.start()
    try:
        for _ in range(2):
            start_actor(house).wait_for(IN, seconds=SOON_SECS)
        house.wait_until(
            lambda: has_connections(first, ports[0]), "the first one to be back", seconds=SOON_SECS
        )
        house.wait_for_progress(learner)
    finally:
        stopping.set()
        if ending:
            ending.join()
    left = learner.children()
    learner.signal(signal.SIGKILL)
    learner.end()
    house.wait_until_gone(left)


@needs_linux
@pytest.mark.slow
def test_a_complete_run_ends_actors_at_gateways_with_0_and_writes_its_token_nowhere(house, ports, secured):
    of_learner, of_actor = secured
    learner = start_learner(
        house, *house.all_play, *of_learner, "--num_envs=8", "--total_environment_frames=6000"
    )
    direct = start_actor(house, *of_actor, f"--server_address=localhost:{ports[2]}")
    stranger = start_actor(
        house,
        *(of_actor[0], f"--token_file={house.path}/other_token"),
        f"--server_address=localhost:{ports[1]}",
    )
    assert stranger.end() == 2
    assert "expects a token that this actor does not send" in stranger.last_line
    actors = [direct, start_actor(house, *of_actor)]
    assert learner.end() == 0, learner.output
    assert [actor.end() for actor in actors] == [0, 0], [actor.output for actor in actors]
    assert house.metrics()[-1]["env_frames"] >= 6000
    assert "gateway" not in learner.output  # None of them failed.
    written = [path for path in house.path.rglob("*") if path.is_file() and path.name != "token"]
    assert len(written) > 8
    assert [path for path in written if TOKEN.encode() in path.read_bytes()] == []


@needs_linux
def test_a_gateways_port_that_is_taken_is_one_sentence(house, ports):
    with socket.create_server(("127.0.0.1", ports[2])):
        learner = start_learner(house)
        assert learner.end() == 2
    assert f"Cannot listen on localhost:{ports[2]}, " in learner.last_line
    assert not any("Traceback" in line for line in learner.output.splitlines())


def test_certificates_of_actors_do_not_replace_the_token_of_gateways(house, ports, secured):
    certificates, authority = secured[0][:2], secured[1][0]
    learner = house.learner("--num_gateways=1", *certificates, authority)
    assert learner.end() == 2
    assert learner.last_line == (
        "seed_rl: error: --num_gateways with --tls_authority also needs --token_file."
    )
