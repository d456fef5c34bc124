"""Builds a learner from its settings: devices, other learner hosts, algorithm. Imports TensorFlow."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from seed_rl.algorithms.base import Algorithm
from seed_rl.algorithms.policy import Policy
from seed_rl.devices import placement
from seed_rl.devices.placement import Tpu, computing_in
from seed_rl.devices.publisher import PolicyCopy
from seed_rl.devices.replicas import Replicas
from seed_rl.hosts.team import Team
from seed_rl.learner.league import League, check_players
from seed_rl.learner.learner_config import PAST, LearnerConfig
from seed_rl.learner.loop import Learner
from seed_rl.metrics.progress import ProgressDisplay
from seed_rl.seeds import derived_seed
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
    team: Team,
    display: ProgressDisplay | None = None,
    load_rival: Callable[[], Policy] | None = None,
) -> Learner:
    """Makes the algorithm on its devices and the learner; restores the last checkpoint.

    `make_algorithm` is called once more for each inference device's copy of the policy. `settings` are those
    of the run, nested dicts, for the logs. The `team` of learner hosts has met. `display` has shown the start
    so far. `load_rival` loads the policy of another run, if that is the opponent.

    Raises:
      ValueError: settings contradict each other or the machine's devices, or a checkpoint does not fit.
    """
    tpu = Tpu() if config.accelerator == "tpu" else None
    infers = config.inference == "learner"
    place = placement.place(
        config.training_devices, config.inference_devices, config.batch_size, team.count, infers
    )
    if config.synchronous and len(place.inference) > 1:
        raise ValueError(
            "--synchronous acts in one batch, which several devices cannot share; give one with "
            f"--inference_devices, not {len(place.inference)}."
        )
    team.connect(sum("GPU" in device for device in place.training), not config.insecure_reductions)
    is_plain = place.is_default and not team.hosts
    strategy = tpu.strategy(place.training) if tpu else team.strategy
    replicas = Replicas(() if is_plain else place.training, config.jit, strategy, team.count)
    with replicas.scope(), computing_in(config.precision):
        algorithm = make_algorithm()
    if team.hosts:
        team.hosts.check(config.num_envs, algorithm.num_eval_envs, config.batch_size)
    check_players(config, environment.spec, algorithm, len(place.inference))

    def copy(device: str) -> PolicyCopy:
        with tf.device(device), computing_in(config.precision):
            return PolicyCopy(make_algorithm().policy, device)

    own_devices = infers and (team.hosts or not place.is_shared)
    copies = [copy(device) for device in place.inference] if own_devices else []
    league, seed = None, derived_seed(config.seed, 0)
    if config.opponents == PAST:
        pool = [copy(place.inference[0]) for _ in range(config.league_size)]
        league = League(algorithm.policy, pool, config.league_every, seed)
    elif load_rival:
        league = League(algorithm.policy, [PolicyCopy(load_rival(), place.inference[0])], None, seed)
    return Learner(
        config, environment, algorithm, settings, security, replicas, copies, team, display, league
    )
