"""The framing of snappy-java's SnappyOutputStream (xerial): a header, then blocks, each preceded by its size."""

from __future__ import annotations

MAGIC = b"\x82SNAPPY\x00"
"""First bytes; two version numbers follow, then blocks."""

BLOCKS_AT = len(MAGIC) + 8
SIZE_BYTES = 4
BLOCK_BYTES = 32_768
"""Default size of a block, bytes."""


def decompress_xerial(data: bytes, bound: int) -> tuple[bytes | None, str | None]:
    """Decompress blocks of Snappy; return the output before any damage, or None if it exceeds the bound; and the damage in words."""
    import cramjam  # noqa: PLC0415 - heavy, only when something is compressed

    output = bytearray()
    position = BLOCKS_AT
    if len(data) < position:
        return b"", "it ends too soon"
    while position < len(data):
        start = position + SIZE_BYTES
        size = int.from_bytes(data[position:start], "big", signed=True)
        if size < 0:
            return bytes(output), f"a block of {size:,} bytes is impossible"
        if start + size > len(data):
            return bytes(output), "it ends too soon"
        block = data[start : start + size]
        position = start + size
        try:
            if cramjam.snappy.decompress_raw_len(block) > bound - len(output):
                return None, None
            output += bytes(cramjam.snappy.decompress_raw(block))
        except (cramjam.DecompressionError, ValueError, OverflowError, MemoryError) as error:
            return bytes(output), str(error) or type(error).__name__
    return bytes(output), None


def compress_xerial(data: bytes, head: bytes) -> bytes:
    """Compress to Snappy blocks, as SnappyOutputStream does; the file header is taken from `head`."""
    import cramjam  # noqa: PLC0415 - as above

    blocks = [bytes(cramjam.snappy.compress_raw(data[at : at + BLOCK_BYTES])) for at in range(0, len(data), BLOCK_BYTES)]
    return head[:BLOCKS_AT] + b"".join(len(block).to_bytes(SIZE_BYTES, "big") + block for block in blocks)
