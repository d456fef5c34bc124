"""Environments that use asyncio as in a plain script, and an actor process that plays them to the end.

python -m tests.actor.event_loops KIND ADDRESS TRANSPORT
"""

import asyncio
import signal
import sys

from seed_rl.actor.actor_config import ActorConfig
from seed_rl.actor.loop import Actor
from seed_rl.environments.base import Suite
from seed_rl.environments.failures import FailureConfig
from tests.actor.counting import Counting, CountingConfig


async def _ask():
    await asyncio.sleep(0)


class Asking(Counting):
    """Asks in one of its methods, or in all."""

    def __init__(self, method, ask):
        super().__init__()
        self._method, self._ask = method, ask
        self._maybe_ask("make")

    def _maybe_ask(self, method):
        if self._method in (method, "all"):
            self._ask()

    def reset(self, *, seed=None, options=None):
        self._maybe_ask("reset")
        return super().reset(seed=seed, options=options)

    def step(self, action):
        self._maybe_ask("step")
        return super().step(action)

    def close(self):
        self._maybe_ask("close")
        print("closed")


def _run():
    asyncio.run(_ask())


def _run_new_loop():
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    loop.run_until_complete(_ask())
    loop.close()


def _run_the_threads_loop():
    asyncio.get_event_loop().run_until_complete(_ask())


def _use_signals():
    """As a subprocess or a loop with a signal handler does: only the main thread may."""
    signal.set_wakeup_fd(signal.set_wakeup_fd(-1))


def _refuse_a_running_loop():
    """As the synchronous interface of Playwright does."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise AssertionError("a loop is running")


class _Kept:
    """A runner that is kept between calls."""

    def __init__(self):
        self._runner = asyncio.Runner()

    def __call__(self):
        self._runner.run(_ask())


# The method that asks, and what makes the function with which it asks.
KINDS = {
    "run in make": ("make", lambda: _run),
    "run in reset": ("reset", lambda: _run),
    "run in step": ("step", lambda: _run),
    "run in close": ("close", lambda: _run),
    "run in all": ("all", lambda: _run),
    "a new loop": ("all", lambda: _run_new_loop),
    "the thread's loop": ("all", lambda: _run_the_threads_loop),
    "a runner": ("all", _Kept),
    "signals": ("all", lambda: _use_signals),
    "no loop may run": ("all", lambda: _refuse_a_running_loop),
}


def main(kind, address, transport):
    """Plays two environments until training has ended; a failure of one ends the process with an error."""
    method, make = KINDS[kind]
    suite = Suite(CountingConfig, lambda config, seed: Asking(method, make()))
    none_may_fail = FailureConfig(max_environment_failures=0)
    actor = Actor(
        ActorConfig(address, env_batch_size=2, transport=transport, failures=none_may_fail),
        suites=lambda name: suite,
    )
    try:
        actor.run()
    finally:
        actor.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
