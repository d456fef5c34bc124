"""An agent step is an action that an environment executes, however its episodes end (see `seed_rl.types`)."""

import time

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.actor.group import EpisodeStatistics
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.singles import SingleEnvironments
from seed_rl.experience.base import Setup, UnrollConfig
from seed_rl.experience.fifo import Rollouts
from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.request import Request
from seed_rl.wire.codec import ActionCodec, StepCodec
from tests.inference import test_core
from tests.inference.test_core import SPEC

GROUP, ROUNDS, T = 2, 30, 4
UNROLL = UnrollConfig(T)


class Counted(gymnasium.Env):
    """Counts what it executes; its episodes end at a limit, in termination, or in failure.

    `kind` is the limit of a truncated episode, negative for one that terminates, or "fails": the environment
    is truncated at its third step, or fails there if it is the first one with its id.
    """

    observation_space = spaces.Dict({name: spaces.Box(0, 10**6, (), np.int32) for name in ("env", "step")})
    action_space = spaces.Discrete(10**8 + 1)

    def __init__(self, env_id, kind, is_first):
        self._env_id, self._fails = env_id, kind == "fails" and is_first
        self._limit, self._terminates = (3, False) if kind == "fails" else (abs(kind), kind < 0)
        self.executed, self.has_failed = 0, False

    def reset(self, *, seed=None, options=None):
        self._played = 0
        return self._observation(), {}

    def step(self, action):
        self.executed += 1
        self._played += 1
        ended = self._played == self._limit
        if self._fails and ended:
            self.has_failed = True
            raise RuntimeError("the engine is gone")
        return self._observation(), 1.0, ended and self._terminates, ended and not self._terminates, {}

    def _observation(self):
        return {"env": np.int32(self._env_id), "step": np.int32(self._played)}


class World(test_core.World):
    """Groups of these environments in front of a core; a group carries out answers at once."""

    def __init__(self, kinds, num_eval_envs, make_store):
        store = make_store(len(kinds) - num_eval_envs)
        super().__init__([GROUP] * (len(kinds) // GROUP), T, 0, num_eval_envs, store)
        self._kinds, self._envs = kinds, [[] for _ in kinds]  # All that there were with each id.
        self.lengths = [[] for _ in kinds]
        suite = Suite(EnvironmentConfig, self._make)
        firsts = range(0, len(kinds), GROUP)
        self._batches = [
            SingleEnvironments(suite, EnvironmentConfig(), range(first, first + GROUP), FailureConfig())
            for first in firsts
        ]
        self._statistics = [EpisodeStatistics(GROUP) for _ in firsts]
        self._batcher = Batcher(len(kinds), 0.01)
        self._clients = [self._batcher.connect() for _ in firsts]
        for number, batch in enumerate(self._batches):
            self._ask(number, batch.reset())

    def _make(self, config, seed):
        """The next environment, or one that replaces another."""
        last = [envs[-1] if envs else None for envs in self._envs]
        env_id = next(i for i, env in enumerate(last) if env is None or env.has_failed)
        self._envs[env_id].append(Counted(env_id, self._kinds[env_id], is_first=not self._envs[env_id]))
        return self._envs[env_id][-1]

    def executed(self, num_envs):
        """Actions that the first so many environments have executed."""
        return sum(env.executed for envs in self._envs[:num_envs] for env in envs)

    def _ask(self, number, env):
        request = Request(self._leases[number], StepCodec(SPEC).encode(env), time.monotonic())
        self._batcher.submit(self._clients[number], request, GROUP)

    def _deliver(self, pairs):
        for request, answer in pairs:
            number = self._leases.index(request.group)
            env, infos = self._batches[number].step(ActionCodec(SPEC.action).decode(answer))
            for episode in self._statistics[number].update(env, infos):
                self.lengths[number * GROUP + episode.env].append(episode.agent_steps)
            self._ask(number, env)

    def play(self):
        """One batch."""
        self.core.hand_over(self.core.answer(self._batcher.next_batch(1.0), self._batcher, self._deliver))


MIXTURES = {
    "limit 1": [1, 1],
    "limit 2": [2, 2],
    "limit 5": [5, 5],
    "no limit": [-1, -4],
    "limits": [1, 2, 5, 7],
    "limits and terminations": [1, -1, 5, -5],
    "limits, terminations and failures": [2, "fails", "fails", -2, 1, "fails"],
}


@pytest.mark.parametrize("num_eval_envs", [0, 1])
@pytest.mark.parametrize("kinds", MIXTURES.values(), ids=MIXTURES)
def test_what_environments_execute_is_counted(kinds, num_eval_envs):
    world = World(kinds, num_eval_envs, lambda count: UnrollStore(count, UNROLL, lambda unrolls: None))
    for _ in range(ROUNDS):
        world.play()
    training = len(kinds) - num_eval_envs
    assert world.core.agent_steps == world.executed(training)
    in_episodes = sum(sum(lengths) for lengths in world.lengths[:training])
    unfinished = sum(7 + 3 * (kind == "fails") for kind in kinds[:training])  # The longest, and a void one.
    assert 0 <= world.core.agent_steps - in_episodes < unfinished


@pytest.mark.parametrize("kinds", MIXTURES.values(), ids=MIXTURES)
def test_a_step_that_waits_for_training_counts_once(kinds):
    rollouts = Rollouts(Setup(len(kinds), UNROLL, len(kinds)))
    world = World(kinds, 0, lambda count: rollouts.store)
    for _ in range(6):
        while not rollouts.batch_ready():
            world.play()
        assert world.core.agent_steps == world.executed(len(kinds))
        rollouts.sample()
        rollouts.trained()
    assert world.core.agent_steps > 0
