"""End of a main, by itself and at the signals that stop it, each in a real process."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
DEADLINE_SECS = 60.0
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)

MAIN = """
import asyncio, atexit, contextlib, ctypes, os, signal, sys, threading, time
from seed_rl.flags.errors import UsageError, run_main
from seed_rl.signals import STOP_SIGNALS, StopSignals, last_resort

@contextlib.contextmanager
def stop_requests():
    with last_resort('twice'), (stop := StopSignals()).caught():
        yield stop

def hang():
    '''Native code that no signal ends: it locks a mutex twice.'''
    for signum in STOP_SIGNALS:  # It may come before the code is reached.
        signal.signal(signum, lambda *_: None)
    print("ready", flush=True)
    mutex = ctypes.create_string_buffer(256)
    for _ in range(2):
        ctypes.CDLL(None).pthread_mutex_lock(mutex)

def sleep():
    print("ready", flush=True)
    while True:  # In turns: Python handles a signal that comes just before a wait only after it.
        time.sleep(0.05)

async def sleep_in_a_loop():
    try:
        print("ready", flush=True)
        await asyncio.sleep(3600)
    finally:
        print("closed", flush=True)

def main(argv):
{body}

run_main(main)
"""

# Prepares signals in a process of its own: code between fork and exec would meet gRPC's handlers of forks.
STARTER = """
import os, signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # Even where the tests run under nohup.
{before}
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""

# Treatment of a process by a shell without a terminal before it starts it with `&`.
IGNORE = "for signum in (signal.SIGINT, signal.SIGTERM): signal.signal(signum, signal.SIG_IGN)"
BLOCK = "signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))"
NOHUP = "signal.signal(signal.SIGHUP, signal.SIG_IGN)"

needs_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux: a mutex may be made of zeros there"
)


class Main:
    """A process whose main has a body; it has reported that it is ready."""

    def __init__(self, body, before=""):
        indented = "\n".join(f"    {line}" for line in body.splitlines())
        self._process = subprocess.Popen(
            [sys.executable, "-c", STARTER.format(before=before), MAIN.format(body=indented)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        # Without a buffer: what it reads ahead would be missing in what `communicate` returns.
        output = self._process.stdout.fileno()
        assert b"".join(iter(lambda: os.read(output, 1) or b"\n", b"\n")) == b"ready"

    def signal(self, signum):
        self._process.send_signal(signum)

    def signal_until_the_end(self, signum):
        deadline = time.monotonic() + DEADLINE_SECS
        while True:
            self.signal(signum)
            try:
                return self._process.wait(0.1)
            except subprocess.TimeoutExpired:
                assert time.monotonic() < deadline

    def end(self):
        """(exit code, standard output after `ready`, standard error)"""
        output, error = self._process.communicate(timeout=DEADLINE_SECS)
        return self._process.returncode, output, error

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate(timeout=DEADLINE_SECS)


@pytest.fixture
def start():
    mains = []

    def start_main(*args):
        mains.append(Main(*args))
        return mains[-1]

    yield start_main
    for main in mains:
        main.close()


@pytest.mark.parametrize(
    ("body", "code", "output"),
    [
        ("raise UsageError('Turn it round.')", 2, r"seed_rl: error: Turn it round\.\n"),
        ("raise ValueError('broken')", 1, "Traceback.*ValueError: broken\n"),
        ("raise KeyboardInterrupt", 130, ""),
        ("return 7 if argv == ['-c'] else 1", 7, ""),
        ("pass", 0, ""),
    ],
)
def test_the_end_of_a_main(start, body, code, output):
    *ended, error = start(f"print('ready', flush=True)\n{body}").end()
    assert ended == [code, ""] and re.fullmatch(output, error, re.DOTALL)


STARTS = {
    "plain": ("sleep()", "", ""),
    "ignored": ("sleep()", IGNORE, ""),
    "blocked": ("sleep()", BLOCK, ""),
    "an event loop": ("asyncio.run(sleep_in_a_loop())", IGNORE, "closed\n"),
    "time to end": ("with last_resort('twice', 'late', 3600.0): sleep()", "", ""),
}


@pytest.mark.parametrize("signum", STOP_SIGNALS)
@pytest.mark.parametrize("how", STARTS)
def test_a_main_ends_however_it_was_started(start, how, signum):
    body, before, output = STARTS[how]
    main = start(body, before)
    main.signal(signum)
    assert main.end() == (128 + signum, output, "")


@pytest.mark.parametrize("context", ["contextlib.nullcontext()", "stop_requests()"])
def test_a_main_under_nohup_outlives_its_terminal(start, context):
    main = start(
        f"with {context}: os.kill(os.getpid(), signal.SIGHUP)\nprint('ready', flush=True)\nreturn 7", NOHUP
    )
    assert main.end() == (7, "", "")


@needs_linux
@pytest.mark.parametrize("signum", STOP_SIGNALS)
def test_a_main_that_hangs_ends_in_time_with_a_sentence(start, signum):
    main = start("with last_resort('twice', 'late', 0.3): hang()")
    main.signal(signum)
    assert main.end() == (128 + signum, "", "seed_rl: late\n")


# Standard error may be elsewhere by the time of the message.
ELSEWHERE = "with stop_requests():\n    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)\n    sleep()"


@needs_linux
@pytest.mark.parametrize(
    "body", ["with last_resort('twice', 'late'): hang()", "with stop_requests(): hang()", ELSEWHERE]
)
def test_a_second_signal_ends_a_main_that_hangs(start, body):
    main = start(body)
    main.signal_until_the_end(signal.SIGINT)
    assert main.end() == (128 + signal.SIGINT, "", "seed_rl: twice\n")


# Makes a SIGTERM come after main has returned 15. The thread repeats it: it starts when the main thread is
# about to wait, and Python handles a signal that comes just before a wait only after it.
AFTER_MAIN = {
    "while threads end": """
def wait():
    threading.main_thread().join()
    while True:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
threading.Thread(target=wait).start()
""",
    "in an exit function": "atexit.register(os.kill, os.getpid(), signal.SIGTERM)",
    # Libraries such as TensorFlow end after Python has put its signal handlers back.
    "in an exit function of C": """
libc = ctypes.CDLL(None)
libc.on_exit(getattr(libc, "raise"), None)  # It gets the exit code.
""",
}


@needs_linux
@pytest.mark.parametrize("when", AFTER_MAIN)
def test_a_signal_after_main_has_returned_leaves_its_exit_code(start, when):
    main = start(f"print('ready', flush=True)\n{AFTER_MAIN[when].strip()}\nreturn 15")
    assert main.end() == (15, "", "")


IGNORED = """class Import:
    def __del__(self): os.kill(os.getpid(), signal.SIGTERM)
one = Import(); del one  # Python ignores exceptions here.
with stop_requests() as stop:
    print('ready', flush=True)
    assert stop.is_set()
return stop.exit_code"""


def test_a_signal_whose_interrupt_was_ignored_still_asks_for_a_stop(start):
    code, output, errors = start(IGNORED).end()
    assert (code, output) == (128 + signal.SIGTERM, "") and "Exception ignored" in errors


@pytest.mark.parametrize("signum", STOP_SIGNALS)
def test_the_first_signal_asks_for_a_stop_and_signals_that_come_together_are_one(start, signum):
    main = start(
        "with stop_requests() as stop:\n"
        "    assert not stop.is_set() and stop.exit_code == 0\n"
        f"    for _ in range(3): os.kill(os.getpid(), {int(signum)})\n"
        "    print('ready', flush=True)\n"
        "    assert stop.is_set()\n"
        "return stop.exit_code"
    )
    assert main.end() == (128 + signum, "", "")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
def test_a_forked_child_ends_at_a_signal_and_its_parent_plays_on(start, signum):
    main = start(
        "print('ready', flush=True)\n"
        "with last_resort('twice', 'late', 0.0):\n"
        "    reader, writer = os.pipe()\n"
        "    child = os.fork()\n"
        "    if not child:\n"
        "        os.write(writer, b'x')\n"
        "        while True: signal.pause()\n"
        "    os.read(reader, 1)\n"
        f"    os.kill(child, {int(signum)})\n"
        "    status = os.waitpid(child, 0)[1]\n"
        "    watch = next(t for t in threading.enumerate() if t.name == 'last-resort')\n"
        "watch.join()\n"
        "print(os.WTERMSIG(status))"
    )
    assert main.end() == (0, f"{int(signum)}\n", "")
