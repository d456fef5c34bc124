"""Exits with 0 if the learner at an address answers.

healthcheck.py unix:/run/seed_rl/learner.sock
healthcheck.py localhost:8686 AUTHORITY.pem NAME      # with TLS; NAME is the one in the learner's certificate
"""

import sys
from pathlib import Path

import grpc


def connect(address: str, authority: str = "", name: str = "") -> grpc.Channel:
    """A channel, with TLS if there is an authority."""
    if not authority:
        return grpc.insecure_channel(address)
    credentials = grpc.ssl_channel_credentials(Path(authority).read_bytes())
    return grpc.secure_channel(address, credentials, [("grpc.ssl_target_name_override", name)])


try:
    with connect(*sys.argv[1:]) as channel:
        next(channel.stream_stream("/seed_rl.Inference/Connect")(iter([b""]), timeout=5))
except grpc.RpcError as error:
    # It refuses an empty message, or asks for its token first.
    if error.code() not in (grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNAUTHENTICATED):
        sys.exit(f"The learner at {sys.argv[1]} does not answer: {error.code().name}.")
