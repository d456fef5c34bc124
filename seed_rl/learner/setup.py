"""Builds a learner from its settings: devices, other learner hosts, algorithm. Imports TensorFlow."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from seed_rl.algorithms.base import Algorithm
from seed_rl.devices import placement
from seed_rl.devices.hosts import REDUCTION_ERRORS, Collective
from seed_rl.devices.placement import Tpu, computing_in
from seed_rl.devices.publisher import PolicyCopy
from seed_rl.devices.replicas import Replicas
from seed_rl.hosts.peers import Peers
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.learner.loop import Learner
from seed_rl.learner.team import Team
from seed_rl.metrics.progress import ProgressDisplay
from seed_rl.seeds import derived_seed
from seed_rl.serving.listener import Listener
from seed_rl.wire.protocol import EnvironmentDescription
from seed_rl.wire.security import Security


def set_up_tensorflow(config: LearnerConfig, host: int = 0) -> None:
    """Sets devices, threads and seeds; `host` is the index of this learner host."""
    placement.share_gpus()
    if config.num_logical_devices > 1:
        placement.split_cpu(config.num_logical_devices)
    tf.config.threading.set_intra_op_parallelism_threads(config.intra_op_threads)
    tf.config.threading.set_inter_op_parallelism_threads(config.inter_op_threads)
    keras.utils.set_random_seed(derived_seed(config.seed, host))
    if config.synchronous:
        tf.config.experimental.enable_op_determinism()


def make_learner(
    config: LearnerConfig,
    environment: EnvironmentDescription,
    make_algorithm: Callable[[], Algorithm],
    settings: Mapping[str, Any],
    security: Security,
    met: "tuple[Peers, list[str]] | None" = None,
    listener: Listener | None = None,
    display: ProgressDisplay | None = None,
) -> Learner:
    """Makes the algorithm on its devices and the learner; restores the last checkpoint.

    `make_algorithm` is called once more for each inference device's copy of the policy. `settings` are those
    of the run, nested dicts, for the logs. `met` has the other learner hosts, and the addresses of all hosts
    for TensorFlow; None: there is one host. `listener` is what listens on its address already, if anything;
    `display` has shown the start so far.

    Raises:
      ValueError: settings contradict each other or the machine's devices, or a checkpoint does not fit.
      HostLostError: another learner host is lost or has failed.
    """
    if met is None:
        team = Team(listener)
        tpu = Tpu() if config.accelerator == "tpu" else None
        if config.inference == "actor":
            place = placement.place_training(config.training_devices, config.batch_size)
        else:
            place = placement.place(config.training_devices, config.inference_devices, config.batch_size)
        strategy = tpu.strategy(place.training) if tpu else None
        replicas = Replicas(() if place.is_default else place.training, config.jit, strategy)
        places_of_copies = () if place.is_shared or config.inference == "actor" else place.inference
    else:
        peers, addresses = met
        assert listener is not None
        num_gpus = placement.count_training_gpus(
            config.training_devices, config.inference_devices, config.batch_size, len(addresses)
        )
        with peers.connecting():
            collective = Collective(addresses, peers.hosts.index, num_gpus, not config.insecure_reductions)
        team = Team(listener, peers, collective)
        place = placement.place_on_host(config.training_devices, config.inference_devices, num_gpus)
        replicas = collective.replicas(place.training, config.jit)
        places_of_copies = place.inference
    if config.synchronous and len(place.inference) > 1:
        raise ValueError(
            "--synchronous acts in one batch, which several devices cannot share; give one with "
            f"--inference_devices, not {len(place.inference)}."
        )
    try:
        with replicas.scope(), computing_in(config.precision):
            algorithm = make_algorithm()
    except REDUCTION_ERRORS as error:
        raise team.explain(error) from error
    if team.hosts:
        team.hosts.check(config.num_envs, algorithm.num_eval_envs, config.batch_size)
    copies = []
    for device in places_of_copies:
        with tf.device(device), computing_in(config.precision):
            copies.append(PolicyCopy(make_algorithm().policy, device))
    return Learner(config, environment, algorithm, settings, security, replicas, copies, team, display)
