import platform
import subprocess
import sys

import pytest

# Page faults of 100 times 16 messages of 256 KiB (64 pages each), freed before the next 16.
FAULTS = """
import resource
from seed_rl.actor.memory import keep_freed_memory

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
