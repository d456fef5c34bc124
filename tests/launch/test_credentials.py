"""Credentials that a launcher makes are those that both ends take."""

import sys

import pytest

from seed_rl.flags.errors import UsageError
from seed_rl.launch.credentials import SERVER_NAME, make_credentials
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.server import InferenceServer
from seed_rl.types import ArraySpec, EnvironmentSpec
from seed_rl.wire.client import RefusedError
from seed_rl.wire.protocol import EnvironmentDescription
from seed_rl.wire.security import SecurityConfig, check_connecting, check_listening, load_security
from tests.wire.joining import join

DESCRIPTION = EnvironmentDescription(
    "catch", {}, EnvironmentSpec(ArraySpec((), "float32"), ArraySpec((), "int32", (0,), (1,)))
)


def check(port, environment):
    security = load_security(SecurityConfig(tls_server_name=SERVER_NAME), environment)
    check_connecting("learner.example:80", SecurityConfig(), security)
    return join(f"127.0.0.1:{port}", security, 2.0)


def test_actors_of_the_run_are_let_in_and_no_others():
    pytest.importorskip("cryptography")
    credentials, others = make_credentials("gcp"), make_credentials("gcp")
    assert "PRIVATE KEY" in credentials.learner["SEED_RL_TLS_KEY"]
    assert not any("PRIVATE KEY" in value for value in credentials.actor.values())
    security = load_security(SecurityConfig(), credentials.learner)
    check_listening("0.0.0.0:80", SecurityConfig(), security)
    server = InferenceServer(
        "127.0.0.1:0", Connections(DESCRIPTION, 1, [Batcher(1, 1.0)], 1), security=security
    )
    try:
        assert check(server.port, credentials.actor).suite == "catch"
        with pytest.raises(RefusedError, match="CERTIFICATE_VERIFY_FAILED"):
            check(server.port, others.actor)
        with pytest.raises(RefusedError, match="expects a token"):
            check(server.port, credentials.actor | {"SEED_RL_TOKEN": others.actor["SEED_RL_TOKEN"]})
    finally:
        server.stop()


def test_without_the_package_the_sentence_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(UsageError, match=r"cryptography is not installed.*install .*\[gcp\]'"):
        make_credentials("gcp")
