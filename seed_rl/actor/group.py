"""A group of environments, whose steps are written where they are sent from. No TensorFlow."""

import numpy as np

from seed_rl.actor.statistics import Episode, EpisodeStatistics
from seed_rl.environments.batched import BatchedEnvironment
from seed_rl.wire.board import Part
from seed_rl.wire.client import Stream
from seed_rl.wire.codec import ActionCodec, StepCodec
from seed_rl.wire.frames import StepMessage
from seed_rl.wire.generated import inference_pb2 as pb


class Group:
    """Environments that share a stream, and the step that the learner has not answered yet.

    Attributes:
      environment: the environments.
      first_env: the id of the first of them.
      answered: whether the learner has answered a step since the stream was opened.
    """

    def __init__(
        self, environment: BatchedEnvironment, first_env: int, seeds: list[int], random_start_steps: int = 0
    ):
        """Takes ownership of the environments, and resets them as `BatchedEnvironment.reset` says."""
        self.environment, self.first_env = environment, first_env
        self.answered = False
        self._statistics = EpisodeStatistics(environment.num_envs)
        self._steps, self._actions = StepCodec(environment.spec), ActionCodec(environment.spec.action)
        self._message: StepMessage | None = StepMessage(environment.spec, environment.num_envs)
        self._records = self._message.records
        environment.write_to(self._message.output)
        environment.reset(seeds, random_start_steps)

    async def play(self, stream: Stream) -> None:
        """Sends the pending step as a message, and then plays until training has ended.

        Episodes that ended with the pending step are not sent again: they were sent when it was new.
        """
        if self._message is None:
            self._message = StepMessage(self.environment.spec, self.environment.num_envs)
            self._write_to(self._message.records)
        await stream.send(self._message.to_bytes())
        while (actions := await stream.receive()) is not None:
            await stream.send(self._message.to_bytes(self._step(actions)))

    def move_to(self, part: Part) -> None:
        """From now on writes to the board; the pending step as well."""
        self._message = None
        self._write_to(np.frombuffer(part.records, np.uint8))

    def step(self, part: Part) -> bool:
        """Applies the actions on the board, and writes the next step there.

        Returns:
          Whether episodes have ended with it.
        """
        episodes = self._step(self._actions.decode(bytes(part.actions)))
        if episodes:
            part.write_episodes(episodes, self.first_env)
        return bool(episodes)

    def _step(self, actions: np.ndarray) -> list[pb.Episode]:
        """Steps the environments; returns the episodes that ended."""
        self.answered = True
        output, infos = self.environment.step(actions)
        return [self._reported(episode) for episode in self._statistics.update(output, infos)]

    def _write_to(self, records: np.ndarray) -> None:
        """Moves the pending step to other memory, where the environments write from now on."""
        records[:] = self._records
        self._records = records
        self.environment.write_to(self._steps.decode(records))

    def _reported(self, episode: Episode) -> pb.Episode:
        return pb.Episode(
            env=self.first_env + episode.env,
            episode_return=episode.episode_return,
            agent_steps=episode.agent_steps,
        )
