"""Recall."""

import numpy as np
import pytest

from seed_rl.environments.suites.recall import SUITE, RecallConfig
from tests.environments.contract import EnvironmentContract


class TestContract(EnvironmentContract):
    suite = SUITE
    config = RecallConfig(delay=3)


class TestContractOfMoreCues(EnvironmentContract):
    suite = SUITE
    config = RecallConfig(delay=6, num_cues=4)


@pytest.mark.parametrize("delay,num_cues", [(0, 2), (1, 3), (7, 5)])
def test_only_the_answer_counts_and_only_the_cue_tells_it(delay, num_cues):
    env, rng = SUITE.make(RecallConfig(delay=delay, num_cues=num_cues), seed=0), np.random.default_rng(0)
    question = np.eye(num_cues + 1)[-1]
    cues = []
    for _ in range(40):
        observation, _ = env.reset()
        cue = int(observation.argmax())
        np.testing.assert_array_equal(observation, np.eye(num_cues + 1)[cue])
        cues.append(cue)
        for _ in range(delay):
            observation, reward, terminated, _, _ = env.step(int(rng.integers(num_cues)))
            assert not observation.any() and reward == 0 and not terminated
        observation, reward, terminated, _, _ = env.step(int(rng.integers(num_cues)))
        np.testing.assert_array_equal(observation, question)
        assert reward == 0 and not terminated
        answer = int(rng.integers(num_cues))
        _, reward, terminated, truncated, _ = env.step(answer)
        assert (reward, terminated, truncated) == (float(answer == cue), True, False)
    assert set(cues) == set(range(num_cues))


def test_an_action_repeat_is_refused():
    with pytest.raises(ValueError, match="num_action_repeats=2 would skip"):
        RecallConfig(num_action_repeats=2)
