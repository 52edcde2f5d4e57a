"""Frames of a run that are read again in any order. They are on disk, so that memory grows by a few bytes for hundreds of frames."""

from __future__ import annotations

import zlib
from array import array
from collections import OrderedDict
from threading import Lock
from typing import BinaryIO

import msgspec

from pulsarscope.model.limits import BROWSED_CHUNKS_CACHED, BROWSED_FRAMES_PER_CHUNK
from pulsarscope.model.records import FrameRow


class FrameStore:
    """Frames by their position in the run. One thread may add while others read."""

    def __init__(self, file: BinaryIO) -> None:
        """Keep the frames in a file that has no other writer."""
        self._file = file
        self._positions = array("q", [0])
        """Start of each chunk in the file, and the end of the last."""
        self._tail: list[FrameRow] = []
        """Frames that are not in the file yet."""
        self._cache: OrderedDict[int, list[FrameRow]] = OrderedDict()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(list[FrameRow])
        self._lock = Lock()

    def __len__(self) -> int:
        with self._lock:
            return (len(self._positions) - 1) * BROWSED_FRAMES_PER_CHUNK + len(self._tail)

    def add(self, rows: list[FrameRow]) -> None:
        """Append frames. Raises OSError when they cannot be kept."""
        with self._lock:
            self._tail += rows
            while len(self._tail) >= BROWSED_FRAMES_PER_CHUNK:
                chunk, self._tail = self._tail[:BROWSED_FRAMES_PER_CHUNK], self._tail[BROWSED_FRAMES_PER_CHUNK:]
                data = zlib.compress(self._encoder.encode(chunk), 1)
                self._file.seek(self._positions[-1])
                self._file.write(data)
                self._positions.append(self._positions[-1] + len(data))

    def __getitem__(self, index: int) -> FrameRow:
        """Return the frame at a position, from 0. Raises IndexError, or OSError when it cannot be read."""
        number, at = divmod(index, BROWSED_FRAMES_PER_CHUNK)
        return self.chunk(number)[at]

    @property
    def chunks(self) -> int:
        """Number of chunks. All but the last have `BROWSED_FRAMES_PER_CHUNK` frames."""
        with self._lock:
            return len(self._positions)

    def start(self, number: int) -> int:
        """Return the position of the first frame of a chunk."""
        return number * BROWSED_FRAMES_PER_CHUNK

    def names(self, number: int) -> list[tuple[int, int, int]]:
        """Return file, packet and sub of the frames of a chunk. Raises the same errors as `chunk`."""
        return [(row.file or 0, row.packet or 0, row.sub or 0) for row in self.chunk(number)]

    def chunk(self, number: int) -> list[FrameRow]:
        """Return the frames of a chunk. Raises IndexError, or OSError when they cannot be read."""
        with self._lock:
            if number == len(self._positions) - 1:
                return self._tail
            if not 0 <= number < len(self._positions) - 1:
                raise IndexError(number)
            if (rows := self._cache.get(number)) is None:
                start, end = self._positions[number : number + 2]
                self._file.seek(start)
                rows = self._cache[number] = self._decoder.decode(zlib.decompress(self._file.read(end - start)))
                if len(self._cache) > BROWSED_CHUNKS_CACHED:
                    self._cache.popitem(last=False)
            else:
                self._cache.move_to_end(number)
            return rows
