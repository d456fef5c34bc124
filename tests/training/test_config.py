import pytest

from seed_rl.learner.config import LearnerConfig
from seed_rl.training.config import TrainerConfig


def config(**settings):
    return TrainerConfig(learning_rate=0.001, batch_size=64, **settings)


@pytest.mark.parametrize(
    ("scaling", "base", "rate"),
    [("sqrt", 16, 0.002), ("linear", 16, 0.004), ("sqrt", 256, 0.0005), ("linear", 64, 0.001)],
)
def test_the_learning_rate_grows_with_the_batch(scaling, base, rate):
    found = config(learning_rate_scaling=scaling, learning_rate_batch_size=base)
    assert found.scaled_learning_rate == pytest.approx(rate)


def test_by_default_it_does_not():
    assert config().scaled_learning_rate == 0.001


@pytest.mark.parametrize("config_class", [TrainerConfig, LearnerConfig])
@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (
            {"learning_rate_scaling": "sqrt"},
            r"^--learning_rate_scaling=sqrt needs .*; set --learning_rate_batch_size\.$",
        ),
        (
            {"learning_rate_batch_size": 8},
            r"^--learning_rate_batch_size=8 has no effect without --learning_rate_scaling; set .*\.$",
        ),
        (
            {"learning_rate_scaling": "linear", "learning_rate_batch_size": 0},
            r"^--learning_rate_batch_size=0 is too low; it must be at least 1\.$",
        ),
        ({"learning_rate_scaling": "cubic"}, r"^--learning_rate_scaling=cubic is not valid; choose one of:"),
    ],
)
def test_bad_combinations_are_one_sentence(config_class, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        config_class(**settings)
