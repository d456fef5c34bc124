"""A run's record, run.json: its settings and versions, and the check that it resumes with those."""

import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import platform
import subprocess
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import seed_rl
from seed_rl.algorithms import registry as algorithms
from seed_rl.algorithms.options import AlgorithmOptions
from seed_rl.environments import registry as environments
from seed_rl.environments.base import PICKLE, EnvironmentConfig
from seed_rl.files import read_json, write_atomically
from seed_rl.learner.learner_config import LearnerConfig
from seed_rl.messages import say
from seed_rl.metrics.cpu import processor
from seed_rl.options import Options
from seed_rl.runs.layout import RunDirectory
from seed_rl.runs.trust import signature

# The options that say when training ends.
_LENGTH = ("total_environment_frames", "stop_at_return")

# The packages whose versions a record has.
_PACKAGES = (
    *("tensorflow", "tensorflow-cpu", "tensorflow-tpu", "keras", "numpy"),
    *("grpcio", "protobuf", "gymnasium", "ale-py", "zstandard"),
)


@dataclasses.dataclass(frozen=True)
class RunRecord:
    """The contents of run.json.

    Attributes:
      logdir: the run directory.
      identity: the settings that must not change within the run, as returned by `run_identity`.
      agent_settings: all settings of the agent, by name.
      learner_settings: all settings of the learner, by name.
      versions: the versions of the packages and, in a clone, the git revision.
      processor: that of the learner's machine, as it was at the last start; empty if it is not known.
    """

    logdir: Path
    identity: dict[str, Any]
    agent_settings: dict[str, Any]
    learner_settings: dict[str, Any]
    versions: dict[str, str]
    processor: str = ""

    @property
    def environment(self) -> str:
        """Name of the suite."""
        return self.identity["environment"]["name"]

    @property
    def environment_settings(self) -> dict[str, Any]:
        """All settings of the environment, by name."""
        return self.identity["environment"]["settings"]

    @property
    def game(self) -> str | None:
        """The suite's game, level or scenario, or a function's file name; None if there is only one."""
        game: Any = self.environment_settings.get("game")
        return f"{PICKLE}:{Path(game).name}" if str(game).startswith(f"{PICKLE}:") else game

    @property
    def agent(self) -> str:
        """Name of the algorithm."""
        return self.identity["agent"]["name"]

    def environment_config(self) -> EnvironmentConfig:
        """The environment's settings.

        Raises:
          ValueError: the record has settings unknown to this version; the message names them.
        """
        return self._config(environments.suite(self.environment).config_class, self.environment_settings)

    def agent_config(self) -> AlgorithmOptions:
        """The agent's settings; raises the same error as `environment_config`."""
        return self._config(algorithms.config_class(self.agent), self.agent_settings)

    def _config(self, config_class: type[Options], settings: dict[str, Any]) -> Any:
        unknown = sorted(set(settings) - set(config_class.defaults()))
        if unknown:
            file = RunDirectory(self.logdir).record
            raise ValueError(
                f"{file} was written by another version of seed_rl ({self.versions.get('seed_rl')}): "
                f"its settings {', '.join(unknown)} are unknown to this one; use that version."
            )
        return config_class.of(**settings)


def run_identity(
    environment: str, its: Options | Mapping[str, Any], agent: str | None, agent_config: Options
) -> dict[str, Any]:
    """Identity of a run, which must not change: environment, agent, and the settings of its network.

    `its` are the environment's settings.
    """
    settings, network = agent_config.to_dict(), _network_options(type(agent_config))
    of_environment = its.to_dict() if isinstance(its, Options) else dict(its)
    return {
        "environment": {"name": environment, "settings": of_environment},
        "agent": {"name": agent, "network": _picked(settings, network)},
    }


def check(logdir: str, mine: dict[str, Any], before: Mapping[str, Any] | None = None) -> None:
    """Refuses a directory that belongs to another run than that of `mine` (`run_identity`); changes nothing.

    A setting that is missing from the record because it is newer than the run has its default. `before` are
    those of the environment, so that its suite is not imported; see `completed`.

    Raises:
      ValueError: the path is a file or cannot be printed, its checkpoints are elsewhere, its run has no
        readable record, it belongs to another run, or it was trained with an option that was removed; the
        message is one sentence.
    """
    run = RunDirectory(Path(logdir))
    if not is_directory(run.path):
        return
    for folder in (run.checkpoints.path, run.best_checkpoints.path, run.kept_checkpoints.path):
        if folder.is_symlink():
            raise ValueError(
                f"{folder} is a symbolic link, and files would be deleted where it leads; put a directory "
                "in its place, or make --logdir itself the link."
            )
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is not a directory; move it away.")
    if not run.record.exists():
        if run.checkpoints.path.exists() or run.metrics.exists():
            raise ValueError(f"--logdir={logdir} holds a run without {run.record.name}; use another.")
        return
    recorded = read(logdir, before)
    found = differences(recorded.identity, mine)
    if found:
        function = "its environments are of another function"
        told = [function if text.count(f"{PICKLE}:") == 2 else text for text in found]
        raise ValueError(
            f"--logdir={logdir} belongs to another run ({'; '.join(told)}); use another --logdir, or the "
            "flags of that run; in Python, overwrite=True starts over."
        )
    if algorithms.config_class(recorded.agent).removed:
        recorded.agent_config()  # Raises ValueError if the run has one of them.


def is_directory(logdir: Path) -> bool:
    """Whether a --logdir exists already.

    Raises:
      ValueError: it is a file, or its name cannot be used; one sentence.
    """
    if not str(logdir).isprintable():  # It would break lines, or change a terminal, wherever it is shown.
        raise ValueError(
            f"--logdir={str(logdir)!a} has characters that cannot be printed; choose another name."
        )
    try:
        is_there = logdir.exists()
    except OSError as error:  # The name is too long, for example.
        raise ValueError(f"--logdir={logdir} cannot be used ({error.strerror}); use another.") from None
    if is_there and not logdir.is_dir():
        raise ValueError(f"--logdir={logdir} is a file; name a directory.")
    return is_there


def read(logdir: str, before: Mapping[str, Any] | None = None) -> RunRecord:
    """The record of a run, with defaults for settings that are newer than the run; see `completed`.

    Raises:
      ValueError: it is not a run directory, or its record cannot be read; the message is one sentence.
    """
    path = Path(logdir)
    file = RunDirectory(path).record
    try:
        is_run = file.exists()
    except OSError as error:
        raise ValueError(f"{logdir} cannot be read ({error.strerror}); name another directory.") from None
    if not is_run:
        missing = f"contains no {file.name}, so it is not a run directory"
        what = missing if path.is_dir() else "is not a directory"
        raise ValueError(f"{logdir} {what}; name the --logdir of a run.")
    try:
        content = completed(read_json(file), before)
        identity, settings = content["identity"], content["settings"]
        of_environment = identity["environment"]["settings"]
        kind, _, function = str(of_environment.get("game")).partition(":")
        here = path.absolute() / Path(function).name
        if kind == PICKLE and here.is_file():  # Even if the directory was moved.
            of_environment["game"] = f"{PICKLE}:{here}"
        about = dict(content["versions"]), str(content.get("processor", ""))
        run = RunRecord(path, identity, settings["agent"], settings["learner"], *about)
        _check_types(run, imports=before is None)
        return run
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        why = f"it has no {error}" if isinstance(error, KeyError) else error
        raise ValueError(
            f"{file} cannot be read ({why}); check that this version wrote it, or use another --logdir."
        ) from None


def _check_types(run: RunRecord, imports: bool) -> None:
    """Raises ValueError or TypeError unless everything is of the type that this version writes."""
    groups = (run.environment_settings, run.agent_settings, run.learner_settings)
    if not all(isinstance(settings, dict) for settings in groups):
        raise ValueError("its settings are not objects")
    names = (run.environment, run.agent, "" if run.game is None else run.game)
    if not all(isinstance(name, str) and name.isprintable() for name in names):
        raise ValueError("its names are not text that can be printed")
    LearnerConfig.check_types(run.learner_settings)
    if imports and run.environment in environments.names():
        environments.suite(run.environment).config_class.check_types(run.environment_settings)
    if run.agent in algorithms.names():
        algorithms.config_class(run.agent).check_types(run.agent_settings)


def differences(recorded: Any, mine: Any, name: str = "") -> list[str]:
    """The differences between nested settings, as `NAME: THERE there, MINE now` for each value."""
    if isinstance(recorded, dict) and isinstance(mine, dict):
        keys = sorted(set(recorded) | set(mine))
        return [
            text
            for key in keys
            for text in differences(recorded.get(key), mine.get(key), f"{name} {key}".strip())
        ]
    return [] if recorded == mine else [f"{name}: {recorded} there, {mine} now"]


def completed(content: Any, before: Mapping[str, Any] | None = None) -> Any:
    """The content of a run.json, with missing settings at their defaults.

    A setting that is newer than the run did not exist then, and its default changes nothing, or the suite's
    `before` says what it was. One of the agent's that was `removed` since is left out if it had its default.
    `before` are the environment's, for a process that does not import its suite; None: the suite has them.
    These rules are applied only here, so every reader of a record gets a complete one. Parts that are not in
    the form that this version writes, or that are of an unknown environment or agent, stay as they are.
    """
    # `differences` or the reader reports it.
    misfit = contextlib.suppress(KeyError, TypeError, ValueError, AttributeError)
    with misfit:
        environment = content["identity"]["environment"]
        if before is None:
            config_class = environments.suite(environment["name"]).config_class
            before = config_class.defaults() | dict(config_class.before)
        environment["settings"] = {**before, **environment["settings"]}
    with misfit:
        agent = content["identity"]["agent"]
        agent_class = algorithms.config_class(agent["name"])
        # In older records, some of the network's settings are only among those of the agent.
        settings = agent_class.defaults() | content.get("settings", {}).get("agent", {})
        agent["network"] = _picked(settings, _network_options(agent_class)) | agent["network"]
        recorded, removed = content["settings"]["agent"].items(), agent_class.removed.items()
        kept = dict(item for item in recorded if item not in removed)
        content["settings"]["agent"] = agent_class.defaults() | kept
    with misfit:
        content["settings"]["learner"] = LearnerConfig.defaults() | content["settings"]["learner"]
    return content


def _network_options(agent_class: type[Options]) -> list[str]:
    """The options that must not change within a run: those in the part `net` of an algorithm's settings."""
    network = agent_class.parts().get("net")
    return list(network.defaults()) if network else []


def _picked(settings: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    return {name: settings[name] for name in names}


def plumbing(agent: str) -> set[str]:
    """Options that only set where a run of this algorithm trains; they do not affect its results."""
    classes: list[type[Options]] = [LearnerConfig]
    if agent in algorithms.names():
        classes.append(algorithms.config_class(agent))
    return {leaf.name for kind in classes for leaf in kind.leaves() if leaf.metadata.get("is_plumbing")}


def changes(logdir: str | Path, settings: dict[str, Any]) -> dict[str, list[Any]]:
    """The settings that differ from those in a run's record and affect results: old and new value by name.

    The length of training is not among them. Empty if there is no record that can be read.
    """
    try:
        run = read(str(logdir), before={})
    except ValueError:
        return {}
    old, new = run.learner_settings | run.agent_settings, settings["learner"] | settings["agent"]
    names = sorted(new.keys() - plumbing(run.agent) - set(_LENGTH))
    return {name: [old.get(name), new[name]] for name in names if old.get(name) != new[name]}


def described(changed: dict[str, list[Any]]) -> str:
    """The `changes` in a line: `NAME OLD -> NEW`, separated by commas."""
    return ", ".join(f"{name} {old} -> {new}" for name, (old, new) in changed.items())


def write(
    logdir: str, mine: dict[str, Any], settings: dict[str, Any], code: Sequence[str] | None = None
) -> None:
    """Writes run.json: the `run_identity`, all other settings as resolved now, versions and processor.

    Makes the directory. If a run resumes with other settings, a line reports the `changes`, and `history` has
    them with the time and the checkpoint. `code` are the settings of the environment that name code; None:
    its suite has them.

    Raises:
      ValueError: the directory cannot be written.
    """
    run = RunDirectory(Path(logdir))
    about = {"versions": versions(), "processor": processor()}
    content: dict[str, Any] = {"identity": mine, "settings": settings, **about}
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):  # A new run.
        content["history"] = read_json(run.record)["history"]
    changed, checkpoints = changes(logdir, settings), run.checkpoints.prefixes()
    if changed and checkpoints:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        entry = {"time": now, "checkpoint": checkpoints[0].name, "changed": changed}
        content["history"] = [*content.get("history", ()), entry]
        say(f"resuming with other settings than before: {described(changed)}.")
    if (signed := signature(run.path, content, code)) is not None:
        content["signature"] = signed
    try:
        run.path.mkdir(parents=True, exist_ok=True)
        _write(run, content)
    except OSError as error:
        raise ValueError(f"--logdir={logdir} cannot be written ({error.strerror}); use another.") from None


def write_complete(logdir: str, reached_return: bool) -> None:
    """Adds to run.json that training is complete, with the name of the last checkpoint and what ended it.

    That is the return of `--stop_at_return` or the number of frames. The next `write` drops both.

    Does nothing if it cannot be written: then the next start finds out from the checkpoint itself.
    """
    run = RunDirectory(Path(logdir))
    with contextlib.suppress(OSError, ValueError, LookupError):
        ended = "return" if reached_return else "frames"
        last = run.checkpoints.prefixes()[0].name
        _write(run, read_json(run.record) | {"complete": last, "ended": ended})


def is_complete(
    logdir: str | Path, total_environment_frames: int, stop_at_return: float | None = None
) -> bool:
    """Whether a run has been trained for so many environment frames or up to this return, as run.json says.

    It is not if its last checkpoint or its exported policy is not there any more: a learner makes them again.
    """
    run = RunDirectory(Path(logdir))
    try:
        content = read_json(run.record)
        learner = content["settings"]["learner"]
        names = [prefix.name for prefix in run.checkpoints.prefixes()[:1]]
        is_whole = content["complete"] in names and run.saved_model.is_dir()
        if content.get("ended") == "return":
            return is_whole and stop_at_return is not None and stop_at_return <= learner["stop_at_return"]
        return is_whole and total_environment_frames <= learner["total_environment_frames"]
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write(run: RunDirectory, content: dict[str, Any]) -> None:
    write_atomically(run.record, json.dumps(content, indent=2, sort_keys=True) + "\n")


def versions() -> dict[str, str]:
    """The versions of the packages and, in a clone, the git revision."""
    found = {"seed_rl": seed_rl.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    command = ["git", "-C", str(Path(seed_rl.__file__).parent), "rev-parse", "HEAD"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):  # Not in a clone.
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        found["git"] = done.stdout.strip()
    return found
