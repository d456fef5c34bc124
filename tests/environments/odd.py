"""One environment for every kind of oddity: a valid one, of which some methods do something else."""

import ctypes
import itertools
import os
import time

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.actor.group import EpisodeStatistics
from seed_rl.environments.base import EnvironmentConfig, Suite
from seed_rl.environments.failures import FailureConfig
from seed_rl.environments.singles import SingleEnvironments

LENGTH = 5  # Agent steps of an episode.
WHEN = 3  # The agent step of an episode in which a method does something else.

FIRST_ENV = 10

# The game of a process test, as `--game=tests.environments.odd:Odd-v0`: the name of a kind in KINDS.
KIND = "SEED_RL_TEST_KIND"


class Odd(gymnasium.Env):
    """Episodes of `length` agent steps with a reward of 1 each; observes the agent step, from 0.

    `replaced` has functions that replace what a method returns: `reset`, `step` (in agent step 3), `close`,
    `render` and `observation` (in agent step 3). They get the result of a valid environment. With
    `seeds` it uses NumPy's old random generator.
    """

    action_space = spaces.Discrete(2)
    observation_space = spaces.Box(-10.0, 10.0, (3,), np.float32)

    def __init__(
        self,
        render_mode=None,
        *,
        observation_space=None,
        length=LENGTH,
        truncates=False,
        seeds=False,
        **replaced,
    ):
        self.render_mode = render_mode
        self.observation_space = observation_space or Odd.observation_space
        self.length, self.truncates, self.seeds, self.replaced = length, truncates, seeds, replaced
        self.played, self.actions = 0, []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.seeds and seed is not None:
            np.random.RandomState(seed)  # Takes seeds below 2^32.
        self.played = 0
        return self._replace("reset", (self._observation(), {}))

    def step(self, action):
        self.played += 1
        self.actions.append(int(action))
        ended = self.played == self.length
        ends = (False, ended) if self.truncates else (ended, False)
        honest = (self._observation(), 1.0, *ends, {})
        return self._replace("step", honest) if self.played == WHEN else honest

    def render(self):
        return self._replace("render", np.zeros((4, 4, 3), np.uint8))

    def close(self):
        self._replace("close", None)

    def _replace(self, method, honest):
        return self.replaced[method](honest) if method in self.replaced else honest

    def _observation(self):
        space = self.observation_space
        if isinstance(space, spaces.Box):
            honest = np.full(space.shape, self.played, space.dtype)
        elif isinstance(space, spaces.Discrete):
            honest = np.int64(self.played % space.n + space.start)
        else:
            honest = space.sample()
        return self._replace("observation", honest) if self.played == WHEN else honest


def odd_batch(*kinds, others=(), num_envs=2, first_env=FIRST_ENV, max_failures=3, timeout=0):
    """A batch, and the list of all environments that are made: first of these kinds, then like `others`.

    A kind has arguments of Odd, and may have `make`: a function that is called in the place of making it.
    """
    made, arguments = [], itertools.chain(map(dict, kinds), itertools.repeat(dict(others)))

    def make(config, seed):
        kind = next(arguments)
        if "make" in kind:
            kind["make"](None)
        made.append(Odd(**kind))
        return made[-1]

    tolerance = FailureConfig(max_environment_failures=max_failures, env_step_timeout_secs=timeout)
    suite, config = Suite(EnvironmentConfig, make), EnvironmentConfig()
    return SingleEnvironments(suite, config, range(num_envs), tolerance, first_env), made


def episodes_of(batch, agent_steps):
    """(environment, return, agent steps) of each episode that an actor reports."""
    statistics, found = EpisodeStatistics(batch.num_envs), []
    for _ in range(agent_steps):
        env, infos = batch.step(np.zeros(batch.num_envs, np.int32))
        assert np.isfinite(env.reward).all()
        found += [(e.env, e.episode_return, e.agent_steps) for e in statistics.update(env, infos)]
    return found


def raises(error):
    """A function that raises."""

    def function(honest):
        raise error

    return function


def sleeps(honest):
    """Hangs in Python."""
    time.sleep(1e6)


def keeps_trying(honest):
    """Hangs in Python that handles whatever interrupts it."""
    while True:
        try:
            time.sleep(1e6)
        except Exception:
            continue


HANGING = (sleeps, keeps_trying)


def locks(honest):
    """Hangs in native code that keeps the interpreter's lock and that no signal interrupts."""
    mutex = ctypes.create_string_buffer(256)
    for _ in range(2):
        ctypes.PyDLL(None).pthread_mutex_lock(mutex)


def returns(value):
    """A function that returns this value."""
    return lambda honest: value


def with_part(index, value):
    """A function that replaces one part of what a step returns."""
    return lambda honest: (*honest[:index], value, *honest[index + 1 :])


OUR_KEYS = ("raw_reward", "episode_continues", "observation_is_repeated", "episode_is_void")

# Kinds that process tests run: what Odd gets, by name.
KINDS = {
    "our_keys": {"step": with_part(4, dict.fromkeys(OUR_KEYS, 100.0))},
    "integer_outside": {"observation_space": spaces.Discrete(6), "observation": returns(7)},
    "infinite": {"observation": returns(np.full(3, np.inf, np.float32))},
    "too_large": {"observation": returns(np.full(3, 1e39))},
    "large_reward": {"step": with_part(1, 1e39)},
    "sleeps": {"step": sleeps},
    "locks": {"step": locks},
    "no_info": {"reset": lambda honest: honest[0]},
    "old_generator": {"seeds": True},
}


_made = itertools.count()


def _make(render_mode=None):
    """The first environment of a process is odd, all others are valid but for the space."""
    kind = KINDS[os.environ[KIND]]
    is_odd = next(_made) == 0
    space = {name: value for name, value in kind.items() if name == "observation_space"}
    return Odd(render_mode, **(kind if is_odd else space))


gymnasium.register("Odd-v0", _make)
