"""The limit on this process's open files and connections."""

import contextlib
import resource

# Enough for more actors than one learner can serve. Containers often allow a billion, and some libraries
# spend time on every descriptor that is allowed.
_ENOUGH = 1 << 16


def raise_descriptor_limit() -> None:
    """Raises this process's limit on file descriptors as far as it can without privileges, up to 65,536.

    A learner needs one per actor, and many systems allow 1,024 unless a process asks for more.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if wanted > soft:
        with contextlib.suppress(ValueError, OSError):  # macOS allows fewer than it reports.
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
