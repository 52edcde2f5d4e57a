"""A folder in which rotated captures land: which of them are finished and new.

Nobody says when a capture is finished. It is when the next one of its ring has begun: `tcpdump -C` and `-G`, dumpcap and `live --rotate`
give the files of a ring names that differ in the numbers at their end, and write to one at a time. It also is when it has not changed for
long.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress

import msgspec

from pulsarscope.capture import open_local, probe, source_namer
from pulsarscope.model.errors import CaptureError
from pulsarscope.model.text import printable
from pulsarscope.spark.checkpoint import LandedCapture

ROTATION_NANOSECONDS = 5_000_000_000
"""A file may be written to for so long after the next one of its ring has got its first packet: what waits in buffers."""

_PACKED = re.compile(r"\.(gz|zst)$")
_NAME = re.compile(r"[^._\ud800-\udfff][^\ud800-\udfff]*")
_LAST_NUMBERS = re.compile(r"(?:[-_.]\d+)*[-_.]?\d+(?=\D*$)")


class _Watched(msgspec.Struct):
    """A file that may be a capture."""

    path: str
    size: int
    modified: int
    since: float
    """When it was first seen like this."""
    looks: int = 1
    """How often it was."""
    first_time: int | None = None
    is_capture: bool = False
    taken: bool = False
    """As it is now, or it never will be."""

    @property
    def name(self) -> str:
        """Path, unless it was packed since."""
        return _PACKED.sub("", self.path)

    @property
    def ring(self) -> str:
        """What the files of a ring have in common."""
        return _LAST_NUMBERS.sub("", os.path.basename(self.name))  # noqa: PTH119 - a path as text


class LandingFolder:
    """One folder; `look` into it again and again."""

    def __init__(self, folder: str, source_by: str, settle: float, known: Iterable[LandedCapture]) -> None:
        """`settle`: seconds without a change that finish a file. `known`: what was taken before."""
        self._folder = folder
        self._source_of = source_namer(source_by)
        self._settle = settle
        self._watched: dict[str, _Watched] = {}
        self._taken: dict[str, LandedCapture] = {}
        """By path, the latest of each."""
        self._begun: set[tuple[str, int | None]] = set()
        """By name and first packet."""
        self.count = 0
        """Captures taken so far."""
        self.grown: list[str] = []
        """Captures that were taken, and have become longer since the last look: they had not been finished."""
        for landed in known:
            self._take(landed)

    def poll(self, now: float, *, everything: bool = False) -> list[LandedCapture]:
        """Captures that are finished, or everything that is there, and were not taken before, by their first packets.

        `now` is a time in seconds that never steps back.

        Raises:
            CaptureError: the folder cannot be read.
        """
        before, self._watched, self.grown = self._watched, {}, []
        for path, size, modified in self._files():
            watched = before.get(path)
            if watched is None or (watched.size, watched.modified) != (size, modified):
                taken = self._taken.get(path)
                watched = _Watched(path, size, modified, now)
                watched.taken = taken is not None and (taken.size, taken.modified) == (size, modified)
                if not watched.taken:
                    self._probe(watched)
            else:
                watched.looks += 1
            self._watched[path] = watched
        new = [one for one in self._watched.values() if not one.taken and one.is_capture and (everything or self._is_finished(one, now))]
        new.sort(key=lambda one: (one.first_time is None, one.first_time or 0, one.path))
        landed = []
        for one in new:
            one.taken = True
            if (one.name, one.first_time) in self._begun:  # it was packed, touched or written to since it was taken
                taken = self._taken.get(one.path)
                if taken is not None and one.size > taken.size:
                    self.grown.append(one.path)
                continue
            capture = LandedCapture(self.count, one.path, self._source_of(one.path), one.size, one.modified, one.first_time)
            self._take(capture)
            landed.append(capture)
        return landed

    def _take(self, landed: LandedCapture) -> None:
        self._taken[landed.path] = landed
        self._begun.add((_PACKED.sub("", landed.path), landed.first_time))
        self.count += 1

    def _files(self) -> Iterator[tuple[str, int, int]]:
        """Path, size and time of change of the files in the folder that are not hidden and not empty, if their names are text."""
        try:
            entries = [*os.scandir(self._folder)]
        except OSError as error:
            message = f"{printable(self._folder)} cannot be read: {error.strerror}"
            raise CaptureError(message) from None
        for entry in entries:
            with suppress(OSError):  # it has just gone
                status = entry.stat()
                if stat.S_ISREG(status.st_mode) and status.st_size and _NAME.fullmatch(entry.name):
                    yield entry.path, status.st_size, status.st_mtime_ns

    @staticmethod
    def _probe(watched: _Watched) -> None:
        watched.first_time, refusal, looks_like = probe(watched.path, open_local)
        # What began like a capture, or like nothing known, is one that is damaged; what is something else is passed over.
        watched.is_capture = refusal is None or not looks_like

    def _is_finished(self, one: _Watched, now: float) -> bool:
        if now - one.since >= self._settle:
            return True
        since = max(one.modified - ROTATION_NANOSECONDS, (one.first_time or 0) + 1)
        return one.looks > 1 and any(other.ring == one.ring and (other.first_time or 0) >= since for other in self._watched.values())
