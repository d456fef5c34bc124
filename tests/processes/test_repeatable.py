"""Two synchronous runs with the same seed are the same run."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.training.checkpoint import newest_checkpoint

pytestmark = pytest.mark.slow

# Of when something happened, of how long it took, or of a period, whose end is a matter of time.
TIMES = (
    *("seconds", "frames_per_second", "learner_memory_mib", "latency", "policy_lag", "version_spread"),
    *("waiting", "blocked_share", "turn_ms", "cpu_cores", "actor_processes"),
)

UNROLL = "--unroll_length=4"
# One with a queue and one with replay: their seed must also matter.
WITH_ANOTHER_SEED = ("vtrace", "dqn")
# Whatever is random in training and in acting is turned on.
DQN = (
    *("dqn", "--exploration=noisy", "--initial_epsilon=1", "--final_epsilon=0.1", "--epsilon_fraction=0.1"),
    *("--distribution=quantile", "--priority_exponent=0.5", "--replay_buffer_min_size=100"),
)


def trained(house, name, *args):
    """The last figures and every value of the last checkpoint."""
    logdir = house.path / name
    process = house.start(
        "train",
        "catch",
        *args,
        "--synchronous",
        "--env_batch_size=4",
        "--total_environment_frames=1500",
        "--batch_size=4",
        f"--logdir={logdir}",
    )
    assert process.end() == 0, process.output
    house.logdir = logdir
    figures = house.metrics()[-1]
    reader = tf.train.load_checkpoint(newest_checkpoint(logdir))
    names = [
        n for n in reader.get_variable_to_shape_map() if "progress/" not in n and "CHECKPOINTABLE" not in n
    ]
    values = {name: reader.get_tensor(name) for name in names}
    left_out = (*TIMES, "return") if "--num_actors=2" in args else TIMES  # Of the last episodes reported.
    return {k: v for k, v in figures.items() if not any(t in k for t in left_out)}, values


@pytest.mark.parametrize(
    "args",
    [
        ("vtrace", "--num_actors=1", "--lstm_size=8", UNROLL),
        ("vtrace", "--num_actors=1", "--lstm_size=0", UNROLL, "--jit"),
        ("ppo", "--num_actors=1", "--lstm_size=0", "--epochs=2", UNROLL),
        pytest.param(("a2c", "--num_actors=1", "--lstm_size=8", UNROLL), marks=pytest.mark.long),
        ("r2d2", "--num_actors=2", "--num_eval_envs=2", "--burn_in=1", "--replay_buffer_min_size=10", UNROLL),
        (*DQN, "--num_actors=2", "--num_eval_envs=2"),
        pytest.param(
            (
                "sac",
                "--num_actors=2",
                "--num_eval_envs=2",
                "--replay_buffer_min_size=100",
                "--replay_ratio=1",
            ),
            marks=pytest.mark.long,
        ),
    ],
    ids=["vtrace", "compiled", "ppo", "a2c", "r2d2", "dqn", "sac"],
)
def test_the_same_seed_learns_the_same_to_the_bit(house, args):
    figures, values = trained(house, "first", *args, "--seed=3")
    again_figures, again_values = trained(house, "again", *args, "--seed=3")
    assert figures["updates"] > 10
    assert again_figures == figures
    assert again_values.keys() == values.keys()
    for name, value in values.items():
        np.testing.assert_array_equal(again_values[name], value, err_msg=name)
    if args[0] in WITH_ANOTHER_SEED:
        _, others = trained(house, "other", *args, "--seed=4")
        learned = [n for n, value in values.items() if "_trainable_variables" in n and np.ndim(value) > 1]
        assert learned
        assert all((others[name] != values[name]).any() for name in learned)
