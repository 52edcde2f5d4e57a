"""The four codecs of Pulsar, bounded before and after decompression: no library is trusted with a size off the wire."""

from __future__ import annotations

import zlib
from typing import NamedTuple

from pulsarscope.model.limits import DECOMPRESSED_MAX_BYTES

SNAPPY_STREAM_START = b"\xff\x06\x00\x00sNaPpY"
"""First chunk of the framed Snappy format (framing_format.txt, 4.1)."""

SNAPPY_MAX_RATIO = 64
"""Maximum expansion of a Snappy stream (a copy of 64 bytes takes three, but a literal must come first; 21 was measured)."""

LZ4_MAX_RATIO = 255
"""Maximum expansion of an LZ4 block (each byte of a length adds at most 255)."""


class Opened(NamedTuple):
    """Decompressed or decrypted bytes, or None; and a finding as code and text, if any."""

    data: bytes | None
    note: tuple[str, str] | None
    given_up: int = 0
    """Number of bytes that were decompressed but exceed the bound."""


def _failed(text: str) -> Opened:
    return Opened(None, ("decompress-failed", text))


def decompress(codec: str, data: bytes, uncompressed_size: int) -> Opened:
    """Decompress a payload by the name of its codec; `uncompressed_size` comes from the metadata, 0 if they lack it."""
    if codec == "NONE":
        return Opened(data, None)
    if uncompressed_size > DECOMPRESSED_MAX_BYTES:
        return Opened(None, ("decompress-bomb", f"{codec} claims {uncompressed_size:,} bytes, the bound is {DECOMPRESSED_MAX_BYTES:,}"))
    opener = _CODECS.get(codec)
    if opener is None:
        return _failed(f"no codec is named {codec}")
    bound = uncompressed_size or DECOMPRESSED_MAX_BYTES
    try:
        opened = opener(data, bound)
    except _library_errors() as error:
        return _failed(f"{codec}: {str(error) or type(error).__name__}")
    if opened.data is not None and len(opened.data) > bound:
        return Opened(None, ("decompress-bomb", f"{codec} gives more than {bound:,} bytes"), bound)
    if opened.data is not None and uncompressed_size and len(opened.data) != uncompressed_size:
        text = f"{codec} gives {len(opened.data):,} bytes, uncompressed_size says {uncompressed_size:,}"
        return Opened(opened.data, ("size-mismatch", text))
    return opened


def _library_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of the codecs on hostile bytes. They are imported here, so that a run that opens nothing imports none."""
    import cramjam  # noqa: PLC0415 - heavy, only when a payload is opened
    import lz4.block  # noqa: PLC0415
    import zstandard  # noqa: PLC0415

    return (
        RuntimeError,
        lz4.block.LZ4BlockError,
        zlib.error,
        zstandard.ZstdError,
        cramjam.DecompressionError,
        ValueError,
        MemoryError,
        OverflowError,
        OSError,
    )


def _lz4(data: bytes, bound: int) -> Opened:
    import lz4.block  # noqa: PLC0415

    return Opened(lz4.block.decompress(data, uncompressed_size=min(bound, LZ4_MAX_RATIO * len(data) + 64)), None)


def _zlib(data: bytes, bound: int) -> Opened:
    inflater = zlib.decompressobj()
    out = inflater.decompress(data, bound + 1)
    if not inflater.eof and len(out) <= bound:
        return Opened(out, ("zlib-unfinished", "the ZLIB stream ends without its last block"))
    return Opened(out, None)


def _zstd(data: bytes, bound: int) -> Opened:
    import zstandard  # noqa: PLC0415

    declared = zstandard.frame_content_size(data)  # −1 if the header does not say
    if declared > bound:
        return Opened(None, ("decompress-bomb", f"ZSTD announces {declared:,} bytes, the bound is {bound:,}"))
    # The stream reader counts; the one-shot call trusts the size that the frame header declares.
    with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(data, read_across_frames=True) as reader:
        out = reader.read(bound + 1)
    # The reader ends silently where the data end.
    return Opened(out, None) if len(out) >= declared else _failed(f"ZSTD: only {len(out):,} of {declared:,} bytes are present")


def _snappy(data: bytes, bound: int) -> Opened:
    import cramjam  # noqa: PLC0415

    if data.startswith(SNAPPY_STREAM_START):
        out = bytearray(min(bound, SNAPPY_MAX_RATIO * len(data) + 64) + 1)
        del out[cramjam.snappy.decompress_into(data, out) :]
        return Opened(bytes(out), ("snappy-framed", "the payload is a framed Snappy stream"))
    size = cramjam.snappy.decompress_raw_len(data)
    if size > bound:
        return Opened(None, ("decompress-bomb", f"SNAPPY announces {size:,} bytes, the bound is {bound:,}"))
    return Opened(bytes(cramjam.snappy.decompress_raw(data)), None)


_CODECS = {"LZ4": _lz4, "ZLIB": _zlib, "ZSTD": _zstd, "SNAPPY": _snappy}
