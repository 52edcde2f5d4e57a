"""Common part of the decoders of both formats: bytes in, blocks out, no I/O."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable

from pulsarscope.capture.anomalies import AnomalyCount, AnomalyCounts
from pulsarscope.capture.block import Block, KeptRecords, Owner, Segment
from pulsarscope.capture.link import link_layer as link
from pulsarscope.capture.link.decapsulation import Decapsulator
from pulsarscope.capture.link.layers import Encapsulated, Fragment, Reject
from pulsarscope.model.findings import CAPTURE_CODES, Finding
from pulsarscope.model.flow import with_source
from pulsarscope.model.tcp_flags import CONTROL_FLAGS
from pulsarscope.model.text import plural

OTHERS_MAX, STRETCH_PACKETS = 16, 4
"""Number of calls of the compiled reader within a block, each for fewer than STRETCH_PACKETS plain packets, after which the block is read
without it."""

Flows = dict[bytes, list[Segment]]


class NotACaptureError(Exception):
    """Raised within this room for input that is not a capture; the message completes the sentence "FILE is …"."""


class Decoder(ABC):
    """Decoder of one capture file, fed in pieces of any size; piece boundaries determine only the boundaries of blocks."""

    def __init__(self, file: int, *, records: bool = False, by_interface: bool = False) -> None:
        """Decode `file` of the run's list. With `records`, packets are kept as stored.

        With `by_interface`, the name of the interface, if known, is appended to flow keys.
        """
        self.secrets: list[tuple[int, bytes]] = []
        """TLS key logs in the file, each with the number of packets before it; the reader removes them."""
        self.first_time: int | None = None
        """Time of the first packet, ns."""
        self.stopped = False
        """True after damage beyond which nothing can be decoded."""
        self.recognised = False
        """True when a valid file header was read."""
        self._file = file
        self._records = KeptRecords() if records else None
        self._owners: dict[int, Owner] = {}
        self._anomalies = AnomalyCounts(file)
        self._decapsulator = Decapsulator(self._anomalies)
        self._flows_by_interface: dict[str, tuple[Flows, set[bytes]]] | None = {} if by_interface else None
        """Flows of the current block, and those with control flags, by the interface to append to their keys."""
        self.packets = 0
        """Number of the last packet so far."""
        self.last_time = 0
        """Time of the last packet so far, ns; 0 before the first."""
        self._ordered = True
        self._offset = 0  # position in the file of the first buffered byte
        self._pieces: list[bytes] = []
        self._buffered = 0
        self._bytes_needed = 0  # size of the buffered unfinished record; 0 when unknown
        self._damage: Finding | None = None
        self._skipped = False

    @abstractmethod
    def _walk(self, data: bytes, position: int, flows: Flows, control: set[bytes]) -> int:
        """Read complete records from `position` on; return the position after them."""

    @abstractmethod
    def _end(self, rest: int) -> list[Finding]:
        """Return the findings of the end of the file, with `rest` bytes of an unfinished record buffered."""

    def feed(self, chunk: bytes, bytes_read: int) -> Block:
        """Return a block with the packets that a piece of the file completes; `bytes_read` is passed on. Raises NotACaptureError."""
        flows: defaultdict[bytes, list[Segment]] = defaultdict(list)
        control: set[bytes] = set()
        first_packet = self.packets + 1
        self._ordered = True
        position = 0
        # Only the record cut by the boundary of two chunks is copied; all others are read in place.
        while self._buffered and position < len(chunk) and not self.stopped:
            piece = chunk[position : position + self._bytes_needed - self._buffered] if self._bytes_needed else chunk[position:]
            position += len(piece)
            self._pieces.append(piece)
            self._buffered += len(piece)
            if self._buffered >= self._bytes_needed:
                self._read(b"".join(self._pieces), 0, flows, control)
        if position < len(chunk) and not self.stopped:
            self._read(chunk, position, flows, control)
        flows.default_factory = None
        if self._flows_by_interface:
            for source, (own_flows, own_control) in self._flows_by_interface.items():
                flows.update((with_source(key, source), segments) for key, segments in own_flows.items())
                control.update(with_source(key, source) for key in own_control)
            self._flows_by_interface.clear()
        return self._block(flows, control, [], first_packet, bytes_read)

    def _read(self, data: bytes, position: int, flows: Flows, control: set[bytes]) -> None:
        """Read the records from `position` on, and buffer the unfinished one."""
        self._bytes_needed = 0
        self._offset -= position
        consumed = self._walk(data, position, flows, control)
        self._offset += consumed
        self._pieces = [data[consumed:]]
        self._buffered = len(data) - consumed

    def resume(self, preamble: bytes, offset: int, packets: int, counts: Iterable[AnomalyCount]) -> None:
        """Continue at a later offset in the file, between two packets. Raises NotACaptureError.

        `preamble` holds the headers, sections and interfaces that apply there, and the packet before it; `counts` holds the anomalies
        before it.
        """
        self.feed(preamble, 0)
        self._anomalies.resume(counts)
        self.packets, self._offset = packets, offset

    @property
    def counts(self) -> list[AnomalyCount]:
        """Return the anomalies of the packets so far."""
        return self._anomalies.counts

    @property
    def has_dependencies(self) -> bool:
        """Return True when fragments or damage so far affect the following packets, beyond the arguments of `resume`."""
        return (
            self._decapsulator.has_seen_fragments
            or self._damage is not None
            or any(count.code == "capture-malformed" for count in self.counts)
        )

    def skip(self, packets: int) -> None:
        """Skip packets that are left out; those that follow keep their numbers in the capture."""
        self.packets += packets
        self._skipped = self._skipped or packets > 0

    def finish(self, bytes_read: int, damage: Finding | None = None, *, continues: bool = False) -> Block:
        """Return the last block, which has no packets but the findings that sum up the file. Raises NotACaptureError within its header.

        `damage` replaces the finding on an unfinished record. If the file `continues` after this portion, only damage is reported.
        """
        ending = self._end(self._buffered)
        self._decapsulator.end()
        if continues:
            ending = [finding for finding in ending if finding.code == "capture-truncated"]
        if damage is not None:
            ending = [finding for finding in ending if finding.code != "capture-truncated"] + [damage]
        summary = [] if continues else self._anomalies.findings()
        findings = summary + ([] if self._damage is None else [self._damage]) + ending
        return self._block({}, set(), findings, self.packets + 1, bytes_read)

    def _block(self, flows: Flows, control: set[bytes], findings: list[Finding], first_packet: int, bytes_read: int) -> Block:
        packets = self.packets - first_packet + 1
        block = Block(self._file, flows, control, findings, packets, first_packet, self.packets, self.last_time, bytes_read, self._ordered)
        block.skipped, self._skipped = self._skipped, False
        if self._records is not None:
            block.records, self._records = self._records, KeptRecords()
        if self._decapsulator.fragments:
            block.fragments, self._decapsulator.fragments = self._decapsulator.fragments, []
        if self._owners:
            block.owners, self._owners = self._owners, {}
        return block

    def _carries_interface(self, link_type: int) -> bool:
        """Return True when packets of a link type name an interface that belongs to their flow."""
        return self._flows_by_interface is not None and link_type == link.LINUX_SLL2

    def _flows_of(self, source: str) -> tuple[Flows, set[bytes]]:
        flows_by_interface: dict[str, tuple[Flows, set[bytes]]] = self._flows_by_interface  # type: ignore[assignment]
        return flows_by_interface.setdefault(source, (defaultdict(list), set()))

    def _decode_packet(
        self, packet: bytes, wire_bytes: int, link_type: int, number: int, time: int, flows: Flows, control: set[bytes], interface: str = ""
    ) -> None:
        """Decode any packet, and add its segment to its flow, or count why it has none; `control` takes keys with control flags."""
        interface = "" if self._flows_by_interface is None else link.interface_of(packet, link_type, interface)
        if interface:
            flows, control = self._flows_of(interface)
        if (result := self._decode_segment(packet, wire_bytes, link_type, number, time, interface)) is not None:
            key, segment = result
            flows[key].append(segment)
            if segment[4] & CONTROL_FLAGS:
                control.add(key)

    def _decode_segment(
        self, packet: bytes, wire_bytes: int, link_type: int, number: int, time: int, interface: str
    ) -> tuple[bytes, Segment] | None:
        cut = wire_bytes - len(packet)
        if cut > 0:
            self._anomalies.add("snaplen-truncated", number, time, amount=cut)
        elif cut < 0:
            self._anomalies.add("packet-length-odd", number, time, reason="captured-more-than-sent")
        if not link.is_supported(link_type):
            name = link.NAMES.get(link_type)
            self._anomalies.add("unknown-link-type", number, time, group=f"{link_type} ({name})" if name else str(link_type))
            return None
        result = link.tcp_segment(packet, link_type, wire_bytes)
        if isinstance(result, (Encapsulated, Fragment)):
            result = self._decapsulator.segment(result, packet, number, time, interface)
        if result is None:
            return None
        if isinstance(result, Reject):
            code, reason = result.value
            self._anomalies.add(code, number, time, reason=reason)
            return None
        key, sequence, acknowledgment, flags, window, payload, missing, identification, options = result
        if missing and cut <= 0 and not self._decapsulator.is_joined(number):  # missing bytes of fragments are counted with the fragments
            self._anomalies.add("snaplen-truncated", number, time, amount=missing)
        return key, (number, time, sequence, acknowledgment, flags, window, payload, missing, identification, options)

    def _count_cuts(self, cuts: tuple[int, int, int, int, int] | None) -> None:
        """Count the packets that the compiled reader found cut: their number, all bytes cut off, most of one; the first, and its time."""
        if cuts is not None:
            packets, total, largest, first, time = cuts
            self._anomalies.add_later([AnomalyCount("snaplen-truncated", None, first, time, packets, total, largest)])

    def _count_step_back(self, number: int, time: int, previous: int) -> None:
        self._ordered = False
        self._anomalies.add("time-backwards", number, time, amount=previous - time)

    def _note_damage(self, text: str, position: int) -> None:
        """Report damage at a position in the buffered bytes: the first place as a finding, later ones in its count."""
        if self._damage is not None:
            self._damage.evidence["places"] += 1
            return
        offset = self._offset + position
        self._damage = CAPTURE_CODES["capture-malformed"].at(
            f"{text}, at byte {offset:,} of the capture, after {plural(self.packets, 'packet')}.",
            {"offset": offset, "packets": self.packets, "places": 1},
            file=self._file,
            packet=self.packets or None,
            time=self.last_time if self.packets else None,
        )

    def _truncated(self, rest: int) -> Finding:
        """Return the finding on a file that ends `rest` bytes into a record."""
        return CAPTURE_CODES["capture-truncated"].at(
            f"The capture ends {plural(rest, 'byte')} into the record at byte {self._offset:,}, after {plural(self.packets, 'packet')}.",
            {"offset": self._offset, "bytes": rest, "packets": self.packets},
            file=self._file,
            packet=self.packets or None,
            time=self.last_time if self.packets else None,
        )
