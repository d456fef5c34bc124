"""Settings of networks, and refusals of those that are wrong or do not fit the observation."""

import pytest

from seed_rl.networks.encoder import Encoder
from seed_rl.networks.networks_config import NetworkConfig
from seed_rl.types import ArraySpec

VECTOR, FRAME, LARGE = (
    ArraySpec((5,), "float32"),
    ArraySpec((19, 90), "uint8"),
    ArraySpec((84, 84, 4), "uint8"),
)


@pytest.mark.parametrize("text,units", [("64,64", (64, 64)), (" 32 ", (32,)), ("", ())])
def test_mlp_sizes(text, units):
    assert NetworkConfig(mlp_sizes=text).mlp_units == units


@pytest.mark.parametrize(
    "options,sentence",
    [
        ({"mlp_sizes": "64,big"}, "--mlp_sizes=64,big is not valid"),
        ({"mlp_sizes": "64,0"}, "every size must be above 0"),
        ({"mlp_sizes": "64,,64"}, "--mlp_sizes=64,,64 is not valid"),
        ({"frame_stack": 3}, "choose one of: 1, 2, 4, 8"),
        ({"network": "a:B", "normalize_observations": True}, "takes the place of torsos and their scaling"),
        ({"network": "a:B", "torso": "resnet"}, "takes the place of torsos and their scaling"),
        ({"network": "a:B", "layer_norm": True}, "leave out --layer_norm, --torso_units and"),
        ({"network": "a:B", "torso_units": 8}, "leave out --layer_norm, --torso_units and"),
        ({"network": "a:B", "network_width": 2}, "--torso_units and --network_width"),
        ({"torso": "transformer"}, "choose one of: auto, mlp"),
    ],
)
def test_bad_settings_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        NetworkConfig(**options)


@pytest.mark.parametrize(
    ("spec", "options", "sentence"),
    [
        (VECTOR, {"torso": "nature"}, "--torso=nature needs images"),
        (FRAME, {"torso": "nature"}, "--torso=nature needs images of at least 36x36"),
        (FRAME, {"torso": "shallow"}, "--torso=shallow needs images of at least 20x20"),
        (VECTOR, {"frame_stack": 4}, "--frame_stack=4 needs images of uint8"),
        (LARGE, {"torso": "resnet", "conv_padding": 1}, "--conv_padding=1 is for .* and this is resnet"),
        (LARGE, {"torso": "minatar", "conv_padding": 1}, "--conv_padding=1 is for .* and this is minatar"),
    ],
)
def test_settings_that_do_not_fit_the_observation_are_refused(spec, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        Encoder(NetworkConfig(**options), spec)
