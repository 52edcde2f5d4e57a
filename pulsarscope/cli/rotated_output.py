"""Output of a live run in several files, each complete and readable on its own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from pulsarscope.live.recorder import Rotation, rotated_name
from pulsarscope.model.units import SECOND
from pulsarscope.output.export.sink import FolderSink, Sink, write_errors
from pulsarscope.output.registry import EncodedOutput, Output

OpenPart = Callable[[str], tuple[Sink, Output]]
"""A function that opens the file or folder with this name, and its output."""


class RotatedSink(Sink):
    """The current output file. A full file is finished when it is flushed."""

    def __init__(self, path: str, rotation: Rotation, open_part: OpenPart) -> None:
        """Open no file until there are rows. File names get a number and the start time before the suffix."""
        super().__init__(None, path)
        self._rotation = rotation
        self._open_part = open_part
        self._part: Sink | None = None
        self._output: Output | None = None
        self._written: list[str] = []
        self._files = 0
        self._since = 0.0

    def output(self) -> Output:
        """Return the output of the current file; begin one if there is none."""
        if self._output is None:
            self._files += 1
            self._since = time.monotonic()
            name = str(rotated_name(Path(self.name), self._files, time.time_ns() // SECOND))
            self._remove_oldest()
            self._part, self._output = self._open_part(name)
            self._written.append(name)
        return self._output

    def _remove_oldest(self) -> None:
        while self._rotation.files is not None and len(self._written) >= self._rotation.files:
            oldest = Path(self._written.pop(0))
            with write_errors(str(oldest)):
                if oldest.is_dir():
                    shutil.rmtree(oldest)
                else:
                    oldest.unlink(missing_ok=True)

    def flush(self) -> None:
        """Flush the file, or finish it when it is full."""
        if self._part is None:
            return
        self._part.flush()
        size, seconds = self._rotation.size, self._rotation.seconds
        if (size is not None and _size(self._part) >= size) or (seconds is not None and time.monotonic() - self._since >= seconds):
            self.finish()

    def close_output(self) -> None:
        """Write the end of the file."""
        if self._output is not None:
            output, self._output = self._output, None
            output.close()

    def finish(self) -> None:
        """Finish the file."""
        self.close_output()
        if self._part is not None:
            part, self._part = self._part, None
            part.finish()

    @property
    def unfinished(self) -> str | None:
        """See `Sink`."""
        return None if self._part is None else self._part.unfinished

    def keep(self) -> str | None:
        """Keep the file under its incomplete name."""
        return None if self._part is None else self._part.keep()

    def abandon(self) -> None:
        """Remove the incomplete file; earlier files stay."""
        if self._part is not None:
            self._part.abandon()


class RotatedOutput:
    """An output into the files of a `RotatedSink`."""

    def __init__(self, sink: RotatedSink) -> None:
        self._sink = sink

    def write(self, rows: list[Any]) -> None:
        """Write rows (see `Output`)."""
        if rows:
            self._sink.output().write(rows)

    def put(self, encoded: Any) -> None:
        """Write encoded rows (see `EncodedOutput`)."""
        if encoded:
            cast("EncodedOutput", self._sink.output()).put(encoded)

    def close(self) -> None:
        """Write pending rows and the end (see `Output`)."""
        self._sink.close_output()


def _size(sink: Sink) -> int:
    """Return the bytes written so far."""
    return sum(each.file.tell() for each in (sink.children if isinstance(sink, FolderSink) else (sink,)))
