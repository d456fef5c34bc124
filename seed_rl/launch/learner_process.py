"""A learner process: from its flags to its exit code."""

import contextlib
import dataclasses
import functools
import os
import signal
from pathlib import Path
from typing import Any

from seed_rl.actor.actor_config import ActorConfig
from seed_rl.algorithms import AlgorithmError
from seed_rl.algorithms import registry as algorithms
from seed_rl.evaluation.load import load_rival
from seed_rl.experience.base import MisfitError
from seed_rl.flags.command_line import asks_help, scan
from seed_rl.flags.errors import UsageError, out_of_memory, require_package, usage_errors
from seed_rl.flags.flagfile import expand_flagfiles
from seed_rl.flags.resolve import resolve
from seed_rl.flags.settings import Settings
from seed_rl.hosts.addresses import SERVICE as LEARNERS_SERVICE
from seed_rl.hosts.addresses import LearnerHosts, find_hosts
from seed_rl.hosts.peers import HostLostError
from seed_rl.hosts.team import Team, check_privacy
from seed_rl.launch.child import raise_descriptor_limit
from seed_rl.launch.plan import LocalConfig, check_inference
from seed_rl.launch.probe import Probe, found
from seed_rl.launch.watch import Gateways, gateway_commands
from seed_rl.learner.learner_config import PAST, SELF, LearnerConfig
from seed_rl.loading import fast_tensorflow_import, quiet_start
from seed_rl.messages import COMPLETE, complain, report_to_launcher, warn
from seed_rl.metrics.curves import periods_so_far
from seed_rl.metrics.outputs import UnsavedError
from seed_rl.metrics.progress import ProgressDisplay
from seed_rl.runs import lock, record
from seed_rl.runs.layout import RunDirectory
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


class _StoppedEarly(Exception):
    """A signal has stopped this process before there was anything to save."""


def run_learner(argv: list[str], description: str) -> int:
    """Runs a learner; returns the exit code, which is 0 only when training is complete.

    It is that of the signal (`signals.exit_code`) that stopped the run with a checkpoint, and 1 if the last
    checkpoint cannot be written.
    """
    stop = StopSignals()
    with last_resort(_SECOND), stop.caught(), contextlib.ExitStack() as stack:
        try:
            return _learn(argv, description, stop, stack)
        except _StoppedEarly:
            return stop.exit_code
        except (AddressError, AlgorithmError, MisfitError) as error:
            raise UsageError(str(error)) from None
        except MemoryError as error:
            raise out_of_memory(error) from error
        except (UnsavedError, HostLostError, NotServingError) as error:
            complain(str(error))
            return 1


def _learn(argv: list[str], description: str, stop: StopSignals, stack: contextlib.ExitStack) -> int:
    with usage_errors():
        raise_descriptor_limit()
    settings, probe = _resolved(argv, description, stop, stack)
    config, credentials = settings.read(LearnerConfig), settings.read(SecurityConfig)
    agent_config = settings.agent_config()
    check_inference(settings, config)
    with usage_errors():
        config, hosts = _find_hosts(config)
        security = load_security(credentials, os.environ)
        check_listening(config.server_address, credentials, security, config.web)
        if config.web.web_address and hosts:
            raise UsageError("--web_address needs a run with one learner; leave it out.")
    require_package("tensorflow", "learner")
    if config.wandb_project:
        require_package("wandb", "wandb")
    is_first = hosts is None or hosts.is_first
    display = stack.enter_context(contextlib.closing(_begin(settings, config, is_first)))
    identity = record.run_identity(
        settings.environment, settings.environment_settings, settings.agent, agent_config
    )
    if is_first:
        _hold_directory(config.logdir, identity, settings, stop, stack)
    if not hosts:  # While the probe makes an environment. See `_train`.
        _import_tensorflow(config, None, display)
    environment = _examined(settings, probe, stop, display)
    listener = None
    if hosts or config.num_gateways:
        listener = _listen(config, environment, credentials, security, stack)
    if hosts:
        display.stage("waiting for the other learners")
    shared = _shared_by_hosts(settings, config) if hosts else {}
    with usage_errors():
        team = stack.enter_context(Team(listener, hosts, config.host_timeout_secs, shared, security))
        if not team.meet(stop.is_set):
            raise _StoppedEarly
    with team.explaining():
        return _train(settings, config, identity, environment, security, team, stop, display)


def _train(
    settings: Settings,
    config: LearnerConfig,
    identity: dict[str, Any],
    environment: EnvironmentDescription,
    security: Security,
    team: Team,
    stop: StopSignals,
    display: ProgressDisplay,
) -> int:
    """Makes the learner, and trains; returns the exit code.

    With other hosts, TensorFlow is imported only now: to connect, it blocks all threads of this process, also
    the one that has to send to the last host.
    """
    agent, agent_config = settings.agent or "", settings.agent_config()
    if team.hosts:
        _import_tensorflow(config, team.hosts, display)
    from seed_rl.learner.setup import make_learner

    display.stage("making the network")
    make = functools.partial(algorithms.make, agent, agent_config, environment.spec, config.num_envs)
    recorded = {"learner": config.to_dict(), "agent": agent_config.to_dict()}
    everything = {**recorded, "agent_name": agent, "environment": identity["environment"]}
    rival = None
    if config.opponents not in (SELF, PAST):
        rival = functools.partial(load_rival, config.opponents, identity, environment.spec)
    with quiet_start(), usage_errors():
        learner = make_learner(config, environment, make, everything, security, team, display, rival)
    if stop.is_set() and not team.hosts:
        raise _StoppedEarly
    if team.is_first:
        recorded["origins"] = settings.chosen_origins()
        with usage_errors():
            record.write(config.logdir, identity, recorded, settings.environment_code)
    if not learner.run(stop.is_set):  # Another learner host may have been stopped.
        return stop.exit_code or exit_code(signal.SIGTERM)
    report_to_launcher(COMPLETE)
    if team.is_first:
        record.write_complete(config.logdir, learner.has_reached_return)
    return 0


def _resolved(
    argv: list[str], description: str, stop: StopSignals, stack: contextlib.ExitStack
) -> tuple[Settings, Probe]:
    """The settings, and a probe that makes one of their environments.

    Those of a launcher are in its file. Of a learner that was started by hand, the probe reads the flags: it
    imports the suite of environments, and this process does not.
    """
    resolving = functools.partial(
        resolve, argv, description, (LearnerConfig, SecurityConfig), elsewhere=(ActorConfig, LocalConfig)
    )
    expanded = expand_flagfiles(argv[1:])
    if asks_help(expanded) or scan(expanded, ("settings",))["settings"]:
        settings = resolving()
        probe = Probe([(settings.environment, settings.environment_settings)])
        stack.callback(probe.close)
        return settings, probe
    probe = Probe([], resolving=resolving)
    stack.callback(probe.close)
    answers = probe.answers(stop.is_set, most=1)
    if stop.is_set():
        raise _StoppedEarly
    with usage_errors():
        return found(*answers), probe


def _begin(settings: Settings, config: LearnerConfig, is_first: bool) -> ProgressDisplay:
    """The display in the first stage. The first host logs the number of frames if it is a default."""
    total = config.total_environment_frames
    log = RunDirectory(Path(config.logdir)).actor_log(0)
    display = ProgressDisplay(total, periods_so_far(config.logdir), log)
    if is_first and not settings.is_chosen("total_environment_frames"):
        display.say(f"{total:,} environment frames, the default; --total_environment_frames sets another.")
    return display


def _hold_directory(
    logdir: str, identity: dict[str, Any], settings: Settings, stop: StopSignals, stack: contextlib.ExitStack
) -> None:
    """Holds the run directory's lock, unless it belongs to another run (UsageError)."""
    with usage_errors():
        record.check(logdir, identity, settings.environment_before)
        stack.enter_context(lock.held(logdir, stop.is_set))
        # Another learner may have used it in the meantime.
        record.check(logdir, identity, settings.environment_before)


def _examined(
    settings: Settings, probe: Probe, stop: StopSignals, display: ProgressDisplay
) -> EnvironmentDescription:
    """The environments, as the probe has found them."""
    display.stage("making one environment, to see its observations and actions")
    answers = probe.answers(stop.is_set)
    probe.warn()
    probe.close()
    if stop.is_set():
        raise _StoppedEarly
    with usage_errors():
        probed = found(answers[-1])
    described = settings.environment, settings.environment_settings
    return EnvironmentDescription(*described, probed.spec, probed.spaces_as_json)


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
    credentials: SecurityConfig,
    security: Security,
    stack: contextlib.ExitStack,
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
    stack.callback(listener.stop)
    if gateways:
        with usage_errors():
            stack.enter_context(hold_addresses(addresses))
        commands = gateway_commands(addresses, gateways, credentials.to_dict())
        started = Gateways(commands)
        stack.callback(started.stop)
        listener.gateways = functools.partial(started.live, addresses)
    return listener


def _shared_by_hosts(settings: Settings, config: LearnerConfig) -> dict[str, Any]:
    """The settings and versions that all learner hosts must have."""
    return {
        "environment": settings.environment,
        "agent": settings.agent,
        **settings.environment_settings,
        **settings.agent_config().essentials(),
        **config.essentials(),
        "num_envs": config.num_envs,
        "publish_every": config.publish_every,
        **record.versions(),
    }
