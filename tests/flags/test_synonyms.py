import pytest

from seed_rl.actor.config import ActorConfig
from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.flags import synonyms
from seed_rl.flags.definitions import option_names
from seed_rl.launch.config import LocalConfig
from seed_rl.learner.config import LearnerConfig


def flags_of(environment, agent):
    suite, classes = environments.suite(environment), (LearnerConfig, ActorConfig, LocalConfig)
    own = option_names(suite.config_class, algorithms.config_class(agent), *classes)
    return {"environment", "agent", *own}


@pytest.mark.parametrize(
    ("environment", "agent", "name", "expected"),
    [
        ("catch", "vtrace", "lr", ["learning_rate"]),
        ("catch", "sac", "lr", ["learning_rate", "actor_learning_rate"]),
        ("catch", "ppo", "total_timesteps", ["total_environment_frames"]),
        ("catch", "ppo", "total-timesteps", ["total_environment_frames"]),
        ("catch", "ppo", "gamma", ["discounting"]),
        ("catch", "ppo", "n_envs", ["env_batch_size", "num_actors"]),
        ("catch", "ppo", "device", ["training_devices", "require_accelerator"]),
        ("catch", "ppo", "n_epochs", ["epochs"]),
        ("catch", "vtrace", "n_epochs", ["passes"]),
        ("catch", "ppo", "clip_range", ["clip_ratio"]),
        ("catch", "ppo", "gae_lambda", ["lambda_"]),
        ("catch", "dqn", "buffer_size", ["replay_buffer_size"]),
        ("gym", "ppo", "env_id", ["game"]),
        ("catch", "ppo", "batchsize", ["batch_size"]),
        ("catch", "ppo", "xyzzy", []),
    ],
)
def test_a_flag_is_found_by_meaning_or_spelling(environment, agent, name, expected):
    assert synonyms.nearest_flags(name, flags_of(environment, agent))[: len(expected) or None] == expected


def test_every_meaning_is_a_flag():
    known: set[str] = set()
    for environment in environments.names():
        for agent in algorithms.names():
            known |= flags_of(environment, agent)
    meanings = {flag for flags in synonyms._SYNONYMS.values() for flag in flags}
    assert meanings <= known
