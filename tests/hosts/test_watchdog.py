"""A process that hangs in a call that holds Python's lock is ended all the same."""

import subprocess
import sys

CODE = """
import ctypes, sys
from seed_rl.hosts.watchdog import ended_after
with ended_after(float(sys.argv[1]), "It hangs.", 2):
    ctypes.PyDLL(None).usleep(int(sys.argv[2]))  # PyDLL keeps the lock.
print("done")
"""


def run(seconds, microseconds):
    command = [sys.executable, "-c", CODE, str(seconds), str(microseconds)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def test_a_call_that_hangs_is_ended():
    found = run(0.3, 60_000_000)
    assert (found.returncode, found.stdout, found.stderr) == (-9, "", "seed_rl: error: It hangs.\n")


def test_a_call_in_time_is_not():
    found = run(100, 1)
    assert (found.returncode, found.stdout, found.stderr) == (0, "done\n", "")
