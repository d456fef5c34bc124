"""Environment probe: makes environments in a process of its own, and reports their specs and spaces.

Environments are the user's code. Whatever they do to signals, the directory, threads, output or exit codes
ends with that process.
"""

import base64
import contextlib
import os
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from seed_rl.environments import registry as environments
from seed_rl.environments.failures import FailureConfig, own_traceback
from seed_rl.environments.games import HasPlayersError
from seed_rl.environments.making import Probed, ProbeError, examine
from seed_rl.launch.child import ACTOR_ENV, Child
from seed_rl.messages import report_to_launcher, warn

_POLL_SECS = 0.02
_SEED = 1
_WARNING = "seed_rl: warning: "
# Besides the time limit of the environment, for the imports.
_SPARE_SECS = 30.0


class Probe:
    """A process that makes one environment of each of several settings; started at once, ended by `close`."""

    def __init__(
        self,
        requests: Sequence[tuple[str, Mapping[str, Any]]],
        tolerance: FailureConfig = FailureConfig(),  # noqa: B008 (immutable)
        resolving: Callable[[], Any] | None = None,
    ):
        """Starts to make one environment for each suite's name and its settings.

        `resolving` is called there before, and has the first answer: `flags.settings.Settings`, whose
        environment is made as well.
        """
        self._timeout_secs = tolerance.env_step_timeout_secs
        self._size = len(requests) + (2 if resolving else 0)
        wanted = base64.b64encode(pickle.dumps((requests, tolerance, resolving))).decode()
        self._directory = tempfile.TemporaryDirectory(prefix="seed_rl_")
        command = [sys.executable, "-m", "seed_rl.launch.probe", wanted]
        log = Path(self._directory.name) / "output"
        self._child = Child("the process that makes an environment", command, log, ACTOR_ENV)
        self._child.start()

    def answers(self, stopping: Callable[[], bool] = lambda: False, most: int | None = None) -> list[Any]:
        """The answers, or the first `most`; waits for them, but no longer than until `stopping`.

        They are `Probed` for each environment. Those that are missing, because the process has ended or takes
        too long, are errors (`ProbeError`).
        """
        size = self._size if most is None else most
        wait_secs = self._timeout_secs + _SPARE_SECS if self._timeout_secs else float("inf")
        problem = ""
        while not problem and len(self._child.reports()) < size:
            if stopping():
                problem = "The environment was not made, since this process was asked to stop."
            elif (code := self._child.poll()) is not None and len(self._child.reports()) < size:
                why = self._child.last_line() or "it printed nothing"
                problem = f"The environment ended its process while it was made (exit code {code}; {why})."
            elif self._child.seconds > wait_secs:
                problem = (
                    f"The environment was not made within {self._timeout_secs:g} s; fix it, or raise "
                    "--env_step_timeout_secs."
                )
            else:
                time.sleep(_POLL_SECS)
        made = [pickle.loads(base64.b64decode(line)) for line in self._child.reports()]
        return (made + [ProbeError(problem)] * (size - len(made)))[:size]

    def warn(self) -> None:
        """Repeats the warnings of ours that making the environments has caused."""
        assert self._child.log is not None
        for line in self._child.log.read_text(errors="replace").splitlines():
            if line.startswith(_WARNING):
                warn(line.removeprefix(_WARNING))

    def close(self) -> None:
        """Ends the process and all that the environments have started."""
        self._child.kill()
        self._directory.cleanup()


def probe(requests: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Probed | ProbeError]:
    """The answers of a `Probe`."""
    with contextlib.closing(Probe(requests)) as process:
        return process.answers()


def found(answer: Any) -> Any:
    """The facts in an answer.

    Raises:
      ProbeError: there are none.
      HasPlayersError: the environment has several players, and its suite is for one.
    """
    if isinstance(answer, ProbeError | HasPlayersError):
        raise answer
    return answer


def _main(argv: list[str]) -> NoReturn:
    """Makes the environments and reports them."""
    requests, tolerance, resolving = pickle.loads(base64.b64decode(argv[1]))
    for answer in _answered(requests, tolerance, resolving):
        report_to_launcher(base64.b64encode(pickle.dumps(answer)))
    sys.stderr.flush()
    os._exit(0)  # Threads and exit handlers of environments do not matter.


def _answered(
    requests: Sequence[tuple[str, Mapping[str, Any]]],
    tolerance: FailureConfig,
    resolving: Callable[[], Any] | None,
) -> Iterator[Any]:
    if resolving:
        try:
            settings = resolving()
        except (ValueError, ImportError) as error:
            yield ProbeError(str(error))
            return
        yield settings
        requests = [(settings.environment, settings.environment_settings), *requests]
    for name, settings in requests:
        try:
            suite = environments.suite(name)
            yield examine(suite, suite.config_class.of(**settings), _SEED, tolerance)
        except HasPlayersError as error:
            yield error
        except (ValueError, ImportError) as error:
            answer = ProbeError(str(error))
            if error.__cause__ and (shown := own_traceback(error.__cause__)):
                answer.add_note("".join(shown.format()))
            yield answer


if __name__ == "__main__":
    _main(sys.argv)
