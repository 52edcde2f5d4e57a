"""Frames from any bytes, without a capture: the library's own entry."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings

import pulsarscope as ps
from pulsarscope.dissect import Frame
from pulsarscope.dissect.contract.frames import MALFORMED, OK, SKIPPED, TRUNCATED
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from tests.scenarios import command_frame, message_metadata, payload_frame
from tests.scenarios.chance import damaged, randoms
from tests.scenarios.commands import CONNECT, PING
from tests.scenarios.frames import sized
from tests.scenarios.streams import cut, frames_of, garbage

FrameSplitter = ps.wire.FrameSplitter  # with its default dissector

SEND = payload_frame("SEND", message_metadata(), b"payload", producer_id=1, sequence_id=2)
TRAILING = b"\x00\x00\x00\x20trailing"

Outline = list[tuple[str | None, str | None, int | None, int | None]]


def outline(frames: list[Frame]) -> Outline:
    return [(frame.status, frame.command, frame.offset, frame.size) for frame in frames]


CASES: dict[str, tuple[bytes, Outline]] = {
    "nothing": (b"", []),
    "ping": (PING, [(OK, "PING", 0, 13)]),
    "two": (PING + PING, [(OK, "PING", 0, 13), (OK, "PING", 13, 13)]),
    "a frame with a payload": (SEND, [(OK, "SEND", 0, len(SEND))]),
    "a command of a later version": (sized(sized(b"\x08\xc8\x01")), [(OK, "UNKNOWN_200", 0, 11)]),
    "a frame that says too much": (sized(sized(b"\x08\x12\x92\x01\x00") + b"xyz"), [(OK, "PING", 0, 16)]),
    "a proxy header": (b"PROXY UNKNOWN\r\n" + PING, [(SKIPPED, None, 0, 15), (OK, "PING", 15, 13)]),
}


class ByFirstByte(PulsarDissector):
    """A dissector whose candidates may be followed by fewer bytes than a length takes."""

    find_candidate = staticmethod(lambda data, position, end: data.find(b"\0", position, end))


class TestFeeding:
    """Each case is fed in three ways."""

    @pytest.mark.parametrize("name", CASES)
    def test_whole(self, name: str) -> None:
        data, want = CASES[name]
        assert outline(FrameSplitter().feed(data)) == want

    @pytest.mark.parametrize("name", CASES)
    def test_byte_by_byte(self, name: str) -> None:
        data, want = CASES[name]
        splitter = FrameSplitter()
        assert outline([frame for at in range(len(data)) for frame in splitter.feed(data[at : at + 1])]) == want
        assert splitter.finish() == []

    @pytest.mark.parametrize("name", CASES)
    def test_with_bytes_behind(self, name: str) -> None:
        data, want = CASES[name]
        splitter = FrameSplitter()
        assert outline(splitter.feed(data + TRAILING)) == want
        assert [frame.status for frame in splitter.finish()] == [TRUNCATED]

    def test_a_frame_comes_with_its_last_byte(self) -> None:
        splitter = FrameSplitter()
        for at in range(len(SEND)):
            frames = splitter.feed(SEND[at : at + 1])
            assert bool(frames) == (at == len(SEND) - 1)

    def test_any_buffer_will_do(self) -> None:
        buffers: list[Any] = [bytearray(PING), memoryview(PING)]
        for buffer in buffers:
            assert outline(FrameSplitter().feed(buffer)) == [(OK, "PING", 0, 13)]

    def test_a_frame_holds_its_payload_unless_asked_not_to(self) -> None:
        assert [frame.payload for frame in FrameSplitter().feed(SEND)] == [b"payload"]
        assert [frame.payload for frame in FrameSplitter(payload=False).feed(SEND)] == [None]

    def test_what_is_left_at_the_end_is_a_truncated_frame(self) -> None:
        splitter = FrameSplitter()
        splitter.feed(SEND[:-3])
        (frame,) = splitter.finish()
        assert (frame.status, frame.command, frame.size) == (TRUNCATED, "SEND", len(SEND) - 3)

    def test_bytes_that_are_no_frame_are_skipped(self) -> None:
        splitter = FrameSplitter()
        frames = splitter.feed(b"\xff" * 20) + splitter.finish()
        assert outline(frames) == [(SKIPPED, None, 0, 20)]

    def test_in_the_middle_of_a_stream_frames_are_found_by_content(self) -> None:
        splitter = FrameSplitter(synced=False)
        frames = splitter.feed(PING[4:] + PING + PING) + splitter.finish()
        assert outline(frames) == [(SKIPPED, None, 0, 9), (OK, "PING", 9, 13), (OK, "PING", 22, 13)]

    @pytest.mark.parametrize("size", [3, 20])
    def test_a_candidate_may_be_found_by_fewer_bytes_than_its_length_has(self, size: int) -> None:
        splitter = FrameSplitter(ByFirstByte(), synced=False)
        data = b"\xff" * 20 + PING * 2
        frames = [frame for start in range(0, len(data), size) for frame in splitter.feed(data[start : start + size])]
        frames += splitter.feed(b"\0\0") + splitter.finish()
        assert outline(frames) == [(SKIPPED, None, 0, 20), (OK, "PING", 20, 13), (OK, "PING", 33, 13), (TRUNCATED, None, 46, 2)]

    def test_the_last_bytes_may_be_a_candidate(self) -> None:
        splitter = FrameSplitter(ByFirstByte(), synced=False)
        frames = splitter.feed(b"junk\xff\xff\0") + splitter.finish()
        assert outline(frames) == [(SKIPPED, None, 0, 7)]


def test_it_is_part_of_the_library() -> None:
    assert ps.wire.FrameSplitter is FrameSplitter
    assert outline(ps.wire.FrameSplitter(PulsarDissector()).feed(CONNECT)) == outline(FrameSplitter().feed(CONNECT))


@pytest.mark.slow
@given(randoms)
@settings(max_examples=150)
def test_any_cutting_gives_the_same_frames(random: Random) -> None:
    parts = []
    for frame in frames_of(random, random.randint(1, 8)):
        if random.random() < 0.3:
            parts.append(garbage(random))
        parts.append(damaged(frame, random) if random.random() < 0.1 else frame)
    data = b"".join(parts)
    synced = random.random() < 0.6
    whole = FrameSplitter(synced=synced)
    want = whole.feed(data) + whole.finish()
    splitter = FrameSplitter(synced=synced)
    found = [frame for piece in cut(data, random) for frame in splitter.feed(piece)] + splitter.finish()
    assert found == want
    assert sum(frame.size or 0 for frame in want) == len(data)


@given(randoms)
@settings(max_examples=100)
def test_any_bytes_are_all_accounted_for(random: Random) -> None:
    data = random.randbytes(random.randint(0, 400)) if random.random() < 0.5 else damaged(PING * 5 + SEND * 3 + CONNECT, random, 6)
    splitter = FrameSplitter(synced=random.random() < 0.5)
    frames = splitter.feed(data) + splitter.finish()
    assert sum(frame.size or 0 for frame in frames) == len(data)
    assert {frame.status for frame in frames} <= {OK, MALFORMED, SKIPPED, TRUNCATED}


def test_connected_changes_the_bound_for_what_follows() -> None:
    frames = FrameSplitter().feed(command_frame("CONNECTED", server_version="x", max_message_size=100) + SEND)
    assert [frame.status for frame in frames] == [OK, OK]
    large = payload_frame("SEND", message_metadata(), bytes(11_000), producer_id=1, sequence_id=2)
    frames = FrameSplitter().feed(command_frame("CONNECTED", server_version="x", max_message_size=100) + large + PING + PING)
    assert [frame.status for frame in frames] == [OK, SKIPPED, OK, OK]


def test_who_names_no_dissector_has_the_first_of_the_package() -> None:
    (frame,) = FrameSplitter().feed(PING)
    assert frame.command == "PING"
