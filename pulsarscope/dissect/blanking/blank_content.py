"""Blank content in place of what must not be shared. It has the same size, even when compressed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, product

from pulsarscope.dissect.blanking.longer_streams import longer_gzip, longer_snappy, longer_zlib
from pulsarscope.model.masked_names import MaskedNames

Compress = Callable[[bytes, int], bytes]
"""(content, size) → the compressed content, of that size if the format allows."""

Area = tuple[int, int]
"""Start and end of a payload."""

FIT_NEAR, FIT_BACK, FIT_VARIANTS = 12, (1, 20, 64), 9
"""How many amounts of noise are tried on either side of the best one; the steps back from there; and the kinds of noise."""

FITTED_MAX_BYTES, FITTED_TRIES = 32 << 20, 40
"""Bounds on the search for content of one size: bytes compressed, and tries. A search in large content needs that many tries."""

CALL_BYTES = 4_096
"""Overhead of one call, as the number of bytes that are compressed in that time."""

DISTINCT_BYTES = (16, 4, 0)
"""Bytes by which blank messages differ when their contents did. Well-compressed content does not have room for many."""

LEVELS = (6, 9, 1, 0)
"""Levels of zlib, the most common first."""

_SHORT, _LONG = bytes(byte & 0x7F for byte in range(256)), bytes(byte | 0x90 for byte in range(256))
"""Bytes with a short and with a long code in the fixed Huffman table (RFC 1951, 3.2.6)."""


def filler(names: MaskedNames, payload: bytes, distinct: int = DISTINCT_BYTES[0]) -> bytes:
    """Return blank content for a payload. Equal payloads get equal content, others different content: rules recognise copies by content."""
    return names.noise(payload, min(len(payload), distinct)).ljust(len(payload), b"\0")


class CompressionBudget:
    """Bytes that may still be compressed and decompressed. Without a bound, small hostile frames would take hours."""

    def __init__(self, size: int = FITTED_MAX_BYTES) -> None:
        self.left = size

    def spend(self, size: int) -> None:
        """Count one call with `size` bytes."""
        self.left -= size + CALL_BYTES


def fitted(
    names: MaskedNames, compressors: Sequence[Compress], content: bytes, areas: Sequence[Area], size: int, budget: CompressionBudget
) -> bytes | None:
    """Return compressed content of exactly `size` bytes, with as much noise in the payloads as that requires; None if impossible.

    A search is finished once it has begun, even if it exceeds the budget.
    """
    room = sum(end - start for start, end in areas)
    seed = names.noise(content, 16)
    tries = max(budget.left // (len(content) + CALL_BYTES), FITTED_TRIES) if budget.left > 0 else 0
    for variant, compress in product(range(FIT_VARIANTS), compressors):
        noise = names.noise(seed + bytes([variant]), room)
        if variant % 3:  # ZLIB writes some bytes with 8 bits, others with 9
            noise = noise.translate(_LONG if variant % 3 == 1 else _SHORT)
        sizes: list[int] = []
        for first, last in islice(_counts(room, size, sizes), tries):
            found = compress(_with_noise(content, areas, noise, first, last), size)
            budget.spend(len(content))
            sizes.append(len(found))
            tries -= 1
            if len(found) == size:
                return found
    return None


def _with_noise(content: bytes, areas: Sequence[Area], noise: bytes, first: int, last: int) -> bytes:
    """Return the content with noise in the given numbers of first and last bytes of its payloads."""
    out = bytearray(content)
    done, left = 0, len(noise)
    for start, end in areas:
        if (taken := min(end - start, first - done)) <= 0:
            break
        out[start : start + taken] = noise[done : done + taken]
        done += taken
    for start, end in reversed(areas):
        if (taken := min(end - start, left - len(noise) + last)) <= 0:
            break
        out[end - taken : end] = noise[left - taken : left]
        left -= taken
    return bytes(out)


def _counts(room: int, size: int, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the numbers of first and last noise bytes to try. The caller appends the resulting size of each try to `sizes`.

    Compressed content nearly always grows with the noise: a binary search comes first, then the numbers near its result, and then less
    noise with a few separate bytes, where sizes grow by single bytes.
    """
    yield 0, 0
    if sizes[-1] > size:
        return
    yield room, 0
    if sizes[-1] < size:
        return
    low, high = 0, room
    while low < high:
        middle = (low + high) // 2
        yield middle, 0
        low, high = (middle + 1, high) if sizes[-1] < size else (low, middle)
    for first in range(max(low - FIT_NEAR, 0), min(low + FIT_NEAR, room) + 1):
        yield first, 0
    for back in FIT_BACK:
        first = max(low - back, 0)
        yield first, 0
        missing = size - sizes[-1]
        for last in range(max(missing - FIT_NEAR, 1), min(missing + FIT_NEAR, room - first) + 1):
            yield first, last


def lengthened(compress: Callable[[bytes], bytes], lengthen: Callable[[bytes, int, bytes], bytes | None]) -> Compress:
    """Return a function that compresses, and lengthens the stream when it is too short."""

    def compress_to(content: bytes, size: int) -> bytes:
        stream = compress(content)
        return (lengthen(stream, size - len(stream), content) if len(stream) < size else None) or stream

    return compress_to


def deflations(wbits: int = zlib.MAX_WBITS, *, ends: bool = True) -> list[Compress]:
    """Return functions that compress with zlib in a format, possibly without the last block. One may reach a size that another cannot."""
    longer = longer_gzip if wbits > zlib.MAX_WBITS else longer_zlib
    return [lengthened(partial(_deflated, level=level, wbits=wbits, ends=ends), longer) for level in LEVELS]


def snappy_blocks() -> list[Compress]:
    """Return the function that compresses to a single block of Snappy."""
    import cramjam  # noqa: PLC0415 - heavy, only when something compressed is redacted

    return [lengthened(lambda content: bytes(cramjam.snappy.compress_raw(content)), longer_snappy)]


def _deflated(data: bytes, level: int, wbits: int, *, ends: bool) -> bytes:
    compressor = zlib.compressobj(level, wbits=wbits)
    return compressor.compress(data) + compressor.flush(zlib.Z_FINISH if ends else zlib.Z_SYNC_FLUSH)
