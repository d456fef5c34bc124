"""Steps through shared memory: what may be asked of the board, and what ends a stream or a connection."""

import os
import threading

import grpc
import numpy as np
import pytest

from seed_rl.wire.board import EPISODES, LOOK, MOST_STREAMS, RING
from seed_rl.wire.board_link import NoBoardError
from seed_rl.wire.client import LearnerGoneError, RefusedError, make_hello
from seed_rl.wire.generated import inference_pb2 as pb
from tests.serving.harness import DEADLINE_SECS, ask, of_catch, status, step_of
from tests.serving.on_board import OnBoard
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs Linux: no board elsewhere")


def message(*numbers):
    """A step as `send` takes it."""
    return step_of(*numbers), []


def end_of(stream):
    """What a stream's actor learns at its end."""
    with pytest.raises((RefusedError, LearnerGoneError)) as caught:
        stream.receive()
    return f"{caught.type.__name__}: {caught.value}"


def test_steps_get_their_own_actions(board):
    actor = OnBoard(board, (0, 2), (4, 3))
    actor.step(1, 2, stream=0)
    actor.step(3, 4, 5, stream=1)
    assert actor.answer(0) == [1, 2]
    assert actor.answer(1) == [3, 4, 5]
    assert actor.ask(6, 7, done=False) == [6, 7]
    assert [lease.first_env for lease in board.leases] == [0, 4]
    assert actor.unread() == []


def test_actors_with_and_without_the_board_share_batches(board):
    board.answering.clear()
    with_messages, on_board = board.join(run_id=1), OnBoard(board, (2, 2), run_id=2)
    on_board.step(3, 4)
    with_messages.send(*message(1, 2))
    board.answering.set()
    assert with_messages.receive().tolist() == [1, 2]
    assert on_board.answer() == [3, 4]


def test_episodes_are_handed_on_once_they_are_answered(board):
    actor = OnBoard(board, (2, 2))
    board.answering.clear()
    actor.step(1, 2, episodes=[pb.Episode(env=2, episode_return=3.5, agent_steps=7)])
    wait_until(lambda: board.taken, "the step to arrive", DEADLINE_SECS)
    assert board.episodes == []
    board.answering.set()
    assert actor.answer() == [1, 2]
    assert actor.ask(3, 4, done=False) == [3, 4]  # Without the mark, the episodes are not read again.
    (episode,) = board.episodes
    assert (episode.env, episode.episode_return, episode.agent_steps) == (2, 3.5, 7)


BAD_EPISODES = {
    "infinite": ({"episode_return": np.inf, "agent_steps": 1}, "is NaN or infinite; fix the environment"),
    "negative": ({"episode_return": 1.0, "agent_steps": -5}, "-5"),
}


@pytest.mark.parametrize(("episode", "words"), BAD_EPISODES.values(), ids=BAD_EPISODES)
def test_bad_episodes_end_their_stream(board, episode, words):
    actor = OnBoard(board, (2, 2))
    actor.step(1, 2, episodes=[pb.Episode(env=2, **episode)])
    sentence = end_of(actor.streams[0])
    assert sentence.startswith("RefusedError") and words in sentence
    assert actor.answer() == LOOK
    assert board.episodes == []


def test_a_refused_step_ends_its_stream_and_no_other(board):
    actor = OnBoard(board, (0, 2), (2, 2))
    assert actor.ask(1, 2, stream=1) == [1, 2]
    assert actor.ask(-1, 2) == LOOK
    assert "Minus one." in end_of(actor.streams[0])
    assert actor.ask(3, 4, stream=1, done=False) == [3, 4]
    assert OnBoard(board, (0, 2), run_id=2).ask(5, 6) == [5, 6]  # Its place is free again.


def test_a_second_ring_before_the_answer_ends_the_stream_and_no_other(board):
    actor = OnBoard(board, (0, 2), (2, 2))
    board.answering.clear()
    actor.step(1, 2)
    actor.step(3, 4)
    assert "A step came before the last one was answered; wait for its ring." in end_of(actor.streams[0])
    board.answering.set()
    actor.wait_for(LOOK)
    assert actor.ask(5, 6, stream=1) == [5, 6]


def test_rings_for_nobody_are_ignored(board):
    actor = OnBoard(board, (0, 2))
    for number in (7, MOST_STREAMS, EPISODES | 9, LOOK):
        actor.link._link.send(RING.pack(number))
    assert actor.ask(1, 2) == [1, 2]
    assert actor.unread() == []


def test_rings_may_come_in_pieces_and_in_bundles(board):
    actor = OnBoard(board, (0, 2), (2, 2))
    actor.write(1, 2)
    actor.write(3, 4, stream=1)
    both = RING.pack(0) + RING.pack(1)
    for piece in (both[:3], both[3:6], both[6:]):
        actor.link._link.send(piece)
    assert [actor.answer(0), actor.answer(1)] == [[1, 2], [3, 4]]


def test_a_message_on_a_stream_of_the_board_is_refused(board):
    actor = OnBoard(board, (0, 2))
    actor.streams[0].send(*message(1, 2))
    assert "After the hello, steps of this stream go to the board." in end_of(actor.streams[0])
    assert actor.answer() == LOOK


PLACES = {
    "beyond the end": ({"offset": 1 << 20}, "use offsets that are multiples of 64"),
    "across the end": ({"offset": 64}, "cannot have bytes 64 to 128 of the actor's 64"),
    "unaligned": ({"offset": 8}, "cannot have bytes 8 to 72"),
    "too large a number": ({"stream": MOST_STREAMS}, f"numbers below {MOST_STREAMS}"),
}


@pytest.mark.parametrize(("place", "words"), PLACES.values(), ids=PLACES)
def test_a_part_that_a_stream_cannot_have_is_refused(board, place, words):
    actor = OnBoard(board, (0, 2), **place)
    sentence = end_of(actor.streams[0])
    assert sentence.startswith("RefusedError") and words in sentence
    assert OnBoard(board, (0, 2), run_id=2).ask(1, 2) == [1, 2]


def test_a_number_belongs_to_one_stream_of_a_connection(board):
    actor = OnBoard(board, (0, 2), (2, 2))
    words = "Another stream of this connection to the board has number 1, or had it; give each its own."
    assert words in end_of(actor.open(0, 4, 2, stream=1))
    actor.streams[1].close()
    actor.wait_for(LOOK)
    assert words in end_of(actor.open(1, 2, 2))
    assert actor.ask(1, 2) == [1, 2]


def test_a_connection_that_the_learner_does_not_know_is_gone(board):
    actor = OnBoard(board, (0, 2), connection=1)
    assert "UNAVAILABLE: The connection to the board has ended; connect again." in end_of(actor.streams[0])


def test_a_learner_without_a_board_asks_the_actor_to_come_again(harness):
    connection = harness.connect()
    assert not connection.check(of_catch(), DEADLINE_SECS).HasField("board")
    hello = make_hello(of_catch(), run_id=1, task=0, first_env=0, num_envs=2, board=pb.BoardPart())
    code, sentence = status(harness.raw_call(pb.ActRequest(hello=hello).SerializeToString()))
    assert (code, sentence) == (grpc.StatusCode.UNAVAILABLE, "The learner has no board; connect again.")


def test_the_end_of_the_socket_ends_its_streams_and_frees_their_environments(board):
    actor = OnBoard(board, (0, 2), (2, 2))
    assert actor.ask(1, 2) == [1, 2]
    actor.link.close()
    for stream in actor.streams:
        assert "UNAVAILABLE: The connection to the board has ended" in end_of(stream)
    other = OnBoard(board, (0, 2), (2, 2), run_id=2)
    assert [other.ask(3, 4), other.ask(5, 6, stream=1)] == [[3, 4], [5, 6]]
    assert board.server._board.num_connections == 1


def test_a_connection_that_ends_without_a_stream_is_forgotten(board):
    """A regression: nobody watched it, so an actor that was refused its task used up all there are."""
    actor = OnBoard(board, (0, 2), says_hello=False)
    wait_until(lambda: board.server._board.num_connections == 1, "the connection", DEADLINE_SECS)
    actor.link.close()
    wait_until(lambda: board.server._board.num_connections == 0, "its end", DEADLINE_SECS)


def test_a_ring_before_the_first_hello_is_ignored(board):
    actor = OnBoard(board, (0, 2), (2, 2))
    early = OnBoard(board, (4, 2), says_hello=False)
    early.link._link.send(RING.pack(0))
    assert actor.ask(1, 2) == [1, 2]
    assert board.server._board.num_connections == 2


@pytest.mark.parametrize("on_same_connection", [True, False])
def test_same_process_takes_its_place_over(board, on_same_connection):
    old = OnBoard(board, (0, 2), (2, 2))
    assert old.ask(1, 2) == [1, 2]
    if on_same_connection:
        new, stream = old, 2
        old.link.parts.append(old.link.parts[0])
        old.open(0, 0, 2, stream=2)
    else:
        new, stream = OnBoard(board, (0, 2)), 0
    with pytest.raises(LearnerGoneError, match="newer stream"):
        old.streams[0].receive()
    old.wait_for(LOOK)
    old.link.ring(0)  # A late one.
    assert new.ask(3, 4, stream=stream, done=False) == [3, 4]  # Its episodes go on.
    assert not board.leases[-1].is_restart


def test_a_process_moves_between_board_and_messages(board):
    on_board = OnBoard(board, (0, 2))
    assert on_board.ask(1, 2) == [1, 2]
    with_messages = board.join(run_id=1)
    assert ask(with_messages, 3, 4, done=False) == [3, 4]
    assert on_board.answer() == LOOK
    assert OnBoard(board, (0, 2)).ask(5, 6, done=False) == [5, 6]


def test_new_actor_in_a_used_place_must_start_with_a_reset(board):
    first = OnBoard(board, (0, 2))
    assert first.ask(1, 2) == [1, 2]
    first.streams[0].close()
    second = OnBoard(board, (0, 2), run_id=2)
    assert second.ask(3, 4, done=False) == LOOK
    assert "must be a reset: set done" in end_of(second.streams[0])


def test_end_of_training_completes_every_stream(board):
    actor = OnBoard(board, (0, 2), (2, 2))
    assert actor.ask(1, 2, stream=1) == [1, 2]
    board.batcher.close()  # Nobody will answer.
    actor.step(1, 2)
    board.server.stop()
    assert actor.wait_for(LOOK) == LOOK
    assert [stream.receive() for stream in actor.streams] == [None, None]


def test_stop_with_a_reason_tells_actors_to_come_back(board):
    actor = OnBoard(board, (0, 2))
    assert actor.ask(1, 2) == [1, 2]
    board.batcher.close()
    board.server.stop("The learner was stopped.")
    assert actor.wait_for(LOOK) == LOOK
    assert "UNAVAILABLE: The learner was stopped." in end_of(actor.streams[0])


def test_a_stream_that_comes_when_training_has_ended_is_complete(board):
    service = board.server._service
    board.server._listener.run(run(service.end, ""))
    actor = OnBoard(board, (0, 2))
    assert actor.streams[0].receive() is None
    assert actor.wait_for(LOOK) == LOOK


async def run(function, *arguments):
    function(*arguments)


def test_a_process_that_vanishes_in_mid_batch_harms_nobody(board):
    good, bad = OnBoard(board, (0, 2), run_id=1), OnBoard(board, (2, 2), run_id=2)
    assert [good.ask(1, 2), bad.ask(1, 2)] == [[1, 2], [1, 2]]
    board.answering.clear()
    bad.step(3, 4, done=False)
    good.step(5, 6, done=False)
    bad.link.close()
    bad.streams[0].close()
    board.answering.set()
    assert good.answer() == [5, 6]
    assert OnBoard(board, (2, 2), run_id=3).ask(7, 8) == [7, 8]


def test_a_process_that_reads_no_rings_loses_its_connection_and_holds_up_nobody(board):
    deaf, good = OnBoard(board, (0, 2), run_id=1), OnBoard(board, (2, 2), run_id=2)
    (connection,) = (
        stream.connection for stream in board.server._board._streams.values() if not stream.lease.first_env
    )
    for _ in range(2 * MOST_STREAMS):  # As many as honest processes may leave unread.
        connection.ring([0])
    assert board.server._board.num_connections == 2

    def is_full():
        connection.ring([0])
        return board.server._board.num_connections == 1

    wait_until(is_full, "the end of the connection", DEADLINE_SECS)
    assert "The connection to the board has ended" in end_of(deaf.streams[0])
    assert good.ask(3, 4) == [3, 4]


def test_many_threads_of_actors_at_once(board):
    """Each stream's actions are its own, whatever comes together with whatever."""
    errors = []

    def play(first_env, run_id):
        try:
            actor = OnBoard(board, (first_env, 1), (first_env + 1, 1), run_id=run_id)
            for step in range(100):
                numbers = (step % 10, (step + first_env) % 10)
                actor.step(numbers[0], stream=0, done=step == 0)
                actor.step(numbers[1], stream=1, done=step == 0)
                assert [actor.answer(0), actor.answer(1)] == [[numbers[0]], [numbers[1]]]
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=play, args=(2 * i, i)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(DEADLINE_SECS)
    assert errors == []


def test_an_actor_of_too_many_groups_cannot_have_the_board(board):
    with pytest.raises(NoBoardError, match=f"an actor of more than {MOST_STREAMS} groups"):
        OnBoard(board, *[(0, 1)] * (MOST_STREAMS + 1))
