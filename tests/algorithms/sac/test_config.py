import pytest
from absl import flags

from seed_rl.algorithms.sac.config import SACConfig
from seed_rl.flags.definitions import define_options, read_options


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"lstm_size": 8}, r"--lstm_size=8 is not possible with SAC, .* set it to 0, or choose another"),
        ({"mlp_sizes": "0"}, "--mlp_sizes=0 is not valid"),
        ({"target_update_rate": 0}, "--target_update_rate=0 is too low"),
        ({"initial_temperature": 0}, "--initial_temperature=0 is too low"),
        ({"critic_learning_rate": 0}, "--critic_learning_rate=0 is too low"),
        ({"temperature_learning_rate": -1}, "--temperature_learning_rate=-1 is too low"),
        ({"target_entropy_fraction": 1.5}, "--target_entropy_fraction=1.5 is too high"),
        (
            {"replay_buffer_size": 10, "replay_buffer_min_size": 11},
            "--replay_buffer_min_size=11 is more than --replay_buffer_size=10",
        ),
    ],
)
def test_bad_settings_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        SACConfig.of(**options)


def test_defaults_are_the_papers():
    config = SACConfig()
    assert config.net.mlp_units == (256, 256) and config.net.lstm_size == 0
    assert config.replay.priority_exponent == 0 and config.replay.replay_ratio == 256
    rates = config.actor_learning_rate, config.critic_learning_rate, config.temperature_learning_rate
    assert rates == (3e-4, 3e-4, 3e-4)
    assert (config.discounting, config.target_update_rate) == (0.99, 0.005)


def test_every_setting_is_a_flag():
    flag_values = flags.FlagValues()
    define_options(SACConfig, flag_values)
    flag_values(["main", "--target_entropy=-3", "--norandom_start", "--priority_exponent=0.5"])
    config = read_options(SACConfig, flag_values)
    assert config == SACConfig.of(target_entropy=-3.0, random_start=False, priority_exponent=0.5)
    assert set(SACConfig.defaults()) <= set(flag_values)
