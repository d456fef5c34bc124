r"""The learner process: hosts inference, trains, and keeps the run directory.

Examples:
  python -m seed_rl.learner_main --environment=catch --agent=vtrace --server_address=unix:/tmp/seed_rl.sock \
    --num_envs=16 --logdir=runs/catch
  python -m seed_rl.learner_main --flagfile=configs/atari_vtrace.flags --server_address=0.0.0.0:8686 \
    --tls_certificate=learner.pem --tls_key=learner.key --token_file=token --num_envs=256 --logdir=runs/pong

Actors are started with seed_rl.actor_main; seed_rl.local_main starts both on one machine.

SIGTERM and Ctrl-C stop it with a checkpoint; the same command resumes the run. Exit codes: 0 when training is
complete, 130 after Ctrl-C, 143 after SIGTERM, 2 if a flag is wrong, 1 otherwise.
"""

import contextlib
import functools
import os
from typing import Any

from seed_rl.actor.config import ActorConfig
from seed_rl.algorithms import registry as algorithms
from seed_rl.algorithms.registry import AlgorithmError
from seed_rl.environments import registry as environments
from seed_rl.environments.specs import suite_spec
from seed_rl.flags.command_line import CommandLine, parse
from seed_rl.flags.errors import UsageError, require_package, run_main, usage_errors
from seed_rl.launch.config import LocalConfig
from seed_rl.launch.descriptors import raise_descriptor_limit
from seed_rl.learner.config import LearnerConfig
from seed_rl.learner.quiet import HeldOutput, quiet_start
from seed_rl.messages import complain, warn
from seed_rl.options import Options
from seed_rl.runs import lock, record
from seed_rl.serving.server import AddressError
from seed_rl.signals import StopRequest, stop_requests
from seed_rl.training.guard import UnsavedError
from seed_rl.wire.protocol import EnvironmentDescription
from seed_rl.wire.security import Security, SecurityConfig, check_listening, load_security

_SECOND = "the learner was ended at once; the run resumes from its last complete checkpoint."


def main(argv: list[str]) -> int:
    """Runs a learner; returns the exit code, which is 0 only when training is complete.

    It is 130 or 143 (`signals.exit_code`) after a signal that stopped the run with a checkpoint, and 1 if the
    last checkpoint cannot be written.
    """
    with stop_requests(_SECOND) as stop, contextlib.ExitStack() as until_the_end:
        return _learn(argv, stop, until_the_end)


def _learn(argv: list[str], stop: StopRequest, until_the_end: contextlib.ExitStack) -> int:
    raise_descriptor_limit()
    line = parse(argv, __doc__, (LearnerConfig, SecurityConfig), elsewhere=(ActorConfig, LocalConfig))
    config, environment_config, agent_config = (
        line.read(LearnerConfig),
        line.environment_config(),
        line.agent_config(),
    )
    security_config = line.read(SecurityConfig)
    with usage_errors():
        security = load_security(security_config, os.environ)
        check_listening(config.server_address, security_config, security)
    require_package("tensorflow", "learner")
    if config.wandb_project:
        require_package("wandb", "wandb")
    environment = _environment(line, config)
    recorded = record.run_identity(line.environment, environment_config, line.agent, agent_config)
    with usage_errors():
        record.check(config.logdir, recorded)
        until_the_end.enter_context(lock.held(config.logdir, stop.is_set))
        record.check(config.logdir, recorded)  # Another learner may have used it in the meantime.
    settings = {"learner": config.to_dict(), "agent": agent_config.to_dict()}
    with quiet_start() as held:
        warning = _set_up_tensorflow(config, held)
        everything = {**settings, "environment": recorded["environment"]}
        learner = _make_learner(line, config, agent_config, environment, security, everything)
    if warning:
        warn(warning)
    if stop.is_set():
        return stop.exit_code
    with usage_errors():
        record.write(config.logdir, recorded, settings)
    try:
        complete = learner.run(stop.is_set)
    except (AddressError, AlgorithmError) as error:
        raise UsageError(str(error)) from None
    except UnsavedError as error:
        complain(str(error))
        return 1
    return 0 if complete else stop.exit_code


def _environment(line: CommandLine, config: LearnerConfig) -> EnvironmentDescription:
    """Makes one environment to find out its spec."""
    environment_config = line.environment_config()
    with usage_errors():
        spec = suite_spec(environments.suite(line.environment), environment_config, config.seed)
    return EnvironmentDescription(line.environment, environment_config.to_dict(), spec)


def _set_up_tensorflow(config: LearnerConfig, log: HeldOutput) -> str | None:
    """Imports TensorFlow, looks for a GPU, and sets threads and seeds; returns a warning on an unused GPU."""
    import keras
    import tensorflow as tf

    from seed_rl.devices import report, tpu
    from seed_rl.devices.placement import split_cpu

    warning = None
    if config.accelerator != "tpu":
        tpu.hide()
        with usage_errors():
            warning = report.check(config.require_accelerator, log)
    if config.num_logical_devices > 1:
        split_cpu(config.num_logical_devices)
    tf.config.threading.set_intra_op_parallelism_threads(config.intra_op_threads)
    tf.config.threading.set_inter_op_parallelism_threads(config.inter_op_threads)
    keras.utils.set_random_seed(config.seed)
    if config.synchronous:
        tf.config.experimental.enable_op_determinism()
    return warning


def _make_learner(
    line: CommandLine,
    config: LearnerConfig,
    agent_config: Options,
    environment: EnvironmentDescription,
    security: Security,
    settings: dict[str, Any],
):
    """Makes the algorithm and the learner; restores the last checkpoint."""
    import tensorflow as tf

    from seed_rl.devices.placement import place
    from seed_rl.devices.precision import computing_in
    from seed_rl.devices.publisher import PolicyCopy
    from seed_rl.devices.replicas import Replicas
    from seed_rl.devices.tpu import Tpu
    from seed_rl.learner.loop import Learner

    with usage_errors(), computing_in(config.precision):
        assert line.agent is not None
        tpu = Tpu() if config.accelerator == "tpu" else None
        make = functools.partial(algorithms.make, line.agent, agent_config, environment.spec, config.num_envs)
        placement = place(config.training_devices, config.inference_devices)
        if config.synchronous and len(placement.inference) > 1:
            raise ValueError(
                "--synchronous acts in one batch, which several devices cannot share; give one with "
                f"--inference_devices, not {len(placement.inference)}."
            )
        replicas = Replicas(() if placement.is_default else placement.training, config.jit, tpu)
        with replicas.scope():
            algorithm = make()
        copies = []
        for device in () if placement.is_shared else placement.inference:
            with tf.device(device):
                copies.append(PolicyCopy(make().policy, device))
        return Learner(config, environment, algorithm, settings, security, replicas, copies)


if __name__ == "__main__":
    run_main(main)
