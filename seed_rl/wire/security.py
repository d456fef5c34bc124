"""Security over TCP: TLS, a token that both ends share, and when a connection may do without them."""

import codecs
import contextlib
import dataclasses
import hmac
import importlib.util
import ipaddress
import logging
import os
import ssl
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import grpc

from seed_rl.messages import how_to_install
from seed_rl.options import Options, option

# Environment variables, for schedulers that pass secrets this way: the token, and PEM texts.
TOKEN_VARIABLE = "SEED_RL_TOKEN"
PEM_VARIABLES = {
    "tls_certificate": "SEED_RL_TLS_CERTIFICATE",
    "tls_key": "SEED_RL_TLS_KEY",
    "tls_authority": "SEED_RL_TLS_AUTHORITY",
}

_log = logging.getLogger(__name__)

_METADATA_KEY = "authorization"
WRONG_TOKEN = (
    "The learner expects a token that this actor does not send: use the same --token_file or "
    f"{TOKEN_VARIABLE} at both ends."
)
_SHORTEST_TOKEN = 16
_LAST_PORT = 2**16 - 1
_SECRETS = ("token_file", "tls_key")


@dataclasses.dataclass(frozen=True)
class SecurityConfig(Options):
    """Settings for connections over TCP; both ends have the same flags.

    Files that are not given are replaced by environment variables. The variable for a PEM file is SEED_RL_
    and the flag's name in capitals, such as SEED_RL_TLS_KEY, and contains the text of the file.
    """

    tls_certificate: str | None = option(
        None,
        "PEM file of this end's certificate. The learner needs one; actors need one if the learner asks for "
        "it.",
        is_path=True,
    )
    tls_key: str | None = option(None, "PEM file of the private key of --tls_certificate.", is_path=True)
    tls_authority: str | None = option(
        None,
        "PEM file of the authority that must have issued the other end's certificate. Actors need one; a "
        "learner that has one asks actors for certificates (mutual TLS).",
        is_path=True,
    )
    tls_server_name: str | None = option(
        None, "Actors: the name in the learner's certificate, if it is not the host of --server_address."
    )
    token_file: str | None = option(
        None,
        f"File of the token that learner and actors share; by default the environment variable "
        f"{TOKEN_VARIABLE}. Addresses that only this machine can reach need no token. Without one, every "
        "user of the machine may connect to the loopback device and to unix-abstract:NAME, and every user "
        "who may enter its directory to unix:PATH.",
        is_path=True,
    )
    insecure: bool = option(
        False,
        "Allow connections between machines without TLS and a token, on a network you trust.",
    )

    def validate(self) -> None:
        """Checks that a certificate comes with its key."""
        if (self.tls_certificate is None) != (self.tls_key is None):
            raise ValueError("--tls_certificate and --tls_key belong together; give both or neither.")


@dataclasses.dataclass(frozen=True)
class WebConfig(Options):
    """Settings of the door for browsers."""

    web_address: str | None = option(
        None,
        "Where browsers connect as well, HOST:PORT: the same messages over WebSockets, with the same TLS and "
        "token. Needs the extra [web].",
        is_plumbing=True,
    )
    web_origins: str = option(
        "",
        "Origins of pages elsewhere that may connect to --web_address, such as http://localhost:3000, "
        "separated by commas; pages from that address itself always may.",
        is_plumbing=True,
    )

    @property
    def origins(self) -> tuple[str, ...]:
        """The origins."""
        return tuple(filter(None, (origin.strip() for origin in self.web_origins.split(","))))

    def validate(self) -> None:
        """Checks that the address has a host and a port."""
        host, _, port = (self.web_address or "localhost:0").rpartition(":")
        if not host or not port.isdigit() or int(port) > _LAST_PORT:
            raise ValueError(
                f"--web_address={self.web_address} is not valid; give HOST:PORT, such as localhost:8080."
            )


@dataclasses.dataclass(frozen=True)
class Security:
    """The contents of the files. `key` and `token` never appear in messages to the user."""

    certificate: bytes | None = None
    key: bytes | None = dataclasses.field(default=None, repr=False)
    authority: bytes | None = None
    server_name: str | None = None
    token: str | None = dataclasses.field(default=None, repr=False)

    def server_credentials(self) -> grpc.ServerCredentials | None:
        """The credentials of a learner; None: without TLS."""
        if self.certificate is None:
            return None
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)], self.authority, require_client_auth=self.authority is not None
        )

    def between_learners(self) -> "Security":
        """The same for a learner that calls another one, which has the same files.

        A learner without an authority trusts its own certificate, which is then its own authority.
        """
        return dataclasses.replace(self, authority=self.authority or self.certificate)

    def channel(self, address: str, options: list[tuple[str, Any]], api: Any = grpc.aio) -> Any:
        """A channel that calls a learner: of `grpc`, or of `grpc.aio` on the running event loop."""
        if self.authority is None:
            return api.insecure_channel(address, options, grpc.Compression.NoCompression)
        if self.server_name is not None:
            options = [*options, ("grpc.ssl_target_name_override", self.server_name)]
        credentials = grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)
        return api.secure_channel(address, credentials, options, grpc.Compression.NoCompression)

    def load_chain(self, context: ssl.SSLContext) -> None:
        """Gives a context this end's certificate and key, if it has them. They are written to memory only.

        Raises:
          ssl.SSLError: they are not a certificate and its key.
        """
        if self.certificate is not None:
            with _file(self.certificate) as certificate, _file(self.key or b"") as key:
                context.load_cert_chain(certificate, key, password="")  # Without one, it would prompt for it.

    def metadata(self) -> list[tuple[str, str]]:
        """The metadata that an actor sends with each call."""
        return [] if self.token is None else [(_METADATA_KEY, f"Bearer {self.token}")]

    def accepts(self, metadata: Iterable[tuple[str, Any]] | None) -> bool:
        """Whether the metadata of a call have the token, if one is needed."""
        said = str(dict(metadata or ()).get(_METADATA_KEY, ""))
        # In constant time: the response time must not reveal how much of a wrong token is right.
        return self.token is None or hmac.compare_digest(said.encode(), f"Bearer {self.token}".encode())


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[str]:
    """The path of a file with this content: in memory, or, elsewhere, one that only its owner may read."""
    in_memory = hasattr(os, "memfd_create")
    with os.fdopen(os.memfd_create("pem"), "wb") if in_memory else tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield f"/dev/fd/{file.fileno()}" if in_memory else file.name


def load_security(config: SecurityConfig, environment: Mapping[str, str]) -> Security:
    """Reads the files and the process's environment variables; warns about secrets that others can read.

    Raises:
      ValueError: a file cannot be read, or its contents are not valid; one sentence.
    """
    token, source = environment.get(TOKEN_VARIABLE), TOKEN_VARIABLE
    if config.token_file is not None:
        token, source = _read("token_file", config.token_file).decode("ascii", "replace"), config.token_file
    if token is not None:
        token = token.strip()
        if len(token) < _SHORTEST_TOKEN or not all("!" <= character <= "~" for character in token):
            raise ValueError(
                f"The token in {source} must be at least {_SHORTEST_TOKEN} letters, digits or symbols "
                "without spaces; make one with: openssl rand -hex 32."
            )
    sources, texts = {}, {}
    for flag, variable in PEM_VARIABLES.items():
        path = getattr(config, flag)
        sources[flag] = variable if path is None else f"--{flag}={path}"
        given = environment.get(variable) if path is None else _read(flag, path)
        texts[flag] = os.fsencode(given) if given is not None else None  # Empty is not the same as not given.
    certificate, key, authority = (texts[flag] for flag in PEM_VARIABLES)
    security = Security(certificate, key, authority, config.tls_server_name, token)
    _check_pem(security, sources)
    return security


def check_listening(
    address: str, config: SecurityConfig, security: Security, web: "WebConfig | None" = None
) -> None:
    """Refuses to listen where other machines can connect without TLS and a token; at the web address as well.

    Raises:
      ValueError: one sentence that says what to add.
      ImportError: a web address needs a package that is not installed.
    """
    if security.authority is not None and security.certificate is None:
        raise ValueError(
            "--tls_authority alone gives a learner no TLS: give --tls_certificate and --tls_key as well, or "
            f"leave it out (also unset {PEM_VARIABLES['tls_authority']})."
        )
    web_address = web and web.web_address
    if web_address and importlib.util.find_spec("websockets") is None:
        raise ImportError(f"The package websockets is not installed; {how_to_install('web')}.")
    for flag, place in (("server_address", address), ("web_address", web_address)):
        if place and not _may_use(place, config, security.certificate, security.token):
            raise ValueError(
                f"--{flag}={place} can be reached from other machines: give --tls_certificate, --tls_key and "
                f"a token (--token_file or {TOKEN_VARIABLE}), or --insecure on a network you trust."
            )


def check_connecting(address: str, config: SecurityConfig, security: Security) -> None:
    """Refuses to send experience to another machine without TLS and a token.

    Raises:
      ValueError: one sentence that says what to add.
    """
    if security.certificate is not None and security.authority is None:
        raise ValueError(
            "--tls_certificate and --tls_key alone give an actor no TLS: give --tls_authority, which "
            "must have issued the learner's certificate, or leave them out "
            f"(also unset {PEM_VARIABLES['tls_certificate']} and {PEM_VARIABLES['tls_key']})."
        )
    if not _may_use(address, config, security.authority, security.token):
        raise ValueError(
            f"--server_address={address} is on another machine: give --tls_authority and a token "
            f"(--token_file or {TOKEN_VARIABLE}), or --insecure on a network you trust."
        )


def _may_use(address: str, config: SecurityConfig, pem: bytes | None, token: str | None) -> bool:
    """Whether an end with this PEM text for TLS (None: no TLS) and this token may use an address."""
    return config.insecure or is_local(address) or (pem is not None and token is not None)


def is_local(address: str) -> bool:
    """Whether only this machine can reach a gRPC address: a unix socket or the loopback device."""
    if address.startswith(("unix:", "unix-abstract:")):
        return True
    host = address.removeprefix("dns:///").removeprefix("ipv4:").removeprefix("ipv6:").rpartition(":")[0]
    host = host.strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_pem(security: Security, sources: Mapping[str, str]) -> None:
    """Refuses PEM texts that are empty, incomplete or of another kind; gRPC would just fail to connect."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    for flag, pem in (("tls_certificate", security.certificate), ("tls_authority", security.authority)):
        try:
            if pem is not None:
                context.load_verify_locations(cadata=pem.decode("ascii", "ignore"))
        except (ssl.SSLError, ValueError) as error:
            raise ValueError(f"{sources[flag]} is not a PEM certificate, or not a complete one.") from error
    certificate, key = sources["tls_certificate"], sources["tls_key"]
    if (security.certificate is None) != (security.key is None):
        raise ValueError(f"{certificate} and {key} belong together; give both or neither.")
    try:
        security.load_chain(context)
    except ssl.SSLError as error:
        is_another = "MISMATCH" in (error.reason or "")
        raise ValueError(
            f"{certificate} needs its private key in PEM, complete and without a passphrase; {key} is "
            f"{'that of another certificate' if is_another else 'none'}."
        ) from error


def _read(flag: str, path: str) -> bytes:
    """The file that a flag names, without a byte order mark; warns about a secret that others can read.

    That is no error: a scheduler's mounted secrets often are readable.
    """
    try:
        with open(path, "rb") as file:
            content, mode = file.read(), os.fstat(file.fileno()).st_mode
    except OSError as error:
        raise ValueError(f"--{flag}={path} cannot be read: {error.strerror}.") from error
    if flag in _SECRETS and stat.S_ISREG(mode) and mode & (stat.S_IRGRP | stat.S_IROTH):
        _log.warning("--%s=%s can be read by other users of this machine; run chmod 600 on it.", flag, path)
    return content.removeprefix(codecs.BOM_UTF8)
