import pytest
from absl import flags

from seed_rl.algorithms.dqn.config import DISTRIBUTIONS, EXPLORATIONS, DQNConfig
from seed_rl.flags.definitions import define_options, read_options


@pytest.mark.parametrize(
    "options,sentence",
    [
        ({"lstm_size": 64}, "--lstm_size=64 needs a recurrent state.*choose --agent=r2d2 or set it to 0"),
        (
            {"replay_buffer_size": 10, "replay_buffer_min_size": 11},
            "--replay_buffer_min_size=11 is more than",
        ),
        (
            {"exploration": "noisy", "final_epsilon": 0.01},
            "--final_epsilon=0.01 contradicts --exploration=noisy: it matters only with annealed; leave it",
        ),
        ({"exploration": "ladder", "epsilon_fraction": 0.5}, "--epsilon_fraction=0.5 contradicts"),
        ({"exploration": "ladder", "noisy_sigma": 0.4}, "--noisy_sigma=0.4 contradicts --exploration=ladder"),
        ({"distribution": "quantile", "num_atoms": 21}, "--num_atoms=21 contradicts --distribution=quantile"),
        ({"distribution": "categorical", "num_quantiles": 8}, "--num_quantiles=8 contradicts"),
        ({"distribution": "categorical", "loss": "squared"}, "--loss=squared contradicts"),
        (
            {"distribution": "quantile", "value_function_rescaling_epsilon": 1e-3},
            "--value_function_rescaling_epsilon=0.001 contradicts --distribution=quantile",
        ),
        ({"munchausen_alpha": 0.5}, "--munchausen_alpha=0.5 contradicts --munchausen=False"),
        ({"munchausen": True, "double": True}, "--munchausen does not go with --double"),
        ({"munchausen": True, "distribution": "categorical"}, "go with --distribution=categorical"),
        ({"munchausen": True, "value_function_rescaling_epsilon": 1e-3}, "go with --value_function_resc"),
        ({"distribution": "categorical", "v_min": 10.0}, "--v_min=10.0 must be less than --v_max=10.0"),
        ({"distribution": "both"}, "choose one of: scalar, categorical, quantile"),
        ({"target_update_rate": 0}, "--target_update_rate=0 is too low"),
        ({"frame_stack": 3}, "--frame_stack=3 is not valid"),
    ],
)
def test_bad_settings_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        DQNConfig.of(**options)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("exploration", EXPLORATIONS)
def test_everything_else_goes_together(distribution, exploration):
    options = {"distribution": distribution, "exploration": exploration, "dueling": True, "n_steps": 3}
    assert DQNConfig.of(**options, double=True).double
    if distribution != "categorical":
        assert DQNConfig.of(**options, munchausen=True, munchausen_alpha=0.5).munchausen


def test_the_defaults_are_dqns():
    config = DQNConfig()
    assert (config.loss, config.distribution, config.exploration) == ("huber", "scalar", "annealed")
    assert not (config.double or config.munchausen or config.net.dueling or config.net.lstm_size)


def test_every_setting_is_a_flag():
    flag_values = flags.FlagValues()
    define_options(DQNConfig, flag_values)
    flag_values(["main", "--dueling", "--exploration=noisy", "--replay_buffer_size=1e6", "--v_min=-5"])
    with pytest.raises(ValueError, match=r"--v_min=-5\.0 contradicts"):
        read_options(DQNConfig, flag_values)
    flag_values(["main", "--distribution=categorical"])
    config = read_options(DQNConfig, flag_values)
    assert config == DQNConfig.of(
        dueling=True, exploration="noisy", replay_buffer_size=10**6, v_min=-5.0, distribution="categorical"
    )
    assert set(DQNConfig.defaults()) <= set(flag_values)
