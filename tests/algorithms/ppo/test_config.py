import pytest

from seed_rl.algorithms.ppo.config import PPOConfig


@pytest.mark.parametrize(
    "options,sentence",
    [
        ({"clip_ratio": 0.0}, "--clip_ratio"),
        ({"clip_value": -1.0}, "--clip_value"),
        ({"epochs": 0}, "--epochs=0 is too low"),
        ({"target_kl": 0.0}, "--target_kl"),
        ({"lambda_": 1.5}, "--lambda_=1.5 is too high"),
        ({"target_entropy": 1.0, "entropy_cost": 0.0}, "--entropy_cost must be greater than 0"),
    ],
)
def test_bad_settings_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        PPOConfig.of(**options)
