import numpy as np
import tensorflow as tf

from seed_rl.training.initial_priorities import InitialPriorities
from seed_rl.types import AgentOutput, EnvOutput, Unroll

S = 4


class Judge:
    """Takes the sum of the Q-values of an unroll's actions for its priority, and rewards for a tenth."""

    traced = 0

    def initial_priority(self, env, agent):
        self.traced += 1
        assert env.observation == ()
        chosen = tf.gather(agent.info["q_values"], agent.action, batch_dims=2)
        return tf.reduce_sum(chosen + 0.1 * env.reward, 0)


def unroll(number):
    steps = np.arange(S, dtype=np.float32) + number
    env = EnvOutput(steps, steps < 0, steps < 0, {"image": np.zeros((S, 2, 2), np.uint8)})
    q_values = np.stack([steps, -steps], -1)
    action = (np.arange(S) % 2).astype(np.int32)
    return Unroll(action, env, AgentOutput(action, {"q_values": q_values}), (), 0)


def test_each_unroll_is_judged_by_itself_however_many_come():
    judge = Judge()
    priorities = InitialPriorities(judge)
    for count in (1, 3, 2, 7, 5, 4):
        found = priorities([unroll(number) for number in range(count)])
        assert (found.shape, found.dtype) == ((count,), np.float32)
        # 0 - 1 + 2 - 3 = -2 whatever the start, and a tenth of the rewards.
        expected = [-2 + 0.1 * (6 + 4 * number) for number in range(count)]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert judge.traced <= 2  # Not once for every number of unrolls.
