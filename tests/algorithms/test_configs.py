"""Settings of the algorithms that are refused: each rule once, with a word of its sentence."""

import pytest

from seed_rl.algorithms import registry
from seed_rl.types import ArraySpec, EnvironmentSpec
from tests.algorithms.rollouts import ACTIONS, DISCRETE

FULL_REPLAY = {"replay_buffer_size": 10, "replay_buffer_min_size": 11}
REFUSED = [
    ("dqn", {"lstm_size": 64}, "--lstm_size=64 needs a recurrent state.*choose --agent=r2d2"),
    ("dqn", FULL_REPLAY, "--replay_buffer_min_size=11 is more than"),
    ("dqn", {"exploration": "noisy", "final_epsilon": 0.01}, "--final_epsilon=0.01 contradicts"),
    ("dqn", {"exploration": "ladder", "epsilon_fraction": 0.5}, "--epsilon_fraction=0.5 contradicts"),
    ("dqn", {"exploration": "ladder", "noisy_sigma": 0.4}, "--noisy_sigma=0.4 contradicts"),
    ("dqn", {"distribution": "quantile", "num_atoms": 21}, "--num_atoms=21 contradicts"),
    ("dqn", {"distribution": "categorical", "num_quantiles": 8}, "--num_quantiles=8 contradicts"),
    ("dqn", {"distribution": "categorical", "loss": "squared"}, "--loss=squared contradicts"),
    (
        "dqn",
        {"distribution": "quantile", "value_function_rescaling_epsilon": 1e-3},
        "--value_function_rescaling_epsilon=0.001 contradicts",
    ),
    ("dqn", {"distribution": "categorical", "v_min": 10.0}, "--v_min=10.0 must be less than --v_max=10.0"),
    ("dqn", {"frame_stack": 3}, "--frame_stack=3 is not valid"),
    ("ppo", {"epochs": 0}, "--epochs=0 is too low"),
    ("ppo", {"target_entropy": 1.0, "entropy_cost": 0.0}, "--entropy_cost must be greater than 0"),
    ("vtrace", {"target_entropy": 1.0, "final_entropy_cost": 0.0}, "--final_entropy_cost schedules it"),
    ("pqn", {"lambda_": 1.5}, "--lambda_=1.5 is too high"),
    ("r2d2", FULL_REPLAY, "--replay_buffer_min_size=11 is more than --replay_buffer_size=10"),
    ("r2d2", {"burn_in": 20, "unroll_length": 20}, "--burn_in=20 must be less than --unroll_length=20"),
    ("r2d2", {"burn_in": 0, "unroll_length": 4, "n_steps": 5}, "--n_steps=5 must be at most"),
    ("r2d2", {"replay_compression": "zip"}, "--replay_compression=zip is not valid; choose one of: zstd"),
    ("sac", {"lstm_size": 8}, "--lstm_size=8 needs a recurrent state"),
    ("sac", {"mlp_sizes": "0"}, "--mlp_sizes=0 is not valid"),
    ("vtrace", {"reward_clipping": "soft_asymmetric", "max_abs_reward": 1.0}, "--max_abs_reward must be 0"),
]


@pytest.mark.parametrize(("agent", "options", "sentence"), REFUSED)
def test_bad_settings_are_refused(agent, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        registry.config_class(agent).of(**options)


SAC_ACTIONS = (
    r"SAC needs continuous actions or one discrete action, but .* int32\[2\].*; choose another --agent\."
)
NO_ENVS = "--num_eval_envs=4 leaves none of the 4 environments"
UNFIT = [
    *(("pqn", action, {}, "PQN needs one discrete action") for action in ACTIONS[1:]),
    ("sac", ACTIONS[1], {}, SAC_ACTIONS),
    ("sac", ArraySpec((1,), "float32", (1.0,), (1.0,)), {}, "needs a component whose lowest value is below"),
    *((agent, DISCRETE, {"num_eval_envs": 4}, NO_ENVS) for agent in ("dqn", "r2d2", "sac")),
]


@pytest.mark.parametrize(("agent", "action", "options", "sentence"), UNFIT)
def test_what_does_not_fit_the_environments_is_refused(agent, action, options, sentence):
    spec = EnvironmentSpec(ArraySpec((5,), "float32"), action)
    with pytest.raises(ValueError, match=sentence):
        registry.make(agent, registry.config_class(agent).of(**options), spec, 4)


def test_limits_themselves_are_fine():
    replay = {"replay_buffer_size": 10, "replay_buffer_min_size": 10}
    registry.config_class("r2d2").of(burn_in=4, unroll_length=5, n_steps=5, **replay)
    registry.config_class("vtrace").of(entropy_cost=0.0)
