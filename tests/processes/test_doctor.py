"""The doctor on real runs, while they train and afterwards."""

import signal

import pytest

pytestmark = pytest.mark.slow

NAMED = ("inference_waiting_share", "training_waiting_share", "actor_turn_ms", "learner_cpu_cores")


def lines(process):
    return process.output.strip().splitlines()


def test_a_run_of_one_machine_is_judged_while_it_trains_and_afterwards(house):
    run = house.start("train", "catch", "vtrace", "2", "4", *house.small, f"--logdir={house.logdir}")
    house.wait_for_metrics(lambda line: line["updates"] > 0, run)
    house.wait_for_metrics(lambda line: line.get("actor_processes") == 2, run)
    live = house.start("doctor", house.logdir)
    assert live.end() == 0, live.output
    run.signal(signal.SIGINT)
    assert run.end() == 130, run.output

    written = house.metrics()
    assert all(any(name in line for line in written) for name in NAMED)
    assert any(line.get("actor_cpu_cores", 0) > 0 for line in written)
    shares = [line[name] for line in written for name in line if name.endswith("_share")]
    assert all(0 <= share <= 1 for share in shares)

    after = house.start("doctor", house.logdir)
    assert after.end() == 0, after.output
    head, *rest = lines(after)
    found = [line for line in rest if line.endswith(".")]
    bound, *others = [line for line in found if not line.startswith("Other programs")] or found
    assert head.startswith(f"{house.logdir}: ") and "updates/s" in head
    assert "this run" in bound or bound.startswith("The machine is full")
    assert "--" in bound or bound.startswith("Other programs")
    assert len(others) <= 1
    assert {"training", "inference", "actors", "cores"} <= {line.split()[0] for line in rest}


def test_training_with_a_large_network_is_what_bounds_a_run(house):
    """An agent step of Catch takes microseconds, and an update of this LSTM a good part of a second."""
    large = ("--lstm_size=1024", "--batch_size=16", "--log_period_secs=1")
    run = house.start("train", "catch", "vtrace", "1", "16", *house.small, *large, f"--logdir={house.logdir}")
    house.wait_for_metrics(lambda line: line.get("inference_blocked_share", 0) >= 0.1, run)
    first = len(house.metrics())
    house.wait_until(lambda: len(house.metrics()) >= first + 10, "ten more periods")
    judged = house.start("doctor", house.logdir)
    assert judged.end() == 0, judged.output
    run.signal(signal.SIGINT)
    assert run.end() == 130, run.output
    assert any(line.startswith("Training bounds this run") for line in lines(judged)), judged.output
