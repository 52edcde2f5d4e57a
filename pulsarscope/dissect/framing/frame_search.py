"""The search for frames by content where length fields do not lead to them: candidates, their proofs, and the cost of the proofs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pulsarscope.dissect.contract.frame_size import FrameSize
from pulsarscope.dissect.framing.frame_limits import limit_at
from pulsarscope.dissect.framing.skipped_run import SkippedRun

if TYPE_CHECKING:
    from pulsarscope.dissect.contract.dissector import Candidate, Dissector
    from pulsarscope.dissect.framing.stream_buffer import StreamBuffer

SCAN_WORK_BYTES = 8 << 20
"""Bytes of a stream that may be examined to prove candidates after the framing is lost: the largest frame of the default bound."""

SCAN_WORK_FACTOR = 4
"""Additional bytes that may be examined for each byte of the stream that is searched."""


class FrameSearch:
    """Search of one stream. A frame that it finds becomes readable no sooner than the last byte that had to be examined."""

    __slots__ = ("_buffer", "_dissector", "_seen", "_work", "expected", "skipped")

    def __init__(self, dissector: Dissector, buffer: StreamBuffer) -> None:
        self._dissector = dissector
        self._buffer = buffer
        self.expected = -1
        """Offset at which a frame must begin, if the length field of a cut frame gives it."""
        self._work = 0
        """Cost of the proofs so far."""
        self._seen = 0
        """Offset after the last byte examined."""
        self.skipped = SkippedRun()
        """Bytes skipped since the last frame."""

    def size_at(self, position: int) -> int:
        """Return the size of a frame that begins at a position, according to its length field."""
        length: int = self._dissector.framing.length.unpack_from(self._buffer.data, position)[0]
        return length + self._dissector.framing.adds

    def first_size(self) -> int | None:
        """Return the size of a frame that begins with the first byte; None if bytes are missing that give it."""
        framing, data = self._dissector.framing, self._buffer.data
        if len(data) < framing.sizing:
            return None
        return framing.length.read(data, 0) if isinstance(framing.length, FrameSize) else self.size_at(0)

    def expect_rest(self, present: int) -> str:
        """Expect the next frame where the cut one at position 0 ends, if known; return its size in bytes. `present`: those of it."""
        whole = self.first_size()
        if whole is None:
            return f"at least {max(self._dissector.framing.smallest, present + 1):,}"
        self.expected = self._buffer.base + whole
        return f"{whole:,}"

    def limit_at(self, position: int) -> int:
        """Return the largest size of a frame that begins at a position: the limit announced before the moment of its first byte."""
        buffer = self._buffer
        return limit_at(buffer.limits, buffer.moment_at(buffer.base + position))

    def confirm(self, end: int, *, at_end: bool) -> bool | None:
        """Return True when a frame that did not decode is followed by another, so that its length can be trusted.

        None: later bytes will decide. `at_end`: no bytes follow.
        """
        buffer, dissector = self._buffer, self._dissector
        available = len(buffer.data)
        if available - end < dissector.framing.smallest:
            buffer.wake = buffer.base + end + dissector.framing.smallest
            return end == available if at_end else None
        follow = dissector.recognise(buffer.data, end, available, SCAN_WORK_BYTES, checksums=False)
        if follow is not None and follow.proof == "wait" and not at_end:
            buffer.wake = buffer.base + follow.seen
            return None
        self._look(end, follow)
        if follow is None or follow.proof == "no" or not dissector.framing.smallest <= self.size_at(end) <= self.limit_at(end):
            return False
        self._prove(follow.seen)
        return True

    def find(self, position: int, skipped: int, *, at_end: bool) -> tuple[int, int]:
        """Find the next proven frame.

        Args:
            position: position of the first byte to search.
            skipped: bytes of the stream that were searched before.
            at_end: no bytes follow.

        Returns:
            Its position, or -1; and the position from which bytes are needed to continue.
        """
        buffer, dissector = self._buffer, self._dissector
        available = len(buffer.data)
        if self.expected >= 0:
            answer = self._find_expected(position, at_end=at_end)
            if answer is not None:
                return answer
            position = max(position, self.expected - buffer.base)
            self.expected = -1
        start = position
        while True:
            start = dissector.find_candidate(buffer.data, start, available)
            if start < 0:
                return -1, available if at_end else max(position, available - dissector.framing.lookahead + 1)
            if available - start < dissector.framing.sizing:
                return -1, available if at_end else start
            if self.size_at(start) > self.limit_at(start):
                self._look(start, None)  # the length alone decides: how much of the command is present must not matter
                proven: bool | None = False
            else:
                # The budget for proofs depends on the stream alone: hostile data can have a candidate every ten bytes.
                budget = SCAN_WORK_FACTOR * (skipped + start - position) + SCAN_WORK_BYTES - self._work
                proven = self._try(start, budget, at_end=at_end)
            if proven is None:
                return -1, start
            if proven:
                return start, start
            start += 1

    def _find_expected(self, position: int, *, at_end: bool) -> tuple[int, int] | None:
        """Look where a frame must begin; return None if none begins there."""
        buffer = self._buffer
        available = len(buffer.data)
        expected = self.expected - buffer.base
        if expected >= available:
            return -1, available
        if expected < position:
            return None
        candidate = self._dissector.recognise(buffer.data, expected, available, SCAN_WORK_BYTES, checksums=False)
        if candidate is not None and candidate.proof == "wait" and not at_end:
            buffer.wake = buffer.base + candidate.seen
            return -1, expected
        if candidate is not None and candidate.proof in ("sure", "likely") and candidate.size <= self.limit_at(expected):
            self._prove(candidate.seen)
            return expected, expected
        self._look(expected, candidate)
        return None

    def _try(self, start: int, budget: int, *, at_end: bool) -> bool | None:
        """Return True when a frame is proven to begin at `start`; None if later bytes will decide."""
        buffer, dissector = self._buffer, self._dissector
        data, available = buffer.data, len(buffer.data)
        first = dissector.recognise(data, start, available, budget, checksums=True)
        if first is None or first.proof == "no":
            self._look(start, first)
            return False
        if first.proof == "wait":
            if at_end:
                return False
            buffer.wake = buffer.base + first.seen
            return None
        second = start + first.size
        if buffer.trusted and first.proof == "likely" and buffer.fills_pieces(start, second):
            self._look(start, first)
            self._prove(second)
            return True
        follow = None
        if first.proof == "likely" and second < available:
            follow = dissector.recognise(data, second, available, budget, checksums=False)
        if first.proof == "likely" and not at_end and (second >= available or (follow is not None and follow.proof == "wait")):
            if follow is not None:
                buffer.wake = buffer.base + follow.seen
            else:  # the end of a frame may suffice
                buffer.wake = buffer.base + second + (0 if buffer.trusted and second > available else dissector.framing.lookahead)
            return None
        self._look(start, first)
        if first.proof == "sure" or second == available:  # or the stream ends exactly where the frame does
            self._prove(first.seen)
            return True
        if second < available:
            self._look(second, follow)
        if follow is not None and follow.proof != "no" and (follow.size or follow.proof == "sure") and follow.size <= self.limit_at(second):
            self._prove(follow.seen)
            return True
        return False

    def _look(self, position: int, candidate: Candidate | None) -> None:
        """Account for the bytes that were examined to decide about a candidate."""
        seen = position + self._dissector.framing.lookahead
        if candidate is not None:
            self._work += candidate.cost
            seen = candidate.seen
        # At the end of the stream a candidate may ask for more bytes than there are; the missing ones were not examined.
        self.note_seen(min(seen, len(self._buffer.data)))

    def note_seen(self, position: int) -> None:
        """Account for the examination of the bytes before a position."""
        self._seen = max(self._seen, self._buffer.base + position)

    def _prove(self, seen: int) -> None:
        """Make no frame readable before the byte that precedes position `seen`, and all bytes examined earlier."""
        buffer = self._buffer
        buffer.raise_floor(buffer.moment_at(max(buffer.base + seen, self._seen) - 1))
