"""A group of environments, whose steps are written where they are sent from. No TensorFlow."""

import numpy as np

from seed_rl.actor.statistics import EpisodeStatistics
from seed_rl.environments.batched import BatchedEnvironment
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.generated import inference_pb2 as pb


class Group:
    """Environments that step together, and their newest step, which the learner may not have answered yet.

    Attributes:
      environment: the environments.
      applied: the number of actions that they have applied.
    """

    def __init__(self, environment: BatchedEnvironment, seeds: list[int], random_start_steps: int = 0):
        """Takes ownership of the environments, and resets them as `BatchedEnvironment.reset` says."""
        self.environment, self.applied = environment, 0
        self._statistics = EpisodeStatistics(environment.num_envs)
        self._steps = StepCodec(environment.spec)
        self._records = np.zeros(environment.num_envs * self._steps.record_bytes, np.uint8)
        environment.write_to(self._steps.decode(self._records))
        environment.reset(seeds, random_start_steps)

    def write_to(self, records: np.ndarray) -> None:
        """Moves the newest step to other memory (uint8), where the environments write from now on."""
        records[:] = self._records
        self._records = records
        self.environment.write_to(self._steps.decode(records))

    def step(self, actions: np.ndarray) -> list[pb.Episode]:
        """Applies actions `[N, ...]`; returns the episodes that ended with the new step."""
        output, infos = self.environment.step(actions)
        self.applied += 1
        return [
            pb.Episode(
                env=episode.env, episode_return=episode.episode_return, agent_steps=episode.agent_steps
            )
            for episode in self._statistics.update(output, infos)
        ]
