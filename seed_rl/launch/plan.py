"""Plan of a run on this machine: the settings of its processes, and their commands."""

import contextlib
import dataclasses
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from seed_rl.actor.actor_config import ActorConfig
from seed_rl.algorithms import registry as algorithms
from seed_rl.experience.experience_config import FifoConfig
from seed_rl.flags.definitions import option_names
from seed_rl.flags.errors import UsageError, usage_errors
from seed_rl.flags.resolve import Launching, resolve
from seed_rl.flags.settings import Settings
from seed_rl.hosts.addresses import LearnerHosts
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.options import Options, option
from seed_rl.runs.layout import RunDirectory


@dataclasses.dataclass(frozen=True)
class LocalConfig(Options):
    """Number of processes on this machine, and directory of the run."""

    num_actors: int = option(4, "Actor processes.", at_least=1)
    env_batch_size: int = option(4, "Environments in each actor process.", at_least=1)
    num_learners: int = option(
        1,
        "Learner processes whose gradients are added up (--learner_hosts). One learner uses all GPUs of a "
        "machine, so several of them on one machine are for trying out what several machines do.",
        at_least=1,
    )
    logdir: str | None = option(
        None,
        "Run directory; by default runs/ENVIRONMENT_AGENT_GAME in the current directory, and with a --seed, "
        "runs/ENVIRONMENT_AGENT_GAME_seedN.",
        is_path=True,
    )
    record_every_minutes: float | None = option(
        None,
        "Record an episode of the newest checkpoint so often, in a process of its own with low priority: "
        "videos/ckpt-UPDATES.mp4 in the run directory. Needs the extra [record]; see --save_checkpoint_secs.",
        above=0,
    )
    server_address: str | None = option(
        None,
        "Address that the learner listens on, unix:PATH or HOST:PORT; by default a unix socket in a new "
        "private temporary directory. Several learners take it and the next ports, or PATH_1 and so on.",
    )


_COMPUTED = frozenset(("num_envs", "task", "learner_hosts", "learner_index"))
_SOCKET_PATH_BYTES = 102  # The limit of macOS minus one for `serving.sockets`; Linux allows four more.
_LAST_PORT = 2**16 - 1


@dataclasses.dataclass(frozen=True)
class Plan:
    """The commands that a launcher runs, and the run directory.

    Attributes:
      settings: of all processes; they read `runs.layout.RunDirectory.settings`.
      learners: one command per learner host, the one that keeps the run directory first.
      actors: one command per actor, in the order of their tasks.
      logdir: the run directory, an absolute path.
    """

    settings: Settings
    learners: list[list[str]]
    actors: list[list[str]]
    logdir: Path


def resolve_run(
    argv: Sequence[str],
    description: str = "",
    launcher: Mapping[type[Options], Collection[str]] | None = None,
    launching: Launching = Launching(),  # noqa: B008 (immutable)
) -> Settings:
    """Resolves the command line of a launcher and all its processes; see `flags.resolve`.

    `launcher` has the launcher's own classes, each with the fields that get no flag.
    """
    own = option_names(LocalConfig) | _COMPUTED
    children = (LearnerConfig, ActorConfig)
    classes: dict[type[Options], Collection[str]] = {LocalConfig: (), **(launcher or {})}
    classes |= dict.fromkeys(children, own)
    return resolve(
        argv, description, tuple(classes), leave_out=classes, elsewhere=children, launching=launching
    )


def make_plan(settings: Settings, server_address: str | None) -> Plan:
    """Makes the commands of a run's processes.

    All settings are validated here, before anything starts. The (first) learner listens on the address. On a
    cluster it is None, since addresses are unknown until the learners have been placed: then the commands
    lack the addresses, and the actors take any task. UsageError: an invalid value.
    """
    local = settings.read(LocalConfig)
    settings.environment_config(), settings.agent_config()
    logdir = Path(local.logdir or "").absolute()
    num_envs = local.num_actors * local.env_batch_size
    settings = settings.replaced("launcher", num_envs=num_envs, logdir=str(logdir))
    addresses: list[str] = []
    if server_address is not None:
        addresses = learner_addresses(server_address, local.num_learners)
        settings = settings.replaced("launcher", server_address=addresses[0])
    config = settings.read(LearnerConfig)
    settings.read(ActorConfig)
    check_split(local.num_learners, local.num_actors, config.num_envs, config.batch_size)
    check_inference(settings, config, local.num_learners)
    if server_address is not None and config.num_gateways:
        raise UsageError(
            f"--num_gateways={config.num_gateways} is for actors on other machines, and here all of them run "
            "on this one; leave it out."
        )
    file = RunDirectory(logdir).settings
    places = [place_flags(addresses, i) if addresses[1:] else [] for i in range(local.num_learners)]
    tasks = [[f"--task={i}"] if addresses else [] for i in range(local.num_actors)]
    if settings.environment_config().attaches:
        tasks = []
        if not (local.server_address or config.web.web_address):
            raise UsageError(
                f"--environment={settings.environment} needs an address where programs attach; give "
                "--server_address=unix:PATH or HOST:PORT, or --web_address=HOST:PORT."
            )
    actor = "policy_actor" if config.inference == "actor" else "actor"
    return Plan(
        settings,
        [child_command("learner", file, place) for place in places],
        [child_command(actor, file, task) for task in tasks],
        logdir,
    )


def check_inference(settings: Settings, config: LearnerConfig, num_learners: int = 1) -> None:
    """Refuses --inference=actor for agents and learners that do not support it (UsageError)."""
    if config.inference == "learner":
        return
    able = [n for n in algorithms.names() if FifoConfig in algorithms.config_class(n).parts().values()]
    if settings.agent_class is None or FifoConfig not in settings.agent_class.parts().values():
        raise UsageError(
            f"--inference=actor needs an agent that learns from a queue, not {settings.agent}; choose one "
            f"of: {', '.join(able)}."
        )
    if num_learners > 1:
        raise UsageError(
            f"--num_learners={num_learners} needs learners that choose the actions; leave it out, or choose "
            "--inference=learner."
        )


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
    """The flags for a learner's place: its address and, of several learners, all addresses and its index."""
    several = [f"--learner_hosts={','.join(addresses)}", f"--learner_index={index}"] if addresses[1:] else []
    return [f"--server_address={addresses[index]}", *several]


def check_split(num_learners: int, num_actors: int, num_envs: int, batch_size: int) -> None:
    """Raises UsageError if actors, environments or the batch cannot be split evenly over learner hosts."""
    if num_actors % num_learners:
        raise UsageError(
            f"{num_actors} actors cannot be split evenly over {num_learners} learners, each of which serves "
            f"its own; make their number a multiple of {num_learners}."
        )
    with usage_errors():
        LearnerHosts(tuple(map(str, range(num_learners)))).check(num_envs, 0, batch_size)


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


def child_command(name: str, settings: Path, flags: Sequence[str]) -> list[str]:
    """The command of a process that reads its settings in a file; flags override them."""
    return [sys.executable, "-m", "seed_rl", name, f"--settings={settings}", *flags]
