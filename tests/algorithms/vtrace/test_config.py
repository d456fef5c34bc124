import pytest

from seed_rl.algorithms.vtrace.config import VTraceConfig


@pytest.mark.parametrize(
    "options,sentence",
    [
        ({"target_entropy": 1.0, "entropy_cost": 0.0}, "--entropy_cost must be greater than 0"),
        ({"reward_clipping": "soft_asymmetric", "max_abs_reward": 1.0}, "--max_abs_reward must be 0"),
        ({"discounting": 1.5}, "--discounting=1.5 is too high"),
        ({"unroll_length": 0}, "--unroll_length=0 is too low"),
        ({"frame_stack": 3}, "--frame_stack=3 is not valid"),
    ],
)
def test_bad_settings_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        VTraceConfig.of(**options)


def test_zero_entropy_cost_is_fine_without_a_target():
    assert VTraceConfig.of(entropy_cost=0.0).entropy_cost == 0
