"""Children of tests, each given as Python code, and whether processes run."""

import sys

import psutil

# Each start writes the process id into a file of its own.
_BEGIN = """
import os, signal, subprocess, sys, time
from pathlib import Path
here, name = Path({here!r}), {name!r}
starts = len(list(here.glob(name + ".start.*"))) + 1
part = here / (name + ".part")
part.write_text(str(os.getpid()))
part.rename(here / f"{{name}}.start.{{starts}}")
def mark(what):  # Adds a line to a file.
    with open(here / f"{{name}}.{{what}}", "a") as file:
        print("x", file=file, flush=True)
def on_sigterm(handler):
    signal.signal(signal.SIGTERM, handler)
def for_ever():
    while True:  # In turns: Python handles a signal that comes just before a wait only after it.
        time.sleep(0.05)
"""


def command(here, name, code):
    """The command of a child whose files are in the directory `here`."""
    return [sys.executable, "-c", f"{_BEGIN.format(here=str(here), name=name)}{code}"]


def alive(pid):
    """Whether a process runs (a zombie does not)."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False
