"""An environment with action masks in real processes: training, evaluation, and the exported policy."""

import json

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.types import EnvOutput
from tests.environments import forbidding
from tests.selection import mostly_long

pytestmark = pytest.mark.slow

GAME = f"--game={forbidding.__name__}:Forbidding-v0"
IN_OBSERVATION = '--env_kwargs={"in_observation": true}'
REPLAY = ("--replay_buffer_min_size=500", "--num_eval_envs=2")
FLAGS = {
    "vtrace": ("--normalize_rewards",),
    "ppo": (IN_OBSERVATION,),
    "appo": (),
    "a2c": (),
    "r2d2": ("--replay_buffer_min_size=50", "--num_eval_envs=2", "--unroll_length=10", "--burn_in=2"),
    "dqn": (*REPLAY, IN_OBSERVATION),
    "pqn": ("--lstm_size=8",),
    "sac": (*REPLAY, "--replay_ratio=16"),
}
B = 64


@pytest.mark.parametrize("agent", mostly_long(list(FLAGS), ["vtrace", "dqn"]))
def test_no_forbidden_action_is_ever_taken(house, agent):
    args = ("gym", agent, "2", "4", GAME, "--total_environment_frames=6000", "--log_period_secs=0.25")
    run = house.start("train", *args, "--intra_op_threads=1", f"--logdir={house.logdir}", *FLAGS[agent])
    assert run.end() == 0, run.output
    lines = [line for line in house.metrics() if "episode/forbidden" in line]
    assert lines and lines[-1]["updates"] > 0
    for line in lines:
        assert line["episode/forbidden"] == 0 == line.get("evaluation_episode/forbidden", 0)

    for flags in (("--greedy",), ()):
        output = house.path / "result.json"
        evaluation = house.start(
            "evaluate", house.logdir, "--episodes=20", f"--output={output}", "--overwrite", *flags
        )
        assert evaluation.end() == 0, evaluation.output
        assert json.loads(output.read_text())["episode/forbidden"] == 0

    policy, rng = tf.saved_model.load(str(house.logdir / "saved_model")), np.random.default_rng(0)
    allowed = rng.random((B, 4)) < 0.4
    allowed[np.arange(B), rng.integers(0, 4, B)] = True
    name = "board" if IN_OBSERVATION in FLAGS[agent] else "observation"
    board = rng.normal(size=(B, forbidding.ROWS, forbidding.COLUMNS)).astype(np.float32)
    observation = {"action_mask": np.packbits(allowed, -1), name: board}
    env = EnvOutput(np.zeros(B, np.float32), np.ones(B, bool), np.zeros(B, bool), observation)
    env = tf.nest.map_structure(tf.constant, env)
    output, _ = policy.act(tf.zeros([B], tf.int32), env, policy.initial_state(B), tf.range(B))
    assert allowed[np.arange(B), output.action].all()
