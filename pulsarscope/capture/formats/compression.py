"""Streaming decompression of gzip (RFC 1952), zstd (RFC 8878 section 3.1), xz, bzip2 and LZ4 frames, recognised by their first bytes.

All that a cut or damaged file still contains is decompressed, in pieces of bounded size, before the damage is reported.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Protocol

import msgspec

from pulsarscope.model.findings import CAPTURE_CODES, Finding
from pulsarscope.model.limits import (
    DECOMPRESS_FREE_BYTES,
    DECOMPRESS_RATIO_MAX,
    DECOMPRESS_STEP_BYTES,
    READ_BLOCK_BYTES,
    XZ_MEMORY_MAX_BYTES,
)

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
XZ_MAGIC = b"\xfd7zXZ\x00"
BZIP2_MAGIC = b"BZh"
LZ4_MAGIC = b"\x04\x22\x4d\x18"
_SKIPPABLE_MAGIC = b"\x2a\x4d\x18"  # after a first byte 0x50 to 0x5f
_GZIP = 16 + zlib.MAX_WBITS


class ReadProgress(msgspec.Struct):
    """Progress of reading the stored input, and the finding that ended it early."""

    bytes_read: int = 0
    damage: Finding | None = None


def decompressed(chunks: Iterator[bytes], progress: ReadProgress, file: int) -> Iterator[bytes]:
    """Yield the chunks unchanged, or decompressed if they begin like a compressed file; `progress` gets the finding on damage."""
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= len(XZ_MAGIC):
            break
    if not head:
        return
    stored = chain((head,), chunks)
    if head.startswith(GZIP_MAGIC):
        yield from _guarded(_gunzip(stored), "gzip", progress, file)
    elif is_zstd(head):
        yield from _guarded(_unzstd(stored), "zstd", progress, file)
    elif (name := next((name for name, magic in _STREAM_MAGICS.items() if head.startswith(magic)), None)) is not None:
        yield from _guarded(_streams(stored, name), name, progress, file)
    else:
        yield from stored


def is_zstd(head: bytes) -> bool:
    """Return True when at least four bytes begin a zstd frame or a skippable frame."""
    return head.startswith(ZSTD_MAGIC) or (head[1:4] == _SKIPPABLE_MAGIC and head[0] & 0xF0 == 0x50)


COMPRESSED_SUFFIXES = (".gz", ".zst", ".xz", ".bz2", ".lz4")
"""Usual suffixes of compressed files, for estimates and lists: files are recognised by content."""

_STREAM_MAGICS = {"xz": XZ_MAGIC, "bzip2": BZIP2_MAGIC, "LZ4": LZ4_MAGIC}


class _CutError(Exception):
    """Raised for compressed input that ends early."""


class _CorruptError(Exception):
    """Raised for damaged compressed input."""


def _guarded(pieces: Iterator[bytes], name: str, progress: ReadProgress, file: int) -> Iterator[bytes]:
    """Yield the pieces until they end, fail, or exceed the bound on the compression ratio."""
    total = 0
    code, text = "capture-malformed", ""
    try:
        for piece in pieces:
            total += len(piece)
            yield piece
            if total > DECOMPRESS_FREE_BYTES and total > DECOMPRESS_RATIO_MAX * progress.bytes_read:
                text = f"The {name} file expands more than {DECOMPRESS_RATIO_MAX:,}-fold"
                break
        else:
            return
    except _CutError:
        code, text = "capture-truncated", f"The {name} file is cut"
    except _CorruptError as error:
        text = f"The {name} file is damaged ({error})"
    progress.damage = CAPTURE_CODES[code].at(
        f"{text}, after {total:,} decompressed bytes.",
        {"compression": name, "bytes_read": progress.bytes_read, "decompressed": total},
        file=file,
    )


def _gunzip(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress the members of a gzip file; zero bytes may stand between and after them."""
    member = zlib.decompressobj(_GZIP)
    begun = False
    for chunk in chunks:
        data = chunk
        while data:
            if not begun:
                if not (data := data.lstrip(b"\x00")):
                    break
                begun = True
            before = member.copy()
            try:
                piece = member.decompress(data, READ_BLOCK_BYTES)
            except zlib.error as error:
                yield from _until_error(before, data)
                raise _CorruptError(str(error).rpartition(": ")[2]) from None
            if piece:
                yield piece
            data = member.unconsumed_tail
            if member.eof:
                data = member.unused_data
                member = zlib.decompressobj(_GZIP)
                begun = False
    if begun:
        if rest := member.flush():
            yield rest
        raise _CutError


class _Inflater(Protocol):
    def decompress(self, data: bytes, max_length: int = ..., /) -> bytes: ...


def _until_error(member: _Inflater, data: bytes) -> Iterator[bytes]:
    """Decompress byte by byte up to an error: zlib discards the output of a call that fails."""
    for position in range(len(data)):
        try:
            piece = member.decompress(data[position : position + 1])
        except zlib.error:
            return
        if piece:
            yield piece


class _Decompressor(Protocol):
    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes | None: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def _stream_maker(name: str) -> tuple[Callable[[], _Decompressor], tuple[type[Exception], ...]]:
    """Return a maker of decompressors for single streams of a format, and their errors. Raises _CorruptError if Python lacks the format."""
    try:
        if name == "xz":
            import lzma  # noqa: PLC0415 - imported on use

            return lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, XZ_MEMORY_MAX_BYTES), (lzma.LZMAError, EOFError)
        if name == "bzip2":
            import bz2  # noqa: PLC0415 - as above

            return bz2.BZ2Decompressor, (OSError, ValueError, EOFError)
        import lz4.frame  # noqa: PLC0415 - as above
    except ImportError as error:
        raise _CorruptError(f"this Python cannot read it: {error}") from None
    return lz4.frame.LZ4FrameDecompressor, (RuntimeError, EOFError)


def _streams(chunks: Iterator[bytes], name: str) -> Iterator[bytes]:
    """Decompress the consecutive streams of a file; zero bytes may stand between and after them, as xz pads.

    Steps are small, because an error discards the output of its step.
    """
    make, errors = _stream_maker(name)
    magic = _STREAM_MAGICS[name]
    stream = make()
    begun = False
    for chunk in chunks:
        data = chunk
        while data or (begun and not stream.needs_input):
            if not begun:
                if not (data := data.lstrip(b"\x00")):
                    break
                if data[: len(magic)] != magic[: len(data)]:
                    raise _CorruptError(f"bytes that are not a {name} stream")
                begun = True
            pieces: list[bytes] = []
            error = _step(stream, data, pieces, errors)
            if pieces:
                yield b"".join(pieces)
            if error is not None:
                raise _CorruptError(str(error)) from None
            data = b""
            if stream.eof:
                data, stream, begun = stream.unused_data or b"", make(), False
    if begun:
        raise _CutError


def _step(stream: _Decompressor, data: bytes, pieces: list[bytes], errors: tuple[type[Exception], ...]) -> Exception | None:
    """Decompress up to a block into `pieces`; return the error that ends it early, if any."""
    size = 0
    try:
        while size < READ_BLOCK_BYTES and not stream.eof and (data or not stream.needs_input):
            piece = stream.decompress(data, DECOMPRESS_STEP_BYTES)
            data = b""
            pieces.append(piece)
            size += len(piece)
    except errors as error:
        return error
    return None


def _unzstd(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Decompress the frames of a zstd file.

    The decompressor is fed one block at a time: this bounds a piece to 128 KiB, and all blocks before a damaged one are decompressed.
    """
    import zstandard  # noqa: PLC0415 - imported on use

    make: Callable[[], zstandard.ZstdDecompressionObj] = zstandard.ZstdDecompressor().decompressobj
    frame = make()
    for unit, ends_frame in _zstd_units(chunks):
        try:
            piece = frame.decompress(unit)
        except zstandard.ZstdError as error:
            raise _CorruptError(str(error).rpartition(": ")[2]) from None
        if piece:
            yield piece
        if ends_frame:
            frame = make()


class _Units:
    """Buffer that yields exact numbers of bytes from chunks."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = bytearray()

    def take(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer only at the end of the input."""
        while len(self._buffer) < size:
            if not (chunk := next(self._chunks, b"")):
                break
            self._buffer += chunk
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def take_all(self, size: int) -> bytes:
        """Return exactly the next `size` bytes. Raises _CutError when the input ends before them."""
        taken = self.take(size)
        if len(taken) < size:
            raise _CutError
        return taken

    def skip(self, size: int) -> None:
        """Drop the next `size` bytes without buffering them. Raises _CutError when the input ends before them."""
        while size:
            size -= len(self.take_all(min(size, READ_BLOCK_BYTES)))


def _zstd_units(chunks: Iterator[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Yield headers, blocks and checksums of the frames with a flag for the end of a frame (RFC 8878 section 3.1.1).

    Skippable frames are left out. Only lengths are read here; the decompressor validates the contents.
    """
    units = _Units(chunks)
    while magic := units.take(4):
        if len(magic) < 4:
            raise _CutError
        if not is_zstd(magic):
            raise _CorruptError("bytes that are not a zstd frame")
        if magic != ZSTD_MAGIC:
            units.skip(int.from_bytes(units.take_all(4), "little"))
            continue
        descriptor = units.take_all(1)
        single_segment = descriptor[0] >> 5 & 1
        content_size_bytes = (single_segment, 2, 4, 8)[descriptor[0] >> 6]
        dictionary_bytes = (0, 1, 2, 4)[descriptor[0] & 3]
        has_checksum = bool(descriptor[0] & 4)
        yield magic + descriptor + units.take_all(1 - single_segment + dictionary_bytes + content_size_bytes), False
        last = False
        while not last:
            header = units.take_all(3)
            bits = int.from_bytes(header, "little")
            last = bool(bits & 1)
            is_run = bits >> 1 & 3 == 1  # RLE block: one byte stands for all of it
            yield header + units.take_all(1 if is_run else bits >> 3), last and not has_checksum
        if has_checksum:
            yield units.take_all(4), True
