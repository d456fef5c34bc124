"""Keeping gateways running, with tiny commands in their place."""

import os
import signal

import pytest

from seed_rl.launch.watch import Gateways, Timing, gateway_commands
from seed_rl.wire.security import SecurityConfig
from tests.launch.children import alive, command
from tests.waiting import wait_until

TIMING = Timing(poll=0.01, first_backoff=0.02, longest_backoff=0.05, terminate_grace=0.5)

FOR_EVER = "for_ever()"
STUBBORN = "on_sigterm(signal.SIG_IGN); mark('ready'); for_ever()"


@pytest.fixture
def start(tmp_path):
    """Starts gateways, each given as code; returns them, and a function that waits for so many starts."""
    started = []

    def start_all(*codes):
        commands = [command(tmp_path, f"gateway{i}", code) for i, code in enumerate(codes)]
        started.append(Gateways(commands, TIMING))

        def pids(index, count):
            def found():
                return [int(path.read_text()) for path in tmp_path.glob(f"gateway{index}.start.*")]

            wait_until(lambda: len(found()) >= count, f"{count} starts of {index}")
            return found()

        return started[-1], pids

    yield start_all
    for gateways in started:
        gateways.stop()


def test_stop_ends_them_all_and_a_second_stop_does_nothing(start, tmp_path):
    gateways, pids = start(FOR_EVER, STUBBORN)
    running = [*pids(0, 1), *pids(1, 1)]
    assert sorted(gateways.pids) == sorted(running)
    wait_until((tmp_path / "gateway1.ready").exists, "one that ignores the end")
    gateways.stop()
    assert not any(map(alive, running))
    gateways.stop()


def test_one_that_ends_starts_again_and_the_others_go_on(start, capfd):
    gateways, pids = start(FOR_EVER, FOR_EVER)
    (first,), (other,) = pids(0, 1), pids(1, 1)
    os.kill(first, signal.SIGKILL)
    again = set(pids(0, 2)) - {first}
    assert alive(other) and set(gateways.pids) == {other, *again}
    assert pids(1, 1) == [other]
    said = capfd.readouterr().err
    assert "gateway 0 was ended by SIGKILL; restart 1." in said


def test_one_that_cannot_run_is_tried_again_and_those_that_run_are_known(start, capfd):
    gateways, pids = start(FOR_EVER, "sys.exit(2)")
    pids(0, 1)
    addresses, said = ["first", "second"], []
    wait_until(lambda: gateways.live(addresses) == ["first"], lambda: gateways.live(addresses))

    def text():
        said.append(capfd.readouterr().err)
        return "".join(said)

    wait_until(lambda: "gateway 1 ended with exit code 2; restart 3." in text(), text)


def test_commands_have_the_learners_security():
    security = SecurityConfig(tls_certificate="c.pem", tls_key="k.pem", token_file="token")
    (command,) = gateway_commands(["0.0.0.0:8687"], "unix-abstract:x", security.to_dict())
    assert {
        "--server_address=0.0.0.0:8687",
        "--learner_address=unix-abstract:x",
        "--tls_certificate=c.pem",
        "--tls_key=k.pem",
        "--token_file=token",
    } <= set(command)
    assert not any("None" in part for part in command)
