import pytest
from absl import flags

from seed_rl.algorithms.r2d2.config import R2D2Config
from seed_rl.experience import compression
from seed_rl.flags.definitions import define_options, read_options


@pytest.mark.parametrize(
    "options,sentence",
    [
        (
            {"replay_buffer_size": 10, "replay_buffer_min_size": 11},
            r"--replay_buffer_min_size=11 is more than --replay_buffer_size=10",
        ),
        ({"burn_in": 20, "unroll_length": 20}, "--burn_in=20 must be less than --unroll_length=20"),
        (
            {"burn_in": 0, "unroll_length": 4, "n_steps": 5},
            "--n_steps=5 must be at most --unroll_length=4",
        ),
        ({"value_function_rescaling_epsilon": 0}, "--value_function_rescaling_epsilon=0 is too low"),
        ({"eval_epsilon": 1.1}, "--eval_epsilon=1.1 is too high"),
        ({"replay_compression": "zip"}, "--replay_compression=zip is not valid; choose one of: zstd, none"),
        ({"replay_threads": -1}, "--replay_threads=-1 is too low"),
        ({"frame_stack": 3}, "--frame_stack=3 is not valid"),
    ],
)
def test_bad_settings_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        R2D2Config.of(**options)


def test_the_limits_themselves_are_fine():
    config = R2D2Config.of(
        burn_in=4, unroll_length=5, n_steps=5, replay_buffer_size=10, replay_buffer_min_size=10
    )
    assert config.n_steps == config.unroll_length


def test_the_network_is_as_large_as_the_papers():
    assert (R2D2Config().net.lstm_size, R2D2Config().net.torso) == (512, "auto")


def test_every_setting_is_a_flag():
    flag_values = flags.FlagValues()
    define_options(R2D2Config, flag_values)
    flag_values(["main", "--lstm_size=64", "--replay_max_bytes=1e9", "--nocheckpoint_replay"])
    config = read_options(R2D2Config, flag_values)
    assert config == R2D2Config.of(lstm_size=64, replay_max_bytes=10**9)
    assert set(R2D2Config.defaults()) <= set(flag_values)


def test_every_compression_can_be_chosen():
    for name in compression.NAMES:
        assert R2D2Config.of(replay_compression=name).replay.replay_compression == name
