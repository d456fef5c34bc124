r"""The learner process: hosts inference, trains, and keeps the run directory.

Examples:
  seed_rl learner --environment=catch --agent=vtrace --server_address=unix:/tmp/seed_rl.sock \
    --num_envs=16 --logdir=runs/catch
  seed_rl learner --flagfile=configs/paper/seed/atari_vtrace.flags --server_address=0.0.0.0:8686 \
    --tls_certificate=learner.pem --tls_key=learner.key --token_file=token --num_envs=256 --logdir=runs/pong

Actors are started with `seed_rl actor`; `seed_rl train` starts both on one machine.

Ctrl-C, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 stop it with a checkpoint; the same command resumes the run.

Exit codes: 0 when training is complete, 130 after Ctrl-C, 143 after SIGTERM (128 + N after signal N), 2 if
a flag is wrong, 1 otherwise.
"""

import contextlib
import dataclasses
import functools
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seed_rl.actor.actor_config import ActorConfig
from seed_rl.algorithms import AlgorithmError
from seed_rl.algorithms import registry as algorithms
from seed_rl.environments.base import EnvironmentConfig
from seed_rl.experience.base import MisfitError
from seed_rl.flags.errors import UsageError, out_of_memory, require_package, usage_errors
from seed_rl.flags.resolve import resolve
from seed_rl.flags.settings import Settings
from seed_rl.hosts.addresses import SERVICE as LEARNERS_SERVICE
from seed_rl.hosts.addresses import LearnerHosts, find_hosts
from seed_rl.hosts.peers import HostLostError
from seed_rl.hosts.team import Team, check_privacy
from seed_rl.launch.child import raise_descriptor_limit
from seed_rl.launch.gateways import Gateways, gateway_commands
from seed_rl.launch.plan import LocalConfig, check_inference
from seed_rl.launch.probe import Probe, found
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.loading import fast_tensorflow_import, quiet_start
from seed_rl.messages import COMPLETE, UnsavedError, complain, report_to_launcher, warn
from seed_rl.metrics.curves import periods_so_far
from seed_rl.metrics.progress import ProgressDisplay
from seed_rl.runs import lock, record
from seed_rl.runs.layout import RunDirectory
from seed_rl.runs.versions import versions
from seed_rl.serving.gateway import gateway_addresses, private_address
from seed_rl.serving.listener import AddressError, Listener, NotServingError
from seed_rl.serving.sockets import hold_addresses
from seed_rl.signals import StopSignals, exit_code, last_resort
from seed_rl.wire.codec import StepCodec
from seed_rl.wire.protocol import SERVICE as INFERENCE_SERVICE
from seed_rl.wire.protocol import EnvironmentDescription, max_message_bytes
from seed_rl.wire.security import Security, SecurityConfig, check_listening, load_security
from seed_rl.wire.shared_memory import is_supported

_SECOND = "the learner was ended at once; the run resumes from its last complete checkpoint."


def main(argv: list[str]) -> int:
    """Runs a learner; returns the exit code, which is 0 only when training is complete.

    It is that of the signal (`signals.exit_code`) that stopped the run with a checkpoint, and 1 if the last
    checkpoint cannot be written.
    """
    stop = StopSignals()
    with last_resort(_SECOND), stop.caught(), contextlib.ExitStack() as exit_stack:
        return _learn(argv, stop, exit_stack)


def _learn(argv: list[str], stop: StopSignals, exit_stack: contextlib.ExitStack) -> int:
    raise_descriptor_limit()
    chosen = resolve(argv, __doc__, (LearnerConfig, SecurityConfig), elsewhere=(ActorConfig, LocalConfig))
    config, security_config = chosen.read(LearnerConfig), chosen.read(SecurityConfig)
    environment_config, agent_config = chosen.environment_config(), chosen.agent_config()
    check_inference(chosen, config)
    with usage_errors():
        config, hosts = _find_hosts(config)
        security = load_security(security_config, os.environ)
        check_listening(config.server_address, security_config, security)
    require_package("tensorflow", "learner")
    if config.wandb_project:
        require_package("wandb", "wandb")
    is_first = hosts is None or hosts.is_first
    display = exit_stack.enter_context(contextlib.closing(_begin(chosen, config, is_first)))
    recorded = record.run_identity(chosen.environment, environment_config, chosen.agent, agent_config)
    if is_first:
        with usage_errors():
            record.check(config.logdir, recorded)
            exit_stack.enter_context(lock.held(config.logdir, stop.is_set))
            record.check(config.logdir, recorded)  # Another learner may have used it in the meantime.
    environment = _probe(chosen.environment, environment_config, config, hosts, stop, display)
    if environment is None:
        return stop.exit_code
    settings = {"learner": config.to_dict(), "agent": agent_config.to_dict()}
    everything = {**settings, "agent_name": chosen.agent, "environment": recorded["environment"]}
    listener, identity = None, {}
    if hosts or config.num_gateways:
        listener = _listen(config, environment, security_config, security, exit_stack)
    if hosts:
        display.stage("waiting for the other learners")
        identity = _shared_by_hosts(chosen, config)
    with usage_errors():
        team = exit_stack.enter_context(Team(listener, hosts, config.host_timeout_secs, identity, security))
        if not team.meet(stop.is_set):
            return stop.exit_code
    try:
        arguments = (chosen.agent, agent_config, environment.spec, config.num_envs)
        make = functools.partial(algorithms.make, *arguments)
        with team.explaining():
            learner = _make_learner(config, (environment, make, everything, security), team, display)
            if stop.is_set() and not hosts:
                return stop.exit_code
            if is_first:
                with usage_errors():
                    record.write(config.logdir, recorded, settings | {"origins": chosen.chosen_origins()})
            complete = learner.run(stop.is_set)
        if complete:
            report_to_launcher(COMPLETE)
            if is_first:
                record.write_complete(config.logdir, learner.has_reached_return)
    except (AddressError, AlgorithmError, MisfitError) as error:
        raise UsageError(str(error)) from None
    except MemoryError as error:
        raise out_of_memory(error) from error
    except (UnsavedError, HostLostError, NotServingError) as error:
        complain(str(error))
        return 1
    # Another learner host may have been stopped.
    return 0 if complete else stop.exit_code or exit_code(signal.SIGTERM)


def _begin(chosen: Settings, config: LearnerConfig, is_first: bool) -> ProgressDisplay:
    """The display in the first stage. The first host logs the number of frames if it is a default."""
    total = config.total_environment_frames
    log = RunDirectory(Path(config.logdir)).actor_log(0)
    display = ProgressDisplay(total, periods_so_far(config.logdir), log)
    if is_first and not chosen.is_chosen("total_environment_frames"):
        display.say(f"{total:,} environment frames, the default; --total_environment_frames sets another.")
    return display


def _probe(
    name: str,
    environment_config: EnvironmentConfig,
    config: LearnerConfig,
    hosts: LearnerHosts | None,
    stop: StopSignals,
    display: ProgressDisplay,
) -> EnvironmentDescription | None:
    """Describes the environments by a probe; None if a signal stops this process.

    Meanwhile TensorFlow is imported, unless there are other hosts. With them, that comes after they have met:
    to connect, TensorFlow blocks all threads of this process, also the one that has to send to the last host.
    """
    with contextlib.closing(Probe([(name, environment_config)])) as probe:
        if not hosts:
            _import_tensorflow(config, hosts, display)
        display.stage("making one environment, to see its observations and actions")
        answers = probe.answers(stop.is_set)
        probe.warn()
    if stop.is_set():
        return None
    with usage_errors():
        return EnvironmentDescription(name, environment_config.to_dict(), found(*answers).spec)


def _make_learner(config: LearnerConfig, parts: Sequence[Any], team: Team, display: ProgressDisplay) -> Any:
    """Makes the learner of `parts`: the first arguments of `setup.make_learner` after the settings."""
    if team.hosts:
        _import_tensorflow(config, team.hosts, display)
    from seed_rl.learner.setup import make_learner

    display.stage("making the network")
    with quiet_start(), usage_errors():
        return make_learner(config, *parts, team, display)


def _find_hosts(config: LearnerConfig) -> tuple[LearnerConfig, LearnerHosts | None]:
    """All learner hosts, if there are several, and the settings with the address of this one.

    Refuses to let other machines connect to TensorFlow's server, unless a flag allows it.
    """
    hosts = find_hosts(config.learner_hosts, config.learner_index, os.environ)
    if hosts is None:
        return config, None
    hosts.check(config.num_envs, 0, config.batch_size)
    if config.server_address == LearnerConfig.server_address:  # Not given.
        config = dataclasses.replace(config, server_address=hosts.address)
    if hosts.count == 1:
        return config, None
    if not config.insecure_reductions:
        check_privacy(hosts)
    return config, hosts


def _shared_by_hosts(chosen: Settings, config: LearnerConfig) -> dict[str, Any]:
    """The settings and versions that all learner hosts must have."""
    return {
        "environment": chosen.environment,
        "agent": chosen.agent,
        **chosen.environment_config().to_dict(),
        **chosen.agent_config().essentials(),
        **config.essentials(),
        "num_envs": config.num_envs,
        "publish_every": config.publish_every,
        **versions(),
    }


def _import_tensorflow(config: LearnerConfig, hosts: LearnerHosts | None, display: ProgressDisplay) -> None:
    """Imports TensorFlow, detects GPUs, warns of unused ones, and sets TensorFlow up."""
    display.stage("importing TensorFlow")
    if hosts:  # TensorFlow reports each lost connection in many lines; ours names the host.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    warning = None
    with quiet_start() as log:
        with fast_tensorflow_import():
            from seed_rl.devices import placement, report
            from seed_rl.learner.setup import set_up_tensorflow

        if config.accelerator != "tpu":
            placement.hide_tpus()
            with usage_errors():
                warning = report.check(config.require_accelerator, log)
        set_up_tensorflow(config, hosts.index if hosts else 0)
    if warning:
        warn(warning)


def _listen(
    config: LearnerConfig,
    environment: EnvironmentDescription,
    security_config: SecurityConfig,
    security: Security,
    exit_stack: contextlib.ExitStack,
) -> Listener:
    """Listens on the learner's address before it can serve actors, and starts its gateways."""
    spec, gateways = StepCodec(environment.spec), None
    with usage_errors():
        addresses = gateway_addresses(config.server_address, config.num_gateways)
        if addresses:
            if not is_supported():
                raise UsageError(f"--num_gateways={config.num_gateways} needs Linux; leave it out.")
            if security.authority and not security.token:
                # Gateways prove with the token that they are the learner's: they do without certificates.
                raise UsageError("--num_gateways with --tls_authority also needs --token_file.")
            gateways = private_address(config.server_address)
        listener = Listener(
            config.server_address,
            max_message_bytes(spec.record_bytes, config.num_envs),
            (INFERENCE_SERVICE, LEARNERS_SERVICE),
            security,
            also=gateways,
        )
    exit_stack.callback(listener.stop)
    if gateways:
        with usage_errors():
            exit_stack.enter_context(hold_addresses(addresses))
        commands = gateway_commands(addresses, gateways, security_config.to_dict())
        started = Gateways(commands)
        exit_stack.callback(started.stop)
        listener.gateways = functools.partial(started.live, addresses)
    return listener
