"""Names that the user brings: files with what a server tells an administrator, for what the wire has only a number for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import NAMES_MAX, NAMES_MAX_BYTES

ReadNames = Callable[[bytes, str], Mapping[str, str]]
"""Reader of one protocol's names: content of a file, name for what it does not name → names. Raises ValueError."""


def given_names(files: Iterable[str], names_readers: Callable[[], Sequence[ReadNames]]) -> dict[str, str]:
    """Read the user's files, of which later ones count. Raises UsageError when one cannot be read, or has no names."""
    paths = tuple(files)
    readers = names_readers() if paths else ()
    names: dict[str, str] = {}
    for path in paths:
        try:
            with Path(path).open("rb") as file:
                content = file.read(NAMES_MAX_BYTES + 1)
        except (OSError, ValueError) as error:  # a NUL in the path is a ValueError
            raise UsageError(f"the names {path} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        if len(content) > NAMES_MAX_BYTES:
            raise UsageError(f"the names {path} are too large: more than {NAMES_MAX_BYTES:,} bytes")
        try:
            names |= _first(readers, content, Path(path).name.partition(".")[0])
        except ValueError as problem:
            raise UsageError(f"the names {path} cannot be used: {problem}") from None
        if len(names) > NAMES_MAX:
            raise UsageError(f"the names {path} are too many: more than {NAMES_MAX:,}")
    return names


def _first(readers: Sequence[ReadNames], content: bytes, name: str) -> Mapping[str, str]:
    """Read the names for the first protocol that finds some. Raises ValueError, the first protocol's, when none does."""
    read, *others = readers
    try:
        return read(content, name)
    except ValueError:
        for other in others:
            with suppress(ValueError):
                return other(content, name)
        raise
