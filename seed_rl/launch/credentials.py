"""A certificate and a token for one run, passed to its processes in environment variables."""

import datetime
import secrets
from typing import NamedTuple

from seed_rl.flags.errors import require_package
from seed_rl.wire.security import PEM_VARIABLES, TOKEN_VARIABLE

# The name in the certificate. Actors check for it (--tls_server_name), whatever the learner's address is.
SERVER_NAME = "learner.seed-rl"

_VALID_DAYS = 400


class Credentials(NamedTuple):
    """Environment variables of the learner and of the actors. All values are secrets."""

    learner: dict[str, str]
    actor: dict[str, str]


def make_credentials(extra: str) -> Credentials:
    """Creates a token, and a self-signed certificate that serves as its own authority.

    Raises:
      UsageError: the package cryptography, which this extra of the project installs, is missing.
    """
    require_package("cryptography", extra)
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, SERVER_NAME)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))  # clocks differ
        .not_valid_after(now + datetime.timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM).decode()
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    token = {TOKEN_VARIABLE: secrets.token_hex(32)}
    return Credentials(
        learner=token | {PEM_VARIABLES["tls_certificate"]: pem, PEM_VARIABLES["tls_key"]: key_pem},
        actor=token | {PEM_VARIABLES["tls_authority"]: pem},
    )
