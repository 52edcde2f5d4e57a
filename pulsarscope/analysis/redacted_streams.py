"""Streams of a capture in the form that is shared: redacted frames in place of frames, and blank bytes elsewhere."""

from __future__ import annotations

import zlib
from bisect import bisect_right, insort
from collections import OrderedDict
from typing import BinaryIO

import msgspec

from pulsarscope.model.limits import REDACTED_BUFFERS_MAX_BYTES, REDACTED_CHUNK_BYTES, REDACTED_CHUNKS_CACHED

_Stream = tuple[str, str]
"""Connection and endpoint of the sender."""


class _Chunk(msgspec.Struct, frozen=True, order=True, gc=False):
    """Bytes of a stream in the file, compressed."""

    start: int
    end: int
    position: int
    size: int


class RedactedStreams:
    """Bytes by stream and offset, kept in a temporary file: memory does not grow with the frames."""

    def __init__(self, file: BinaryIO) -> None:
        """Keep the bytes in a file that nothing else writes to."""
        self._file = file
        self._end = 0
        self._buffers: dict[_Stream, tuple[int, bytearray]] = {}
        """Start and bytes that are not yet in the file."""
        self._buffered = 0
        self._chunks: dict[_Stream, list[_Chunk]] = {}
        self._cache: OrderedDict[int, bytes] = OrderedDict()
        """Contents of chunks by position."""

    def add(self, connection: str, sender: str, offset: int, data: bytes) -> None:
        """Add a redacted frame. Raises OSError if it cannot be stored."""
        stream = connection, sender
        start, buffer = self._buffers.get(stream, (offset, bytearray()))
        if buffer and (offset != start + len(buffer) or len(buffer) >= REDACTED_CHUNK_BYTES):
            self._write(stream)
            start, buffer = offset, bytearray()
        buffer += data
        self._buffered += len(data)
        self._buffers[stream] = start, buffer
        if self._buffered > REDACTED_BUFFERS_MAX_BYTES:
            for each in list(self._buffers):
                self._write(each)

    def read(self, connection: str, sender: str, start: int, end: int) -> bytes:
        """Return the bytes of a stream from one offset to another; bytes outside frames are zero. Raises OSError."""
        stream = connection, sender
        if stream in self._buffers:
            self._write(stream)
        out = bytearray(end - start)
        chunks = self._chunks.get(stream, [])
        index = max(bisect_right(chunks, start, key=lambda chunk: chunk.start) - 1, 0)
        for chunk in chunks[index:]:
            if chunk.start >= end:
                break
            first, last = max(start, chunk.start), min(end, chunk.end)
            if first < last:
                out[first - start : last - start] = self._content(chunk)[first - chunk.start : last - chunk.start]
        return bytes(out)

    def _write(self, stream: _Stream) -> None:
        start, buffer = self._buffers.pop(stream)
        self._buffered -= len(buffer)
        compressed = zlib.compress(buffer, 1)
        self._file.seek(self._end)
        self._file.write(compressed)
        insort(self._chunks.setdefault(stream, []), _Chunk(start, start + len(buffer), self._end, len(compressed)))
        self._end += len(compressed)

    def _content(self, chunk: _Chunk) -> bytes:
        if (content := self._cache.get(chunk.position)) is None:
            self._file.seek(chunk.position)
            content = self._cache[chunk.position] = zlib.decompress(self._file.read(chunk.size))
            if len(self._cache) > REDACTED_CHUNKS_CACHED:
                self._cache.popitem(last=False)
        else:
            self._cache.move_to_end(chunk.position)
        return content
