"""The Python interface: train, load, act, evaluate and play tournaments. `import seed_rl` gives these names.

Everything here does what the command of the same name does, with the same settings; errors are exceptions.
"""

import contextlib
import gc
import json
import os
import random
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from seed_rl.commands.train import train as _train
from seed_rl.environments import registry as environments
from seed_rl.environments.base import PICKLE
from seed_rl.environments.function_file import contents
from seed_rl.environments.games import HasPlayersError
from seed_rl.environments.making import Probed
from seed_rl.environments.spaces_json import dump_spaces
from seed_rl.environments.specs import Spaces
from seed_rl.evaluation.load import EvaluateConfig, PlayConfig, load_subject
from seed_rl.flags.command_line import parse_options
from seed_rl.flags.definitions import flag_text
from seed_rl.flags.errors import USAGE_EXIT_CODE, UsageError, brief_usage_errors, usage_errors
from seed_rl.flags.flagfile import expand_flagfiles
from seed_rl.flags.resolve import default_logdir
from seed_rl.launch.child import Child
from seed_rl.launch.probe import found, probe
from seed_rl.launch.watch import describe_exit
from seed_rl.loading import quiet_start
from seed_rl.metrics.curves import read_periods
from seed_rl.options import Options
from seed_rl.runs import record
from seed_rl.runs.layout import RunDirectory
from seed_rl.signals import STOP_CODES

if TYPE_CHECKING:
    from seed_rl.evaluation.agent import Agent


# Flags for files of the command; the function writes none.
_WRITES = frozenset(("logdir", "output", "overwrite", "record"))
_POLL_SECS = 0.02


class Run:
    """A run directory.

    Attributes:
      logdir: its absolute path.
    """

    @brief_usage_errors
    def __init__(self, logdir: str | os.PathLike[str], trust_code: bool = False):
        """The run in a directory.

        Args:
          logdir: the directory.
          trust_code: whether code that the directory names or holds may run; see `--trust_code`.

        Raises:
          ValueError: there is no run in it.
        """
        self.logdir = Path(logdir).absolute()
        self._trust_code = trust_code
        with usage_errors():
            record.read(str(logdir))

    def __repr__(self) -> str:
        return f"Run({str(self.logdir)!r})"

    def __fspath__(self) -> str:
        return str(self.logdir)

    def metrics(self) -> Any:
        """The run's figures, one row for each period that was logged.

        Returns:
          A pandas DataFrame if pandas is installed, else a dict of NumPy arrays. Missing figures are NaN.

        Raises:
          ValueError: the run has no figures yet.
        """
        periods = read_periods(self.logdir)
        try:
            import pandas
        except ImportError:
            names = dict.fromkeys(name for period in periods for name in period)
            return {name: np.array([period.get(name, np.nan) for period in periods]) for name in names}
        return pandas.DataFrame(periods)

    def load(self, checkpoint: str = "last", num_envs: int | None = None, greedy: bool = False) -> "Agent":
        """The trained agent; see `load`."""
        return load(self, checkpoint, num_envs, greedy)

    def evaluate(self, episodes: int = 200, **flags: Any) -> dict[str, Any]:
        """Evaluates the trained agent; see `evaluate`."""
        return evaluate(self, episodes, **flags)

    def make_env(self, render_mode: str | None = None, seed: int = 1) -> gymnasium.Env:
        """An environment as the run's agent is evaluated in, with its wrappers.

        Raises:
          ValueError: the environment cannot be made, or is a game of several players.
        """
        found = record.read(str(self.logdir))
        config = found.environment_config().for_evaluation()
        if config.has_players:
            raise ValueError("The run's game has several players, and is no environment of Gymnasium.")
        render = {"render_mode": render_mode} if render_mode else {}
        return environments.suite(found.environment).make(config, seed, **render)


@brief_usage_errors
def train(
    environment: str | Callable[..., gymnasium.Env | VectorEnv],
    agent: str,
    *,
    overwrite: bool = False,
    **flags: Any,
) -> Run:
    """Trains, as `seed_rl train ENVIRONMENT AGENT --flags` does, and waits for the end.

    Ctrl-C (in a notebook: interrupt) stops training with a checkpoint. Training resumes when the same call is
    made again, and a run that is complete stays as it is.

    Args:
      environment: a name, such as "atari" or "gym", or a function that makes a Gymnasium environment, or a
        vector environment of as many as its parameter `num_envs` says, or an environment of PettingZoo. The
        function may be a lambda or come from a notebook: cloudpickle takes it to the actors, in a file of
        the run directory that only this user can read.
      agent: a name, such as "ppo".
      overwrite: whether to start over where there is a run. Its directory is renamed: NAME.1, NAME.2, ...
      **flags: the command's flags, such as `seed=1` or `total_environment_frames=100_000`. Lists stand for
        text with commas (`mlp_sizes=[64, 64]`), and dicts for JSON (`env_kwargs={"size": 7}`). With the
        environment "external", `spaces` is a pair of Gymnasium's: of an observation and of an action.

    Call it in the main thread, the only one that an interrupt reaches. Runs that train at the same time are
    processes of the command.

    Returns:
      The run.

    Raises:
      UsageError: a name or a flag is wrong, or this is not the main thread; one sentence.
      KeyboardInterrupt: training was stopped, with a checkpoint.
      RuntimeError: training failed.
    """
    _check_call(environment, agent, flags)
    if "spaces" in flags and not isinstance(flags["spaces"], str | os.PathLike):
        with usage_errors():
            flags["spaces"] = dump_spaces(Spaces(*flags["spaces"]))
    words, function, probed = _words(flags), None, None
    if not isinstance(environment, str):
        content, fingerprint, suite, probed = _pickled(environment, words)
        own = default_logdir(probed.name, agent, fingerprint[:6], seed=flags.get("seed"))
        directory = Path(flags.get("logdir") or own).absolute()
        function = RunDirectory(directory).environment_function(fingerprint), content
        words += [f"--logdir={directory}", f"--game={PICKLE}:{function[0]}"]
        words += ["--vectorization=native"] if probed.is_vector else []
        environment = suite
    code, logdir, refusal = _train(["seed_rl train", environment, agent, *words], function, probed, overwrite)
    if code in STOP_CODES:
        raise KeyboardInterrupt
    if code == USAGE_EXIT_CODE:
        raise UsageError(refusal or "The run was refused; the sentence above says what to change.")
    if code:
        raise RuntimeError(f"Training ended with exit code {code}; what it printed says why.")
    return Run(logdir, trust_code=True)


def _check_call(environment: Any, agent: Any, flags: dict[str, Any]) -> None:
    """Refuses what no command line can be (UsageError)."""
    if threading.current_thread() is not threading.main_thread():
        raise UsageError(
            "train() needs the main thread, since in another one no interrupt could stop it; call it there, "
            "or start `seed_rl train` as a process (subprocess)."
        )
    if not (isinstance(environment, str) or callable(environment)):
        raise UsageError(
            "The environment must be a name or a function that makes one, and is of type "
            f"{type(environment).__name__}; write something like train(lambda: gymnasium.make(ID), AGENT)."
        )
    if not isinstance(agent, str):
        raise UsageError(f'The agent must be a name, such as "ppo", and is of type {type(agent).__name__}.')
    for name in (environment, agent):
        if isinstance(name, str) and name.startswith("-"):
            raise UsageError(f"{name} is a flag; write flags as keyword arguments, such as seed=1.")
    if "help" in flags:
        raise UsageError(
            "train() has no argument 'help'; `seed_rl train ENVIRONMENT AGENT --help` has a list."
        )


@brief_usage_errors
def load(
    run: str | os.PathLike[str] | Run,
    checkpoint: str = "last",
    num_envs: int | None = None,
    greedy: bool = False,
    trust_code: bool = False,
) -> "Agent":
    """Loads a trained agent.

    Args:
      run: a run directory, or what `train` returned.
      checkpoint: `last`, `best`, or a path prefix such as `.../ckpt-1200`.
      num_envs: N for an agent that acts in N environments at a time; None for one without a batch axis.
      greedy: whether to take the best action at every step. By default V-trace samples from its policy, for
        instance, and R2D2 explores a little, as in `evaluate`.
      trust_code: whether to run code that the run directory names or holds.

    Returns:
      The agent; `agent.act(observation)` chooses actions.

    Raises:
      ValueError: there is no such run or checkpoint, or `num_envs` is less than 1; one sentence.
      ImportError: TensorFlow or the environment's package is not installed.
    """
    if num_envs is not None and num_envs < 1:
        raise UsageError(
            f"num_envs={num_envs} is too low; it must be at least 1, or None for one environment."
        )
    run = run if isinstance(run, Run) else Run(run, trust_code)
    with _unchanged(), quiet_start(), usage_errors():
        subject = load_subject(str(run.logdir), checkpoint, PlayConfig(trust_code=run._trust_code))
        from seed_rl.evaluation.agent import Agent

        parts = subject.probed.spaces(), subject.environment_config, subject.evaluation_env_id
        return Agent(subject.policy, *parts, num_envs, greedy)


@brief_usage_errors
def evaluate(
    run: str | os.PathLike[str] | Run,
    episodes: int | None = None,
    against: str | os.PathLike[str] | Run | None = None,
    **flags: Any,
) -> dict[str, Any]:
    """Plays episodes with a trained agent, as `seed_rl evaluate` does, and writes nothing.

    Args:
      run: a run directory, or what `train` returned.
      episodes: how many episodes to play; None: 200, or as many as end within `max_agent_steps`.
      against: another run of the same game of several players, or a checkpoint's path prefix. The agent
        plays one player, in turn each of them, and this opponent all others; None: the agent plays them all.
      **flags: the command's flags, such as `checkpoint="best"` or `greedy=True`.

    Returns:
      The results that the command writes as JSON, such as `mean_return`, `standard_error` and `returns`;
      `wins`, `draws`, `losses` and `score` against an opponent.

    Raises:
      ValueError: there is no such run or checkpoint, or a flag is wrong; one sentence.
      RuntimeError: no episode ended, because the environment failed or `max_agent_steps` are too few.
    """
    run = run if isinstance(run, Run) else Run(run, bool(flags.get("trust_code", False)))
    other = against and os.path.abspath(against)
    given = {"logdir": str(run.logdir), "episodes": episodes, "against": other}
    return _answer("evaluate", EvaluateConfig, flags, {"trust_code": run._trust_code} | flags | given)


@brief_usage_errors
def tournament(
    runs: Sequence[str | os.PathLike[str] | Run], episodes: int | None = None, **flags: Any
) -> dict[str, Any]:
    """Plays runs of a game of several players against each other, as `seed_rl tournament` does.

    Args:
      runs: run directories, what `train` returned, or path prefixes of checkpoints; at least two.
      episodes: how many games each pair plays; None: 200, or as many as end within `max_agent_steps`.
      **flags: the command's flags, such as `greedy=True`.

    Returns:
      The results that the command writes as JSON: `runs`, each with its `score`, and `scores`, where
      `scores[i][j]` is that of run i against run j.

    Raises:
      ValueError: there is no such run or checkpoint, they are of different games, or a flag is wrong.
      RuntimeError: a pair could not play its games, because the environment failed or none ended.
    """
    trust = all(isinstance(run, Run) and run._trust_code for run in runs)
    settings = {"trust_code": trust} | flags | {"episodes": episodes}
    return _answer("tournament", PlayConfig, flags, settings, list(map(os.path.abspath, runs)))


def _answer(
    command: str, config_class: type[Options], flags: dict[str, Any], settings: dict[str, Any], *args: Any
) -> dict[str, Any]:
    """The report of a process that evaluates and writes no files; raises what `evaluate` raises."""
    with usage_errors():
        if written := min(_WRITES & flags.keys(), default=None):
            raise UsageError(
                f"{command}() has no argument {written!r}; it takes the run first, and writes no files."
            )
        config, _ = parse_options([command, *_words(settings)], "", config_class)
    given = json.dumps([config.to_dict(), *args])
    child = Child("the process", [sys.executable, "-m", f"seed_rl.commands.{command}", given])
    try:
        child.start()
        while not child.reports() and child.poll() is None:
            time.sleep(_POLL_SECS)
        if not child.reports():
            raise RuntimeError(f"{command}() {describe_exit(child.poll() or 0)}; its output says why.")
        answer = json.loads(child.reports()[0])
    finally:
        child.kill()
    if "usage" in answer:
        raise UsageError(answer["usage"])
    if answer.keys() == {"failure"}:
        raise RuntimeError(answer["failure"])
    return answer


@contextlib.contextmanager
def _unchanged() -> Iterator[None]:
    """Restores what importing TensorFlow and seeding Keras change in the caller's process."""
    of_python, of_numpy, is_frozen = random.getstate(), np.random.get_state(), gc.get_freeze_count() > 0
    try:
        with warnings.catch_warnings():
            yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)
        if not is_frozen:
            gc.unfreeze()


def _words(flags: dict[str, Any]) -> list[str]:
    """The flags of a command."""
    return [f"--{name}={flag_text(name, value)}" for name, value in flags.items() if value is not None]


def _pickled(
    function: Callable[..., gymnasium.Env | VectorEnv], flags: Sequence[str]
) -> tuple[bytes, str, str, Probed]:
    """The contents of a function's file, its fingerprint, the suite for what it makes, and facts about that.

    Raises:
      UsageError: it makes no environment of Gymnasium or PettingZoo, or cannot be pickled.
    """
    with tempfile.NamedTemporaryFile() as file, usage_errors():
        content, fingerprint = contents(function)
        file.write(content)
        file.flush()
        words = [*expand_flagfiles(flags), f"--game={PICKLE}:{file.name}"]
        try:
            return content, fingerprint, "gym", _probed("gym", words)
        except HasPlayersError:
            return content, fingerprint, "pettingzoo", _probed("pettingzoo", words)


def _probed(suite: str, words: Sequence[str]) -> Probed:
    config_class = environments.suite(suite).config_class
    config, _ = parse_options([suite, *words], "", config_class, pass_through=True)
    return found(*probe([(suite, config.to_dict())]))
