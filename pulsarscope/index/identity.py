"""Identity of an index: size, time and ends of its captures, and the options of reading. Also the place of its file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import msgspec

from pulsarscope.engine.options import Options

ENDS_BYTES = 1 << 16
"""Bytes at the head and at the tail of a capture that are compared: they differ if the capture grew, was cut or was replaced."""

SUFFIX = ".psidx"

UNFINISHED = ".incomplete"
"""Ending of the name of an index while it is being written."""

OTHERWISE_MADE = "was made with other options, or by another version"


class CaptureMark(msgspec.Struct, frozen=True):
    """The state of a capture, for comparison."""

    path: str
    """Path with links resolved."""
    size: int
    modified: int
    """Nanoseconds since the epoch."""
    ends: str
    """Hash of head and tail."""


class Identity(msgspec.Struct, frozen=True):
    """Captures, and how they were read."""

    captures: tuple[CaptureMark, ...]
    reading: str
    """Hash of the version and of the options that affect the rows."""

    @property
    def place(self) -> str:
        """Name of the index file in a folder, which does not depend on the state of the captures."""
        paths = [capture.path for capture in self.captures]
        return blake2b(msgspec.json.encode((paths, self.reading)), digest_size=16).hexdigest() + SUFFIX

    def difference(self, other: Identity) -> str | None:
        """Return in words how another identity differs; None if it does not. Another time alone is not a difference."""
        if self.reading != other.reading:
            return OTHERWISE_MADE
        if len(self.captures) != len(other.captures):
            return "belongs to other captures"
        for mine, its in zip(self.captures, other.captures, strict=True):
            if (mine.size, mine.ends) != (its.size, its.ends):
                return f"is of another file, or of another state of {mine.path}"
            if mine.modified != its.modified:
                return f"is older than {mine.path}"
        return None


def identity_of(paths: Sequence[str], options: Options, version: str) -> Identity | None:
    """Return the identity of captures read with these options by this version of the package.

    Return None where no index may be made: for pipes, and with the user's secrets, which the index would keep.
    """
    if options.show_secrets or options.key_logs.secrets or options.private_keys or options.passwords:
        return None
    marks = [_mark(path) for path in paths]
    if None in marks:
        return None
    chosen = (
        version,
        sorted(options.ports),
        sorted(options.decode_as.items()),
        options.source_by,
        sorted(options.thresholds.items()),
        sorted(options.names.items()),
        [msgspec.structs.astuple(schema) for schema in options.schemas],
    )
    reading = blake2b(msgspec.json.encode(chosen), digest_size=16).hexdigest()
    return Identity(tuple(mark for mark in marks if mark is not None), reading)


def _mark(path: str) -> CaptureMark | None:
    try:
        real = Path(path).resolve()
        if not real.is_file():
            return None
        with real.open("rb") as stream:
            status = os.fstat(stream.fileno())
            ends = blake2b(stream.read(ENDS_BYTES), digest_size=16)
            stream.seek(max(status.st_size - ENDS_BYTES, 0))
            ends.update(stream.read(ENDS_BYTES))
    except (OSError, ValueError):
        return None
    return CaptureMark(str(real), status.st_size, status.st_mtime_ns, ends.hexdigest())


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """Return the folder for indexes in the user's cache, which may not exist yet; None if there is no cache."""
    if sys.platform == "win32":
        folder = environment.get("LOCALAPPDATA", "")
    else:
        home = environment.get("HOME", "")
        folder = environment.get("XDG_CACHE_HOME") or (home and f"{home}/.cache")
    return Path(folder) / "pulsarscope" if folder else None


def places_of(identity: Identity, environment: Mapping[str, str]) -> list[Path]:
    """Return the possible places of an index: beside a single capture, and in the user's cache."""
    beside, folder = places_beside(identity), cache_folder(environment)
    return beside if folder is None else [*beside, folder / identity.place]


def is_there(place: Path) -> bool:
    """Return True if a file or folder exists. Return False also if the user may not look, or the name is too long."""
    return os.path.exists(place)  # noqa: PTH110 - Path.exists raises then


def places_beside(identity: Identity) -> list[Path]:
    """Return the place beside a single capture, or an empty list for several captures."""
    return [Path(identity.captures[0].path + SUFFIX)] if len(identity.captures) == 1 else []
