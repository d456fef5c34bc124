"""How many files and connections this process may have open."""

import contextlib
import resource

# More actors than one learner can serve. Containers often allow a billion, and some libraries take time for
# each descriptor that there may be.
_ENOUGH = 1 << 16


def raise_descriptor_limit() -> None:
    """Allows this process as many file descriptors as it can have without privileges, up to 65,536.

    Each actor costs a learner one; many systems allow 1,024 unless a process asks for more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if wanted > soft:
        with contextlib.suppress(ValueError, OSError):  # macOS allows less than it says.
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
