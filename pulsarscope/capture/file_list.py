"""Expansion of file arguments into the list of captures of a run."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Callable, Sequence
from operator import attrgetter
from pathlib import Path

import msgspec

from pulsarscope.capture.reader import BlockReader, Opener, open_local
from pulsarscope.model.errors import CaptureError, UsageError, system_reason
from pulsarscope.model.findings import CAPTURE_CODES, Finding
from pulsarscope.model.text import STANDARD_INPUT, plural, printable

ONE_SOURCE = "none"
SOURCE_BY_FOLDER = "dir"
SOURCE_BY_INTERFACE = "interface"
"""Values of --source-by other than regular expressions."""

_NOT_OF_PATHS = (ONE_SOURCE, SOURCE_BY_INTERFACE)
_SOURCE_BY = "none, dir, interface, or a regular expression for paths"

_PROBE_READ_BYTES = 1 << 16
_PROBE_MAX_BYTES = 8 << 20
"""Bytes of a file that are searched for its first packet; name resolution and secrets blocks may precede it."""


class Inputs(msgspec.Struct, frozen=True):
    """Captures of a run."""

    paths: list[str]
    """Paths in reading order; "-" is standard input."""
    sizes: int | None
    """Stored bytes of all captures; None when one is a pipe."""
    findings: list[Finding]
    """Findings on arguments that did not yield captures."""
    sources: list[str | None] = []
    """Vantage point of each path; empty when there is only one."""
    by_interface: bool = False
    """True when the interfaces of packets are the vantage points; `sources` is then empty."""
    first_times: list[int | None] = []
    """Time of the first packet of each path, ns since the epoch, None for a pipe; empty when none is known."""

    @property
    def start(self) -> int | None:
        """Return the time of the first packet of all files; None when there are only pipes."""
        return min((time for time in self.first_times if time is not None), default=None)

    def source(self, file: int | None) -> str | None:
        """Return the vantage point of a file, None when it is unknown or may be one of several."""
        return self.sources[file] if self.sources and file is not None else None

    def continues(self, file: int) -> bool:
        """Return True when connections of the previous file may continue in this one."""
        return file > 0 and self.source(file) == self.source(file - 1)

    def vantage_points(self) -> list[range]:
        """Return the positions of the files of each vantage point, in order."""
        files = len(self.paths)
        starts = [file for file in range(files) if not self.continues(file)]
        return list(map(range, starts, [*starts[1:], files]))

    def following_start(self, file: int) -> int | None:
        """Return the time from which later files may continue this file's connections: 0 when it is unknown, None when none does."""
        if file + 1 == len(self.paths) or not self.continues(file + 1):
            return None
        return (self.first_times[file + 1] or 0) if self.first_times else 0


class _Candidate(msgspec.Struct, frozen=True):
    path: str
    first_time: int | None
    size: int | None


ListUri = Callable[[str], tuple[list[tuple[str, int]], bool]]
"""Function that returns the files at a URI with their sizes, and True when the URI names the files themselves, not their folder."""


class _Expansion:
    """Captures and findings of the arguments processed so far."""

    def __init__(self, list_uri: ListUri | None, opener: Opener) -> None:
        self._list_uri = list_uri
        self._opener = opener
        self.candidates: list[_Candidate] = []
        self.findings: list[Finding] = []
        self._seen: set[str] = set()

    def argument(self, argument: str) -> None:
        if argument == STANDARD_INPUT:
            self._add(_Candidate(STANDARD_INPUT, None, None), STANDARD_INPUT)
        elif self._list_uri is not None and "://" in argument:
            self._uri(argument, self._list_uri)
        elif glob.has_magic(argument) and not os.path.lexists(argument):
            matches = sorted(glob.glob(argument))  # noqa: PTH207 - Path.glob takes no absolute pattern
            for match in matches:
                self._path(match)
            if not matches:
                self._note("file-unreadable", argument, "matches no file")
        else:
            self._path(argument)

    def _uri(self, uri: str, list_uri: ListUri) -> None:
        before = len(self.candidates) + len(self.findings)
        try:
            files, named = list_uri(uri)
        except OSError as error:
            self._note("file-unreadable", uri, f"cannot be read: {system_reason(error)}")
            return
        for path, size in files:
            self._file(path, size, path, named=named)
        if len(self.candidates) + len(self.findings) == before:
            self._note("not-a-capture", uri, "is a folder, or a pattern, without captures")

    def _file(self, path: str, size: int, identity: str, *, named: bool) -> None:
        first_time, refusal, looks_like = probe(path, self._opener)
        if refusal is None:
            self._add(_Candidate(path, first_time, size), identity)
        elif named or not looks_like:
            self.findings.append(refusal)

    def _path(self, path: str, *, named: bool = True) -> None:
        """Add a capture, or the captures in a named folder; other files in it are ignored unless they begin like a capture."""
        if not path:
            self._note("file-unreadable", '""', "is not the name of a file")
            return
        try:
            status = Path(path).stat()
        except (OSError, ValueError) as error:  # ValueError: a NUL in the path
            elsewhere = " (only pipeline reads from URIs: mount it, or copy it here)" if "://" in path else ""
            self._note("file-unreadable", path, f"cannot be read: {system_reason(error)}{elsewhere}")
            return
        if stat.S_ISREG(status.st_mode):
            self._file(path, status.st_size, os.path.realpath(path), named=named)
        elif not named:
            pass
        elif stat.S_ISDIR(status.st_mode):
            self._folder(path)
        else:  # a pipe or device: probing would consume its bytes
            self._add(_Candidate(path, None, None), path)

    def _folder(self, path: str, *, named: bool = True) -> None:
        """Add the captures in a folder and its subfolders; links to folders are not followed, because they may form cycles."""
        before = len(self.candidates) + len(self.findings)
        try:
            entries = sorted(os.scandir(path), key=attrgetter("path"))
        except OSError as error:
            self._note("file-unreadable", path, f"cannot be read: {system_reason(error)}")
            return
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                self._folder(entry.path, named=False)
            else:
                self._path(entry.path, named=False)
        if named and len(self.candidates) + len(self.findings) == before:
            self._note("not-a-capture", path, "is a folder without captures")

    def _add(self, candidate: _Candidate, identity: str) -> None:
        if identity in self._seen:
            self._note("packet-duplicate", candidate.path, "is named twice and read once")
            return
        self._seen.add(identity)
        self.candidates.append(candidate)

    def _note(self, code: str, path: str, problem: str) -> None:
        name = printable(path)
        self.findings.append(CAPTURE_CODES[code].at(f"{name} {problem}.", {"path": name}))


def probe(path: str, opener: Opener) -> tuple[int | None, Finding | None, str]:
    """Return the time of a file's first packet; for a file that is not a capture, the finding and the apparent type of the file."""
    reader = BlockReader(path, read_bytes=_PROBE_READ_BYTES, opener=opener)
    refusal = None
    try:
        for block in reader:
            if reader.first_time is not None or block.bytes_read > _PROBE_MAX_BYTES:
                break
            if not reader.recognised:
                refusal = block.findings[0]
                refusal.file = None
    finally:
        reader.close()
    return reader.first_time, refusal, reader.looks_like


def expand_inputs(
    arguments: Sequence[str], source_by: str = ONE_SOURCE, list_uri: ListUri | None = None, opener: Opener = open_local
) -> Inputs:
    """Return the captures that the arguments name.

    They are ordered by source, then by the time of their first packet, then by name; pipes and captures without packets come last.

    Arguments are files, globs, folders (for the captures in them and below, whatever their names), "-", and URIs if `list_uri` lists them.
    Raises UsageError without any, or for a `source_by` that is invalid or matches no path; CaptureError when none names a capture.
    """
    if not arguments:
        raise UsageError("no capture given: name a pcap or pcapng file, a folder, or - for standard input")
    source_of = source_namer(source_by)
    expansion = _Expansion(list_uri, opener)
    for argument in arguments:
        expansion.argument(argument)
    if not expansion.candidates:
        raise CaptureError(_no_capture_message(expansion.findings))
    candidates = sorted(
        expansion.candidates,
        key=lambda candidate: (source_of(candidate.path) or "", candidate.first_time is None, candidate.first_time or 0, candidate.path),
    )
    sources = [source_of(candidate.path) for candidate in candidates]
    if source_by not in _NOT_OF_PATHS and all(source is None for source in sources):
        raise UsageError(f"--source-by {source_by} matches no path of a capture: give {_SOURCE_BY}")
    sizes = [candidate.size for candidate in candidates]
    known = [size for size in sizes if size is not None]
    return Inputs(
        [candidate.path for candidate in candidates],
        sum(known) if len(known) == len(sizes) else None,
        expansion.findings,
        [] if source_by in _NOT_OF_PATHS else sources,
        source_by == SOURCE_BY_INTERFACE,
        [candidate.first_time for candidate in candidates],
    )


def source_namer(source_by: str) -> Callable[[str], str | None]:
    """Return a function from a path to the name of its vantage point. Raises UsageError for an invalid regular expression.

    With `dir` the name is the path's folder; with a regular expression its first group, or else the whole match, escaped like all names. It
    is None for a path that does not match, and for `none` and `interface`, which do not depend on paths.
    """
    if source_by in _NOT_OF_PATHS:
        return lambda _: None
    if source_by == SOURCE_BY_FOLDER:
        return lambda path: printable(os.path.dirname(path))  # noqa: PTH120 - a path as text
    try:
        pattern = re.compile(source_by)
    except re.error as error:
        raise UsageError(f"--source-by {source_by}: give {_SOURCE_BY} ({error})") from None

    def files(path: str) -> str | None:
        match = pattern.search(path)
        text = None if match is None else match.group(1 if pattern.groups else 0)
        return None if text is None else printable(text)

    return files


def _no_capture_message(findings: list[Finding]) -> str:
    text = findings[0].advice
    if len(findings) == 1:
        return text
    return f"none of {plural(len(findings), 'input')} is a capture; the first: {text}"
