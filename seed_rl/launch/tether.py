"""Becomes the given command, tied to the life of its parent: `python tether.py PARENT_PID COMMAND…`.

On Linux the kernel kills the command when its parent dies, even by SIGKILL. Elsewhere there is no such thing,
and the command just runs. Run as a script, so that nothing but the standard library is imported.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ties the process to its parent and replaces it by the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)  # The parent died before the tie held.
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
