"""What the bytes of one frame say by themselves: requests all, responses only that they are one."""

from __future__ import annotations

from typing import Any

from pulsarscope.dissect.frames import MALFORMED, OK, TRUNCATED, Decoded, Note
from pulsarscope.model.limits import FRAME_HARD_MAX_BYTES
from pulsarscope.protocols.kafka07.boundary import PROVEN, candidate
from pulsarscope.protocols.kafka07.commands import PRODUCE, RESPONSE, error_name
from pulsarscope.protocols.kafka07.cursor import Cursor, ShortError, WireError
from pulsarscope.protocols.kafka07.requests import HEADER_BYTES, Request, read_request
from pulsarscope.protocols.kafka07.responses import shape


def decode(data: bytes, start: int, end: int) -> Decoded:
    """See `Dissector.decode`. Requests and responses look alike; a request's sizes add up, and that is no chance."""
    notes: list[Note] = []
    try:
        request = read_request(data, start, end, notes)
    except WireError:
        request = None
    if request is not None and not request.short and request.end == end:
        return request.command, request.fields, None, None, None, payload_offset(request, start), OK, notes or None
    if shape(data, start, end) is not None:
        return RESPONSE, _error(data, start, end), None, None, None, None, OK, None
    note = [("frame-malformed", "it is neither a request nor a response")]
    found = candidate(data, start, end, FRAME_HARD_MAX_BYTES)
    if found is None or found.proof not in PROVEN:
        return None, None, None, None, None, None, MALFORMED, note
    # Its head is that of a frame, and by that it would be found again: the framing is not lost.
    command, fields = (RESPONSE, None) if request is None else (request.command, request.fields)
    return command, fields, None, None, None, None, MALFORMED, note


def decode_partial(data: bytes, start: int, end: int) -> Decoded:
    """See `Dissector.decode_partial`: a request as far as it goes, when it has a topic that can be one; else a response."""
    notes: list[Note] = []
    try:
        request = read_request(data, start, end, notes)
    except WireError:
        request = None
    if request is not None and _has_topic(request.fields):
        return request.command, request.fields, None, None, None, payload_offset(request, start), TRUNCATED, notes or None
    return RESPONSE, _error(data, start, end), None, None, None, None, TRUNCATED, None


def payload_offset(request: Request, start: int) -> int | None:
    """Where the one message set of a request begins; None for one without, or with several."""
    return request.sets[0].start - start if request.command == PRODUCE and request.sets else None


def _error(data: bytes, start: int, end: int) -> dict[str, Any] | None:
    try:
        return {"error": error_name(Cursor(data, start + HEADER_BYTES, end).int16())}
    except ShortError:
        return None


def _has_topic(fields: dict[str, Any]) -> bool:
    parts = fields.get("fetches") or fields.get("produces") or (fields,)
    topic = parts[0].get("topic")
    return isinstance(topic, str) and topic != "" and topic.isprintable() and "partition" in parts[0]
