"""V-trace: an off-policy actor-critic (Espeholt et al., "IMPALA", 2018, section 4)."""

import tensorflow as tf

from seed_rl.algorithms.actor_critic import ActorCriticAlgorithm
from seed_rl.algorithms.base import Losses
from seed_rl.algorithms.vtrace_config import VTraceConfig
from seed_rl.ops.means import masked_normalize
from seed_rl.ops.vtrace import vtrace
from seed_rl.types import EnvironmentSpec, Sample


class VTrace(ActorCriticAlgorithm):
    """Learns from each unroll once, or `passes` times, in the order in which they arrive."""

    _config: VTraceConfig

    def __init__(self, config: VTraceConfig, env_spec: EnvironmentSpec, num_envs: int):
        super().__init__(config, env_spec, num_envs)
        self.experience = config.queue

    def losses(self, sample: Sample) -> Losses:
        """Policy gradient, baseline, entropy and KL terms for unrolls `[T + 1, B, ...]`."""
        config, distribution = self._config, self._distribution
        output, _ = self._network.unroll(sample.prev_action, sample.env, self._network_state(sample))
        # From here on everything is [T, B]: transition t starts at step t and ends at step t + 1.
        policy, values = output.policy_parameters[:-1], output.baseline[:-1]
        behaviour, actions = sample.agent.info["policy_parameters"][:-1], sample.agent.action[:-1]
        valid = tf.logical_not(sample.env.truncated[:-1])
        log_prob = distribution.log_prob(policy, actions)

        targets = vtrace(
            log_rhos=log_prob - distribution.log_prob(behaviour, actions),
            discounts=self._discounts(sample),
            rewards=self._rewards(sample),
            values=values,
            bootstrap_value=output.baseline[-1],
            valid=valid,
            lambda_=config.lambda_,
            clip_rho_threshold=config.clip_rho_threshold,
            clip_pg_rho_threshold=config.clip_pg_rho_threshold,
            clip_c_threshold=config.clip_c_threshold,
        )
        advantages = targets.advantages
        if config.normalize_advantages:
            advantages = masked_normalize(advantages, valid)
        terms = {
            "policy_gradient_loss": -log_prob * advantages,
            "baseline_loss": 0.5 * tf.square(targets.targets - values),
            "entropy": distribution.entropy(policy),
            "kl_old_new": distribution.kl(behaviour, policy),
            "value": values,
            "clipped_rho": targets.rhos,
        }
        extra = config.kl_cost * terms["kl_old_new"] if config.kl_cost else 0.0
        return self._losses(terms, values, targets.targets, valid, extra)
