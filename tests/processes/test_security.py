"""TLS and the token, with real processes over TCP on the loopback device."""

import pytest
import trustme

from tests.ports import SECURITY, free_ports

TOKEN = "not-to-be-seen-anywhere-0123456789"


@pytest.fixture
def secured(house):
    """A house with certificates and a token, whose address is a TCP port."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    certificate.cert_chain_pems[0].write_to_path(house.path / "learner.pem")
    certificate.private_key_pem.write_to_path(house.path / "learner.key")
    authority.cert_pem.write_to_path(house.path / "ca.pem")
    trustme.CA().cert_pem.write_to_path(house.path / "other_ca.pem")
    (house.path / "token").write_text(TOKEN)
    (house.path / "other_token").write_text("another-token-0123456789")
    house.address = f"localhost:{free_ports(1, SECURITY)[0]}"
    return house


@pytest.mark.slow
def test_training_over_tls_with_a_token_that_is_never_written(secured):
    house = secured
    token = f"--token_file={house.path}/token"
    learner = house.learner(
        *house.all_play,
        f"--tls_certificate={house.path}/learner.pem",
        f"--tls_key={house.path}/learner.key",
        token,
        "--num_envs=8",
        "--total_environment_frames=6000",
    )
    authority = f"--tls_authority={house.path}/ca.pem"
    stranger = house.actor(authority, f"--token_file={house.path}/other_token")
    assert stranger.end() == 2
    assert "expects a token that this actor does not send" in stranger.last_line
    distrustful = house.actor(f"--tls_authority={house.path}/other_ca.pem", token)
    assert distrustful.end(60.0) == 2  # Long before --connect_timeout_secs.
    assert "CERTIFICATE_VERIFY_FAILED" in distrustful.last_line
    misled = house.actor(authority, token, "--tls_server_name=elsewhere.example")
    assert misled.end(60.0) == 2
    assert "correct --tls_authority or --tls_server_name" in misled.last_line
    actors = [house.actor(authority, token) for _ in range(2)]
    assert learner.end() == 0, learner.output
    assert [actor.end() for actor in actors] == [0, 0], [actor.output for actor in actors]
    assert house.metrics()[-1]["env_frames"] >= 6000
    written = [path for path in house.path.rglob("*") if path.is_file() and path.name != "token"]
    assert len(written) > 8
    assert [path for path in written if TOKEN.encode() in path.read_bytes()] == []


@pytest.mark.parametrize("main", ["learner", "actor"])
def test_an_address_of_other_machines_needs_tls_and_a_token(house, main):
    house.address = "0.0.0.0:1"
    process = house.learner() if main == "learner" else house.actor()
    assert process.end() == 2
    assert "--insecure on a network you trust" in process.last_line
    assert not house.logdir.exists()
