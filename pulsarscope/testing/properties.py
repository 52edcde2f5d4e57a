"""The properties that every dissector keeps, as assertions about any bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pulsarscope.dissect import Dissector, FrameSplitter

PLENTY = 1 << 30
"""Budget that no candidate exceeds."""

DECODED_ITEMS = 8
"""Items of the tuple that `decode` returns."""


def check_candidates(dissector: Dissector, data: bytes) -> None:
    """Assert that `recognise` depends only on the bytes that it says it has seen, at each position of the bytes.

    Raises:
        AssertionError: it depends on others, or `find_candidate` goes back.
    """
    end = len(data)
    for position in range(end):
        start = dissector.find_candidate(data, position, end)
        assert start == -1 or position <= start < end, f"find_candidate gives {start} from {position} of {end} bytes"
        for checksums in (True, False):
            found = dissector.recognise(data, position, end, PLENTY, checksums=checksums)
            if found is None:
                continue
            if found.proof == "wait":
                assert found.seen > end, f"recognise waits at {position} for byte {found.seen}, and {end} are there"
                continue
            for other in (data[: found.seen], data[: found.seen] + b"\xff" * 64):
                again = dissector.recognise(other, position, len(other), PLENTY, checksums=checksums)
                assert again == found, f"recognise at {position}: {found}, and with other bytes behind byte {found.seen}: {again}"


def check_decoding(dissector: Dissector, data: bytes, ends: Iterable[int]) -> None:
    """Assert that `decode`, `decode_partial` and `ranges` take any bytes: those from 0 to each of `ends`. Raises AssertionError."""
    framing = dissector.framing
    for end in ends:
        if framing.smallest <= end <= len(data):
            decoded = dissector.decode(data, 0, end)
            assert type(decoded) is tuple, f"decode gives {decoded!r}"
            assert len(decoded) == DECODED_ITEMS, f"decode gives {len(decoded)} items"
            assert decoded[6] in ("ok", "malformed"), f"decode gives the status {decoded[6]!r}"
            masked, ranges = dissector.ranges(data[:end])
            assert len(masked) == end, "ranges gives bytes of another length"
            assert all(0 <= first <= last <= end for first, last, _, _ in ranges), f"ranges gives {ranges}"
        assert dissector.decode_partial(data, 0, min(end, len(data)))[6] == "truncated", "decode_partial gives another status"


def check_account(dissector: Dissector, data: bytes, *, synced: bool) -> None:
    """Assert that frames, skipped runs and a truncated rest cover each byte of a stream once."""
    at = 0
    for offset, size, *_ in frames_of(dissector, [data], synced=synced):
        assert offset == at, f"a frame begins at {offset}, the one before ends at {at}"
        at += size
    assert at == len(data), f"the frames end at {at} of {len(data)} bytes"


def check_splitting(dissector: Dissector, pieces: Sequence[bytes], *, synced: bool) -> None:
    """Assert that the frames of a stream do not depend on the pieces in which it comes."""
    joined = frames_of(dissector, [b"".join(pieces)], synced=synced)
    parted = frames_of(dissector, pieces, synced=synced)
    assert parted == joined, f"{len(pieces)} pieces give {parted}, all at once {joined}"


def frames_of(dissector: Dissector, pieces: Iterable[bytes], *, synced: bool) -> list[tuple[Any, ...]]:
    """Return (offset, size, command, status, fields) of the frames of a stream."""
    splitter = FrameSplitter(dissector, synced=synced)
    frames = [frame for piece in pieces for frame in splitter.feed(piece)] + splitter.finish()
    return [(frame.offset, frame.size, frame.command, frame.status, frame.fields) for frame in frames]
