"""Messages of an actor process without the resources that it needs."""

import errno
import os
import platform
import resource
import subprocess
import sys

import pytest

from seed_rl.flags.errors import UsageError
from seed_rl.launch.actor_process import _within_limits

MANY = 1 << 20


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [
        (resource.RLIMIT_NOFILE, 8, "Too many open files"),
        (resource.RLIMIT_NOFILE, 16, "Too many open files"),
        (resource.RLIMIT_AS, 250 * MANY, "Cannot allocate memory"),
        (resource.RLIMIT_AS, 500 * MANY, "Cannot allocate memory"),
    ],
)
def test_limits_that_are_too_low_are_one_sentence(tmp_path, limit, value, words):
    actor = subprocess.run(
        [sys.executable, "-m", "seed_rl", "actor", f"--server_address=unix:{tmp_path}/s"],
        preexec_fn=lambda: resource.setrlimit(limit, (value, value)),
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert actor.returncode == 2, actor.stderr
    assert words in actor.stderr and "raise its limits of open files (ulimit -n)" in actor.stderr
    assert "Traceback" not in actor.stderr


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, None, errno.ENOENT])
def test_what_uses_up_files_or_memory_later_is_one_sentence_too(number):
    error = OSError(number, os.strerror(number)) if number else MemoryError("Unable to allocate 8 GiB")
    with pytest.raises(type(error) if number == errno.ENOENT else UsageError) as caught, _within_limits():
        raise error
    assert (caught.value is error) == (number == errno.ENOENT)
    assert error.args[-1] in str(caught.value)


# Page faults of 100 times 16 messages of 256 KiB (64 pages each), freed before the next 16.
FAULTS = """
import resource
from seed_rl.launch.actor_process import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(100):
        messages = [bytearray(256 << 10) for _ in range(16)]
        for message in messages:
            message[::4096] = bytes(64)
        del messages, message
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

freed = faults()
assert keep_freed_memory()
print(freed, faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="The C library is not glibc.")
def test_messages_reuse_memory():
    output = subprocess.check_output([sys.executable, "-c", FAULTS], text=True, timeout=60)
    freed, kept = map(int, output.split())
    assert freed > 50_000
    assert kept < 5_000
