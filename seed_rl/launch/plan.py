"""Turns the local launcher's command line into the commands of the learner and the actors."""

import contextlib
import dataclasses
import math
import re
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from seed_rl.actor.config import ActorConfig
from seed_rl.algorithms import registry as algorithms
from seed_rl.environments import registry as environments
from seed_rl.environments.making import Probed
from seed_rl.experience.config import FifoConfig
from seed_rl.flags.choices import check_choices
from seed_rl.flags.command_line import (
    CommandLine,
    asks_help,
    name_positional,
    parse,
    scan,
    scan_environment,
)
from seed_rl.flags.configs import configs_directory
from seed_rl.flags.definitions import option_names, options_of, whole_number
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.flags.flagfile import expand_flagfiles
from seed_rl.launch import defaults
from seed_rl.launch.config import LocalConfig
from seed_rl.launch.presets import DEFAULT_AGENT, DEFAULT_ENVIRONMENT, find_preset
from seed_rl.launch.probe import found, probe
from seed_rl.learner.config import LearnerConfig
from seed_rl.options import Options
from seed_rl.wire.hosts import LearnerHosts

_POSITIONAL = ("environment", "agent", "num_actors", "env_batch_size")
_SIZES = ("num_actors", "env_batch_size")
# Sizes that depend on the number of environments.
_FITTED = ("batch_size", "num_eval_envs", "num_env_groups")
_COMPUTED = frozenset(("num_envs", "task", "learner_hosts", "learner_index"))
_SOCKET_PATH_BYTES = 102  # The limit of macOS minus one for `serving.sockets`; Linux allows four more.
_LAST_PORT = 2**16 - 1
_NOTHING_CHOSEN = (
    f"no environment is named, so this is {DEFAULT_ENVIRONMENT} {DEFAULT_AGENT}: Pong, about 15 minutes on "
    "two idle cores. Name another one, such as catch vtrace, which takes seconds; `seed_rl list` has all."
)


@dataclasses.dataclass(frozen=True)
class Plan:
    """The commands that a launcher runs, and the run directory.

    Attributes:
      learners: one command per learner host, the one that keeps the run directory first.
      actors: one command per actor, in the order of their tasks.
      logdir: the run directory, an absolute path.
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


def complete_arguments(
    args: Sequence[str],
    configs: Path | None = None,
    tell: Callable[[str], object] = lambda note: None,
    probed: Probed | None = None,
) -> tuple[list[str], Path | None]:
    """Turns `[environment] [agent] [actors] [environments per actor] [flags…]` into flags, defaults first.

    The defaults are those of a preset, else computed from the environment's spaces. The agent is one of
    `algorithms.registry.choices`. Presets are in `configs`, by default the project's own.

    Args:
      args: the arguments, without the program's name.
      configs: the directory of presets.
      tell: called with a sentence on computed defaults, and on each size that was made to fit.
      probed: facts about the chosen environment; None: it is probed if they are needed.

    Returns:
      The flags (if one is repeated, its last value counts) and the preset among them. The preset is None if
      there is none for this environment and agent, or if a flagfile was given.

    Raises:
      UsageError: too many arguments before the first flag; or, without a preset, the environment cannot be
        made, or the agent cannot act in it.
    """
    flags = name_positional(args, _POSITIONAL)
    expanded = expand_flagfiles(flags)
    first = [f"--agent={DEFAULT_AGENT}"]
    agent = scan([*first, *expanded], ("agent",))["agent"] or ""
    base = algorithms.base(agent)
    has_flagfile = expanded != flags
    if base != agent:
        flags.append(f"--agent={base}")
    if has_flagfile:
        return [*first, *_fitted(first, [], expanded, tell), *flags], None
    first.append(f"--environment={DEFAULT_ENVIRONMENT}")
    chosen = scan([*first, *flags], ("environment", "game")) | {"agent": agent}
    if base != agent:
        seed = whole_number(scan(expanded, ("seed",))["seed"])
        own = default_logdir(chosen["environment"], agent, chosen["game"], seed=seed)
        first.append(f"--logdir={own}")
    check_choices(chosen["environment"], agent)
    if not any(scan(flags, ("environment", "game", "total_environment_frames")).values()):
        tell(_NOTHING_CHOSEN)
    _check_count(chosen["environment"] or "", flags)
    preset = find_preset(configs or configs_directory(), **chosen)  # type: ignore[arg-type]
    if preset and _is_for_others(preset, first, flags, probed):
        preset = None
    start = [f"--flagfile={preset}"] if preset else _computed(first, flags, agent, tell, probed)
    return [*first, *start, *_fitted(first, expand_flagfiles(start), flags, tell), *flags], preset


def _check_count(environment: str, flags: Sequence[str]) -> None:
    """Refuses a game in the place of the number of actors (UsageError)."""
    count = scan(flags, ("num_actors",))["num_actors"]
    is_number = count is None or whole_number(count) is not None
    if not is_number and "game" in option_names(environments.suite(environment).config_class):
        raise UsageError(
            f"--num_actors={count} is not valid; it must be a whole number, and a game is written "
            f"--game={count}."
        )


def _is_for_others(preset: Path, first: Sequence[str], flags: Sequence[str], probed: Probed | None) -> bool:
    """Whether a preset is for a game whose observations or actions are of another kind than the chosen one's.

    Games of gym have nothing in common; somebody's own may be any of them.

    Raises:
      UsageError: the chosen game's environment cannot be made.
    """
    lines = expand_flagfiles([f"--flagfile={preset}"])
    here = [*first, *lines, *flags]
    if scan(lines, ("game",)) == scan(here, ("game",)):
        return False
    if asks_help(flags):
        return False
    environment = scan(here, ("environment",))["environment"] or ""
    configs = [scan_environment(lines), *(() if probed else (scan_environment(here),))]
    theirs, *ours = probe([(environment, config) for config in configs])
    with usage_errors():
        mine = probed or found(ours[0])
    return isinstance(theirs, Probed) and defaults.kind_of(theirs.spec)[:2] != defaults.kind_of(mine.spec)[:2]


def _computed(
    first: Sequence[str],
    flags: Sequence[str],
    agent: str,
    tell: Callable[[str], object],
    probed: Probed | None,
) -> list[str]:
    """The flags of `launch.defaults` for the chosen environment, which is made to look at its spaces.

    If only help is asked for, an environment that cannot be made is no error.
    """
    name = scan([*first, *flags], ("environment",))["environment"] or ""
    base = algorithms.base(agent)
    easier = defaults.of_environment(name)
    with usage_errors():
        algorithms.config_class(base)
        try:
            config = scan_environment([*first, *easier, *flags])
            kind = defaults.kind_of((probed or found(*probe([(name, config)]))).spec)
        except (ValueError, ImportError):
            if asks_help(flags):
                return easier
            raise
    if needed := defaults.refusal(base, kind.action):
        able = ", ".join(a for a in algorithms.names() if not defaults.refusal(a, kind.action))
        raise UsageError(
            f"--agent={base} needs {needed}, and {name} has {kind.action} actions; choose one of: {able}."
        )
    tell(f"no preset for {name} {agent}: defaults for {kind}; add --help to see them.")
    sizes = {size: whole_number(text) for size, text in scan(flags, _SIZES).items()}
    has_network = scan(flags, ("network",))["network"] is not None
    return [*easier, *defaults.of_agent(agent, kind, has_network=has_network, **sizes)]


def _fitted(
    first: Sequence[str], start: Sequence[str], given: Sequence[str], tell: Callable[[str], object]
) -> list[str]:
    """Flags for sizes that were not given and do not fit the number of environments, which may have been."""
    read = scan([*first, *start, *given], ("agent", "num_learners", *_SIZES, *_FITTED))
    num_actors, per_actor, num_learners = (
        whole_number(read[name]) or LocalConfig.defaults()[name] for name in (*_SIZES, "num_learners")
    )
    num_envs = num_actors * per_actor
    old = {name: whole_number(read[name]) for name in _FITTED}
    num_eval_envs = old["num_eval_envs"] or 0
    batch_size = old["batch_size"] or _default_batch_size(read["agent"])
    is_given = {name: value is not None for name, value in scan(given, _FITTED).items()}
    if not is_given["num_eval_envs"]:
        num_eval_envs = min(num_eval_envs, num_envs // 2)
    new = {"num_eval_envs": num_eval_envs, "num_env_groups": math.gcd(old["num_env_groups"] or 1, per_actor)}
    with contextlib.suppress(ValueError):  # No such agent is reported where flags are parsed.
        new["batch_size"] = defaults.fitting_batch_size(
            read["agent"] or "", num_envs - num_eval_envs, batch_size, num_learners
        )
    fitted = []
    for name, value in new.items():
        present = batch_size if name == "batch_size" else old[name] or value
        if not is_given[name] and value != present:
            fitted.append(f"--{name}={value}")
            if start:
                tell(f"--{name}={value} and not {present}, to fit {num_envs} environments.")
    return fitted


def _default_batch_size(agent: str | None) -> int:
    shared: dict[str, Any] = {}
    with contextlib.suppress(ValueError):  # No such agent is reported where flags are parsed.
        shared = algorithms.config_class(agent or "").shared_defaults("")
    return shared.get("batch_size", LearnerConfig.batch_size)


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
    lack the addresses, and the actors take any task.

    Raises:
      UsageError: an invalid value.
    """
    local = line.read(LocalConfig)
    game = getattr(line.environment_config(), "game", None)
    line.agent_config()
    seed = line.flag_values["seed"]
    given = seed.value if seed.present else None
    logdir = Path(local.logdir or default_logdir(line.environment, line.agent, game, seed=given)).absolute()
    num_envs = local.num_actors * local.env_batch_size
    addresses: list[str] = []
    actor: dict[str, Any] = {}
    if server_address is not None:
        addresses = learner_addresses(server_address, local.num_learners)
        actor["server_address"] = addresses[0]
    actor["env_batch_size"] = local.env_batch_size
    learner = {"num_envs": num_envs, "logdir": str(logdir)}
    config = line.read(LearnerConfig, **learner)
    line.read(ActorConfig, **actor, task=None)
    check_split(local.num_learners, local.num_actors, num_envs, config.batch_size)
    check_inference(line, config, local.num_learners)
    if server_address is not None and config.num_gateways:
        raise UsageError(
            f"--num_gateways={config.num_gateways} is for actors on other machines, and here all of them run "
            "on this one; leave it out."
        )

    own = option_names(LocalConfig)
    agent_classes = [line.agent_class] if line.agent_class else []
    learner_flags = line.given(LearnerConfig, line.environment_class, *agent_classes, leave_out=own)
    actor_flags = [*line.given(ActorConfig, leave_out=own), *code_flags(line)]
    actor_command = "policy_actor" if config.inference == "actor" else "actor"
    chosen = {"environment": line.environment, "agent": line.agent, **learner}
    return Plan(
        learners=[
            child_command("learner", chosen, [*place_flags(addresses, i), *learner_flags])
            for i in range(local.num_learners)
        ],
        actors=[
            child_command(actor_command, {**({"task": i} if addresses else {}), **actor}, actor_flags)
            for i in range(local.num_actors)
        ],
        logdir=logdir,
        total_environment_frames=config.total_environment_frames,
        stop_at_return=config.stop_at_return,
        num_gateways=config.num_gateways,
    )


def check_inference(line: CommandLine, config: LearnerConfig, num_learners: int = 1) -> None:
    """Refuses --inference=actor for agents and learners that do not support it (UsageError)."""
    if config.inference == "learner":
        return
    if line.agent_class is None or FifoConfig not in line.agent_class.parts().values():
        able = [
            name
            for name in algorithms.names()
            if FifoConfig in algorithms.config_class(name).parts().values()
        ]
        raise UsageError(
            f"--inference=actor needs an agent that learns from a queue, not {line.agent}; choose one of: "
            f"{', '.join(able)}."
        )
    if num_learners > 1:
        raise UsageError(
            f"--num_learners={num_learners} needs learners that choose the actions; leave it out, or choose "
            "--inference=learner."
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


def default_logdir(*parts: str | None, seed: int | None = None) -> Path:
    """By default, runs/ENVIRONMENT_AGENT_GAME_seedN, without what is None: the game, or a seed not given."""
    name = "_".join(str(part) for part in (*parts, None if seed is None else f"seed{seed}") if part)
    return Path(f"runs/{re.sub(r'[^A-Za-z0-9._-]+', '-', name)}")


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


def child_command(name: str, values: Mapping[str, Any], flags: Sequence[str]) -> list[str]:
    """The command line of a `seed_rl NAME`; `values` are flags by name, and stand before the others."""
    return [sys.executable, "-m", "seed_rl", name, *(f"--{k}={v}" for k, v in values.items()), *flags]
