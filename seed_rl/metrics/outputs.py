"""Outputs of a run that may fail: a warning for each, and an error for those that must not be lost."""

import concurrent.futures
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from seed_rl.messages import reason, warn

ResultT = TypeVar("ResultT")


class UnsavedError(Exception):
    """A run ended but could not write its last checkpoint or its policy; the message is for the user."""


class Guard:
    """Calls the outputs of a run. A failure causes one warning per output, and never an exception."""

    def __init__(self, say: Callable[[str], object] = warn):
        """Starts with every output assumed to work; `say` shows a warning."""
        self._say = say
        self._warned: set[str] = set()
        self._lost: set[str] = set()

    def call(
        self, output: str, function: Callable[..., ResultT], *args: Any, seconds: float | None = None
    ) -> ResultT | None:
        """Calls `function(*args)`, which writes to an output, and returns its result; None if it fails.

        An output that takes more than `seconds`, if that is given, is not called again: it may still be busy.
        """
        if output in self._lost:
            return None
        try:
            return function(*args) if seconds is None else self._within(seconds, output, function, *args)
        except (Exception, SystemExit) as error:
            if output not in self._warned:
                self._warned.add(output)
                self._say(f"{output} cannot be written ({reason(error)}); training continues without it.")
            return None

    def _within(self, seconds: float, output: str, function: Callable[..., ResultT], *args: Any) -> ResultT:
        """Calls a function in a thread, and waits for this long at most; TimeoutError without a result."""
        result: concurrent.futures.Future[ResultT] = concurrent.futures.Future()

        def run() -> None:
            try:
                open(os.devnull).close()  # If that fails, TensorFlow in a new thread would end the process.
                result.set_result(function(*args))
            except BaseException as error:
                result.set_exception(error)

        threading.Thread(target=run, daemon=True, name="output").start()
        if not concurrent.futures.wait([result], seconds).done:
            self._lost.add(output)
            raise TimeoutError(f"it takes more than {seconds:g} s")
        return result.result()
