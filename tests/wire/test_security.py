"""What is let through, over real connections on the loopback device."""

import logging
from dataclasses import replace
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.server import InferenceServer
from seed_rl.types import ArraySpec, EnvironmentSpec
from seed_rl.wire.client import LearnerGoneError, RefusedError
from seed_rl.wire.protocol import EnvironmentDescription
from seed_rl.wire.security import (
    Security,
    SecurityConfig,
    check_connecting,
    check_listening,
    is_local,
    load_security,
)
from tests.wire.joining import DEADLINE_SECS, join

TOKEN = "0123456789abcdef-0123"
DESCRIPTION = EnvironmentDescription(
    "catch", {}, EnvironmentSpec(ArraySpec((), "float32"), ArraySpec((), "int32", (0,), (1,)))
)


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture(scope="module")
def files(authority, tmp_path_factory):
    """Paths: the learner's certificate and key, and their authority; and one who is no authority."""
    path = tmp_path_factory.mktemp("tls")
    for name, issuer in (("learner", authority), ("actor", authority)):
        certificate = issuer.issue_cert("localhost")
        certificate.cert_chain_pems[0].write_to_path(path / f"{name}.pem")
        certificate.private_key_pem.write_to_path(path / f"{name}.key")
    authority.cert_pem.write_to_path(path / "ca.pem")
    trustme.CA().cert_pem.write_to_path(path / "stranger.pem")
    (path / "token").write_text(TOKEN + "\n")
    return path


def learner_config(files, **changes):
    paths = {"tls_certificate": f"{files}/learner.pem", "tls_key": f"{files}/learner.key"}
    return SecurityConfig(**paths | {"token_file": f"{files}/token"} | changes)


def actor_config(files, **changes):
    return SecurityConfig(**{"tls_authority": f"{files}/ca.pem", "token_file": f"{files}/token"} | changes)


@pytest.fixture
def serve():
    """Starts servers; returns their addresses."""
    servers = []

    def start(config, environment=()):
        security = load_security(config, dict(environment))
        servers.append(
            InferenceServer(
                "localhost:0", Connections(DESCRIPTION, 1, [Batcher(1, 1.0)], 1), security=security
            )
        )
        return f"localhost:{servers[-1].port}"

    yield start
    for server in servers:
        server.stop()


def task_of(address, config, environment=(), seconds=DEADLINE_SECS):
    """The task that an actor gets there."""
    return join(address, load_security(config, dict(environment)), seconds).task


def test_tls_and_a_token(serve, files):
    assert task_of(serve(learner_config(files)), actor_config(files)) == 0


def test_the_token_may_come_from_the_environment(serve, files):
    variables = {"SEED_RL_TOKEN": TOKEN}
    address = serve(learner_config(files, token_file=None), variables)
    assert task_of(address, actor_config(files, token_file=None), variables) == 0


def test_mutual_tls(serve, files):
    address = serve(learner_config(files, tls_authority=f"{files}/ca.pem"))
    own = {"tls_certificate": f"{files}/actor.pem", "tls_key": f"{files}/actor.key"}
    assert task_of(address, actor_config(files, **own)) == 0
    with pytest.raises(RefusedError, match=r"closes each connection .* Give --tls_certificate and --tls_key"):
        task_of(address, actor_config(files))


@pytest.mark.parametrize("token", [None, "another-token-0123", TOKEN + "0"])
def test_another_token_is_refused(serve, files, token):
    security = replace(load_security(actor_config(files), {}), token=token)
    with pytest.raises(RefusedError, match="expects a token that this actor does not send"):
        join(serve(learner_config(files)), security)


@pytest.mark.parametrize(
    ("host", "changes", "words"),
    [
        (
            "localhost",
            {"tls_authority": "{}/stranger.pem"},
            "CERTIFICATE_VERIFY_FAILED.*; correct --tls_auth",
        ),
        ("localhost", {"tls_authority": None}, "speaks TLS; give --tls_authority"),
        ("localhost", {"tls_server_name": "else.example"}, "not valid for 'else.example'.*--tls_server_name"),
        ("127.0.0.1", {}, r"not valid for .127\.0\.0\.1."),
        ("127.0.0.1", {"tls_server_name": "localhost"}, None),
    ],
)
def test_a_certificate_that_can_never_be_trusted_is_refused_early(serve, files, host, changes, words):
    changes = {flag: value and value.format(files) for flag, value in changes.items()}
    address = serve(learner_config(files)).replace("localhost", host)
    if words is None:
        assert task_of(address, actor_config(files, **changes)) == 0
    else:
        with pytest.raises(RefusedError, match=words):
            task_of(address, actor_config(files, **changes))


def test_a_learner_without_tls_is_refused_early(serve, files):
    with pytest.raises(
        RefusedError, match=r"does not speak TLS .*; start the learner with --tls_certificate"
    ):
        task_of(serve(SecurityConfig()), actor_config(files))


def test_a_learner_that_is_not_there_yet_is_waited_for(files):
    with pytest.raises(LearnerGoneError):
        task_of("localhost:1", actor_config(files), seconds=1.0)


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("unix:/tmp/s", True),
        ("localhost:80", True),
        ("127.0.0.1:80", True),
        ("127.8.8.8:80", True),
        ("[::1]:80", True),
        ("ipv4:127.0.0.1:80", True),
        ("dns:///localhost:80", True),
        ("0.0.0.0:80", False),
        ("[::]:80", False),
        ("10.0.0.1:80", False),
        ("learner.example:80", False),
        ("localhost.example:80", False),
    ],
)
def test_what_other_machines_can_reach(files, address, local):
    assert is_local(address) == local
    for check, config, what in (
        (check_listening, learner_config, "can be reached from other machines: give --tls_certificate"),
        (check_connecting, actor_config, "is on another machine: give --tls_authority"),
    ):
        full = config(files)
        check(address, full, load_security(full, {}))
        check(address, SecurityConfig(insecure=True), Security())
        for lacking in (SecurityConfig(), config(files, token_file=None)):
            if local:
                check(address, lacking, load_security(lacking, {}))
            else:
                with pytest.raises(ValueError, match=what):
                    check(address, lacking, load_security(lacking, {}))


@pytest.mark.parametrize(
    "token", ["", "short", "with spaces in between", "ümläuts-0123456789", "two\nlines-0123456"]
)
def test_bad_tokens_are_refused_and_not_repeated(tmp_path, token):
    (tmp_path / "token").write_text(token)
    with pytest.raises(ValueError, match="must be at least 16") as caught:
        load_security(SecurityConfig(token_file=f"{tmp_path}/token"), {})
    assert not token or token not in str(caught.value)


def test_bad_files_are_named(files, tmp_path):
    with pytest.raises(ValueError, match=r"--tls_authority=/no/ca.pem cannot be read: No such file"):
        load_security(actor_config(files, tls_authority="/no/ca.pem"), {})
    with pytest.raises(ValueError, match="belong together"):
        SecurityConfig(tls_key="key.pem")
    (tmp_path / "empty.pem").write_text("nothing")
    with pytest.raises(ValueError, match=r"--tls_certificate=.*empty.pem .* PEM"):
        load_security(learner_config(files, tls_certificate=f"{tmp_path}/empty.pem"), {})
    with pytest.raises(ValueError, match=r"--tls_certificate=.*actor.pem .* --tls_key"):
        load_security(learner_config(files, tls_certificate=f"{files}/actor.pem"), {})
    with pytest.raises(ValueError, match=r"--tls_authority=.*empty.pem .* PEM"):
        load_security(actor_config(files, tls_authority=f"{tmp_path}/empty.pem"), {})


def test_a_key_with_a_passphrase_is_refused_without_asking_for_it(files, tmp_path):
    key = serialization.load_pem_private_key((files / "learner.key").read_bytes(), password=None)
    kinds = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    locked = key.private_bytes(*kinds, serialization.BestAvailableEncryption(b"secret"))
    (tmp_path / "locked.key").write_bytes(locked)
    with pytest.raises(ValueError, match=r"--tls_certificate=.*learner.pem .* --tls_key"):
        load_security(learner_config(files, tls_key=f"{tmp_path}/locked.key"), {})


LEARNER_ONLY = {"SEED_RL_TLS_AUTHORITY": "ca.pem"}
ACTOR_ONLY = {"SEED_RL_TLS_CERTIFICATE": "actor.pem", "SEED_RL_TLS_KEY": "actor.key"}


@pytest.mark.parametrize("address", ["unix:/tmp/s", "localhost:80", "learner.example:80"])
@pytest.mark.parametrize("insecure", [False, True])
def test_half_of_tls_is_refused_and_not_taken_for_none(files, address, insecure):
    """The connection would not be encrypted, though the user has asked for it."""
    authority = actor_config(files, insecure=insecure)
    with pytest.raises(ValueError, match=r"--tls_authority alone gives a learner no TLS: give --tls_cert"):
        check_listening(address, authority, load_security(authority, {}))
    certificate = learner_config(files, insecure=insecure)
    with pytest.raises(ValueError, match=r"alone give an actor no TLS: give --tls_authority"):
        check_connecting(address, certificate, load_security(certificate, {}))
    check_connecting(address, authority, load_security(authority, {}))
    check_listening(address, certificate, load_security(certificate, {}))


def test_half_of_tls_in_environment_variables_is_refused(files):
    def load(variables):
        return load_security(
            SecurityConfig(), {name: Path(files, file).read_text() for name, file in variables.items()}
        )

    with pytest.raises(ValueError, match="SEED_RL_TLS_AUTHORITY"):
        check_listening("localhost:80", SecurityConfig(), load(LEARNER_ONLY))
    with pytest.raises(ValueError, match="SEED_RL_TLS_KEY"):
        check_connecting("localhost:80", SecurityConfig(), load(ACTOR_ONLY))
    both = load(LEARNER_ONLY | ACTOR_ONLY)
    check_listening("localhost:80", SecurityConfig(), both)
    check_connecting("localhost:80", SecurityConfig(), both)


def test_secrets_are_not_shown(files):
    security = load_security(learner_config(files), {})
    for text in (repr(security), str(security), f"{security}"):
        assert TOKEN not in text
        assert "PRIVATE KEY" not in text
    assert "certificate=" in repr(security)


@pytest.mark.parametrize(("mode", "warned"), [(0o600, False), (0o640, True), (0o444, True)])
def test_secrets_that_others_can_read_are_named_once(files, tmp_path, caplog, mode, warned):
    caplog.set_level(logging.WARNING)
    paths = {"token_file": tmp_path / "token", "tls_key": tmp_path / "key"}
    paths["token_file"].write_bytes((files / "token").read_bytes())
    paths["tls_key"].write_bytes((files / "learner.key").read_bytes())
    for path in paths.values():
        path.chmod(mode)
    load_security(learner_config(files, **{flag: str(path) for flag, path in paths.items()}), {})
    said = [f"--{flag}={path} can be read by other users" in caplog.text for flag, path in paths.items()]
    assert said == [warned, warned]
    assert len(caplog.records) == 2 * warned
    assert TOKEN not in caplog.text
