"""Live captures in steps, from which any process makes the same blocks."""

from __future__ import annotations

import msgspec

from pulsarscope.capture.block import Block
from pulsarscope.capture.formats.pcapng import PcapngDecoder
from pulsarscope.model.findings import Finding


class LiveStep(msgspec.Struct):
    """The next part of a live capture: the content of one block."""

    data: bytes = b""
    """Packets as pcapng blocks."""
    bytes_read: int = 0
    """Bytes of packets so far."""
    skipped: int = 0
    """Number of packets skipped before these."""
    present: int = 0
    """Present time in a step without packets, ns since the epoch; otherwise 0."""
    findings: list[Finding] = []
    secrets: bytes = b""
    """New lines of TLS key logs."""
    last: bool = False


class StepDecoder:
    """Decoder of the steps of one capture, in their order."""

    def __init__(self, *, by_interface: bool = False, records: bool = False) -> None:
        self._decoder = PcapngDecoder(0, by_interface=by_interface, records=records)

    @property
    def first_time(self) -> int | None:
        """Return the time of the first packet, None before it came."""
        return self._decoder.first_time

    def block(self, step: LiveStep) -> Block:
        """Return the block of a step."""
        if step.skipped:
            self._decoder.skip(step.skipped)
        block = self._decoder.finish(step.bytes_read) if step.last else self._decoder.feed(step.data, step.bytes_read)
        if step.present:
            block.last_time = step.present
        block.findings += step.findings
        return block
