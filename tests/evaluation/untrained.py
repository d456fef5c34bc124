"""Run directories with checkpoints of random weights, which no process has trained."""

import keras

from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.environments.making import suite_spec
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.runs import record
from seed_rl.training.checkpoint import Checkpointer
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig


def write_run(logdir, environment, agent="vtrace", seed=0, network=None, **settings):
    """Writes a run of an environment with these settings; returns its directory."""
    suite = environments.suite(environment)
    config = suite.config_class.of(**settings)
    agent_config = algorithms.config_class(agent).of(**{"mlp_sizes": "8", "torso": "mlp"} | (network or {}))
    learner = LearnerConfig.of(num_envs=4)
    identity = record.run_identity(environment, config, agent, agent_config)
    record.write(str(logdir), identity, {"learner": learner.to_dict(), "agent": agent_config.to_dict()})
    keras.utils.set_random_seed(seed)
    algorithm = algorithms.make(agent, agent_config, suite_spec(suite, config, 1), learner.num_envs)
    Checkpointer(str(logdir), algorithm, Trainer(algorithm, TrainerConfig()), 1, 1.0).save()
    return logdir
