"""Access control over real connections on the loopback device."""

import logging
import os
from dataclasses import replace

import pytest
import trustme
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from seed_rl.commands import main_of
from seed_rl.flags.errors import UsageError
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.server import InferenceServer
from seed_rl.types import ArraySpec, EnvironmentSpec
from seed_rl.wire.client import LearnerGoneError, RefusedError
from seed_rl.wire.protocol import EnvironmentDescription
from seed_rl.wire.security import (
    PEM_VARIABLES,
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


def pem_of(key, encryption=serialization.NoEncryption()):  # noqa: B008 (immutable)
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Paths: certificates and keys, and their authority; and one who is no authority."""
    path, authority = tmp_path_factory.mktemp("tls"), trustme.CA()
    for name in ("learner", "actor"):
        certificate = authority.issue_cert("localhost")
        certificate.cert_chain_pems[0].write_to_path(path / f"{name}.pem")
        certificate.private_key_pem.write_to_path(path / f"{name}.key")
    authority.cert_pem.write_to_path(path / "ca.pem")
    trustme.CA().cert_pem.write_to_path(path / "stranger.pem")
    (path / "token").write_text(TOKEN + "\n")
    (path / "ed25519.key").write_bytes(pem_of(ed25519.Ed25519PrivateKey.generate()))
    key = serialization.load_pem_private_key((path / "learner.key").read_bytes(), password=None)
    (path / "locked.key").write_bytes(pem_of(key, serialization.BestAvailableEncryption(b"secret")))
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


def test_tls_and_a_token_of_a_file_or_of_the_environment(serve, files):
    assert task_of(serve(learner_config(files)), actor_config(files)) == 0
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
def test_another_token_is_refused_and_logged(serve, files, token, capfd):
    security = replace(load_security(actor_config(files), {}), token=token)
    with pytest.raises(RefusedError, match="expects a token that this actor does not send"):
        join(serve(learner_config(files)), security)
    assert "refused the actor at ipv" in (logged := capfd.readouterr().err) and "UNAUTHENTICATED" in logged
    assert TOKEN not in logged


@pytest.mark.parametrize(
    ("host", "changes", "words"),
    [
        ("localhost", {"tls_authority": "{}/stranger.pem"}, "VERIFY_FAILED.*; correct --tls_authority"),
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


LOCAL = ["unix:/tmp/s", "localhost:80", "127.0.0.1:80", "127.8.8.8:80", "[::1]:80"]
LOCAL += ["ipv4:127.0.0.1:80", "dns:///localhost:80"]
REMOTE = ["0.0.0.0:80", "[::]:80", "10.0.0.1:80", "learner.example:80", "localhost.example:80"]


@pytest.mark.parametrize("address", LOCAL + REMOTE)
def test_what_other_machines_can_reach(files, address):
    local = address in LOCAL
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


PEM = {"tls_certificate": "learner.pem", "tls_key": "learner.key", "tls_authority": "ca.pem"}
FLAGS = PEM | {"token_file": "token"}  # Each with its file.
# Contents that no file of these may have: what they are made of, given the right one.
BAD_CONTENTS = {
    "empty": lambda right: b"",
    "blank": lambda right: b" \r\n\t\n",
    "only comments": lambda right: b"# The certificate of the learner\n# goes here\n",
    "all but the first line": lambda right: b"\n".join(right.split(b"\n")[1:]),
    "zeros": lambda right: bytes(len(right)),
    "UTF-16": lambda right: right.decode().encode("utf-16"),
    "another kind": lambda right: b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
}
GOOD_CONTENTS = {
    "CRLF": lambda right: right.replace(b"\n", b"\r\n"),
    "BOM": lambda right: b"\xef\xbb\xbf" + right,
    "BOM and CRLF": lambda right: b"\xef\xbb\xbf" + right.replace(b"\n", b"\r\n"),
    "comments": lambda right: "# größer\n".encode() * (b"BEGIN" in right) + right,
}


def copy_of(*names):
    """Makes, at a path, a copy of these files, one after another."""
    return lambda path, files: path.write_bytes(b"".join((files / name).read_bytes() for name in names))


# Things in the place of a file: how it is made at a path, and for which flags it is wrong.
MISUSES = {
    "a directory": (lambda path, files: path.mkdir(), FLAGS),
    "nothing": (lambda path, files: None, FLAGS),
    "a link to nothing": (lambda path, files: path.symlink_to("nothing"), FLAGS),
    "the key": (copy_of("learner.key"), ["tls_certificate", "tls_authority", "token_file"]),
    "the certificate": (copy_of("learner.pem"), ["tls_key", "token_file"]),
    "another certificate": (copy_of("actor.pem"), ["tls_certificate"]),
    "another key": (copy_of("actor.key"), ["tls_key"]),
    "a key of another kind": (copy_of("ed25519.key"), ["tls_key"]),
    "certificate and key, without a key": (copy_of("learner.pem", "actor.key"), ["tls_key"]),
    "a key with a passphrase, which nobody is asked for": (copy_of("locked.key"), ["tls_key"]),
}


def all_flags(files, **changes):
    """Settings with every file; of the right kind, but for the changes."""
    paths = {flag: files / name for flag, name in FLAGS.items()} | changes
    return SecurityConfig(**{flag: str(path) for flag, path in paths.items()})


def content(files, flag):
    return (files / FLAGS[flag]).read_bytes()


def assert_refused(config, environment, name):
    with pytest.raises(ValueError, match=name) as caught:
        load_security(config, environment)
    sentence = str(caught.value)
    assert sentence.endswith(".") and "\n" not in sentence and "None" not in sentence, sentence


@pytest.mark.parametrize(
    ("kind", "flag"),
    # Part of a token is another token.
    [(kind, flag) for kind in BAD_CONTENTS for flag in (PEM if "all but" in kind else FLAGS)],
)
def test_bad_contents_are_refused_in_one_sentence_that_names_the_file(files, tmp_path, kind, flag):
    bad = BAD_CONTENTS[kind](content(files, flag))
    (tmp_path / "bad").write_bytes(bad)
    assert_refused(all_flags(files, **{flag: tmp_path / "bad"}), {}, rf"{tmp_path}/bad\b")
    if flag in PEM and b"\0" not in bad:  # The same in environment variables.
        variables = {PEM_VARIABLES[f]: content(files, f).decode() for f in PEM}
        variables[PEM_VARIABLES[flag]] = os.fsdecode(bad)
        assert_refused(SecurityConfig(), variables, PEM_VARIABLES[flag])


@pytest.mark.parametrize(("kind", "flag"), [(kind, flag) for kind in MISUSES for flag in MISUSES[kind][1]])
def test_what_is_no_such_file_is_refused_in_one_sentence_that_names_it(files, tmp_path, kind, flag):
    MISUSES[kind][0](tmp_path / "bad", files)
    assert_refused(all_flags(files, **{flag: tmp_path / "bad"}), {}, rf"{tmp_path}/bad\b")


@pytest.mark.parametrize("flag", PEM)
def test_no_part_of_a_certificate_or_key_is_taken_for_a_whole_one(files, tmp_path, flag):
    right = content(files, flag).rstrip()
    for length in range(0, len(right), 7):
        (tmp_path / "cut").write_bytes(right[:length])
        assert_refused(all_flags(files, **{flag: tmp_path / "cut"}), {}, f"{tmp_path}/cut")


def test_a_file_that_cannot_be_read_is_refused(files, monkeypatch):
    def refuse(path, *args):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("builtins.open", refuse)
    for flags in (["tls_certificate", "tls_key"], ["tls_authority"], ["token_file"]):
        config = SecurityConfig(**dict.fromkeys(flags, "x"))
        assert_refused(config, {}, f"--{flags[0]}=x cannot be read: Permission denied")


@pytest.mark.parametrize("kind", GOOD_CONTENTS)
def test_what_editors_add_to_files_does_no_harm(serve, files, tmp_path, kind):
    for flag, name in FLAGS.items():
        (tmp_path / name).write_bytes(GOOD_CONTENTS[kind](content(files, flag)))
    for at_learner, at_actor in ((tmp_path, files), (files, tmp_path)):
        address = serve(all_flags(at_learner, tls_authority=at_learner / "ca.pem"))
        assert task_of(address, all_flags(at_actor)) == 0


@pytest.mark.parametrize("lacking", ["tls_certificate", "tls_key"])
def test_half_of_a_certificate_and_its_key_is_refused(files, lacking):
    variables = {PEM_VARIABLES[f]: content(files, f).decode() for f in PEM if f != lacking}
    assert_refused(SecurityConfig(), variables, "belong together; give both or neither")
    with pytest.raises(ValueError, match="belong together"):
        learner_config(files, **{lacking: None})


@pytest.mark.parametrize("command", ["learner", "actor", "policy_actor", "gateway"])
@pytest.mark.parametrize("flag", ["tls_authority", "token_file"])
def test_every_end_refuses_an_empty_file(files, tmp_path, command, flag):
    (tmp_path / "bad").touch()
    flags = [f"--server_address=unix:{tmp_path}/s", f"--{flag}={tmp_path}/bad"]
    flags += ["--environment=catch"] if command != "gateway" else []
    flags += ["--agent=vtrace", f"--logdir={tmp_path}/run"] if command == "learner" else []
    with pytest.raises(UsageError, match=f"{tmp_path}/bad"):
        main_of(command)([f"seed_rl {command}", *flags])


@pytest.mark.parametrize("address", ["unix:/tmp/s", "localhost:80", "learner.example:80"])
@pytest.mark.parametrize("insecure", [False, True])
def test_half_of_tls_is_refused_and_not_taken_for_none(files, address, insecure):
    """The connection would not be encrypted, though the user has requested it."""
    authority = actor_config(files, insecure=insecure)
    with pytest.raises(ValueError, match=r"--tls_authority alone gives a learner no TLS: give --tls_cert"):
        check_listening(address, authority, load_security(authority, {}))
    certificate = learner_config(files, insecure=insecure)
    with pytest.raises(ValueError, match=r"alone give an actor no TLS: give --tls_authority"):
        check_connecting(address, certificate, load_security(certificate, {}))
    check_connecting(address, authority, load_security(authority, {}))
    check_listening(address, certificate, load_security(certificate, {}))


def test_half_of_tls_in_environment_variables_is_refused(files):
    def load(*flags):
        variables = {PEM_VARIABLES[flag]: content(files, flag).decode() for flag in flags}
        return load_security(SecurityConfig(), variables)

    with pytest.raises(ValueError, match="SEED_RL_TLS_AUTHORITY"):
        check_listening("localhost:80", SecurityConfig(), load("tls_authority"))
    with pytest.raises(ValueError, match="SEED_RL_TLS_KEY"):
        check_connecting("localhost:80", SecurityConfig(), load("tls_certificate", "tls_key"))
    check_listening("localhost:80", SecurityConfig(), load(*PEM))
    check_connecting("localhost:80", SecurityConfig(), load(*PEM))


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
