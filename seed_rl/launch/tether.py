"""Runs the given command, tied to the lifetime of its parent: `python tether.py PARENT_PID COMMAND…`.

On Linux the kernel kills the command when its parent dies, even by SIGKILL. Other systems have no such
mechanism, and the command just runs. This is run as a script, to import nothing but the standard library.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ties the process to its parent and replaces it with the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)  # The parent died before this took effect.
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
