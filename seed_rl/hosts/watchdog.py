"""Ends this process if a call takes too long that lets no other Python thread run. No TensorFlow."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

# Waits until its standard input ends; if that takes too long, says why and kills the process.
_WATCH = """
import os, select, signal, sys
pid, seconds, sentence = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
if not select.select([sys.stdin], [], [], seconds)[0]:
    os.write(2, f"seed_rl: error: {sentence}\\n".encode())
    os.kill(pid, signal.SIGKILL)
"""


@contextlib.contextmanager
def ended_after(seconds: float, sentence: str, stderr: int) -> Iterator[None]:
    """Kills this process if what is inside takes longer; needed only where a thread could not.

    Args:
      seconds: the limit.
      sentence: what is said then.
      stderr: the file descriptor that it is written to.
    """
    command = [sys.executable, "-c", _WATCH, str(os.getpid()), str(seconds), sentence]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=stderr) as watch:
        assert watch.stdin is not None
        try:
            yield
        finally:
            watch.stdin.close()
