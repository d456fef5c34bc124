import pytest

from seed_rl.algorithms.pqn.config import PQNConfig


@pytest.mark.parametrize(
    "options,sentence",
    [
        ({"lambda_": 1.5}, "--lambda_=1.5 is too high"),
        ({"initial_epsilon": 2.0}, "--initial_epsilon=2.0 is too high"),
        ({"epsilon_fraction": -0.1}, "--epsilon_fraction"),
        ({"epochs": 0}, "--epochs=0 is too low"),
    ],
)
def test_bad_settings_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        PQNConfig.of(**options)


def test_layers_are_normalized_unless_told_otherwise():
    assert PQNConfig().net.layer_norm and not PQNConfig.of(layer_norm=False).net.layer_norm
