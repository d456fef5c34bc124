"""The smallest complete algorithm, from which tests remove parts."""

import dataclasses
from typing import ClassVar

import tensorflow as tf

from seed_rl.algorithms.base import LOSS, Algorithm, Losses, Objective
from seed_rl.algorithms.options import AlgorithmOptions
from seed_rl.algorithms.policy import Policy
from seed_rl.experience.base import UnrollConfig
from seed_rl.experience.experience_config import FifoConfig, TransitionReplayConfig
from seed_rl.options import option, part
from seed_rl.types import AgentOutput


class Still(Policy):
    """Does nothing, which is action 0."""

    def initial_state(self, batch_size):
        return ()

    def act(self, prev_action, env, state, env_ids):
        return AgentOutput(tf.zeros_like(prev_action), {}), state


class Complete(Algorithm):
    """Has everything that the protocol requires."""

    def __init__(self):
        super().__init__(name="complete")
        self.unroll, self.experience = UnrollConfig(2), FifoConfig()
        self.weight = tf.Variable(1.0)

    @property
    def policy(self):
        return Still()

    @property
    def objectives(self):
        return {LOSS: Objective([self.weight])}

    def losses(self, sample):
        return Losses({LOSS: self.weight * tf.reduce_sum(sample.env.reward, axis=0)}, None, {})


class WithoutLosses(Complete):
    """Has no losses."""

    losses = Algorithm.losses


class Settings(AlgorithmOptions):
    """No options."""


def make_complete(config, env_spec, num_envs):
    return Complete()


def make_without_losses(config, env_spec, num_envs):
    return WithoutLosses()


def make_nothing(config, env_spec, num_envs):
    return None


def make_with_an_error(config, env_spec, num_envs):
    raise TypeError("a mistake of its own")


@dataclasses.dataclass(frozen=True)
class SarsaOptions(AlgorithmOptions):
    """Options of an algorithm of another package that learns from replay and has one discrete action."""

    title: ClassVar[str] = "Sarsa"
    actions: ClassVar[tuple[str, ...]] = ("discrete",)
    needs: ClassVar[str] = "one discrete action"

    replay: TransitionReplayConfig = part(TransitionReplayConfig)
    num_eval_envs: int = option(0, "Environments that evaluate.", at_least=0)

    @classmethod
    def shared_defaults(cls, environment):
        return {"clip_norm": 7.0}

    @classmethod
    def small_defaults(cls, kind, choice):
        return {"learning_rate": 0.25, "replay_ratio": 3.0, "replay_buffer_size": 5_000}

    @classmethod
    def method_name(cls, settings):
        return "Sarsa, fast" if settings["replay_ratio"] > 8 else cls.title
