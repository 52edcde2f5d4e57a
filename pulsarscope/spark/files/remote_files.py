"""Captures at URIs of pyarrow's file systems (s3://, s3a://, gs://, hdfs://, file://)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from pulsarscope.capture import open_local

BUFFER_BYTES = 8 << 20
"""Bytes read at a time: each read from an object store is a request, which takes as long as transferring a megabyte."""

ENDS_BYTES = 1 << 16
"""Bytes at the head and at the tail of a file by which its content is recognised."""


def system_at(uri: str) -> tuple[FileSystem, str]:
    """Return the file system of a URI, and the path in it. Raises OSError when the file system is not known."""
    with _errors():
        system_and_path: tuple[FileSystem, str] = FileSystem.from_uri(f"s3{uri[3:]}" if uri.startswith("s3a://") else uri)
        return system_and_path


def open_path(path: str) -> Any:
    """Open a local file or one at a URI for reading. Raises OSError."""
    if "://" not in path:
        return open_local(path)
    system, path_there = system_at(path)
    with _errors():
        return system.open_input_stream(path_there, compression=None, buffer_size=BUFFER_BYTES)


def list_files(uri: str) -> tuple[list[tuple[str, int]], bool]:
    """Return the files at a URI with their sizes, and False if the URI names their folder. Raises OSError when there is nothing to read.

    The last parts of the path may be patterns with * and [. Options of the file system follow a ?, such as endpoint_override.
    """
    path, question, query = uri.partition("?")
    parts = path.split("/")
    fixed = next((index for index, part in enumerate(parts) if "*" in part or "[" in part), len(parts))
    folder = "/".join(parts[:fixed])
    system, folder_path = system_at(f"{folder}{question}{query}")
    with _errors():
        info = system.get_file_info(folder_path)
        if fixed == len(parts) and info.type == FileType.File:
            return [(uri, info.size)], True
        if info.type != FileType.Directory:
            raise FileNotFoundError(f"nothing found at {folder_path}")
        patterns = parts[fixed:] or ["*"]
        files = [
            (f"{folder.rstrip('/')}/{quote(name)}{question}{query}", info.size) for name, info in _matches(system, folder_path, patterns)
        ]
    return files, fixed < len(parts)


def list_changes(uri: str) -> list[tuple[str, str, int, int]]:
    """Return name, URI, size, and modification time (nanoseconds since the epoch) of the files in a folder at a URI. Raises OSError."""
    folder, question, query = uri.partition("?")
    system, path = system_at(uri)
    with _errors():
        files = [info for info in system.get_file_info(FileSelector(path)) if info.type == FileType.File]
    return [
        (info.base_name, f"{folder.rstrip('/')}/{quote(info.base_name)}{question}{query}", info.size, info.mtime_ns or 0) for info in files
    ]


def size_and_change(path: str) -> tuple[int, int]:
    """Return size and modification time (nanoseconds since the epoch) of a file, local or at a URI. Raises OSError if there is none."""
    if "://" not in path:
        status = Path(path).stat()
        return status.st_size, status.st_mtime_ns
    system, path_there = system_at(path)
    with _errors():
        info = system.get_file_info(path_there)
    if info.type != FileType.File:
        raise FileNotFoundError(f"nothing found at {path_there}")
    return info.size, info.mtime_ns or 0


def content_mark(path: str) -> str:
    """Return a hash of the size, the head and the tail of a file, local or at a URI. Raises OSError when it cannot be read."""
    system, path_there = (LocalFileSystem(), path) if "://" not in path else system_at(path)
    with _errors(), system.open_input_file(path_there) as file:
        size = file.size()
        mark = blake2b(size.to_bytes(8, "big"), digest_size=16)
        mark.update(file.read(ENDS_BYTES))
        if size > ENDS_BYTES:
            file.seek(max(size - ENDS_BYTES, ENDS_BYTES))
            mark.update(file.read(ENDS_BYTES))
    return mark.hexdigest()


def _matches(system: FileSystem, folder: str, patterns: list[str]) -> Iterator[tuple[str, FileInfo]]:
    """Yield the files below a folder that match patterns of path parts, with their relative paths."""
    pattern, *deeper = patterns
    for info in sorted(system.get_file_info(FileSelector(folder)), key=lambda info: info.path):
        if not fnmatchcase(info.base_name, pattern):
            continue
        if info.type == FileType.File and not deeper:
            yield info.base_name, info
        elif info.type == FileType.Directory and deeper:
            yield from ((f"{info.base_name}/{name}", file) for name, file in _matches(system, info.path, deeper))


@contextmanager
def _errors() -> Iterator[None]:
    """Convert exceptions of pyarrow to OSError with a one-line message."""
    try:
        yield
    except (OSError, ValueError, NotImplementedError) as error:
        raise OSError(next(iter(str(error).splitlines()), "") or type(error).__name__) from None
