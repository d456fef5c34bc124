"""Checks the files that a command will write, before it does any work."""

import contextlib
import os
import tempfile
from pathlib import Path

from seed_rl.flags.errors import UsageError


def check_output(path: Path, flag: str, overwrite: bool) -> None:
    """Checks that the file that a flag names can be written; its directory need not exist. Leaves nothing.

    Raises:
      UsageError: the file already exists, or cannot be written.
    """
    if os.path.isdir(path):
        raise UsageError(f"--{flag}={path} is a directory; name a file.")
    if os.path.exists(path) and not overwrite:
        raise UsageError(f"{path} already exists; add --overwrite, or name another file with --{flag}.")
    directory = next(parent for parent in path.absolute().parents if os.path.exists(parent))
    try:
        with contextlib.suppress(FileNotFoundError):
            os.lstat(path)  # The name may be too long.
        with tempfile.TemporaryFile(dir=directory):
            pass
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written ({directory}: {error.strerror}); name another file with --{flag}."
        ) from None
