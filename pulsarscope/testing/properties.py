"""The properties that every dissector must have, as assertions for any bytes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pulsarscope.dissect import Dissector, FrameSize, FrameSplitter
from pulsarscope.dissect.contract.capabilities import FAMILIES, FOLLOW_SUBJECTS
from pulsarscope.dissect.contract.generic_codes import GENERIC_CODES
from pulsarscope.dissect.plugins.vocabulary_check import check_vocabulary
from pulsarscope.model.flow import CLIENT, SERVER

PLENTY = 1 << 30
"""Budget that no candidate exceeds."""

DECODED_ITEMS = 8
"""Items of the tuple that `decode` returns."""

BEFORE = b"\xff" * 5
"""Bytes before a frame: they expose a reader that counts from the start of the buffer."""

PROOFS = ("sure", "likely", "wait", "no")

CUTS = 12
"""Ends of a stream, each about half as far as the one before, at which a function is asked for the size of a frame."""


def check_frame(dissector: Dissector, frame: bytes) -> None:
    """Assert that `framing` takes bytes as one whole frame, and `decode` finds no defect in it."""
    framing = dissector.framing
    size = framing.length.unpack_from(frame)[0] + framing.adds
    assert size == len(frame), f"framing gives {size} bytes for a frame of {len(frame)}: see its length and adds"
    assert framing.smallest <= size <= framing.largest, f"framing allows {framing.smallest} to {framing.largest} bytes, not {size}"
    status, notes = dissector.decode(frame, 0, size)[6:]
    assert status == "ok", f"decode gives the status {status!r} for a whole frame: {notes}"


def check_names(dissector: Dissector) -> None:
    """Assert that `families`, `follow_kinds` and `vocabulary` use only names that the commands of pulsarscope know: others are ignored."""
    for member, given, known in (
        ("families", dissector.families.values(), FAMILIES),
        ("follow_kinds", dissector.follow_kinds, FOLLOW_SUBJECTS),
    ):
        unknown = [name for name in given if name not in known]
        assert not unknown, f"{member} has {unknown[0]!r}, which is none of {', '.join(known)}"
    try:
        check_vocabulary(dissector.vocabulary)
    except ValueError as error:
        message = f"vocabulary: {error}"
        raise AssertionError(message) from error


def check_candidates(dissector: Dissector, data: bytes) -> None:
    """Assert that `recognise` reads only the bytes that it reports, at each position, and that `find_candidate` goes forward.

    Also assert that the first answer of `opens` about a stream does not change when more bytes follow.
    """
    end = len(data)
    _check_opens(dissector, data)
    for position in range(end):
        start = dissector.find_candidate(data, position, end)
        assert start == -1 or position <= start < end, f"find_candidate gives {start} from {position} of {end} bytes"
        for checksums in (True, False):
            if (found := dissector.recognise(data, position, end, PLENTY, checksums=checksums)) is None:
                continue
            assert found.proof in PROOFS, f"recognise gives the proof {found.proof!r}, which is none of {', '.join(PROOFS)}"
            words = f"recognise gives a likely frame of 0 bytes at {position}: only a sure one may have an unknown size"
            assert found.size or found.proof != "likely", words
            if found.proof == "wait":
                assert found.seen > end, f"recognise waits at {position} for byte {found.seen}, and {end} are there"
                continue
            for other in (data[: found.seen], data[: found.seen] + b"\xff" * 64):
                again = dissector.recognise(other, position, len(other), PLENTY, checksums=checksums)
                assert again == found, f"recognise at {position}: {found}, and with other bytes behind byte {found.seen}: {again}"


def check_sizes(dissector: Dissector, data: bytes) -> None:
    """Assert that a size which a function gives (`FrameSize`) is the same when more bytes follow, at each position."""
    length, smallest = dissector.framing.length, dissector.framing.smallest
    if not isinstance(length, FrameSize):
        return
    for position in range(len(data) - smallest + 1):
        known = None
        for cut in reversed(range(CUTS)):
            end = max(position + smallest, position + (len(data) - position >> cut))
            size = length.read(data[:end], position)
            assert known in (None, size), f"the function of FrameSize gives {known} at {position}, and {size} when more bytes follow"
            known = size


def _check_opens(dissector: Dissector, data: bytes) -> None:
    for end in range(1, len(data) + 1):
        if (sender := dissector.opens(data[:end], 0, end)) is None:
            continue
        assert sender in (CLIENT, SERVER), f"opens gives {sender!r}, which is none of client, server and None"
        for other in (data, data[:end] + b"\xff" * 64, data[:end] + bytes(64)):
            again = dissector.opens(other, 0, len(other))
            words = f"opens gives {sender!r} for the first {end} bytes, and {again!r} with others behind them"
            assert again == sender, f"{words}: return None while bytes are missing"
        return


def check_decoding(dissector: Dissector, data: bytes, ends: Iterable[int]) -> None:
    """Assert that `decode`, `decode_partial` and `ranges` accept any bytes: `data` up to each of `ends`. Raises AssertionError."""
    for end in ends:
        if dissector.framing.smallest <= end <= len(data):
            _check_decoded(dissector, "decode", data, end, ("ok", "malformed"))
            masked, ranges = dissector.ranges(data[:end])
            assert len(masked) == end, "ranges gives bytes of another length"
            assert all(0 <= first <= last <= end for first, last, _, _ in ranges), f"ranges gives {ranges}"
        _check_decoded(dissector, "decode_partial", data, min(end, len(data)), ("truncated",))


def _check_decoded(dissector: Dissector, member: str, data: bytes, end: int, statuses: Sequence[str]) -> None:
    decode = getattr(dissector, member)
    decoded = decode(data, 0, end)
    assert type(decoded) is tuple, f"{member} gives {decoded!r}"
    assert len(decoded) == DECODED_ITEMS, f"{member} gives {len(decoded)} items"
    assert decoded[6] in statuses, f"{member} gives the status {decoded[6]!r}"
    moved = decode(BEFORE + data, len(BEFORE), len(BEFORE) + end)
    assert moved == decoded, f"{member} gives {decoded}, and for the same bytes behind {len(BEFORE)} others {moved}"
    offset, notes = decoded[5], decoded[7]
    assert offset is None or 0 <= offset <= end, f"{member} gives the payload offset {offset}, the frame has {end} bytes"
    for code, _text in notes or ():
        assert code in {**GENERIC_CODES, **dissector.codes}, f"{member} names the finding code {code!r}, which `codes` lacks"


def check_account(dissector: Dissector, data: bytes, *, synced: bool) -> None:
    """Assert that frames, skipped runs and a truncated rest cover each byte of a stream once."""
    at = 0
    for offset, size, *_ in frames_of(dissector, [data], synced=synced):
        assert offset == at, f"a frame begins at {offset}, the one before ends at {at}"
        at += size
    assert at == len(data), f"the frames end at {at} of {len(data)} bytes"


def check_splitting(dissector: Dissector, pieces: Sequence[bytes], *, synced: bool) -> None:
    """Assert that the frames of a stream do not depend on the pieces in which it arrives."""
    joined = frames_of(dissector, [b"".join(pieces)], synced=synced)
    parted = frames_of(dissector, pieces, synced=synced)
    assert parted == joined, (
        f"pieces of {', '.join(str(len(piece)) for piece in pieces)} bytes give {parted}, all at once {joined}: "
        f"does {_suspects(dissector, synced=synced)} answer otherwise while bytes are missing?"
    )


def _suspects(dissector: Dissector, *, synced: bool) -> str:
    """Return the members that decide where the frames of a stream begin, as text."""
    names = ["the function of FrameSize"] if isinstance(dissector.framing.length, FrameSize) else []
    names += [name for name in ("opens", "find_candidate") if not synced and getattr(type(dissector), name) is not getattr(Dissector, name)]
    return " or ".join([", ".join([*names, "recognise"]), "decode"])


def frames_of(dissector: Dissector, pieces: Iterable[bytes], *, synced: bool) -> list[tuple[Any, ...]]:
    """Return (offset, size, command, status, fields) of the frames of a stream."""
    splitter = FrameSplitter(dissector, synced=synced)
    frames = [frame for piece in pieces for frame in splitter.feed(piece)] + splitter.finish()
    assert splitter.failure is None, splitter.failure.text
    return [(frame.offset, frame.size, frame.command, frame.status, frame.fields) for frame in frames]
