"""Captures at URIs: what pyarrow has a file system for (s3://, s3a://, gs://, hdfs://, file://), on this machine and on the workers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import quote

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType

from pulsarscope.capture import open_local

BUFFER_BYTES = 8 << 20
"""Read at a time: each read of an object store is a request, which takes as long as the transfer of a megabyte."""


def system_at(uri: str) -> tuple[FileSystem, str]:
    """The file system of a URI, and the path in it.

    Raises:
        OSError: there is none.
    """
    with _errors():
        found: tuple[FileSystem, str] = FileSystem.from_uri(f"s3{uri[3:]}" if uri.startswith("s3a://") else uri)
        return found


def open_path(path: str) -> Any:
    """A file, of this machine or at a URI, to read from its start. Raises OSError."""
    if "://" not in path:
        return open_local(path)
    system, place = system_at(path)
    with _errors():
        return system.open_input_stream(place, compression=None, buffer_size=BUFFER_BYTES)


def list_files(uri: str) -> tuple[list[tuple[str, int]], bool]:
    """The files at a URI, each with its size; and whether it names them, not the folder that they are in.

    The last parts of the path may be patterns with * and [; behind a ? stands what the file system wants to know (endpoint_override).

    Raises:
        OSError: there is nothing, or it cannot be looked at.
    """
    path, question, query = uri.partition("?")
    parts = path.split("/")
    fixed = next((index for index, part in enumerate(parts) if "*" in part or "[" in part), len(parts))
    folder = "/".join(parts[:fixed])
    system, place = system_at(f"{folder}{question}{query}")
    with _errors():
        info = system.get_file_info(place)
        if fixed == len(parts) and info.type == FileType.File:
            return [(uri, info.size)], True
        if info.type != FileType.Directory:
            message = f"there is nothing at {place}"
            raise FileNotFoundError(message)
        patterns = parts[fixed:] or ["*"]
        found = [(f"{folder.rstrip('/')}/{quote(name)}{question}{query}", one.size) for name, one in _matches(system, place, patterns)]
    return found, fixed < len(parts)


def _matches(system: FileSystem, folder: str, patterns: list[str]) -> Iterator[tuple[str, FileInfo]]:
    """Files below a folder, by their paths from there."""
    pattern, *deeper = patterns
    for info in sorted(system.get_file_info(FileSelector(folder)), key=lambda one: one.path):
        if not fnmatchcase(info.base_name, pattern):
            continue
        if info.type == FileType.File and not deeper:
            yield info.base_name, info
        elif info.type == FileType.Directory and deeper:
            yield from ((f"{info.base_name}/{name}", one) for name, one in _matches(system, info.path, deeper))


@contextmanager
def _errors() -> Iterator[None]:
    """Whatever pyarrow raises becomes an OSError that says it in one line."""
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as error:
        raise OSError(next(iter(str(error).splitlines()), "") or type(error).__name__) from None
