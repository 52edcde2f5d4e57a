"""First and last times of captures, noted in a folder, so that reads of a window of time can skip captures.

For each capture, there is an empty file whose name has a hash of its path, size and modification time, and its first and last time. One
listing of the folder gives all times, and several readers may note the same capture at the same time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

import msgspec
from pyarrow.fs import FileSelector, FileSystem

from pulsarscope.capture import Segment
from pulsarscope.spark.files.remote_files import size_and_change
from pulsarscope.spark.files.table_files import locate

Times = tuple[int, int]
"""First and last time of the TCP packets of a capture, in nanoseconds since the epoch; (1, 0) if there are none."""

NO_PACKETS: Times = (1, 0)


class Window(msgspec.Struct, frozen=True):
    """A window of time, including both ends."""

    since: int | None = None
    until: int | None = None

    def __bool__(self) -> bool:
        return self.since is not None or self.until is not None

    def overlaps(self, times: Times) -> bool:
        """Return True when there may be a packet in the window."""
        first, last = times
        return first <= last and (self.until is None or first <= self.until) and (self.since is None or last >= self.since)


class TimesFolder:
    """The folder with the times, local or at a URI."""

    def __init__(self, place: str) -> None:
        """Raise OutputError when a URI has no known file system."""
        self._system: FileSystem
        self._system, self._path = locate(place)

    def begin(self, path: str) -> Callable[[Times], None]:
        """Return a function that notes the times of a capture whose reading starts now, unless the capture has changed since.

        If the times cannot be noted, a later read reads the capture again.
        """
        state = ""
        with suppress(OSError):
            state = _state(path)[0]

        def note(times: Times) -> None:
            with suppress(OSError):
                if _state(path)[0] == state:
                    self._system.create_dir(self._path)
                    self._system.open_output_stream(f"{self._path}/{state}_{times[0]}_{times[1]}").close()

        return note

    def reads(self, paths: Sequence[str], window: Window) -> list[tuple[bool, int]]:
        """Return for each capture whether it may have packets in the window (True if unknown), and its size in bytes."""
        known = self._known()
        states = map(_state_or_none, paths)
        return [(state not in known or window.overlaps(known[state]), size) for state, size in states]

    def _known(self) -> dict[str, Times]:
        known = {}
        for entry in self._system.get_file_info(FileSelector(self._path, allow_not_found=True)):
            state, *times = entry.base_name.split("_")
            with suppress(ValueError):  # not a file of ours
                first, last = map(int, times)
                known[state] = first, last
        return known


def widened(times: Times, flows: Iterable[Sequence[Segment]]) -> Times:
    """Return times that include those of the segments of flows."""
    first, last = times
    for segments in flows:
        for segment in segments:
            time = segment[1]
            if first > last:
                first = last = time
            elif time < first:
                first = time
            elif time > last:
                last = time
    return first, last


def _state_or_none(path: str) -> tuple[str, int]:
    try:
        return _state(path)
    except OSError:  # it has just been removed; a finding reports that
        return "", 0


def _state(path: str) -> tuple[str, int]:
    """Return a name for the state of a capture, and its size. Raises OSError when there is no capture."""
    size, modified = size_and_change(path)
    place = path.partition("?")[0] if "://" in path else str(Path(path).resolve())
    return blake2b(f"{size} {modified} {place}".encode(errors="surrogateescape"), digest_size=16).hexdigest(), size
