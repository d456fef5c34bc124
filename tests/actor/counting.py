"""Environments that count, and a learner that answers each step with the number of the next one."""

import collections
import dataclasses
import threading

import gymnasium
import numpy as np

from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.loop import Actor
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.making import suite_spec
from seed_rl.options import option
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.shared_memory import make_wake_up_set
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.protocol import EnvironmentDescription
from tests.threads import Thread
from tests.waiting import wait_until

DEADLINE_SECS = 60.0
LENGTH = 5


class Counting(gymnasium.Env):
    """Counts its steps over all episodes, and its episodes; their number is an episode's return."""

    observation_space = gymnasium.spaces.Box(0, 2**31 - 1, (1,), np.int32)
    action_space = gymnasium.spaces.Discrete(10**8)

    def __init__(self):
        self.steps = self.episodes = 0

    def reset(self, *, seed=None, options=None):
        self.episodes += 1
        return np.array([self.steps], np.int32), {}

    def step(self, action):
        assert action == self.steps + 1, "the answer to another step"
        self.steps += 1
        ends = self.steps % LENGTH == 0
        return np.array([self.steps], np.int32), float(self.episodes * ends), ends, False, {}


@dataclasses.dataclass(frozen=True)
class CountingConfig(EnvironmentConfig):
    """Settings, which change nothing."""

    level: int = option(1, "A number.", at_least=1)
    code: str = option("none", "May name a module.", is_code=True)


SUITE = Suite(CountingConfig, lambda config, seed: Counting())
SPEC = suite_spec(SUITE, CountingConfig(), 0)
DESCRIPTION = EnvironmentDescription("counting", CountingConfig().to_dict(), SPEC)


class Learner:
    """Answers each step with the number of the next one, and notes everything.

    Attributes:
      seen: the steps of each environment, in order.
      episodes: (environment, return) in order.
      tasks: the tasks of actors that were ready, in order.
      records: (environment, step, reward, done, truncated) in order.
      answered: the number of requests with an answer.
    """

    def __init__(self, address, num_envs=4, shares_memory=True, description=DESCRIPTION, **options):
        self.seen, self.episodes, self.tasks = collections.defaultdict(list), [], []
        self.records, self.answered = [], 0
        self.memory = None  # Of the last request.
        self._batcher = Batcher(num_envs, 0.01, make_wake_up_set() if shares_memory else None)
        of_server = {
            name: options.pop(name) for name in ("security", "web", "limits", "live") if name in options
        }
        self._action_size = description.spec.action.size
        self.connections = Connections(
            description,
            num_envs,
            [self._batcher],
            num_envs,
            self.tasks.append,
            lambda episodes: self.episodes.extend((e.env, e.episode_return) for e in episodes),
            **options,
        )
        self.server = InferenceServer(address, self.connections, **of_server)
        self._thread = threading.Thread(target=self._answer, daemon=True)
        self._thread.start()

    def stop(self, reason=""):
        self._batcher.close()
        self._thread.join(DEADLINE_SECS)
        self.server.stop(reason)

    def wait_for(self, num_steps):
        """Waits until each environment that plays has sent so many steps."""
        wait_until(
            lambda: self.seen and min(map(len, self.seen.values())) >= num_steps, "steps", DEADLINE_SECS
        )

    def _answer(self):
        while (batch := self._batcher.next_batch()) is not None:
            answers = []
            for _, request in batch:
                found = StepCodec(SPEC).decode(bytes(request.records))
                steps, ids = found.observation[:, 0], request.group.env_ids.tolist()
                for env, step in zip(ids, steps.tolist(), strict=True):
                    self.seen[env].append(step)
                flags = (found.reward.tolist(), found.done.tolist(), found.truncated.tolist())
                self.records += zip(ids, steps.tolist(), *flags, strict=True)
                self.memory = getattr(request.records, "obj", None)
                actions = np.repeat(steps + 1, self._action_size).astype("<i4")
                answers.append((request, actions.tobytes()))
            self._batcher.finish([client for client, _ in batch])
            self.server.deliver(answers)
            self.answered += len(answers)


class Player(Thread):
    """An actor of four environments in two groups."""

    def __init__(
        self, address, transport="auto", envs=4, groups=2, given=None, secs=DEADLINE_SECS, **options
    ):
        sizes = {"env_batch_size": envs, "num_env_groups": groups, "connect_timeout_secs": secs}
        config = ActorConfig(address, transport=transport, **sizes, **options)
        self._actor = Actor(config, given=given, suites=lambda name: SUITE)
        super().__init__(self._play)

    def _play(self):
        try:
            self._actor.run()
        finally:
            self._actor.close()
