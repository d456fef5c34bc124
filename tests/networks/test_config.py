import pytest

from seed_rl.networks.networks_config import NetworkConfig


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
