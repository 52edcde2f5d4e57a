"""Rows of what a connection says: findings and exchanges."""

from __future__ import annotations

from typing import Any

from pulsarscope.dissect.exchange import Request, Response, elapsed
from pulsarscope.dissect.finding import frame_finding
from pulsarscope.dissect.frames import Frame, Origin
from pulsarscope.model.findings import CAPTURE_CODES
from pulsarscope.model.records import ExchangeRow, FindingRow, MessageRow, Row
from pulsarscope.protocols.pulsar.findings import CODES
from pulsarscope.protocols.pulsar.session.exchanges import error_of
from pulsarscope.protocols.pulsar.session.participants import Sent

_CODES = {**CODES, **CAPTURE_CODES}


class SessionRows:
    """Makes the rows of one connection."""

    def __init__(self, origin: Origin, *, want_exchanges: bool) -> None:
        self._origin = origin
        self._want_exchanges = want_exchanges

    def finding(self, frame: Frame | Response, code: str, text: str, evidence: dict[str, Any]) -> FindingRow:
        """What is to be said of a frame; `text` without its end."""
        return frame_finding(_CODES[code], frame, text, evidence, self._origin)

    def incomplete(self, row: MessageRow) -> FindingRow:
        """That chunks of a message are missing; `row`: of the last one seen."""
        known = CODES["chunk-incomplete"]
        name = f"{row.file}:{row.packet}.{row.sub}"
        text = f"A message of {row.chunks} chunks ends unfinished with the chunk of {name}."
        source, connection, dissector = self._origin
        where = (source, row.file, row.packet, row.sub, row.time, connection, dissector)
        return FindingRow(*where, known.code, known.severity, known.layer, text, {"frame": name, "chunks": row.chunks}, known.hint)

    def exchange(self, request: Request | None, response: Response | None, latency_ns: int | None, out: list[Row]) -> None:
        """The row of a request with its final response; either may be missing."""
        where = request or response
        if where is None or not self._want_exchanges:
            return
        source, connection, dissector = self._origin
        row = ExchangeRow(source, where.file, where.packet, where.sub, where.time, connection, dissector)
        row.status = "unanswered"
        if response is not None:
            row.error, row.error_message = error_of(response.command, response.fields)
            row.status = "ok" if row.error is None else "error"
            row.response = response.command
            row.response_file = response.file
            row.response_packet = response.packet
            row.response_sub = response.sub
        if request is not None:
            row.request = request.command
            row.key = request.key
            row.topic = request.topic
            row.producer_name = request.producer_name
            row.subscription = request.subscription
        elif response is not None:
            row.status = "unrequested"
            row.key = _key_text(response.fields)
        row.latency_ns = latency_ns
        out.append(row)

    def latency(self, request: Request | Sent, response: Frame | Response, out: list[Row]) -> int | None:
        """Nanoseconds, or None and a note when the capture has the two in the wrong order."""
        if request.file == response.file and request.packet <= response.packet and request.time <= response.time:
            return response.time - request.time
        latency = elapsed((request.file, request.packet), request.time, (response.file, response.packet), response.time)
        if latency is None:
            name = f"{request.file}:{request.packet}.{request.sub}"
            before = (response.file, response.packet) < (request.file, request.packet)
            text = f"it {'stands' if before else 'has a time'} before its request {name} in the capture"
            out.append(self.finding(response, "capture-order", text, {"request": name}))
        return latency


def _key_text(fields: dict[str, Any]) -> str | None:
    if "sequence_id" in fields:
        return f"{fields.get('producer_id')}:{fields['sequence_id']}"
    found = fields.get("request_id")
    return None if found is None else str(found)
