"""A folder in which rotated captures land, and the detection of new, finished ones.

A capture is finished when the next one of its ring has begun: `tcpdump -C` and `-G`, dumpcap and `live --rotate` give the files of a ring
names that differ in the numbers at their end, and write to one at a time. A capture is also finished if it has not changed for a long time.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress

import msgspec

from pulsarscope.capture import expand_inputs, probe, source_namer
from pulsarscope.model.errors import CaptureError
from pulsarscope.model.findings import Finding
from pulsarscope.model.text import printable
from pulsarscope.spark.checkpoints.checkpoint import LandedCapture, closing
from pulsarscope.spark.files.remote_files import content_mark, list_changes, list_files, open_path, size_and_change

ROTATION_NANOSECONDS = 5_000_000_000
"""Time for which buffered packets may still be written to a file after the first packet of the next file of its ring."""

_PACKED = re.compile(r"\.(gz|zst)$")
_NAME = re.compile(r"[^._\ud800-\udfff][^\ud800-\udfff]*")
_LAST_NUMBERS = re.compile(r"(?:[-_.]\d+)*[-_.]?\d+(?=\D*$)")


class _File(msgspec.Struct):
    """A file that may be a capture."""

    path: str
    size: int
    modified: int
    since: float
    """Time when it was first seen with this size and modification time."""
    polls: int = 1
    """Number of polls with this size and modification time."""
    first_time: int | None = None
    is_capture: bool = False
    taken: bool = False
    """True when it, or a file with the same contents, is listed."""

    @property
    def name(self) -> str:
        """Path without the suffix of compression."""
        return _unpacked(self.path)

    @property
    def ring(self) -> str:
        """The part of the name that all files of a ring share."""
        return _LAST_NUMBERS.sub("", os.path.basename(self.name))  # noqa: PTH119 - a path as text


class LandingFolder:
    """A watched folder, to be polled for new captures."""

    def __init__(self, folder: str, source_by: str, settle: float, known: Iterable[LandedCapture]) -> None:
        """Watch a folder, local or at a URI. A file unchanged for `settle` seconds is finished. `known`: captures listed before."""
        self._folder = folder
        self._source_of = source_namer(source_by)
        self._settle = settle
        self._files: dict[str, _File] = {}
        self._taken: dict[str, LandedCapture] = {}
        """Latest capture of each path."""
        self._begun: set[tuple[str, int | None]] = set()
        """Name and time of the first packet of each capture."""
        self._contents: set[tuple[str | None, str | None]] = set()
        """Vantage point and content mark of each capture."""
        self.count = 0
        """Number of entries of the list."""
        self._closes = True
        """False when the latest entry of the list is a capture."""
        self.grown: list[str] = []
        """Listed captures that have grown since the last poll, so they were not finished."""
        for landed in known:
            self._take(landed)

    def poll(self, now: float, *, take_all: bool = False, clock: float | None = None) -> list[LandedCapture]:
        """Return the new finished captures (with `take_all`, all new captures) in the order of their first packets.

        `now`: seconds of any clock. If `clock` gives seconds since the epoch, the modification time of a file says how long it has been
        unchanged; otherwise only polls do. Raises CaptureError when the folder is unreadable.
        """
        before, self._files, self.grown = self._files, {}, []
        for path, size, modified in self._entries():
            if (file := before.get(path)) is None or (file.size, file.modified) != (size, modified):
                taken = self._taken.get(path)
                age = 0.0 if clock is None else max(0.0, clock - modified / 1e9)
                file = _File(path, size, modified, now - age)
                file.taken = taken is not None and (taken.size, taken.modified) == (size, modified)
                if not file.taken:
                    self._probe(file)
            else:
                file.polls += 1
            self._files[path] = file
        new = [file for file in self._files.values() if not file.taken and file.is_capture and (take_all or self._is_finished(file, now))]
        new.sort(key=lambda file: (file.first_time is None, file.first_time or 0, file.path))
        landed = []
        for file in new:
            file.taken = True
            if (file.name, file.first_time) in self._begun:  # compressed, touched or grown since it was listed
                if (taken := self._taken.get(file.path)) is not None and file.size > taken.size:
                    self.grown.append(file.path)
                continue
            try:
                content = content_mark(file.path)
            except OSError:
                continue  # it has just been removed
            source = self._source_of(file.path)
            if (source, content) in self._contents:  # a copy, or a renamed file
                continue
            capture = LandedCapture(self.count, file.path, source, file.size, file.modified, file.first_time, content)
            self._take(capture)
            landed.append(capture)
        return landed

    def close(self) -> list[LandedCapture]:
        """Return the list entry that closes all connections; none if no capture was listed since the last such entry."""
        entries = [] if self._closes else [closing(self.count)]
        for entry in entries:
            self._take(entry)
        return entries

    def _take(self, landed: LandedCapture) -> None:
        self._closes = landed.closes
        self._taken[landed.path] = landed
        self._begun.add((_unpacked(landed.path), landed.first_time))
        self._contents.add((landed.source, landed.content))
        self.count += 1

    def _entries(self) -> Iterator[tuple[str, int, int]]:
        """Yield path, size and modification time of the files that are not hidden, not empty, and have names in UTF-8."""
        if "://" in self._folder:
            yield from self._remote_entries()
            return
        try:
            entries = [*os.scandir(self._folder)]
        except OSError as error:
            raise CaptureError(f"{printable(self._folder)} cannot be read: {error.strerror}") from None
        for entry in entries:
            with suppress(OSError):  # it has just been removed
                status = entry.stat()
                if stat.S_ISREG(status.st_mode) and status.st_size and _NAME.fullmatch(entry.name):
                    yield entry.path, status.st_size, status.st_mtime_ns

    def _remote_entries(self) -> Iterator[tuple[str, int, int]]:
        try:
            changes = list_changes(self._folder)
        except OSError as error:
            raise CaptureError(f"{printable(self._folder)} cannot be read: {error}") from None
        for name, path, size, modified in changes:
            if size and _NAME.fullmatch(name):
                yield path, size, modified

    @staticmethod
    def _probe(file: _File) -> None:
        file.first_time, refusal, looks_like = probe(file.path, open_path)
        # Other files are ignored, as in a folder that `decode` reads; a damaged capture is not.
        file.is_capture = refusal is None or not looks_like

    def _is_finished(self, file: _File, now: float) -> bool:
        if now - file.since >= self._settle:
            return True
        since = max(file.modified - ROTATION_NANOSECONDS, (file.first_time or 0) + 1)
        return file.polls > 1 and any(other.ring == file.ring and (other.first_time or 0) >= since for other in self._files.values())


class NamedCaptures(LandingFolder):
    """Captures named by arguments, to be polled for new, finished ones."""

    def __init__(self, arguments: Sequence[str], source_by: str, settle: float, known: Iterable[LandedCapture]) -> None:
        """Watch files, folders, patterns and URIs (see `LandingFolder`)."""
        super().__init__("", source_by, settle, known)
        self._arguments = arguments
        self._source_by = source_by
        self.findings: list[Finding] = []
        """Findings since the last poll about arguments that are not captures."""
        self.listed = self.left = 0
        """Number of captures found, and of those left for a later poll."""

    def poll(self, now: float, *, take_all: bool = False, clock: float | None = None) -> list[LandedCapture]:
        """Return the new finished captures by first packet (see `LandingFolder`). Raises CaptureError when no argument names a capture."""
        landed = super().poll(now, take_all=take_all, clock=clock)
        self.listed = len(self._files)
        self.left = sum(file.is_capture and not file.taken for file in self._files.values())
        return landed

    def _entries(self) -> Iterator[tuple[str, int, int]]:
        inputs = expand_inputs(self._arguments, self._source_by, list_files, open_path)
        self.findings = inputs.findings
        for path in inputs.paths:
            with suppress(OSError):  # it has just been removed
                yield path, *size_and_change(path)


def _unpacked(path: str) -> str:
    """Return the path of a file without the suffix of compression and the options of a URI."""
    return _PACKED.sub("", path.partition("?")[0] if "://" in path else path)
