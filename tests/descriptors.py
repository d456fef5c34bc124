"""File descriptors that code opens and closes."""

import json
import subprocess
import sys

_COUNTING = """
import json, os
count = lambda: len(os.listdir("/proc/self/fd"))
found = []
for statement in {statements}:
    exec(statement)
    found.append(count())
print(json.dumps(found))
"""


def descriptors_after(*statements):
    """Numbers of descriptors after each statement, less that after the first, which should import.

    It is another process, because threads of this one may open and close some of their own at any time.
    """
    code = _COUNTING.format(statements=list(statements))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    first, *others = json.loads(done.stdout)
    return [number - first for number in others]
