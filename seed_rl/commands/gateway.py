r"""A gateway: serves actors on other machines for a learner on this one, whose --num_gateways starts it.

It passes their steps on through shared memory. Needs no TensorFlow.

Examples:
  seed_rl gateway --server_address=127.0.0.1:8687 --learner_address=unix:/tmp/seed_rl.sock
  seed_rl gateway --server_address=0.0.0.0:8687 --learner_address=unix:/tmp/seed_rl.sock \
    --tls_certificate=learner.pem --tls_key=learner.key --token_file=token

Exit codes: 2 when a flag is wrong, 130 after Ctrl-C, 143 after SIGTERM, 129 after SIGHUP, 1 otherwise.
"""

import dataclasses
import os
import time

from seed_rl.flags.command_line import parse_options
from seed_rl.flags.errors import usage_errors
from seed_rl.launch.child import raise_descriptor_limit
from seed_rl.messages import complain, log_lines
from seed_rl.options import option, part
from seed_rl.serving.gateway import Gateway
from seed_rl.serving.listener import Listener, NotServingError
from seed_rl.wire.protocol import SERVICE
from seed_rl.wire.security import SecurityConfig, WebConfig, check_listening, load_security

_TURN_SECS = 1.0


@dataclasses.dataclass(frozen=True)
class GatewayConfig(SecurityConfig):
    """Settings of a gateway; TLS and token are those of its learner."""

    server_address: str = option("unix:/tmp/seed_rl_gateway.sock", "For actors: HOST:PORT, or unix:PATH.")
    learner_address: str = option("unix:/tmp/seed_rl.sock", "The learner's, on this machine, without TLS.")
    web: WebConfig = part(WebConfig)


def main(argv: list[str]) -> int:
    """Serves actors until a signal comes, or until it cannot; returns the exit code."""
    log_lines()
    config, _ = parse_options(argv, __doc__ or "", GatewayConfig)
    with usage_errors():
        raise_descriptor_limit()
        security = load_security(config, os.environ)
        check_listening(config.server_address, config, security, config.web)
        listener = Listener(config.server_address, -1, (SERVICE,), security)
        if config.web.web_address:
            listener.open_web(config.web.web_address, config.web.origins)
    listener.add(SERVICE, Gateway(config.learner_address, security.metadata()).connect)
    try:
        while True:  # In turns: Python handles a signal that comes just before a wait only after it.
            time.sleep(_TURN_SECS)
            listener.check()
    except NotServingError as error:
        complain(str(error))
        return 1
    finally:
        listener.stop()  # Streams have time to end on their own, so that actors get the learner's reason.
