"""Decoding single frames: requests completely, responses only as responses, because they depend on their request."""

from __future__ import annotations

from typing import Any

from pulsarscope.dissect.contract.frames import MALFORMED, OK, TRUNCATED, Decoded, Note
from pulsarscope.model.limits import FRAME_HARD_MAX_BYTES
from pulsarscope.protocols.kafka07.boundary import PROVEN, candidate
from pulsarscope.protocols.kafka07.commands import PRODUCE, RESPONSE, error_name
from pulsarscope.protocols.kafka07.cursor import Cursor, ParseError, ShortError
from pulsarscope.protocols.kafka07.framing import HEADER_BYTES
from pulsarscope.protocols.kafka07.requests import ParsedRequest, read_request
from pulsarscope.protocols.kafka07.responses import possible_commands, shape


def decode(data: bytes, start: int, end: int) -> Decoded:
    """See `Dissector.decode`. Requests and responses look alike, but the sizes of a request add up."""
    notes: list[Note] = []
    try:
        request = read_request(data, start, end, notes)
    except ParseError:
        request = None
    if request is not None and not request.short and request.end == end:
        return request.command, request.fields, None, None, None, payload_offset(request, start), OK, notes or None
    if shape(data, start, end) is not None:
        return RESPONSE, _error(data, start, end), None, None, None, None, OK, None
    note = [("frame-malformed", "it is neither a request nor a response")]
    head = candidate(data, start, end, FRAME_HARD_MAX_BYTES)
    if head is not None and head.proof in PROVEN:
        # Resynchronisation would find a frame by this head: the framing is not lost.
        command, fields = (RESPONSE, None) if request is None else (request.command, request.fields)
        return command, fields, None, None, None, None, MALFORMED, note
    # The framing is not lost after a valid error, either: a fetch from within a message can return any bytes. The session knows the
    # request.
    if not possible_commands(data, start, end):
        return None, None, None, None, None, None, MALFORMED, note
    return RESPONSE, _error(data, start, end), None, None, None, None, MALFORMED, note


def decode_partial(data: bytes, start: int, end: int) -> Decoded:
    """See `Dissector.decode_partial`. A request has a plausible topic; everything else is a response."""
    notes: list[Note] = []
    try:
        request = read_request(data, start, end, notes)
    except ParseError:
        request = None
    if request is not None and _has_topic(request.fields):
        return request.command, request.fields, None, None, None, payload_offset(request, start), TRUNCATED, notes or None
    return RESPONSE, _error(data, start, end), None, None, None, None, TRUNCATED, None


def payload_offset(request: ParsedRequest, start: int) -> int | None:
    """Return the start of a request's only message set; None for a request with no set or several."""
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
