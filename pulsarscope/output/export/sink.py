"""Destinations of results: standard output, a file that gets its name when it is complete, or a folder of such files."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, NoReturn

from pulsarscope.model.errors import OutputError, UsageError, output_error

STANDARD_OUTPUT = "standard output"

PARTIAL = ".partial"
"""Suffix of the name of an incomplete file, after a random part, so that runs with the same output never collide."""

GZIP_LEVEL = 6
"""Default level of the program gzip."""

NOT_WRITTEN = frozenset({".bz2", ".lz4", ".xz"})
"""Suffixes of compressed files that are read, but not written."""

FileIdentity = tuple[int, int]
"""Device and inode of a file."""


def identity(path: str | int) -> FileIdentity | None:
    """Return the identity of the file at a path (following links) or of an open file; None if there is no file."""
    with suppress(OSError, ValueError):  # a NUL in the path is a ValueError
        # Path removes a trailing slash, as when the file is opened. It would turn "" into the current folder, although "" is no file.
        status = os.stat(Path(path) if isinstance(path, str) and path else path)  # noqa: PTH116 - may be a descriptor
        return status.st_dev, status.st_ino
    return None


def refuse_input(path: str, inputs: Collection[FileIdentity], where: str = "with -o") -> None:
    """Raise UsageError, which says where to name another file, if the output at a path would replace one of the inputs."""
    if identity(path) in inputs:
        raise UsageError(f"{path} is one of the inputs: name another file {where}")


@contextmanager
def write_errors(name: str) -> Iterator[None]:
    """Turn failed writes into OutputError. A closed pipe stays BrokenPipeError, which ends commands quietly."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise output_error(name, error, has_folder=Path(name).parent.is_dir()) from error


def _closed(name: str) -> OutputError:
    return OutputError(f"cannot write {name}: it is closed")


class ClosedStandardOutput(io.TextIOBase):
    """Replaces a missing standard output: a write raises OutputError instead of being lost silently."""

    @property
    def buffer(self) -> NoReturn:
        """Raise OutputError: bytes cannot be written either."""
        raise _closed(STANDARD_OUTPUT)

    def write(self, _text: str, /) -> NoReturn:
        """Raise OutputError."""
        raise _closed(STANDARD_OUTPUT)


class Sink:
    """A place for bytes. Its owner ends it by exactly one of `finish`, `keep` and `abandon`."""

    def __init__(self, stream: BinaryIO | None, name: str, *, directory: bool = False) -> None:
        self.stream = stream
        self.name = name
        self.directory = directory

    def write(self, data: bytes) -> None:
        """Write all of `data`. Raises OutputError on failure, BrokenPipeError when the reader has gone."""
        try:
            self.file.write(data)
        except OSError:  # entering `write_errors` takes longer than most writes
            with write_errors(self.name):
                raise

    def flush(self) -> None:
        """Flush the buffers (same errors as `write`)."""
        with write_errors(self.name):
            self.file.flush()

    @property
    def unfinished(self) -> str | None:
        """Name of the incomplete result; None if it is not a separate file."""
        return None

    @property
    def file(self) -> BinaryIO:
        """The open file, for libraries that write to it; wrap their calls in `write_errors`."""
        if self.stream is None:
            raise _closed(self.name)
        return self.stream

    def child(self, name: str) -> Sink:
        """Return a file in the folder. Raises UsageError when the sink is not a folder."""
        raise UsageError(f"{self.name} is not a folder; give one with -o for {name}")

    def finish(self) -> None:
        """Complete the result."""
        self.flush()

    def keep(self) -> str | None:
        """Keep a result that is incomplete but well-formed, and return its name, None for standard output."""
        self.finish()
        return None

    def abandon(self) -> None:
        """Remove an unusable result."""


def _compressing(stream: BinaryIO, suffix: str) -> BinaryIO:
    """Return a stream that compresses into a file, as its suffix says; the file itself for other suffixes."""
    if suffix == ".gz":
        import gzip  # noqa: PLC0415 - only for this suffix

        return gzip.GzipFile("", "wb", GZIP_LEVEL, stream, mtime=0)  # type: ignore[return-value]
    if suffix == ".zst":
        import zstandard  # noqa: PLC0415 - as above

        return zstandard.ZstdCompressor().stream_writer(stream, closefd=False)
    return stream


class FileSink(Sink):
    """A file that is written under another name in its folder, and renamed when complete. It keeps the mode of the file that it replaces.

    A name that ends in .gz or .zst selects compression.
    """

    def __init__(self, path: str, inputs: Collection[FileIdentity] = ()) -> None:
        """Create the incomplete file. Raises UsageError when the path is a link or an input, OutputError when it cannot be written."""
        self._place = Path(path).absolute()
        self._partial = self._place.with_name(f"{self._place.name}.{os.urandom(4).hex()}{PARTIAL}")
        with write_errors(path):
            # Through a link in a folder of another user, the rename would replace files that the kernel's protection of links guards.
            if self._place.is_symlink():
                instead = "leave out -o for standard output" if path == "/dev/stdout" else "name the file itself with -o"
                raise UsageError(f"{path} is a symbolic link: {instead}")
            mode = self._place.stat().st_mode & 0o7777 if self._place.exists() else None
            refuse_input(path, inputs)
            if self._place.suffix.lower() in NOT_WRITTEN:
                raise UsageError(f"{path}: outputs are compressed as .gz or .zst, not as {self._place.suffix}")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
            self._whole = os.fdopen(os.open(self._partial, flags, 0o666 if mode is None else mode & 0o600), "wb")
            super().__init__(_compressing(self._whole, self._place.suffix.lower()), path)
            if mode is not None:
                self._partial.chmod(mode)

    def finish(self) -> None:
        """Give the file its name."""
        try:
            self._close()
            with write_errors(self.name):
                self._partial.replace(self._place)
        except OutputError:
            self.abandon()
            raise

    def keep(self) -> str | None:
        """Keep the file under its incomplete name."""
        self._close()
        return self.unfinished

    @property
    def unfinished(self) -> str:
        """See `Sink`."""
        return str(Path(self.name).with_name(self._partial.name))

    def _close(self) -> None:
        with write_errors(self.name):
            self.file.close()
            self._whole.close()

    def abandon(self) -> None:
        """Remove the file."""
        for stream in (self.file, self._whole):
            with suppress(OSError):
                stream.close()
        with suppress(OSError):
            self._partial.unlink()


class DeviceSink(Sink):
    """A pipe or device, which is not renamed."""

    def __init__(self, path: str) -> None:
        with write_errors(path):
            super().__init__(Path(path).open("wb"), path)  # noqa: SIM115 - open until the sink is ended

    def finish(self) -> None:
        """Close it, with errors of buffered writes."""
        with write_errors(self.name):
            self.file.close()

    def abandon(self) -> None:
        """Close it, without errors of buffered writes."""
        with suppress(OSError):
            self.file.close()


class FolderSink(Sink):
    """A folder with a file for each kind of record."""

    def __init__(self, path: str, inputs: Collection[FileIdentity] = ()) -> None:
        """Make the folder. Raises OutputError."""
        super().__init__(None, path, directory=True)
        self._path = Path(path)
        self._inputs = inputs
        self.children: list[FileSink] = []
        with write_errors(path):
            self._made = not self._path.is_dir()
            self._path.mkdir(parents=True, exist_ok=True)

    def child(self, name: str) -> Sink:
        """Return a file in the folder; it takes its name when the folder is finished. Raises the errors of `FileSink`."""
        sink = FileSink(str(self._path / name), self._inputs)
        self.children.append(sink)
        return sink

    def flush(self) -> None:
        """Flush all files."""
        for sink in self.children:
            sink.flush()

    def finish(self) -> None:
        """Give all files their names."""
        for sink in self.children:
            sink.finish()

    def keep(self) -> str | None:
        """Keep all files under their incomplete names."""
        for sink in self.children:
            sink.keep()
        return str(self._path / f"*{PARTIAL}")

    def abandon(self) -> None:
        """Remove the files, and the folder if it is new."""
        for sink in self.children:
            sink.abandon()
        if self._made:
            with suppress(OSError):
                self._path.rmdir()


class StandardOutput(Sink):
    """Standard output as bytes."""

    def __init__(self) -> None:
        closed = sys.stdout is None or isinstance(sys.stdout, ClosedStandardOutput)
        stream: BinaryIO | None = None if closed else sys.stdout.buffer
        if isinstance(stream, io.FileIO):  # PYTHONUNBUFFERED: a signal may end its writes half-way
            stream = io.BufferedWriter(io.FileIO(stream.fileno(), "wb", closefd=False))
        super().__init__(stream, STANDARD_OUTPUT)

    def abandon(self) -> None:
        """Point the descriptor at the null device, so that the interpreter's last flush raises no error."""
        with suppress(OSError, ValueError, AttributeError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, sys.stdout.fileno())
            os.close(nowhere)


def require_file_name(path: str) -> None:
    """Raise UsageError for the path of a folder."""
    if Path(path).is_dir() or path.endswith(("/", os.sep)):
        raise UsageError(f"{path} is a folder: name a file")


def open_sink(path: str | None, *, folder: bool = False, inputs: Collection[FileIdentity] = ()) -> Sink:
    """Open the sink at `path` ("-" or None: standard output), as a folder if the output writes several files.

    Raises UsageError when a folder is needed and `path` is a file, or vice versa, and when it is one of the inputs or a link to a file;
    OutputError when it cannot be written.
    """
    if path is None or path == "-":
        if folder:
            raise UsageError("several kinds of records need a folder: give one with -o")
        return StandardOutput()
    if not path:
        raise UsageError("-o is empty: name a file, or leave it out for standard output")
    place = Path(path)
    with write_errors(path):
        if folder:
            if place.exists() and not place.is_dir():
                raise UsageError(f"{path} is a file, and a folder is needed for several files: name another")
            return FolderSink(path, inputs)
        require_file_name(path)
        if not place.exists() or place.is_file():
            return FileSink(path, inputs)
        refuse_input(path, inputs)
        return DeviceSink(path)
