"""A gateway in the test's own process, between a harness and its clients."""

import grpc

from seed_rl.serving.gateway import Gateway
from seed_rl.serving.listener import Listener
from seed_rl.serving.silence import Limits
from seed_rl.wire.protocol import SERVICE, channel_options
from tests.serving.harness import DEADLINE_SECS, of_catch


def put_gateway_before(harness, address, **limits):
    """Clients of the harness connect to the new gateway from now on; returns what it listens with."""
    connection = harness.connect()
    description = connection.check(of_catch(), DEADLINE_SECS)
    listener = Listener(address, description.max_message_bytes, (SERVICE,))

    async def make():
        channel = grpc.aio.insecure_channel(harness.address, channel_options(-1))
        return Gateway(channel, [], description, Limits(**limits))

    gateway = listener.run(make())
    listener.add(gateway.handlers())
    harness.address = address
    harness.to_close(listener.stop)  # After all clients that connect from now on.
    return listener, gateway
