"""A capture that arrives through a pipe, as from `ssh host tcpdump -U -w -`: read like a file, as fast as it is decoded.

Nothing is skipped: when decoding is too slow the pipe fills, and the other end waits or drops and says so itself.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator, Sequence

from pulsarscope.capture import Block, CaptureInterface, PacketRecord, read_blocks
from pulsarscope.capture.reader import STANDARD_INPUT
from pulsarscope.live.source import Captured, Health, Keep
from pulsarscope.model.errors import PulsarscopeError
from pulsarscope.output.export.pcapng import interface_block, packet_block

NANOSECONDS = 1_000_000_000

WAIT_SECONDS = 0.2


class PipeFeed:
    """The blocks of a pipe, an iterator that ends with the pipe, or when `stop` is called."""

    def __init__(self, path: str, *, keep: Keep | None = None, packets_max: int | None = None, by_interface: bool = False) -> None:
        """Opens the pipe when it is iterated.

        Args:
            path: of the pipe; "-" is standard input.
            keep: gets all packets.
            packets_max: stop after so many.
            by_interface: as for `capture.read_blocks`.
        """
        self.packets = 0
        self.lag = 0.0
        """Seconds between a packet's time and now, of the packets that were decoded last."""
        self.failure: PulsarscopeError | None = None
        """What the keeping raised."""
        self._path = path
        self._keep = keep
        self._packets_max = packets_max
        self._stopping = False
        self._left = False
        """It would have brought more: what it has not said whole is no damage."""
        self._interfaces: dict[CaptureInterface, int] = {}
        self._reader = read_blocks(self, records=keep is not None, by_interface=by_interface)
        self._descriptor = -1

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard input" if self._path == STANDARD_INPUT else self._path

    @property
    def recognised(self) -> bool:
        """Whether it has turned out to be a capture."""
        return self._reader.recognised

    def __iter__(self) -> Iterator[Block]:
        return self

    def __next__(self) -> Block:
        block = next(self._reader, None)
        if block is None or (self._left and not self.recognised):
            self._kept()
            raise StopIteration
        if self._left:
            block.findings = [finding for finding in block.findings if finding.code != "capture-truncated"]
        most = self._packets_max
        if most is not None and block.last_packet >= most:
            self._stopping = True
            block.records = [record for record in block.records if record.number <= most]
            block.flows = {key: kept for key, some in block.flows.items() if (kept := [one for one in some if one[0] <= most])}
        self.packets = block.last_packet if most is None else min(block.last_packet, most)
        self.lag = max(time.time() - block.last_time / NANOSECONDS, 0.0) if block.packets else self.lag
        if self._keep is not None and block.records:
            self._kept(block.records)
        return block

    def _kept(self, records: Sequence[PacketRecord] = ()) -> None:
        """Have these packets kept; without any, all have been."""
        if self._keep is None or self.failure is not None:
            return
        try:
            if records:
                self._keep(self._captured(records, self._keep))
            else:
                self._keep.end()
        except PulsarscopeError as error:
            self.failure = error
            self.stop()

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """The TLS key logs in the capture, as its reader gives them."""
        return self._reader.take_secrets()

    def health(self) -> Health:
        """As of now. What the other end of the pipe drops it says itself."""
        return Health(self.packets, 0, 0, 0, 0.0, self.lag)

    def stop(self) -> None:
        """Read no more; what was read is still decoded. May be called from a signal handler."""
        self._stopping = True

    def close(self) -> None:
        """Stop, and close the pipe."""
        self.stop()
        self._reader.close()
        if self._descriptor > 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def read(self, size: int, /) -> bytes:
        """What has arrived: the reader asks for it. Nothing at the end, and when nothing more is wanted."""
        if self._descriptor < 0:
            self._descriptor = 0 if self._path == STANDARD_INPUT else _opened(self._path)
        while not self._stopping:
            if select.select([self._descriptor], [], [], WAIT_SECONDS)[0]:
                return os.read(self._descriptor, size)
        self._left = True
        return b""

    def _captured(self, records: Sequence[PacketRecord], keep: Keep) -> Captured:
        """The packets as pcapng blocks; their interfaces are described when the first of their packets comes."""
        pieces = []
        for record in records:
            number = self._interfaces.get(record.interface)
            if number is None:
                number = self._interfaces[record.interface] = len(self._interfaces)
                keep.describe(interface_block(*record.interface))
            pieces.append(packet_block(number, record.time, record.wire_bytes, record.data))
        return Captured(b"".join(pieces), len(records), records[-1].time)


def _opened(path: str) -> int:
    """The pipe, maybe before anyone writes into it: waiting for that in `open` no signal and no time would end it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor
