"""Turns the local launcher's command line into the commands of the learner and the actors."""

import contextlib
import dataclasses
import re
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seed_rl.actor.config import ActorConfig
from seed_rl.flags.command_line import CommandLine, name_positional, parse, scan
from seed_rl.flags.definitions import option_names, options_of
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.flags.flagfile import expand_flagfiles
from seed_rl.launch.config import LocalConfig
from seed_rl.launch.presets import (
    DEFAULT_AGENT,
    DEFAULT_ENVIRONMENT,
    VARIANTS,
    configs_directory,
    find_preset,
)
from seed_rl.learner.config import LearnerConfig
from seed_rl.options import Options
from seed_rl.wire.hosts import LearnerHosts

_POSITIONAL = ("environment", "agent", "num_actors", "env_batch_size")
_COMPUTED = frozenset(("num_envs", "task", "learner_hosts", "learner_index"))
_SOCKET_PATH_BYTES = 102  # The limit of macOS minus one for `serving.sockets`; Linux allows four more.
_LAST_PORT = 2**16 - 1


@dataclasses.dataclass(frozen=True)
class Plan:
    """The commands that a launcher runs, and the run directory.

    Attributes:
      learners: one command per learner host, the one that keeps the run directory first.
      actors: one command per actor, in the order of their tasks.
      logdir: the run directory.
      total_environment_frames: when training is complete.
      stop_at_return: the mean return at which it is complete earlier; None: there is none.
      num_gateways: of each learner.
    """

    learners: list[list[str]]
    actors: list[list[str]]
    logdir: Path
    total_environment_frames: int
    stop_at_return: float | None = None
    num_gateways: int = 0


def complete_arguments(args: Sequence[str], configs: Path | None = None) -> tuple[list[str], Path | None]:
    """Turns `[environment] [agent] [actors] [environments per actor] [flags…]` into flags, a preset first.

    The agent may be one of `presets.VARIANTS`, whose directory is `configs`, by default the project's own.

    Returns:
      The flags (if one is repeated, its last value counts) and the preset among them. The preset is None if
      there is none for this environment and agent, or if a flagfile was given.

    Raises:
      UsageError: too many arguments before the first flag, or there is no preset of a variant.
    """
    flags = name_positional(args, _POSITIONAL)
    expanded = expand_flagfiles(flags)
    has_flagfile = expanded != flags
    chosen_agent = scan(expanded, ("agent",))["agent"]
    variant = chosen_agent if chosen_agent in VARIANTS else None
    if variant:
        flags.append(f"--agent={VARIANTS[variant]}")
    defaults = [f"--agent={DEFAULT_AGENT}"]
    if has_flagfile:
        return [*defaults, *flags], None
    defaults.append(f"--environment={DEFAULT_ENVIRONMENT}")
    chosen = scan([*defaults, *flags], ("environment", "agent", "game"))
    if variant:
        chosen["agent"] = variant
        defaults.append(
            f"--logdir={_logdir(chosen['environment'], variant, chosen['game'])}"
        )  # Not that of the agent.
    preset = find_preset(configs or configs_directory(), **chosen)  # type: ignore[arg-type]
    if variant and not preset:
        raise UsageError(
            f"There is no preset of {variant} for {chosen['environment']}; give the agent, "
            f"{VARIANTS[variant]}, and its options."
        )
    return [*defaults, *([f"--flagfile={preset}"] if preset else []), *flags], preset


def parse_local(
    argv: Sequence[str], description: str, launcher: Mapping[type[Options], Collection[str]] | None = None
) -> CommandLine:
    """Parses complete arguments into all flags of the launcher and its children; see `command_line.parse`.

    `launcher` has the launcher's own classes, each with the fields that get no flag.
    """
    own = option_names(LocalConfig) | _COMPUTED
    children = (LearnerConfig, ActorConfig)
    classes: dict[type[Options], Collection[str]] = {LocalConfig: (), **(launcher or {})}
    classes |= dict.fromkeys(children, own)
    return parse(argv, description, tuple(classes), leave_out=classes, elsewhere=children)


def make_plan(line: CommandLine, server_address: str | None) -> Plan:
    """Makes the commands for a parsed command line.

    All settings are validated here, before anything starts. The (first) learner listens on the address. On a
    cluster it is None, since addresses are unknown until the learners have been placed: then the commands
    lack the addresses, the actors take any task, and the run directory is an absolute path.

    Raises:
      UsageError: an invalid value.
    """
    local = line.read(LocalConfig)
    game = getattr(line.environment_config(), "game", None)
    line.agent_config()
    logdir = Path(local.logdir or _logdir(line.environment, line.agent, game))
    num_envs = local.num_actors * local.env_batch_size
    addresses: list[str] = []
    actor: dict[str, Any] = {}
    if server_address is None:
        logdir = logdir.absolute()
    else:
        addresses = learner_addresses(server_address, local.num_learners)
        actor["server_address"] = addresses[0]
    actor["env_batch_size"] = local.env_batch_size
    learner = {"num_envs": num_envs, "logdir": str(logdir)}
    config = line.read(LearnerConfig, **learner)
    line.read(ActorConfig, **actor, task=None)
    check_split(local.num_learners, local.num_actors, num_envs, config.batch_size)
    if server_address is not None and config.num_gateways:
        raise UsageError(
            f"--num_gateways={config.num_gateways} is for actors on other machines, and here all of them run "
            "on this one; leave it out."
        )

    own = option_names(LocalConfig)
    agent_classes = [line.agent_class] if line.agent_class else []
    learner_flags = line.given(LearnerConfig, line.environment_class, *agent_classes, leave_out=own)
    actor_flags = [*line.given(ActorConfig, leave_out=own), *code_flags(line)]
    chosen = {"environment": line.environment, "agent": line.agent, **learner}
    return Plan(
        learners=[
            _command("learner", chosen, [*place_flags(addresses, i), *learner_flags])
            for i in range(local.num_learners)
        ],
        actors=[
            _command("actor", {**({"task": i} if addresses else {}), **actor}, actor_flags)
            for i in range(local.num_actors)
        ],
        logdir=logdir,
        total_environment_frames=config.total_environment_frames,
        stop_at_return=config.stop_at_return,
        num_gateways=config.num_gateways,
    )


def code_flags(line: CommandLine) -> list[str]:
    """The flags that an actor needs besides its own: those that name a module to import."""
    assert line.environment_class is not None
    others = {leaf.name for leaf in options_of(line.environment_class) if not leaf.metadata["is_code"]}
    named = [flag for flag in line.given(line.environment_class, leave_out=others) if ":" in flag]
    return [f"--environment={line.environment}", *named] if named else []


def learner_addresses(first: str, count: int) -> list[str]:
    """The addresses of several learners on one machine: the next ports, or PATH_1 and so on for unix:PATH."""
    if count == 1 or first.startswith("unix"):
        return [first, *(f"{first}_{i}" for i in range(1, count))]
    host, _, port = first.rpartition(":")
    if not (port.isdigit() and 0 < int(port) <= _LAST_PORT + 1 - count):
        raise UsageError(
            f"--server_address={first} is not valid for {count} learners; give HOST:PORT with a port between "
            f"1 and {_LAST_PORT + 1 - count}, or unix:PATH."
        )
    return [f"{host}:{int(port) + i}" for i in range(count)]


def place_flags(addresses: Sequence[str], index: int) -> list[str]:
    """The flags that tell a learner its place: its address, or those of all learners and which one it is.

    There are none while addresses are unknown.
    """
    if len(addresses) <= 1:
        return [f"--server_address={address}" for address in addresses]
    return [f"--learner_hosts={','.join(addresses)}", f"--learner_index={index}"]


def check_split(num_learners: int, num_actors: int, num_envs: int, batch_size: int) -> None:
    """Raises UsageError if actors, environments or the batch cannot be split evenly over learner hosts."""
    if num_actors % num_learners:
        raise UsageError(
            f"{num_actors} actors cannot be split evenly over {num_learners} learners, each of which serves "
            f"its own; make their number a multiple of {num_learners}."
        )
    with usage_errors():
        LearnerHosts(tuple(map(str, range(num_learners)))).check(num_envs, 0, batch_size)


def _logdir(environment: str | None, agent: str | None, game: str | None) -> str:
    """By default, runs/ENVIRONMENT_AGENT_GAME, without the game for environments that have none."""
    name = "_".join(str(part) for part in (environment, agent, game) if part)
    return f"runs/{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}"


@contextlib.contextmanager
def private_server_address(num_learners: int = 1) -> Iterator[str]:
    """The address of a unix socket in a new directory that only this user can enter; removed at the end.

    There is room for those of other learners beside it (`learner_addresses`); UsageError if there is not,
    because the path of the temporary directory is too long.
    """
    with tempfile.TemporaryDirectory(prefix="seed_rl_") as directory:
        path = f"{directory}/learner.sock"
        longest = learner_addresses(f"unix:{path}", num_learners)[-1].removeprefix("unix:")
        if len(longest.encode()) > _SOCKET_PATH_BYTES:
            raise UsageError(
                f"The path {path} is too long for a unix socket; set TMPDIR to a shorter directory or give "
                "--server_address."
            )
        yield f"unix:{path}"


def _command(name: str, values: dict[str, Any], flags: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "seed_rl", name, *(f"--{k}={v}" for k, v in values.items()), *flags]
