"""The buffer: bytes, the packets that brought them, and how long it waits."""

from __future__ import annotations

from io import BytesIO

import pytest

from pulsarscope.capture import BlockReader
from pulsarscope.dissect.framing import stream_buffer
from pulsarscope.dissect.framing.stream_buffer import StreamBuffer
from pulsarscope.tcp.pieces import Piece
from tests.scenarios.both_readers import reader
from tests.scenarios.capturefile import pcap
from tests.scenarios.conversation import Conversation

PIECES: list[Piece] = [(b"abc", 1, 100, 1), (b"de", 4, 400, 5), (b"f", 2, 200, 6)]


def filled() -> StreamBuffer:
    buffer = StreamBuffer(((0, 1 << 20),))
    assert buffer.append(10, PIECES)
    buffer.join()
    return buffer


def test_bytes_have_the_moment_of_their_piece() -> None:
    buffer = filled()
    assert (buffer.data, buffer.base, len(buffer)) == (b"abcdef", 10, 6)
    assert [buffer.moment_at(offset) for offset in range(10, 17)] == [1, 1, 1, 5, 5, 6, 6]
    assert buffer.latest(12, 16) == PIECES[1]


def test_dropped_bytes_take_their_pieces_along() -> None:
    buffer = filled()
    buffer.drop(4)
    assert (buffer.data, buffer.base, buffer.pieces, buffer.ends) == (b"ef", 14, PIECES[1:], [15, 16])
    buffer.drop(2)
    assert (buffer.data, buffer.base, [*buffer.pieces], len(buffer)) == (b"", 16, [], 0)


def test_bytes_are_joined_when_there_are_enough() -> None:
    buffer = filled()
    buffer.wake = 18
    assert not buffer.append(16, [(b"g", 7, 700, 7)])
    assert (buffer.data, len(buffer)) == (b"abcdef", 7)
    assert buffer.append(17, [(b"h", 8, 800, 8)])
    buffer.join()
    assert (buffer.data, buffer.wake) == (b"abcdefgh", 0)


def test_long_bytes_are_in_their_pieces_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_buffer, "HELD_TWICE_MAX_BYTES", 4)
    whole, short = filled(), filled()
    whole.drop(0)
    assert [*whole.pieces] == [(b"", *piece[1:]) for piece in PIECES]
    for start in range(6):
        for stop in range(start + 1, 7):
            assert whole.fills_pieces(start, stop) is short.fills_pieces(start, stop)
            assert whole.latest(10 + start, 10 + stop)[1:] == short.latest(10 + start, 10 + stop)[1:]
    short.drop(3)
    assert short.pieces == PIECES[1:]


def test_in_another_file_every_packet_is_later() -> None:
    buffer = filled()
    buffer.raise_floor(6)
    buffer.enter(1)
    assert (buffer.file, buffer.floor, buffer.moment_at(15)) == (1, 0, 0)


def test_pieces_that_the_compiled_reader_joins_begin_where_the_first_one_began() -> None:
    native = pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    with reader("require"):
        (segments,) = next(BlockReader(BytesIO(pcap(Conversation(client_isn=15, acknowledge=False).client(b"gh").packets)))).flows.values()
    following = segments.in_order(16)[0][0][1]  # type: ignore[attr-defined]
    alone, joined = filled(), filled()
    for buffer in (alone, joined):
        buffer.drop(1)
    alone.append(16, [*following])
    alone.join()
    joined.append_joined(16, following, native.Joined)
    assert (joined.data, joined.begun, [*joined.ends]) == (alone.data, 10, alone.ends)
    assert not joined.fills_pieces(0, 2)
    assert joined.fills_pieces(2, 7)
