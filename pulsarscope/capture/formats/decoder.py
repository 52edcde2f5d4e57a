"""What the two formats share: bytes in, blocks out, without any input or output."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable

from pulsarscope.capture.anomalies import AnomalyCount, AnomalyCounts, capture_finding
from pulsarscope.capture.block import CONTROL_FLAGS, Block, PacketRecord, Segment
from pulsarscope.capture.link import link_layer as link
from pulsarscope.capture.link.decapsulation import Decapsulator
from pulsarscope.capture.link.layers import Encapsulated, Fragment, Reject
from pulsarscope.model.findings import Finding
from pulsarscope.model.flow import key_at
from pulsarscope.model.text import plural

NANOSECONDS = 1_000_000_000

Flows = dict[bytes, list[Segment]]


class NotACaptureError(Exception):
    """Inside this room only: the bytes are no capture; says why, as the end of the sentence "FILE is …"."""


class Decoder(ABC):
    """Decodes one capture file, fed in pieces of any size; the pieces' borders change nothing but the borders of the blocks."""

    def __init__(self, file: int, *, records: bool = False, by_interface: bool = False) -> None:
        """Decodes nothing yet.

        Args:
            file: position in the run's list of files.
            records: keep each packet as it stands in the file; all of them then go the general way, not through the hot loops.
            by_interface: put the name of the interface behind flow keys, where it is known.
        """
        self.secrets: list[tuple[int, bytes]] = []
        """TLS key logs in the file, each with the number of packets before it; whoever reads takes them."""
        self.first_time: int | None = None
        """Time of the first packet."""
        self.stopped = False
        """Damage from which no way leads on: feeding more is of no use."""
        self.recognised = False
        """The file header is there and is one."""
        self._file = file
        self._records: list[PacketRecord] | None = [] if records else None
        self._anomalies = AnomalyCounts(file)
        self._decapsulator = Decapsulator(self._anomalies)
        self._flows_by_interface: dict[str, tuple[Flows, set[bytes]]] | None = {} if by_interface else None
        """Of the block: flows and those of them with control flags, by the interface whose name is to stand behind their keys."""
        self._packets = 0
        self._last_time = 0
        self._ordered = True
        self._offset = 0  # in the file, of the first byte held
        self._pieces: list[bytes] = []
        self._buffered = 0
        self._bytes_needed = 0  # bytes that the unfinished record held takes; 0 when that is not known
        self._damage: Finding | None = None

    @abstractmethod
    def _walk(self, data: bytes, position: int, flows: Flows, control: set[bytes]) -> int:
        """Reads whole records from `position` on, and returns the position behind them."""

    @abstractmethod
    def _end(self, rest: int) -> list[Finding]:
        """What the end of the file says; `rest` bytes of an unfinished record are held."""

    def feed(self, chunk: bytes, bytes_read: int) -> Block:
        """The packets that this piece of the file completes.

        Args:
            chunk: the next bytes of the file.
            bytes_read: position in the stored input, passed on to the block.

        Raises:
            NotACaptureError: the file header is not that of a capture.
        """
        flows: defaultdict[bytes, list[Segment]] = defaultdict(list)
        control: set[bytes] = set()
        first_packet = self._packets + 1
        self._ordered = True
        position = 0
        # The record that the border between two chunks cuts is put together by itself: the others are read where they are, not copied.
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
                flows.update((key_at(key, source), segments) for key, segments in own_flows.items())
                control.update(key_at(key, source) for key in own_control)
            self._flows_by_interface.clear()
        return self._block(flows, control, [], first_packet, bytes_read)

    def _read(self, data: bytes, position: int, flows: Flows, control: set[bytes]) -> None:
        """Read the records from `position` on, and hold the unfinished one."""
        self._bytes_needed = 0
        self._offset -= position
        consumed = self._walk(data, position, flows, control)
        self._offset += consumed
        self._pieces = [data[consumed:]]
        self._buffered = len(data) - consumed

    def resume(self, preamble: bytes, offset: int, packets: int, counts: Iterable[AnomalyCount]) -> None:
        """Go on at a place further on in the file, between two packets.

        Args:
            before: of what stands before it all that holds there, and the packet before.
            offset: of the place.
            packets: so many are before it.
            counts: of them.

        Raises:
            NotACaptureError: the file header is not that of a capture.
        """
        self.feed(preamble, 0)
        self._anomalies.resume(counts)
        self._packets, self._offset = packets, offset

    @property
    def counts(self) -> list[AnomalyCount]:
        """What packets did wrong so far."""
        return self._anomalies.counts

    @property
    def has_dependencies(self) -> bool:
        """Whether more of what came so far than `go_on` is told matters for what comes: fragments, or damage."""
        return (
            self._decapsulator.has_seen_fragments
            or self._damage is not None
            or any(count.code == "capture-malformed" for count in self.counts)
        )

    def skip(self, packets: int) -> None:
        """So many packets are left out here: those that follow keep the numbers that they have in the capture."""
        self._packets += packets

    @property
    def packets(self) -> int:
        """Number of the last packet so far."""
        return self._packets

    @property
    def last_time(self) -> int:
        """Its time; 0 before the first."""
        return self._last_time

    def finish(self, bytes_read: int, damage: Finding | None = None, *, continues: bool = False) -> Block:
        """The last block: no packets, and the findings that sum up the file.

        Args:
            bytes_read: as for `feed`.
            damage: why the input ended early; then an unfinished record is no finding of its own.
            goes_on: the file does, so that only damage is told.

        Raises:
            NotACaptureError: the file ended within its header.
        """
        ending = self._end(self._buffered)
        self._decapsulator.end()
        if continues:
            ending = [finding for finding in ending if finding.code == "capture-truncated"]
        if damage is not None:
            ending = [finding for finding in ending if finding.code != "capture-truncated"] + [damage]
        summary = [] if continues else self._anomalies.findings()
        findings = summary + ([] if self._damage is None else [self._damage]) + ending
        return self._block({}, set(), findings, self._packets + 1, bytes_read)

    def _block(
        self,
        flows: Flows,
        control: set[bytes],
        findings: list[Finding],
        first_packet: int,
        bytes_read: int,
    ) -> Block:
        packets = self._packets - first_packet + 1
        block = Block(
            self._file, flows, control, findings, packets, first_packet, self._packets, self._last_time, bytes_read, self._ordered
        )
        if self._records:
            block.records, self._records = self._records, []
        if self._decapsulator.fragments:
            block.fragments, self._decapsulator.fragments = self._decapsulator.fragments, []
        return block

    def _skips_hot_loop(self, link_type: int) -> bool:
        """Whether all packets of a link type go the general way: they are kept, or say themselves which interface they are of."""
        return self._records is not None or (self._flows_by_interface is not None and link_type == link.LINUX_SLL2)

    def _flows_of(self, source: str) -> tuple[Flows, set[bytes]]:
        """Where packets of an interface go, which are told apart."""
        flows_by_interface: dict[str, tuple[Flows, set[bytes]]] = self._flows_by_interface  # type: ignore[assignment]
        return flows_by_interface.setdefault(source, (defaultdict(list), set()))

    def _decode_packet(
        self,
        packet: bytes,
        wire_bytes: int,
        link_type: int,
        number: int,
        time: int,
        flows: Flows,
        control: set[bytes],
        interface: str = "",
    ) -> None:
        """The general way: any packet of any link type into its flow, or into a count of why there is none."""
        interface = "" if self._flows_by_interface is None else link.interface_of(packet, link_type, interface)
        if interface:
            flows, control = self._flows_of(interface)
        result = self._decode_segment(packet, wire_bytes, link_type, number, time, interface)
        if result is not None:
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
        key, sequence, acknowledgment, flags, window, payload, missing = result
        if missing and cut <= 0 and not self._decapsulator.is_joined(number):  # what fragments lack is counted with them
            self._anomalies.add("snaplen-truncated", number, time, amount=missing)
        return key, (number, time, sequence, acknowledgment, flags, window, payload, missing)

    def _count_step_back(self, number: int, time: int, previous: int) -> None:
        self._ordered = False
        self._anomalies.add("time-backwards", number, time, amount=previous - time)

    def _note_damage(self, text: str, position: int) -> None:
        """Notes damage at a position in the bytes held: the first place as a finding, later ones as its count."""
        if self._damage is not None:
            self._damage.evidence["places"] += 1
            return
        offset = self._offset + position
        self._damage = capture_finding(
            "capture-malformed",
            f"{text}, at byte {offset:,} of the capture, after {plural(self._packets, 'packet')}.",
            {"offset": offset, "packets": self._packets, "places": 1},
            file=self._file,
            packet=self._packets or None,
            time=self._last_time if self._packets else None,
        )

    def _truncated(self, rest: int) -> Finding:
        """The file ends `rest` bytes into a record."""
        return capture_finding(
            "capture-truncated",
            f"The capture ends {plural(rest, 'byte')} into the record at byte {self._offset:,}, after {plural(self._packets, 'packet')}.",
            {"offset": self._offset, "bytes": rest, "packets": self._packets},
            file=self._file,
            packet=self._packets or None,
            time=self._last_time if self._packets else None,
        )
