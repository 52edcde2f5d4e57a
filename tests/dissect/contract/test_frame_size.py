"""Frames without a length field of one place and packing: a preamble without a length, then lengths of one to four bytes, as in MQTT."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

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


def line_size(data: bytes, position: int) -> int | None:
    """Size of a line that begins with + or -."""
    if data[position : position + 1] not in (b"+", b"-"):
        return 0
    end = data.find(b"\r\n", position + 1)
    return None if end < 0 else end + 2 - position


class LineDissector(TapeDissector):
    """A dissector of lines, the smallest of which has a character."""

    name = "line"
    ports = frozenset({7801})
    framing = wire.Framing(smallest=4, largest=1 << 10, lookahead=4, length=wire.FrameSize(line_size), adds=0)

    def recognise(self, data: bytes, position: int, end: int, budget: int, *, checksums: bool) -> wire.Candidate | None:
        """Be sure of OK, whose end is not needed for that, and take other lines for likely ones."""
        del budget, checksums
        if position + 4 > end:
            return wire.Candidate(0, position + 4, "wait", 0)
        if data[position : position + 3] == b"+OK":
            return wire.Candidate(0, position + 4, "sure", 0)
        size = line_size(data[:end], position)
        if size is None:
            return wire.Candidate(0, end + 1, "wait", 0)
        return wire.Candidate(size, position + size, "likely", 0) if size else None

    def decode(self, data: bytes, start: int, end: int) -> wire.Decoded:
        """Read a line."""
        del end
        return ("LINE" if data[start : start + 1] in b"+-" else None), {}, None, None, None, None, wire.OK, None


@pytest.mark.parametrize("sizes", [(19,), (2, 9, 7, 1), (1,) * 19, (3, 16), (18, 1)])
def test_a_size_is_asked_for_when_the_smallest_frame_is_present(sizes: tuple[int, ...]) -> None:
    splitter = wire.FrameSplitter(LineDissector(), synced=True)
    data = iter(b"-ERR nnnR nno\xfb\x08\r\n\xfe\xe9")
    frames = [frame for size in sizes for frame in splitter.feed(bytes(next(data) for _ in range(size)))] + splitter.finish()
    assert [(frame.size, frame.status) for frame in frames] == [(17, "ok"), (2, "truncated")]


@pytest.mark.parametrize(("data", "least"), [(b"-E", 4), (b"-ERR no", 8), (b"-ERR nnnnn\r", 12)])
def test_of_an_unfinished_frame_only_the_least_size_is_known(data: bytes, least: int) -> None:
    splitter = wire.FrameSplitter(LineDissector(), synced=True)
    (frame,) = splitter.feed(data) + splitter.finish()
    assert frame.notes == [
        ("frame-truncated", f"only {len(data)} of at least {least} bytes are present; its sender ended the connection within it")
    ]


def test_frames_of_which_the_smallest_has_several_bytes_keep_the_contract() -> None:
    fuzz(LineDissector(), [b"+OK\r\n", b"-ERR no\r\n", b"+\xff\r\n"], rounds=40)


@pytest.mark.parametrize("proven", [b"+OK a\r\n", b"-no\r\n+OK a\r\n"], ids=["first", "second"])
def test_a_frame_of_unknown_size_proves_itself_and_the_one_before(proven: bytes) -> None:
    splitter = wire.FrameSplitter(LineDissector(), synced=False)
    frames = splitter.feed(b"\xff\xff" + proven)
    assert [frame.status for frame in frames] == ["skipped", *["ok"] * proven.count(b"\n")]


@pytest.mark.parametrize(
    ("start", "text"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "no frame begins with these bytes: these are the first bytes of HTTP"),
        (b"\x01\x02\x03\x04", "no frame begins with these bytes"),
    ],
)
def test_bytes_that_are_no_frame_are_reported_as_such(start: bytes, text: str) -> None:
    splitter = wire.FrameSplitter(LineDissector(), synced=True)
    frames = splitter.feed(b"+OK\r\n" + start) + splitter.finish()
    assert (frames[1].notes or [])[0] == ("frame-malformed", text)


def test_a_size_that_changes_when_more_bytes_follow_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LineDissector, "framing", replace(LineDissector.framing, length=wire.FrameSize(hasty_size)))
    with pytest.raises(AssertionError, match="the function of FrameSize gives 4 at 0, and 5 when more bytes follow"):
        fuzz(LineDissector(), [b"+OK\r\n"], rounds=2)


def hasty_size(data: bytes, position: int) -> int | None:
    return line_size(data, position) or len(data) - position


def failing_size(data: bytes, position: int) -> int | None:
    return size_of(data, position + len(data))


def test_a_function_that_raises_is_contained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TapeDissector, "framing", wire.Framing(2, 1 << 20, 2, wire.FrameSize(failing_size), 0))
    assert [(row.size, row.status) for row in frames_of(tmp_path, monkeypatch, PREAMBLE)] == []
    (finding,) = (row for row in ps.open(str(tmp_path / "tape.pcap")).findings() if row.code == "dissector-failed")
    assert "failed in failing_size: IndexError" in finding.text


@pytest.mark.parametrize("show_secrets", [False, True])
def test_a_frame_without_a_length_field_is_shown_without_one(show_secrets: bool) -> None:
    data, ranges = LineDissector(show_secrets=show_secrets).ranges(b"+OK\r\n")
    assert (data == b"+OK\r\n", data == bytes(5)) == (show_secrets, not show_secrets)
    assert [(start, end) for start, end, _, _ in ranges] == [(0, 5)]
