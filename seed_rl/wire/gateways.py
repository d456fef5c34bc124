"""The addresses of a learner's gateways, which serve gRPC in processes of their own. No TensorFlow."""

import secrets


def gateway_addresses(server_address: str, num_gateways: int) -> tuple[str, ...]:
    """Where the gateways of a learner listen.

    Args:
      server_address: of the learner: unix:PATH, or HOST:PORT; the gateways have the ports that follow.
      num_gateways: how many gateways there are.

    Raises:
      ValueError: the port is not a number from 1, or there are not so many ports after it.
    """
    if server_address.startswith("unix:"):
        return tuple(f"{server_address}.gateway{i}" for i in range(num_gateways))
    host, _, port = server_address.rpartition(":")
    if not port.isdigit() or not 0 < int(port) <= 65535 - num_gateways:
        raise ValueError(
            f"--num_gateways={num_gateways} needs as many ports after the one of --server_address="
            f"{server_address}; give a port from 1 to {65535 - num_gateways}."
        )
    return tuple(f"{host}:{int(port) + 1 + i}" for i in range(num_gateways))


def private_address(server_address: str) -> str:
    """Where a learner listens for its gateways alone; nobody reaches it who could not reach the learner."""
    if server_address.startswith("unix:"):
        return f"{server_address}.learner"
    return f"unix-abstract:seed_rl/{secrets.token_hex(16)}"


def as_leased(address: str) -> str:
    """A gateway's address as a lease names it: of TCP only the port, because actors know the host better."""
    return address if address.startswith("unix:") else f":{address.rpartition(':')[2]}"


def resolved(leased: str, asked: str) -> str:
    """The address that a lease names, for an actor that asked at `asked`."""
    return f"{asked.rpartition(':')[0]}{leased}" if leased.startswith(":") else leased
