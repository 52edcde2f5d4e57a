"""Frames without a length field of one place and packing: a preamble without a length, then lengths of one to four bytes, as in MQTT."""

from __future__ import annotations

from pathlib import Path

import pytest

import pulsarscope as ps
from pulsarscope import protocols, wire
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols import DISSECTORS
from pulsarscope.testing import ScriptedConnection, fuzz

PREAMBLE = b"TAPE\x00\x01"
LENGTH_BYTES_MAX = 4


def size_of(data: bytes, position: int) -> int | None:
    """Size of a preamble, or of a frame by its kind and a length of seven bits per byte, the lowest first."""
    if data[position] == PREAMBLE[0]:
        return len(PREAMBLE)
    length = 0
    for count, byte in enumerate(data[position + 1 : position + 1 + LENGTH_BYTES_MAX]):
        length |= (byte & 0x7F) << 7 * count
        if byte < 0x80:
            return 2 + count + length
    return None if len(data) <= position + LENGTH_BYTES_MAX else 0


def tape(body: bytes) -> bytes:
    """A frame."""
    length, rest = b"", len(body)
    while rest >= 0x80:
        length, rest = length + bytes([rest & 0x7F | 0x80]), rest >> 7
    return b"\xa1" + length + bytes([rest]) + body


class TapeSession(wire.Session):
    """A session without state."""

    def observe(self, frames: wire.SessionFrames, events: list[wire.Event]) -> None:
        """Ignore the frames."""
        del events
        for _ in frames:
            pass


class TapeDissector(wire.Dissector):
    """A dissector of frames whose bodies consist of "b"."""

    name = "tape"
    ports = frozenset({7800})
    framing = wire.Framing(smallest=2, largest=1 << 20, lookahead=2, length=wire.FrameSize(size_of), adds=0)

    def recognise(self, data: bytes, position: int, end: int, budget: int, *, checksums: bool) -> wire.Candidate | None:
        """Look for the preamble, or for the kind, the length and the first byte."""
        del budget, checksums
        seen = position + len(PREAMBLE)
        if seen > end:
            return wire.Candidate(0, seen, "wait", 0)
        if data[position:seen] == PREAMBLE:
            return wire.Candidate(len(PREAMBLE), seen, "sure", 0)
        size = size_of(data[:seen], position) if data[position] == 0xA1 else None
        return wire.Candidate(size, seen, "likely", 0) if size is not None and size >= len(PREAMBLE) else None

    def decode(self, data: bytes, start: int, end: int) -> wire.Decoded:
        """Read a frame."""
        command = "HELLO" if data[start:end] == PREAMBLE else "TAPE" if data[start] == 0xA1 else None
        notes = [("frame-malformed", "no tape")] if command is None else None
        return command, {}, None, None, None, None, wire.MALFORMED if notes else wire.OK, notes

    def session(self, context: wire.SessionContext) -> wire.Session:
        """Begin a connection."""
        return TapeSession(context)


FRAMES = [PREAMBLE, tape(b"b" * 9), tape(b"b" * 300), tape(b"b" * 20_000)]


def frames_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *pieces: bytes) -> list[FrameRow]:
    monkeypatch.setattr(protocols, "DISSECTORS", (*DISSECTORS, TapeDissector))
    path = tmp_path / "tape.pcap"
    talk = ScriptedConnection(7800)
    for piece in pieces:
        talk.client(piece)
    path.write_bytes(talk.close().pcap())
    return list(ps.open(str(path)).frames())


def test_frames_of_all_lengths_are_read_however_they_are_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"".join(FRAMES)
    want = [("HELLO", 6), ("TAPE", 11), ("TAPE", 303), ("TAPE", 20_004)]
    for pieces in ([data], [data[at : at + 1] for at in range(400)] + [data[400:]]):
        assert [(row.command, row.size) for row in frames_of(tmp_path, monkeypatch, *pieces)] == want


def test_an_unfinished_length_ends_the_stream_as_a_truncated_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = frames_of(tmp_path, monkeypatch, PREAMBLE + FRAMES[1] + FRAMES[3][:2])
    assert [(row.size, row.status) for row in made] == [(6, "ok"), (11, "ok"), (2, "truncated")]


def test_such_frames_keep_the_contract() -> None:
    fuzz(TapeDissector(), FRAMES[:3], rounds=40)


def failing_size(data: bytes, position: int) -> int | None:
    return size_of(data, position + len(data))


def test_a_function_that_raises_is_contained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TapeDissector, "framing", wire.Framing(2, 1 << 20, 2, wire.FrameSize(failing_size), 0))
    assert [(row.size, row.status) for row in frames_of(tmp_path, monkeypatch, PREAMBLE)] == []
    (finding,) = (row for row in ps.open(str(tmp_path / "tape.pcap")).findings() if row.code == "dissector-failed")
    assert "failed in failing_size: IndexError" in finding.text
