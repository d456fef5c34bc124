"""Trained policies that answer programs: sessions, newer checkpoints, shares, and what is refused."""

import re

import pytest

import seed_rl
from seed_rl.environments.suites.catch import Catch
from tests.threads import Thread
from tests.waiting import wait_until

pytestmark = pytest.mark.slow
DEADLINE_SECS = 60.0


def play(address, episodes, seed=0):
    """Plays Catch; returns the mean return."""
    env, total = Catch(10, 5, seed), 0.0
    with seed_rl.connect(address, connect_timeout_secs=DEADLINE_SECS) as policy:
        for _ in range(episodes):
            action = policy.reset(env.reset()[0])
            while action is not None:
                observation, reward, terminated, truncated, _ = env.step(action)
                total += reward
                action = policy.step(observation, reward, terminated, truncated)
    return total / episodes


def test_sessions_get_the_actions_of_the_trained_policy_each_by_itself(finished_run):
    house = finished_run.house
    address = f"unix:{house.path}/sessions"
    server = house.start("serve", house.logdir, f"--server_address={address}", "--greedy")
    returns = []
    threads = [Thread(lambda i=i: returns.append(play(address, 40, i))) for i in range(4)]
    assert all(thread.finished(2 * DEADLINE_SECS) and thread.error is None for thread in threads)
    assert min(returns) >= 0.9
    server.signal(2)
    assert server.end() == 130, server.output


def test_sessions_are_spread_by_shares_and_returns_are_of_run_and_version(finished_run):
    house = finished_run.house
    address = f"unix:{house.path}/shares"
    runs = house.logdir, next((house.logdir / "checkpoints").glob("*.index"))
    flags = (f"--server_address={address}", "--shares=0.5,0.5", "--report_secs=1")
    server = house.start("serve", *runs, *flags)
    for seed in range(8):
        play(address, 2, seed)
    pattern = re.compile(r"(\S+) at (\d+) updates: mean return \S+, (\d+) episodes")
    wait_until(
        lambda: len({run for run, _, _ in pattern.findall(server.output)}) == 2, lambda: server.output, 30
    )
    server.signal(2)
    assert server.end() == 130, server.output


def test_a_newer_checkpoint_of_a_run_that_trains_is_taken(house):
    address = f"unix:{house.path}/serve"
    flags = ("--save_checkpoint_secs=1", "--total_environment_frames=100000000")
    run = house.start("train", "catch", "vtrace", f"--logdir={house.logdir}", *flags)
    wait_until(lambda: list(house.logdir.glob("checkpoints/ckpt-*.index")), lambda: run.output, DEADLINE_SECS)
    server = house.start("serve", house.logdir, f"--server_address={address}", "--follow")
    server.wait_for("serving")
    play(address, 1)
    newer = re.compile(r"\d+ updates\.")
    wait_until(lambda: len(newer.findall(server.output)) >= 2, lambda: server.output, DEADLINE_SECS)
    play(address, 1)
    assert server.running, server.output


@pytest.mark.parametrize(
    "flags, words",
    [
        ((), "No run is given"),
        (("missing",), "missing"),
        (("RUN", "--shares=0.5,0.5"), "--shares=0.5,0.5 must be 1 positive"),
        (("RUN", "--web_address=8080"), "--web_address=8080"),
        (("RUN", "--server_address=0.0.0.0:9999"), "can be reached from other machines"),
    ],
)
def test_what_cannot_be_served_is_refused_in_a_sentence(finished_run, flags, words):
    house = finished_run.house
    server = house.start("serve", *(house.logdir if flag == "RUN" else flag for flag in flags))
    assert server.end() == 2 and words in server.last_line, server.output
