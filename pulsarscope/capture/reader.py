"""Reader of one file or stream, the input side of the capture room."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Protocol

from pulsarscope.capture.anomalies import AnomalyCount
from pulsarscope.capture.block import Block
from pulsarscope.capture.formats import pcap, pcapng
from pulsarscope.capture.formats.compression import ReadProgress, decompressed
from pulsarscope.capture.formats.decoder import Decoder, NotACaptureError
from pulsarscope.capture.formats.signatures import looks_like
from pulsarscope.capture.portions import Portion
from pulsarscope.model.errors import system_reason
from pulsarscope.model.findings import CAPTURE_CODES, Finding
from pulsarscope.model.limits import (
    HEAP_KEPT_BYTES,
    READ_BLOCK_BYTES,
    READ_BLOCK_FLOW_PACKETS,
    READ_BLOCK_MAX_BYTES,
    READ_BLOCK_PACKETS,
)
from pulsarscope.model.text import STANDARD_INPUT, input_name, plural

Opener = Callable[[str], AbstractContextManager["ByteStream"]]
"""Function that opens a path; raises OSError."""

SMALL_BLOCK_MAX_BYTES = READ_BLOCK_MAX_BYTES // 2
"""Largest read where rules take frames in columns, or packets are kept as they are stored: 4 MiB less with many frames in a packet."""

SHORT_READ_BYTES, SHORT_FLOWS = 256 << 10, 32
"""Minimum size of a read after a block in which more than SHORT_FLOWS flows, and most of all, begin or end: a connection split over two
blocks costs several times as much as one within a block. 512 KiB would save another sixth, and take 2 MiB."""

READ_LARGE_FACTOR = 5
"""Factor on the size of blocks with few frames: it saves most of the work per block; memory grows by 7 MiB."""

_MAGIC_BYTES = 4


class ByteStream(Protocol):
    """Readable stream of bytes: a file, a pipe, a socket's file, a BytesIO; `read1` is used where it exists."""

    def read(self, size: int, /) -> bytes | None:
        """Return up to `size` bytes, none at the end."""


def open_local(path: str) -> AbstractContextManager[ByteStream]:
    """Open a file of this machine. Raises OSError when it cannot be opened."""
    try:
        return Path(path).open("rb", buffering=0)
    except ValueError as error:  # a NUL in the path
        raise OSError(str(error)) from None


class BlockReader:
    """Iterator over the blocks of one input.

    Bad input never raises an exception: it becomes findings in the last block, which always comes. Any read may be short, so that packets
    of a pipe are decoded as they arrive; only a portion needs to seek.
    """

    def __init__(
        self,
        source: str | ByteStream,
        file: int = 0,
        *,
        read_bytes: int | None = None,
        records: bool = False,
        by_interface: bool = False,
        opener: Opener = open_local,
        portion: Portion | None = None,
    ) -> None:
        """Prepare to read a path, "-" for standard input, or a stream of bytes, which the caller closes; iteration opens the input.

        One read has `read_bytes`; by default, the size adapts to the size of the packets and the number of flows. With `records`, blocks
        keep the packets as stored in the file; with `by_interface`, flow keys have the interface, if it is known (`flow.source_of_key`).
        """
        self._source = source
        self._file = file
        self._read_bytes = read_bytes or READ_BLOCK_BYTES
        self._adapts = read_bytes is None
        self._opener = opener
        self._decoder_options = {"records": records, "by_interface": by_interface}
        self._portion = portion or Portion(file)
        self._progress = ReadProgress()
        self._decoder: Decoder | None = None
        self._head = b""  # less than a magic number
        self.few_frames = False
        """Set by the consumer when the latest block had few frames: the next one may be larger."""
        self.in_columns = False
        """Set by a consumer that keeps frames in columns: more of the heap is kept, whose pages would otherwise go back to the kernel
        between blocks."""
        self.needs_small_blocks = records
        """Set by a consumer that keeps a multiple of a block's bytes."""
        self.looks_like = ""
        """Apparent type of an input that is not a capture; "" if it began like one."""
        self._iterator: Generator[Block, None, None] = self._blocks()

    @property
    def name(self) -> str:
        """Return the name of the input for messages: its path with control characters escaped, or "standard input"."""
        source = self._source if isinstance(self._source, str) else str(getattr(self._source, "name", "the stream"))
        return input_name(source)

    @property
    def recognised(self) -> bool:
        """Return True when the input has turned out to be a capture."""
        return self._decoder is not None and self._decoder.recognised

    @property
    def first_time(self) -> int | None:
        """Return the time of the first packet in ns since the epoch, None before it was read."""
        return None if self._decoder is None else self._decoder.first_time

    @property
    def counts(self) -> list[AnomalyCount]:
        """Return the anomalies of the packets so far."""
        return [] if self._decoder is None else self._decoder.counts

    @property
    def has_dependencies(self) -> bool:
        """Return True when the following packets cannot be decoded without those so far."""
        return self._decoder is not None and self._decoder.has_dependencies

    @property
    def can_bring_secrets(self) -> bool:
        """Return True when the format of the input, known after the first block, has a place for TLS secrets."""
        return isinstance(self._decoder, pcapng.PcapngDecoder)

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """Return the TLS key logs in pcapng Decryption Secrets Blocks since the last call, each with the number of packets before it."""
        if self._decoder is None or not self._decoder.secrets:
            return []
        secrets, self._decoder.secrets = self._decoder.secrets, []
        return secrets

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        return next(self._iterator)

    def close(self) -> None:
        """Stop reading, and close the file if the reader opened it."""
        self._iterator.close()

    def _blocks(self) -> Generator[Block, None, None]:
        bytes(kept := HEAP_KEPT_BYTES)  # freed at once: glibc then keeps as much of the heap (mallopt(3), M_MMAP_THRESHOLD)
        try:
            with self._open() as stream:
                for chunk in self._input(stream):
                    if (block := self._feed(chunk)) is not None and block.packets:
                        flows = len(block.flows)  # the consumer of the block may remove some
                        yield block
                        if self._adapts:
                            packets = max(READ_BLOCK_PACKETS, flows * READ_BLOCK_FLOW_PACKETS)
                            factor = READ_LARGE_FACTOR if self.few_frames else 1
                            target = len(chunk) * packets // block.packets * factor
                            are_short = len(block.control) > max(SHORT_FLOWS, flows // 2)
                            least = SHORT_READ_BYTES if are_short else READ_BLOCK_BYTES
                            most = (SMALL_BLOCK_MAX_BYTES if self.needs_small_blocks else READ_BLOCK_MAX_BYTES) * factor
                            self._read_bytes = min(max(target, least), most)
                            needed = 4 * HEAP_KEPT_BYTES if self.in_columns else self._read_bytes
                            if needed > kept:
                                bytes(kept := max(needed, most))
                    if self._decoder is not None and self._decoder.stopped:
                        break
            last = self._last_block(self._progress.damage)
        except NotACaptureError as error:
            last = self._only_block("not-a-capture", f"{self.name} is {error}.")
        except OSError as error:
            reason = system_reason(error)
            if self._decoder is None or not self._decoder.recognised:
                last = self._only_block("file-unreadable", f"{self.name} cannot be read: {reason}.")
            else:
                last = self._last_block(self._finding("file-unreadable", f"Reading {self.name} failed: {reason}."))
        yield last

    def _open(self) -> AbstractContextManager[ByteStream]:
        if not isinstance(self._source, str):
            return nullcontext(self._source)
        if self._source == STANDARD_INPUT:
            return nullcontext(sys.stdin.buffer)
        return self._opener(self._source)

    def _input(self, stream: ByteStream) -> Iterator[bytes]:
        """Return the decompressed input, after decoding the preamble of a portion."""
        portion = self._portion
        if portion.is_complete_file:
            return decompressed(self._chunks(stream), self._progress, self._file)
        if preamble := portion.seek(stream):
            self._decoder = self._decoder_for(preamble)
            self._decoder.resume(preamble, portion.start, portion.packets, portion.counts)
        return self._chunks(stream)

    def _chunks(self, stream: ByteStream) -> Iterator[bytes]:
        """Yield available bytes without waiting to fill a block: with `read1` of buffered streams, `read` of raw ones."""
        read = getattr(stream, "read1", stream.read)
        while chunk := read(min(self._read_bytes, self._portion.remaining(self._progress.bytes_read))):
            self._progress.bytes_read += len(chunk)
            yield chunk

    def _feed(self, chunk: bytes) -> Block | None:
        if self._decoder is None:
            self._head += chunk
            if len(self._head) < _MAGIC_BYTES:
                return None
            self._decoder = self._decoder_for(self._head)
            chunk, self._head = self._head, b""
        return self._decoder.feed(chunk, self._progress.bytes_read)

    def _decoder_for(self, head: bytes) -> Decoder:
        magic = head[:_MAGIC_BYTES]
        if magic == pcapng.MAGIC:
            return pcapng.PcapngDecoder(self._file, **self._decoder_options)
        if magic in pcap.MAGICS:
            return pcap.PcapDecoder(self._file, magic, **self._decoder_options)
        self.looks_like = looks_like(head)
        raise NotACaptureError(self.looks_like if " capture" in self.looks_like else f"{self.looks_like}, not a capture")

    def _last_block(self, damage: Finding | None) -> Block:
        if self._decoder is not None:
            return self._decoder.finish(self._progress.bytes_read, damage, continues=self._portion.end is not None)
        if damage is not None:
            message = f"not readable as a capture: {damage.text.rstrip('.')}"
        elif not self._head:
            self.looks_like = message = "empty"
        else:
            self.looks_like = looks_like(self._head)
            message = f"too short to be a capture ({plural(len(self._head), 'byte')})"
        raise NotACaptureError(message)

    def _finding(self, code: str, text: str) -> Finding:
        evidence = {"path": self.name}
        if self.looks_like:
            evidence["looks_like"] = self.looks_like
        finding = CAPTURE_CODES[code].at(text, evidence, file=self._file)
        damage = self._progress.damage
        if code == "not-a-capture" and damage is not None and damage.code == "capture-truncated":
            finding.hint = "The compressed file is incomplete: copy it again."
        return finding

    def _only_block(self, code: str, text: str) -> Block:
        """Return the only block of an input that is not a capture."""
        return Block(self._file, {}, set(), [self._finding(code, text)], 0, 1, 0, 0, self._progress.bytes_read)
