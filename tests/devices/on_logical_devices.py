"""Process of its own, with the CPU split into four, whose results tests of several devices check.

python -m tests.devices.on_logical_devices DIRECTORY

It prints one JSON object for each algorithm, by name. The directory is for the exported policies.
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

from seed_rl.algorithms import registry
from seed_rl.devices.placement import split_cpu
from seed_rl.devices.replicas import Replicas
from seed_rl.inference.env_table import EnvTable
from seed_rl.training.export import export_policy
from seed_rl.types import ArraySpec, EnvironmentSpec
from tests.devices import recorded

B, UPDATES = 8, 20
# Devices that must train as one does: a pair with every algorithm, the others only with two of them, one with
# a queue and one with replay.
PAIR = ("CPU:1", "CPU:2")
OTHERS = (("CPU:2",), ("CPU:0", "CPU:1", "CPU:2", "CPU:3"))
IN_DETAIL = ("vtrace", "r2d2")
SPEC = EnvironmentSpec(ArraySpec((6,), "float32"), ArraySpec((), "int32", (0,), (3,)))
# Specs for which random numbers are drawn for a whole batch: only continuous actions.
SPECS = {"sac": SPEC._replace(action=ArraySpec((2,), "float32", (-2.0, 1.0), (2.0, 2.0)))}
LSTM = {"unroll_length": 3, "lstm_size": 8}
STATISTICS = {"normalize_observations": True, "normalize_rewards": True}
# All options that need a whole batch are turned on.
OPTIONS = {
    "vtrace": {**LSTM, **STATISTICS, "normalize_advantages": True, "target_entropy": 0.5},
    "ppo": {**LSTM, **STATISTICS, "clip_value": 0.2, "epochs": 3},
    "appo": {**LSTM, **STATISTICS},
    "a2c": {**LSTM, "normalize_advantages": True, "normalize_rewards": True},
    "dqn": {
        **{"n_steps": 3, "head_size": 16, "dueling": True, "double": True},
        **{"update_target_every_n_step": 3, "target_update_rate": 0.5, "normalize_observations": True},
    },
    "pqn": {**LSTM, "normalize_observations": True, "epochs": 2},
    "r2d2": {
        **{"unroll_length": 4, "burn_in": 1, "n_steps": 2, "lstm_size": 8, "head_size": 16},
        **{"update_target_every_n_step": 6, "normalize_observations": True},
    },
    "sac": {
        **{"mlp_sizes": "16,16", "priority_exponent": 0.6, "normalize_observations": True},
        **{"actor_learning_rate": 0.003, "critic_batch_norm": True},
    },
}


def spec_of(name):
    return SPECS.get(name, SPEC)


def make(name, replicas):
    keras.utils.set_random_seed(0)
    with replicas.scope():
        return registry.make(name, registry.config_class(name).of(**OPTIONS.get(name, {})), spec_of(name), B)


def samples(name):
    """Recorded batches, one for each update."""
    return recorded.samples(make(name, Replicas()), spec_of(name), B, UPDATES)


def trained(name, replicas, batches):
    """Everything that 20 updates on these devices leave behind, by name, and the trainer and algorithm."""
    algorithm = make(name, replicas)
    return *recorded.trained(algorithm, replicas, batches, B), algorithm


def parity(alone, others):
    """The largest difference between one device and others, relative to 1 or to the value, and where."""
    worst = {}
    for several in others:
        assert several.keys() == alone.keys()
        for key, value in alone.items():
            difference = np.abs(several[key] - value) / np.maximum(1.0, np.abs(value))
            worst[key] = max(worst.get(key, 0.0), float(np.max(difference, initial=0.0)))
    return {"worst": max(worst.values()), "of": max(worst, key=worst.get), "compared": len(worst)}


def looked_at(name, directory):
    """One device beside several, where two devices train and another acts, and the exported policy."""
    batches, pair = samples(name), Replicas(PAIR)
    alone, of_pair = trained(name, Replicas(), batches)[0], trained(name, pair, batches)
    others = [trained(name, Replicas(other), batches)[0] for other in OTHERS if name in IN_DETAIL]
    _, trainer, algorithm = of_pair
    return {
        **parity(alone, [of_pair[0], *others]),
        **placed(name, algorithm.epochs, trainer, pair.distribute(batches[0])),
        **exported(name, algorithm.policy, batches[0], directory),
    }


def placed(name, epochs, trainer, sample):
    """The devices of the matrix products of training and of inference."""
    scalars = tf.constant(0.0), tf.constant(0.0)
    if epochs:
        arguments = trainer._prepare(sample), tf.range(B // 2), *scalars
        update = trainer._update_on_part.get_concrete_function(*arguments)
    else:
        update = trainer._update.get_concrete_function(sample, *scalars)
    with tf.device("CPU:3"):
        copy = registry.make(name, registry.config_class(name).of(**OPTIONS.get(name, {})), spec_of(name), B)
    table = EnvTable(copy.policy, spec_of(name), B, "CPU:3")
    return {"training": products(update.graph), "inference": products(table._act.graph)}


def exported(name, policy, batch, directory):
    """Distances of the exported policy from this one, and of this one from one that has not been trained."""
    export_policy(policy, spec_of(name), directory)
    steps = tf.nest.map_structure(lambda x: tf.constant(x[0]), (batch.prev_action, batch.env))
    arguments = (*steps, policy.initial_state(B), tf.range(B))
    found = [model.act(*arguments)[0].info for model in (tf.saved_model.load(directory), policy)]
    first = make(name, Replicas()).policy.act(*arguments)[0].info

    def distance(xs, ys):
        return max(float(np.abs(x - y).max()) for x, y in zip(*map(tf.nest.flatten, (xs, ys)), strict=True))

    return {"difference": distance(*found), "learned": distance(found[1], first)}


def products(graph):
    """The devices of a graph's matrix products, with those of the functions that it calls."""
    found = {op.device for op in graph.get_operations() if op.type == "MatMul"}
    return sorted(":".join(device.split(":")[-2:]) for device in found)


if __name__ == "__main__":
    split_cpu(4)
    tf.config.set_soft_device_placement(False)
    print(json.dumps({name: looked_at(name, f"{sys.argv[1]}/{name}") for name in registry.names()}))
