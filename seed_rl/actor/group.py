"""Groups of environments in an actor: made as the learner describes them, and stepped together."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from seed_rl.environments.base import EnvironmentConfig, Info, Suite, ends_episode, raw_reward
from seed_rl.environments.batched import BatchedEnvironment
from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.making import make_batch
from seed_rl.files import parse_json
from seed_rl.messages import EPISODE, one_line, report_to_launcher
from seed_rl.metrics.episodes import FAILURES, of_info
from seed_rl.types import EnvOutput
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.generated import inference_pb2 as pb
from seed_rl.wire.protocol import differences


class EnvironmentRefusedError(ValueError):
    """The environments cannot be made; one sentence."""


def chosen(
    welcome: pb.Welcome, given: Mapping[str, Any], suites: Callable[[str], Suite]
) -> tuple[Suite, EnvironmentConfig]:
    """The suite and its settings in a Welcome, which has names and JSON values, and never code.

    `given` has the settings that the user gave by flag.

    Raises:
      EnvironmentRefusedError: flags contradict the learner, or there is no such suite here.
    """
    try:
        said = {"environment": welcome.suite}
        said |= {name: parse_json(value) for name, value in welcome.settings.items()}
    except ValueError:
        raise EnvironmentRefusedError("The learner's settings of the environment are no JSON.") from None
    for name, value in given.items():
        if name not in said or value != said[name]:
            raise EnvironmentRefusedError(
                f"--{name}={value} contradicts the learner, which has {_shown(said.get(name))}; leave "
                "it out, or change the learner's."
            )
    try:
        suite = suites(said.pop("environment"))
        suite.config_class.check_types(said)
        _refuse_code(suite, said, given)
        return suite, suite.config_class.of(**said)
    except TypeError as error:
        raise EnvironmentRefusedError(
            f"This actor does not know the learner's settings of {welcome.suite} ({error}); install the same "
            "seed_rl on both."
        ) from None
    except ValueError as error:
        raise EnvironmentRefusedError(f"What the learner plays cannot be made here: {error}") from None


def _refuse_code(suite: Suite, settings: Mapping[str, Any], given: Mapping[str, Any]) -> None:
    """Refuses to import what only the learner names."""
    for name in suite.config_class.named_code(settings):
        if name not in given:
            raise ValueError(
                f"--{name}={_shown(settings[name])} names a module to import; give this actor the "
                "flag as well, with --environment, if you trust it."
            )


def _shown(value: Any) -> str:
    return one_line(str(value), 100)


def make_environment(
    suite: tuple[Suite, EnvironmentConfig],
    welcome: pb.Welcome,
    seeds: Sequence[int],
    failures: FailureConfig,
    first_env: int,
) -> BatchedEnvironment:
    """Makes the environments of a group, and checks that they have the learner's arrays.

    Raises:
      EnvironmentRefusedError: they cannot be made, or have others.
    """
    try:
        environment = make_batch(*suite, list(seeds), failures, first_env)
    except (ValueError, ImportError) as error:
        raise EnvironmentRefusedError(str(error)) from error
    if found := differences(environment.spec, welcome):
        environment.close()
        raise EnvironmentRefusedError(
            f"The environments of this actor do not match the learner's ({'; '.join(found)}): install "
            "the same versions on both."
        )
    return environment


_RAW_REWARD, _IS_SHOWN = Info.RAW_REWARD, Info.TERMINAL_IS_SHOWN


class EpisodeStatistics:
    """Adds up rewards of E environments until their episodes end; those of players come with their infos.

    Honours the entries of `info` that `environments.base.Info` lists, and takes the environment's own metrics
    (`metrics.episodes`) from that of an episode's last step. An episode that terminates
    counts at its `done` step, one whose last observation is shown, such as at a time limit, at that step.
    Create a new instance after `BatchedEnvironment.reset`.
    """

    def __init__(self, num_envs: int, num_players: int = 1):
        self._num_players = num_players
        self._returns, self._agent_steps = np.zeros(num_envs), np.zeros(num_envs, np.int64)
        self._shows_last, self._has_shown = np.zeros(num_envs, bool), False

    def update(self, env: EnvOutput, infos: Sequence[dict[Any, Any]]) -> list[pb.Episode]:
        """Adds what one `BatchedEnvironment.step` returned (not `reset`).

        Returns:
          The episodes that ended at this step, in environment order.
        """
        if self._num_players > 1:
            key, size = Info.PLAYER_EPISODE, self._num_players
            found = [_episode(i, info[key], info) for i, info in enumerate(infos) if key in info]
            for one in found:
                one.figures[f"return_of_player_{one.env % size}"] = one.episode_return
            return found
        rewards: Any = env.reward
        goes_on = not (self._has_shown or any(infos) or np.count_nonzero(env.done))
        if goes_on and not np.count_nonzero(env.truncated):
            self._returns += rewards
            self._agent_steps += 1
            return []
        if any(_RAW_REWARD in info for info in infos):
            rewards = [raw_reward(*one) for one in zip(rewards.tolist(), infos, strict=True)]
        before = self._shows_last
        self._shows_last = env.truncated | [_IS_SHOWN in info for info in infos]
        self._has_shown = bool(self._shows_last.any())
        # Those that were reset executed no action.
        ended = (env.done | self._shows_last) & ~before
        self._returns += np.where(before, 0.0, rewards)
        self._agent_steps += ~before
        return [episode for i in np.flatnonzero(ended).tolist() if (episode := self._ended(i, infos[i]))]

    def _ended(self, index: int, info: dict[Any, Any]) -> pb.Episode | None:
        """The episode of an environment whose last step was just added; None if it goes on, or is void."""
        if not ends_episode(True, info):
            return None
        episode = _episode(index, (self._returns[index], self._agent_steps[index]), info)
        self._returns[index], self._agent_steps[index] = 0.0, 0
        return None if info.get(Info.EPISODE_IS_VOID, False) else episode


def _episode(index: int, totals: tuple[float, int], info: Mapping[Any, Any]) -> pb.Episode:
    """An episode with this return and so many agent steps."""
    return pb.Episode(env=index, episode_return=totals[0], agent_steps=totals[1], figures=of_info(info))


class Group:
    """Environments that step together, and their newest step, which the learner may not have answered yet.

    Attributes:
      environment: the environments.
      applied: the number of actions that they have applied.
    """

    def __init__(self, environment: BatchedEnvironment, seeds: list[int], random_start_steps: int = 0):
        """Takes ownership of the environments, and resets them by `BatchedEnvironment.reset`."""
        self.environment, self.applied, self._has_finished = environment, 0, False
        self._statistics = EpisodeStatistics(environment.num_envs, environment.spec.num_players)
        self._reported = 0
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
        """Applies actions `[N, ...]`; returns the episodes that ended with the new step.

        The first one carries the number of failures of environments since the last report.
        """
        output, infos = self.environment.step(actions)
        self.applied += 1
        episodes = self._statistics.update(output, infos)
        if episodes and not self._has_finished:
            self._has_finished = True
            report_to_launcher(EPISODE)
        if episodes and (new := self.environment.failures - self._reported):
            episodes[0].figures[FAILURES] = new
            self._reported += new
        return episodes
