"""An actor process on the board of a learner, as a test sees it."""

import time

from seed_rl.wire.board import LOOK
from seed_rl.wire.board_link import BoardLink
from seed_rl.wire.client import make_hello
from seed_rl.wire.codec import ActionCodec, StepCodec
from tests.serving.harness import DEADLINE_SECS, SPEC, of_catch, step_of


class OnBoard:
    """A process with memory, and a stream, for each group of environments: (first_env, num_envs)."""

    def __init__(self, harness, *groups, run_id=1, says_hello=True, **changes):
        self._harness, self._run_id = harness, run_id
        self._connection = harness.connect()
        self.board = self._connection.check(of_catch(), DEADLINE_SECS).board
        self.link = BoardLink(self.board, SPEC, [num_envs for _, num_envs in groups])
        self._unread = []
        hellos = enumerate(groups) if says_hello else ()
        self.streams = [self.open(number, *group, **changes) for number, group in hellos]

    def open(self, number, first_env, num_envs, **changes):
        """A stream that has said hello; `changes` to its place on the board."""
        place = self.link.place(number)
        for name, value in changes.items():
            setattr(place, name, value)
        hello = make_hello(
            of_catch(), run_id=self._run_id, task=0, first_env=first_env, num_envs=num_envs, board=place
        )
        (stream,) = self._connection.open_all(of_catch(), [hello], DEADLINE_SECS)
        self._harness.to_close(stream.close)
        return stream

    def step(self, *numbers, stream=0, done=True, episodes=()):
        """Writes a step and rings."""
        self.write(*numbers, stream=stream, done=done)
        if episodes:
            self.link.parts[stream].write_episodes(episodes, episodes[0].env)
        self.link.ring(stream, bool(episodes))

    def write(self, *numbers, stream=0, done=True):
        self.link.parts[stream].records[:] = StepCodec(SPEC).encode(step_of(*numbers, done=done))

    def answer(self, stream=0):
        """Waits for the learner's ring, and returns the actions; LOOK if that came."""
        ring = self.wait_for(stream, LOOK)
        return LOOK if ring == LOOK else self.actions(stream)

    def actions(self, stream=0):
        return ActionCodec(SPEC.action).decode(bytes(self.link.parts[stream].actions)).tolist()

    def ask(self, *numbers, stream=0, done=True, episodes=()):
        self.step(*numbers, stream=stream, done=done, episodes=episodes)
        return self.answer(stream)

    def wait_for(self, *rings):
        """Waits for one of these rings, and returns it; leaves others to later calls."""
        deadline = time.monotonic() + DEADLINE_SECS
        while not (found := [ring for ring in self._unread if ring in rings]):
            assert time.monotonic() < deadline, f"waited for rings {rings}; unread are {self._unread}"
            self._unread += self.link.wait(0.1)
        self._unread.remove(found[0])
        return found[0]

    def unread(self):
        """All rings that have come."""
        self._unread += self.link.rings()
        return list(self._unread)
