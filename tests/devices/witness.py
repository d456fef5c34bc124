"""Policy whose actions show its weights, between the real trainer, publisher and inference.

python -m tests.devices.witness SECONDS [hasty]

Two devices train at full speed, two infer with two threads each, and the last line says what the unrolls
contain. It takes longer on a machine that is too busy for some hundred updates. `hasty` takes half of the new
weights and then the rest, so that mixtures must show.
"""

import concurrent.futures
import contextlib
import json
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from seed_rl.algorithms.base import LOSS, Algorithm, Losses, Objective
from seed_rl.algorithms.policy import Policy
from seed_rl.devices.placement import split_cpu
from seed_rl.devices.publisher import PolicyCopy, Publisher
from seed_rl.devices.replicas import Replicas
from seed_rl.experience.base import UnrollConfig
from seed_rl.experience.unroll_store import UnrollStore
from seed_rl.inference.core import InferenceCore
from seed_rl.serving.batcher import Batcher
from seed_rl.serving.request import Request, ServedGroup
from seed_rl.training.trainer import Trainer
from seed_rl.training.training_config import TrainerConfig
from seed_rl.types import AgentOutput, ArraySpec, EnvironmentSpec, EnvOutput, Sample
from seed_rl.wire.codec import StepCodec
from tests.waiting import DEADLINE_SECS

LEAST_UPDATES = 200
BITS = 2**62 - 1
SPEC = EnvironmentSpec(ArraySpec((), "float32"), ArraySpec((), "int64", (0,), (BITS,)))
UNROLL = UnrollConfig(8)
B, GROUP, GROUPS, THREADS = 8, 2, 4, 2
# Each update adds a number to all elements of a variable; a checksum multiplies each element by its factor.
ADDED = (1, 2, 3, 1, 2, 3, 1, 2, 3, 1)
FACTORS = np.random.default_rng(0).integers(-(2**63), 2**63, (len(ADDED), 50, 50))


class Witness(Policy):
    """Its action is a checksum of all its weights, which no two versions or mixtures share."""

    def __init__(self):
        super().__init__()
        self.weights = [tf.Variable(tf.zeros(FACTORS.shape[1:])) for _ in ADDED]

    def initial_state(self, batch_size):
        return ()

    def act(self, prev_action, env, state, env_ids):
        checksum = tf.constant(0, tf.int64)
        for weight, factors in zip(self.weights, FACTORS, strict=True):
            with tf.control_dependencies(
                [checksum]
            ):  # One after the other, so that there is time for mixtures.
                checksum += tf.reduce_sum(tf.cast(weight.read_value(), tf.int64) * factors)
        return AgentOutput(tf.fill(tf.shape(env_ids), checksum & BITS), {}), state


def checksums(updates):
    """Actions of versions 0 to `updates`: int64 `[updates + 1]`."""
    added = np.sum(np.reshape(ADDED, (-1, 1, 1)) * FACTORS)
    return np.arange(updates + 1) * added & BITS


class Adder(Algorithm):
    """Its gradients are always the same whole numbers, whatever the batch."""

    unroll = UNROLL

    def __init__(self):
        super().__init__()
        self._policy, self._optimizer = Witness(), keras.optimizers.SGD(1.0)

    @property
    def policy(self):
        return self._policy

    @property
    def objectives(self):
        return {LOSS: Objective(self._policy.weights, self._optimizer)}

    def losses(self, sample):
        pairs = zip(ADDED, self._policy.weights, strict=True)
        loss = -tf.add_n([added * tf.reduce_sum(weight) for added, weight in pairs])
        return Losses({LOSS: tf.fill(tf.shape(sample.weight), loss)}, None, {})


class Hasty(PolicyCopy):
    """Takes half of the new weights while threads are acting, and the rest some batches later."""

    _acted = 0

    @contextlib.contextmanager
    def acting(self):
        yield self._version
        with self._changed:
            self._acted += 1
            self._changed.notify_all()

    def offer(self, version, tensors):
        half, self._version = len(tensors) // 2, version
        for variable, tensor in zip(self._variables[:half], tensors[:half], strict=True):
            variable.assign(tensor)
        with self._changed:
            until = self._acted + 2 * THREADS
            self._changed.wait_for(lambda: version == 0 or self._acted >= until, DEADLINE_SECS)
        self._assign(tensors)


class Actors:
    """Groups of environments that step again as soon as they have their actions."""

    def __init__(self, batcher, first_env):
        self._batcher, self._clients = batcher, {}
        steps = EnvOutput(
            np.zeros(GROUP, np.float32), *np.zeros((2, GROUP), bool), np.zeros(GROUP, np.float32)
        )
        self._records = StepCodec(SPEC).encode(steps)
        for first in range(first_env, first_env + GROUPS * GROUP, GROUP):
            self._clients[first] = batcher.connect()
            self._step(ServedGroup(first, 1, first, GROUP, is_restart=False))

    def deliver(self, answers):
        for request, _ in answers:
            self._step(request.group)

    def _step(self, group):
        request = Request(group, self._records, time.monotonic())
        self._batcher.submit(self._clients[group.first_env], request, GROUP)


def nothing(*shape):
    """A batch to train on."""
    zeros = np.zeros(shape, np.float32)
    env = EnvOutput(zeros, zeros > 0, zeros > 0, zeros)
    action = np.zeros(shape, np.int64)
    return Sample(action, env, AgentOutput(action, {}), (), np.ones(B, np.float32))


def serve(seconds, kind):
    """Trains and acts for so long, or longer; returns the copies, the unrolls and the number of updates."""
    replicas = Replicas(("CPU:0", "CPU:1"))
    with replicas.scope():
        algorithm = Adder()
    trainer = Trainer(algorithm, TrainerConfig(batch_size=B, clip_norm=0), replicas)
    copies = []
    for device in ("CPU:2", "CPU:3"):
        with tf.device(device):
            copies.append(kind(Witness(), device))
    publisher = Publisher(algorithm.policy, copies)
    publisher.publish(0)
    sample = replicas.distribute(nothing(UNROLL.stored_steps, B))
    unrolls, batchers = [[] for _ in copies], [Batcher(GROUPS * GROUP // THREADS, 1.0) for _ in copies]
    with concurrent.futures.ThreadPoolExecutor(len(copies) * THREADS) as pool:
        serving, num_envs = [], len(copies) * GROUPS * GROUP
        for i, (copy, batcher) in enumerate(zip(copies, batchers, strict=True)):
            store = UnrollStore(num_envs, UNROLL, unrolls[i].extend)
            core = InferenceCore(copy.policy, SPEC, num_envs, 0, store, copy.acting, copy.device)
            actors = Actors(batcher, i * GROUPS * GROUP)
            serving += [pool.submit(core.serve, batcher, actors.deliver) for _ in range(THREADS)]
        try:
            until = time.monotonic() + seconds
            while time.monotonic() < until or trainer.updates < LEAST_UPDATES:
                if any(thread.done() for thread in serving):
                    break
                trainer.update(sample, 0.0)
                publisher.updated(trainer.updates)
        finally:
            for batcher in batchers:
                batcher.close()
        for thread in serving:
            thread.result()
    return copies, unrolls, trainer.updates


def report(copies, unrolls, updates):
    """Counts what must not be."""
    known = checksums(updates)
    order = np.argsort(known)
    assert (np.diff(known[order]) > 0).all()  # Every version has a checksum of its own.
    found = {"updates": updates, "actions": 0, "unrolls": 0, "unknown": 0, "wrong_labels": 0, "backwards": 0}
    found |= {"versions": [], "last": []}
    for copy, of_copy in zip(copies, unrolls, strict=True):
        actions = np.stack([unroll.agent.action for unroll in of_copy])
        versions = order[np.minimum(np.searchsorted(known[order], actions), updates)]
        labels = np.stack([unroll.policy_version for unroll in of_copy])
        found["actions"] += actions.size
        found["unrolls"] += len(actions)
        found["unknown"] += int((known[versions] != actions).sum())
        found["wrong_labels"] += int((known[np.clip(labels, 0, updates)] != actions).sum())
        found["backwards"] += int((np.diff(versions) < 0).sum())
        found["versions"].append(len(np.unique(versions)))
        with copy.acting() as version:
            output, _ = copy.policy.act(None, None, (), tf.zeros([1], tf.int32))
        found["last"].append([version, int(output.action[0]) == known[updates]])
    return {
        key: value if key != "last" else [[v, bool(ok)] for v, ok in value] for key, value in found.items()
    }


if __name__ == "__main__":
    split_cpu(4)
    print(json.dumps(report(*serve(float(sys.argv[1]), Hasty if "hasty" in sys.argv else PolicyCopy))))
