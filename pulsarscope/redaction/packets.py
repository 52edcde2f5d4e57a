"""Frames without the parts that must not be shared, and the packets that carry them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from pulsarscope.analysis.redacted_streams import RedactedStreams
from pulsarscope.capture import CaptureInterface, PacketRecord
from pulsarscope.dissect.contract.capabilities import Redact
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.framing.foreign import masked_proxy_header
from pulsarscope.dissect.plugins.isolation import contained
from pulsarscope.engine.local import PacketBatch
from pulsarscope.engine.row_batch import RowBatch
from pulsarscope.model.errors import OutputError
from pulsarscope.model.flow import CLIENT
from pulsarscope.model.masked_names import MaskedNames
from pulsarscope.model.records import ConnectionRow, FrameRow, RawFrame, Row
from pulsarscope.model.text import plural
from pulsarscope.output.export.redacted_packet import LINK_TYPE_RAW, SegmentHead, redacted_packet
from pulsarscope.redaction.plain_streams import PlainStream, plain_segment

if TYPE_CHECKING:
    from pulsarscope.engine.parallel import AnyRun

COMMENT = (
    "Redacted: credentials, payloads, properties, keys and schemas are blank, addresses and names are masked, checksums are "
    "recomputed. Bytes outside frames, TLS around frames, link layers, tunnels and packets of unknown protocols are left out."
)

_IN_TLS = "inside TLS that was not decrypted"

_INTERFACE = CaptureInterface(LINK_TYPE_RAW, 0, "")

_TOO_LARGE = b"\x7f\xff\xff\xff"
"""Length field of a frame above every size limit."""


class RedactedPacket(NamedTuple):
    """A packet of the copy."""

    number: int
    """Number of the original packet in its file."""
    data: bytes
    wire_bytes: int

    def in_place_of(self, record: PacketRecord) -> PacketRecord:
        """Return the record that replaces the original."""
        return record._replace(data=self.data, wire_bytes=self.wire_bytes, interface=_INTERFACE)


class Redaction:
    """Redaction of a run's connections in three steps: decide which rows may be selected, redact frames, make packets."""

    comment = COMMENT
    """Comment in the copy."""

    def __init__(self, key: bytes, run: AnyRun, file: BinaryIO) -> None:
        """Mask names under a key; keep the redacted frames in a file."""
        self._names = MaskedNames(key)
        self._redact = {name: self._redact_of(dissector) for name, dissector in run.dissectors.items()}
        self._streams = RedactedStreams(file)
        self._plain: dict[str, dict[str, PlainStream]] = {}
        """Plain streams by connection inside TLS, then by endpoint of the sender."""
        self._left_out: Counter[str] = Counter()
        self._blank_frames = 0

    def allows(self, row: Row, dissector_of: Mapping[str, str]) -> bool:
        """Return True when the packets of a row can be redacted; count the connections that cannot, given the dissector of each."""
        if isinstance(row, ConnectionRow):
            if row.dissector is None:
                if row.tls is None and not row.client_bytes + row.server_bytes:
                    return True
                what = "of no known protocol" if row.tls is None else _IN_TLS
                self._left_out[f"{what} left out: only what is decoded can be redacted"] += 1
            elif self._redact[row.dissector] is None:
                self._left_out[f"of {row.dissector} left out: its dissector has no redaction"] += 1
            else:
                return True
            return False
        name = row.connection
        if name is None or name not in dissector_of:
            return True  # none of its frames is kept
        return self._redact[dissector_of[name]] is not None

    def add(self, batch: RowBatch, run: AnyRun, carries: Callable[[str | None], bool]) -> None:
        """Redact frames of the connections that `carries` accepts; in the batch, a `RawFrame` follows each frame. Raises OutputError."""
        frame = None
        for row in batch.rows:
            if isinstance(row, FrameRow):
                frame = row if carries(row.connection) else None
                if frame is not None and "frame-too-large" in (frame.findings or ()):
                    self._keep(frame, _TOO_LARGE, run)
            elif isinstance(row, RawFrame) and frame is not None:
                redact = self._redact.get(run.dissector_of.get(frame.connection, ""))
                if redact is None or (redacted := redact(frame, row.data)) is None:
                    continue  # its bytes are zero
                data, kept = redacted
                self._blank_frames += not kept
                self._keep(frame, data, run)

    def packets(self, batch: PacketBatch) -> Iterator[RedactedPacket]:
        """Yield the TCP packets of a batch in order. Raises OutputError."""
        segments = {segment[0]: (key, segment) for key, flow in batch.flows.items() for segment in flow}
        for record, place in batch.packets:
            if place is not None and record.number in segments:
                key, (_, _, sequence, acknowledgment, flags, window, content, missing, identification, rest) = segments[record.number]
                head = SegmentHead(key, sequence, acknowledgment, flags, window, missing, identification, rest[4:])
                if (plain := self._plain.get(place.connection)) is None:
                    payload = self._read(place.connection, place.source, place.start, place.end)
                    if place.start == 0 and (header := masked_proxy_header(content, self._names)):
                        payload = header + payload[len(header) :]
                    payload = payload.ljust(len(content), b"\0")[: len(content)]
                else:
                    receiver = next((stream for end, stream in plain.items() if end != place.source), PlainStream())
                    head, within = plain_segment(head, (place.start, place.end), plain[place.source], receiver)
                    payload = self._read(place.connection, place.source, *within)
                yield RedactedPacket(record.number, *redacted_packet(head, payload, self._names))

    def _read(self, connection: str, source: str, start: int, end: int) -> bytes:
        try:
            return self._streams.read(connection, source, start, end)
        except OSError as error:
            raise OutputError(f"cannot read redacted frames from a temporary file: {error.strerror}") from error

    def notes(self) -> Iterator[str]:
        """Yield notes for the user about the copy."""
        for why, count in sorted(self._left_out.items()):
            yield f"{plural(count, 'connection')} {why}"
        if self._plain:
            yield f"{plural(len(self._plain), 'connection')} inside TLS copied as plain packets, redacted"
        if self._blank_frames:
            yield f"{plural(self._blank_frames, 'frame')} without messages: blank messages do not compress to the same size"

    def _keep(self, frame: FrameRow, data: bytes, run: AnyRun) -> None:
        client, server = run.endpoints[frame.connection]
        sender = client if frame.direction == CLIENT else server
        if run.in_tls(frame.connection):
            streams = self._plain.setdefault(frame.connection, {client: PlainStream(), server: PlainStream()})
            streams[sender].add(*run.place(frame), frame.offset, frame.offset + len(data))
        try:
            self._streams.add(frame.connection, sender, frame.offset, data)
        except OSError as error:
            raise OutputError(f"cannot keep redacted frames in a temporary file: {error.strerror}") from error

    def _redact_of(self, dissector: Dissector) -> Callable[[FrameRow, bytes], tuple[bytes, bool] | None] | None:
        """Return the redaction of a dissector, which returns None for a frame if it fails; None if the dissector has no redaction."""
        redact = contained(dissector, "redaction", dissector.redaction, None, self._names)
        return None if redact is None else partial(contained, dissector, "redaction", _redacted, None, redact)


def _redacted(redact: Redact, frame: FrameRow, data: bytes) -> tuple[bytes, bool]:
    """Return the result of a redaction. Raises ValueError if its length differs from that of the frame."""
    redacted, kept = redact(frame, data)
    if len(redacted) != len(data):
        message = f"{len(redacted)} bytes for {len(data)}"
        raise ValueError(message)
    return redacted, kept
