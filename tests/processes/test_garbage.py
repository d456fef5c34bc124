"""Input of any peer to a learner or a gateway: they go on, log little, and accept new actors in time."""

import concurrent.futures
import contextlib
import socket
import sys
import threading
import time

import pytest

from tests.garbage import KINDS, Garbage, call_of, first_answer, send, silent
from tests.ports import GARBAGE, free_ports

pytestmark = pytest.mark.slow

TOKEN = "not-to-be-seen-anywhere-0123456789"
IN_TIME_SECS = 10.0
START_SECS = 120.0
INPUTS = 400

with_gateways = [
    "learner",
    "web",
    pytest.param(
        "gateway", marks=pytest.mark.skipif(sys.platform != "linux", reason="gateways need shared memory")
    ),
]

WITH_FEW_DESCRIPTORS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, 1024))
"""

# The server's loop ends after a while, and the address cannot be had again.
WITH_A_SERVER_THAT_ENDS = """
import asyncio
from seed_rl.serving import listener
async def fail(core):
    await asyncio.sleep(2.0)
    raise RuntimeError("out of order")
async def fail_again(listener):
    raise OSError("taken")
listener._SteadyCore._request_call = fail
listener.Listener._start_again = fail_again
"""

MAIN = """
from seed_rl.commands import learner
from seed_rl.flags.errors import run_main
run_main(learner.main)
"""


@pytest.fixture
def serve(house):
    """Starts a learner, a gateway if requested, and an actor; returns address and Welcome."""

    def start(which, before=""):
        ports = free_ports(3, GARBAGE)
        house.address = f"127.0.0.1:{ports[0]}"
        (house.path / "token").write_text(TOKEN)
        (house.path / "token").chmod(0o600)
        house.token = f"--token_file={house.path}/token"
        gateways = ["--num_gateways=1"] if which == "gateway" else []
        web = [f"--web_address=127.0.0.1:{ports[2]}"] if which == "web" else []
        house.web = ("127.0.0.1", ports[2])
        house.live = house.learner(house.token, *gateways, *web, code=before + MAIN)
        address = ("127.0.0.1", ports[1 if gateways else 0])
        house.address = f"127.0.0.1:{address[1]}"
        house.player = house.actor(house.token)
        house.player.wait_for("has given this actor task")
        house.lost = house.player.output.count("Not connected")  # While the learner was starting.
        answer = first_answer(address, TOKEN, START_SECS)
        assert answer.seconds, house.live.output
        return address, answer.welcome

    return start


def goes_on(house):
    """Checks that learner and actor play on, and that nothing of a peer is in the log as it came."""
    count = len(house.metrics())
    house.wait_for_metrics(lambda line: True, house.live, after=count + 1)
    assert house.player.running and house.player.output.count("Not connected") == house.lost
    output = house.live.output
    assert "\x1b" not in output and "Traceback" not in output
    assert not [line for line in output.splitlines() if line.startswith("seed_rl: Training is complete")]
    return [line for line in output.splitlines() if line.startswith("seed_rl: ")]


@pytest.mark.parametrize("which", with_gateways)
def test_garbage_changes_nothing_and_new_actors_get_in_while_it_comes(house, serve, which):
    address, welcome = serve(which)
    garbage = Garbage(1, welcome, TOKEN)
    kinds, attacked = ((*KINDS, "web"), house.web) if which == "web" else (KINDS, address)
    inputs = [garbage.input(kinds[i % len(kinds)]) for i in range(INPUTS)]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        sending = [pool.submit(send, attacked, said) for said in inputs]
        while not all(future.done() for future in sending):
            assert first_answer(address, TOKEN, IN_TIME_SECS).seconds, house.live.output
        assert all(future.result() for future in sending)
    assert len(goes_on(house)) < 20

    over = threading.Event()

    def attack():
        while not over.is_set():
            with socket.create_connection(address) as peer:
                peer.sendall(call_of(b"/\xff"))  # A path that cannot be decoded.
            time.sleep(0.002)

    attacker = threading.Thread(target=attack)
    attacker.start()
    try:
        for _ in range(5):
            assert first_answer(address, TOKEN, IN_TIME_SECS).seconds, house.live.output
    finally:
        over.set()
        attacker.join()
    goes_on(house)


def test_silent_peers_keep_nobody_out(house, serve):
    """They take all the connections that a process with 1,024 descriptors can have."""
    address, _ = serve("learner", before=WITH_FEW_DESCRIPTORS)
    for kind in ("nothing", "no call", "Inference/Connect", "Learners/Meet"):
        with contextlib.ExitStack() as stack:
            peers = [stack.enter_context(socket.create_connection(address)) for _ in range(500)]
            for peer in peers:
                with contextlib.suppress(OSError):  # One too many.
                    peer.sendall(silent(kind, TOKEN))
            assert first_answer(address, TOKEN, IN_TIME_SECS).seconds, (kind, house.live.output)
            goes_on(house)


def test_a_learner_that_can_no_longer_listen_says_so_and_ends(house):
    live = house.learner(code=WITH_A_SERVER_THAT_ENDS + MAIN)
    assert live.end(START_SECS) == 1
    assert "RuntimeError('out of order')" in live.last_line
    assert live.last_line.endswith("again: taken.")
    assert list(house.logdir.glob("checkpoints/ckpt-*.index"))
