"""How an actor's steps reach the learner: as messages, or through memory that both share. No TensorFlow."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Any

from seed_rl.actor.group import Group
from seed_rl.types import EnvironmentSpec
from seed_rl.wire.board import LOOK
from seed_rl.wire.board_link import BoardLink, NoBoardError
from seed_rl.wire.client import LearnerGoneError, RefusedError, Stream
from seed_rl.wire.generated import inference_pb2 as pb

_log = logging.getLogger(__name__)

# How often signals and streams get their turn while actions keep coming, or do not.
_TURN_SECS = 0.1

# How long the reason for the end of a stream may take after the ring that announces it.
_REASON_SECS = 10.0


def open_link(
    transport: str, board: pb.Board, spec: EnvironmentSpec, num_envs: Sequence[int]
) -> BoardLink | None:
    """The link to the learner's board; None if steps are sent as messages.

    Args:
      transport: auto, grpc or shared_memory.
      board: what the learner offers.
      spec: of the environments.
      num_envs: environments of each of the actor's streams.

    Raises:
      RefusedError: shared memory is demanded and cannot be had.
    """
    if transport == "grpc":
        return None
    try:
        return BoardLink(board, spec, num_envs)
    except NoBoardError as error:
        if transport == "shared_memory":
            raise RefusedError(
                f"This actor cannot share memory with the learner ({error}); use --transport=auto."
            ) from None
        _log.info("Steps are sent as messages: no shared memory, %s.", error)
        return None


async def play_with_messages(groups: Sequence[Group], streams: Sequence[Stream]) -> None:
    """Plays all groups until one of them finds that training has ended, or fails.

    Raises:
      RefusedError: the learner ended a stream for good.
      LearnerGoneError: the connection is lost.
    """
    tasks = [asyncio.create_task(group.play(stream)) for group, stream in zip(groups, streams, strict=True)]
    try:
        ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await ended.pop()
    finally:
        await _cancel(tasks)


async def play_on_board(groups: Sequence[Group], streams: Sequence[Stream], link: BoardLink) -> None:
    """Does the same through shared memory. Waits for rings itself: an event loop takes longer to wake up.

    Raises:
      RefusedError: the learner ended a stream for good.
      LearnerGoneError: the connection is lost.
    """
    ends = [asyncio.create_task(stream.receive()) for stream in streams]
    try:
        for number, group in enumerate(groups):
            group.move_to(link.parts[number])
            link.ring(number)
        turn = time.monotonic() + _TURN_SECS
        while True:
            rings = link.wait(_TURN_SECS)
            if LOOK in rings:
                await asyncio.wait(ends, timeout=_REASON_SECS, return_when=asyncio.FIRST_COMPLETED)
            else:
                for number in rings:
                    link.ring(number, groups[number].step(link.parts[number]))
                if (now := time.monotonic()) < turn:
                    continue
                turn = now + _TURN_SECS
                await asyncio.sleep(0)
            for end in ends:
                if end.done():
                    await end
                    return
            if LOOK in rings:
                raise LearnerGoneError("the learner closed its end of the shared memory")
    finally:
        await _cancel(ends)


async def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
