"""Watchdog for blocking calls and stalled updates. No TensorFlow."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from seed_rl.wire.hosts import LearnerHosts

# Waits until its standard input ends; if that takes too long, logs the reason and kills the process.
_WATCH = """
import os, select, signal, sys
pid, seconds, sentence = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
if not select.select([sys.stdin], [], [], seconds)[0]:
    os.write(2, f"seed_rl: error: {sentence}\\n".encode())
    os.kill(pid, signal.SIGKILL)
"""


class HostsDisagreeError(ValueError):
    """The learner hosts cannot start together; the message is one sentence."""


class HostLostError(RuntimeError):
    """A learner host is lost, has failed, or does not take part; the message names it."""


@contextlib.contextmanager
def ended_after(seconds: float, sentence: str, stderr: int) -> Iterator[None]:
    """Kills this process if what is inside takes longer; needed only where a thread could not.

    The sentence is written to the file descriptor `stderr` then.
    """
    command = [sys.executable, "-c", _WATCH, str(os.getpid()), str(seconds), sentence]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=stderr) as watch:
        assert watch.stdin is not None
        try:
            yield
        finally:
            watch.stdin.close()


def hanging_update(progress: Mapping[int, Mapping[str, Any]], hosts: LearnerHosts, seconds: float) -> str:
    """A sentence if an update hangs, because a host does not join it or the reduction does not end.

    An update may take so many seconds. `progress` has, by host, the number of updates it has `joined`, and
    how long it has been `waiting` in the last one, in seconds, or 0.
    """
    if max(p["waiting"] for p in progress.values()) <= seconds:
        return ""
    last = max(p["joined"] for p in progress.values())
    if late := [hosts.name(i) for i, p in sorted(progress.items()) if p["joined"] < last]:
        return (
            f"{', '.join(late)} did not join an update within {seconds:g} s; look at its output, or raise "
            "--host_timeout_secs if it was saving a checkpoint."
        )
    return (
        f"An update of the {hosts.count} learner hosts did not end within {seconds:g} s; check the network "
        "between them, or raise --host_timeout_secs."
    )
