"""Actors that hang and gateways that freeze while inference continues."""

import collections
import contextlib
import os
import signal
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.algorithms.policy import Policy
from seed_rl.environments.suites.classic import GymConfig
from seed_rl.experience.base import UnrollConfig
from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.inference.core import InferenceCore
from seed_rl.launch.watch import Gateways, gateway_commands
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.connections import Connections
from seed_rl.serving.gateway import gateway_addresses, private_address
from seed_rl.serving.listener import Listener
from seed_rl.serving.server import InferenceServer
from seed_rl.serving.shared_memory import make_wake_up_set
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.protocol import SERVICE, EnvironmentDescription, max_message_bytes

pytestmark = pytest.mark.slow

NUM_ENVS, ENVS_PER_ACTOR, LENGTH = 12, 2, 5

# An environment that observes its id and number of steps, and checks that each action answers these.
COUNTING = """
import itertools, os
import gymnasium
import numpy as np

numbers = itertools.count()

class Counting(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 2**31 - 1, (2,), np.int32)
    action_space = gymnasium.spaces.Discrete(10**8)
    def __init__(self):
        self.name, self.step_number = os.getpid() * 100 + next(numbers) % 100, 0
    def reset(self, *, seed=None, options=None):
        self.step_number = 0
        return self.observe(), {}
    def step(self, action):
        assert action == (self.name * 1000 + self.step_number + 1) % 10**8, "the answer to another step"
        self.step_number += 1
        return self.observe(), 0.0, False, False, {}
    def observe(self):
        return np.array([self.name, self.step_number], np.int32)

gymnasium.register("Counting-v0", Counting)
"""

# The same, but its fifth step never returns; no signal ends the native code that it is in. A signal that
# comes after the file and before that code is raised in Python: it is ignored.
HANGING = COUNTING.replace(
    "        self.step_number += 1\n",
    """        self.step_number += 1
        if self.step_number == 5:
            import ctypes, pathlib
            mutex, lock = ctypes.create_string_buffer(256), ctypes.CDLL(None).pthread_mutex_lock
            lock(mutex)
            try:
                pathlib.Path("hangs").touch()
                lock(mutex)
            except KeyboardInterrupt:
                lock(mutex)
""",
)
GAME = GymConfig(game="counting:Counting-v0")
SPEC = EnvironmentSpec(ArraySpec((2,), "int32"), ArraySpec((), "int32", (0,), (10**8 - 1,)))


def answer(name, step):
    return (name * 1000 + step + 1) % 10**8


class Witness(Policy):
    """Answers each observation with its environment's id; its state is the last one observed."""

    def initial_state(self, batch_size):
        return tf.fill([batch_size, 2], -1)

    def act(self, prev_action, env, state, env_ids):
        name, step = tf.unstack(tf.cast(env.observation, tf.int64), axis=-1)
        return AgentOutput(tf.cast(answer(name, step), tf.int32), {}), env.observation


@pytest.fixture
def unrolls(house, request):
    """Server at the house's address, which turns actors' steps into this list of unrolls, in two threads.

    If it has gateways, as many as the parameter says, actors share no memory, as if on other machines.
    """
    found, errors = [], []
    house.transport = "grpc" if request.param else "auto"
    addresses = gateway_addresses(house.address, request.param)
    behind = private_address(house.address)
    most_bytes = max_message_bytes(StepCodec(SPEC).record_bytes, NUM_ENVS)
    listener = Listener(house.address, most_bytes, (SERVICE,), also=behind)
    house.gateways = Gateways(gateway_commands(addresses, behind, {}))
    batcher = Batcher(NUM_ENVS, 0.01, make_wake_up_set())
    store = UnrollStore(NUM_ENVS, UnrollConfig(LENGTH), found.extend)
    core = InferenceCore(Witness(), SPEC, NUM_ENVS, 0, store, lambda: contextlib.nullcontext(0))
    identity = EnvironmentDescription("gym", GAME.to_dict(), SPEC)
    connections = Connections(identity, NUM_ENVS, [batcher], NUM_ENVS, gateways=lambda: addresses)
    server = InferenceServer(house.address, connections, listener=listener)

    def serve():
        try:
            core.serve(batcher, server.deliver)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    yield found
    batcher.close()
    for thread in threads:
        thread.join(60.0)
        assert not thread.is_alive()
    server.stop()
    house.gateways.stop()
    listener.stop()
    assert errors == []


def check(unroll):
    """One environment, one step after the other, and to each its own answer."""
    names, steps = unroll.env.observation.T
    np.testing.assert_array_equal(names, names[0])
    np.testing.assert_array_equal(steps, steps[0] + np.arange(LENGTH + 1))
    actions = answer(names.astype(np.int64), steps)
    np.testing.assert_array_equal(unroll.agent.action, actions)
    np.testing.assert_array_equal(unroll.prev_action[1:], actions[:-1])
    begins = steps[0] == 0
    assert unroll.env.done.tolist() == [begins] + [False] * LENGTH
    assert unroll.prev_action[0] == (0 if begins else answer(int(names[0]), int(steps[0]) - 1))
    assert unroll.initial_state.tolist() == ([-1, -1] if begins else [names[0], steps[0] - 1])


def start_counting(house, *flags):
    return house.actor(
        "--environment=gym",
        f"--game={GAME.game}",
        f"--env_batch_size={ENVS_PER_ACTOR}",
        "--num_env_groups=2",
        f"--transport={house.transport}",
        *flags,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: a mutex may be made of zeros there")
@pytest.mark.parametrize("unrolls", [0], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_actor_whose_environment_hangs_ends_at_a_signal(house, unrolls, number):
    (house.path / "counting.py").write_text(HANGING)
    actor = start_counting(house)
    house.wait_until((house.path / "hangs").exists, lambda: f"the hang; the output is: {actor.output}")
    actor.signal(number)
    assert actor.end() == 128 + number
    assert actor.last_line.startswith("seed_rl: the actor did not stop within 4 s after the signal")


@pytest.mark.parametrize("unrolls", [2], indirect=True)
def test_a_frozen_gateway_costs_the_actors_of_others_nothing(house, unrolls):
    """Its own actors go on where they were when it thaws; one that is killed loses only connections."""
    (house.path / "counting.py").write_text(COUNTING)
    addresses = gateway_addresses(house.address, 2)
    actors = [start_counting(house, f"--server_address={addresses[i % 2]}") for i in range(4)]

    def playing(since, least=3):
        counts = collections.Counter(unroll.env_id for unroll in unrolls[since:])
        return {env for env, count in counts.items() if count >= least}

    everybody = set(range(4 * ENVS_PER_ACTOR))
    house.wait_until(lambda: playing(0) == everybody, lambda: f"four actors; playing are {playing(0)}")
    frozen = house.gateways.pids[1]
    os.kill(frozen, signal.SIGSTOP)
    seen = len(unrolls)
    # Hundreds of unrolls of the others, and at most the one in progress of each of its own.
    half = len(everybody) // 2
    house.wait_until(lambda: len(playing(seen, 100)) == half, lambda: f"{playing(seen, 1)}")
    assert len(playing(seen, 2)) == half
    os.kill(frozen, signal.SIGCONT)
    seen = len(unrolls)
    house.wait_until(lambda: playing(seen) == everybody, lambda: f"all of them; playing are {playing(seen)}")
    os.kill(frozen, signal.SIGKILL)
    house.wait_until(lambda: house.gateways.pids[1] != frozen, "another gateway")
    seen = len(unrolls)
    house.wait_until(lambda: playing(seen) == everybody, lambda: f"all of them; playing are {playing(seen)}")
    for unroll in unrolls:
        check(unroll)
    assert all(actor.running for actor in actors)
