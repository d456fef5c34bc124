"""GPUs asked for with --learner_gpus are demanded of the learner, unless its own flags say otherwise."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="Ray (extra ray) places the learner")

from seed_rl.cluster import run
from seed_rl.cluster.config import ClusterConfig
from seed_rl.launch.plan import Plan


@pytest.mark.parametrize(
    ("gpus", "flags", "in_order"),
    [
        (0, [], []),
        (2, [], ["--require_accelerator"]),
        (1, ["--norequire_accelerator"], ["--require_accelerator", "--norequire_accelerator"]),
    ],
)
def test_gpus_that_are_asked_for_are_demanded(monkeypatch, gpus, flags, in_order):
    programs = []
    monkeypatch.setattr(run, "RemoteChild", lambda program, *rest: programs.append(program))
    plan = Plan(
        [sys.executable, "-m", "seed_rl.learner_main", "--num_envs=4", *flags], [], Path("runs/catch")
    )
    run._children(plan, ClusterConfig(learner_gpus=gpus), None, None, "10.0.0.1:1")
    (learner,) = programs
    assert learner.command[:3] == plan.learner[:3]
    assert [flag for flag in learner.command if "require_accelerator" in flag] == in_order
