"""OTLP: journeys as spans of OpenTelemetry, one JSON object (TracesData) per line, as its file exporter writes them.

The JSON of the OpenTelemetry protocol 1.5: ids are hex digits, 64-bit numbers text. Attributes are named by the semantic conventions of
`SCHEMA`. A message that names its trace is in that trace, below the span in which it was sent; all other ids are made of frames and times,
so that they are the same in every run.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from pulsarscope.model.records import JourneyRow
from pulsarscope.model.text import escape_json
from pulsarscope.output.export.entries import EntriesOutput, entry_name

SCHEMA = "https://opentelemetry.io/schemas/1.30.0"

_INTERNAL, _CLIENT, _PRODUCER, _CONSUMER = 1, 3, 4, 5
"""Kinds of spans in the protocol."""

_TRACE_ID = re.compile("[0-9a-f]{32}")

_encode = msgspec.json.Encoder().encode

Context = tuple[str, str]
"""Trace id and span id."""


class OtlpOutput(EntriesOutput):
    """The output `otlp`."""

    def encode(self, entry: Sequence[JourneyRow]) -> bytes:
        """Return the line of an entry (see `EntriesOutput`)."""
        return escape_json(_encode(_line(entry))) + b"\n"


def _line(entry: Sequence[JourneyRow]) -> dict[str, Any]:
    first = entry[0]
    resource = [_attribute("service.name", "pulsar"), *([] if first.source is None else [_attribute("pulsarscope.source", first.source)])]
    spans = [{"scope": {"name": "pulsarscope"}, "spans": [*_spans(entry)], "schemaUrl": SCHEMA}]
    return {"resourceSpans": [{"resource": {"attributes": resource}, "scopeSpans": spans, "schemaUrl": SCHEMA}]}


def _spans(entry: Sequence[JourneyRow]) -> Iterator[dict[str, Any]]:
    """Yield the spans of one entry: its publish and writes once, the delivery and processing of each message by subscription."""
    first = entry[0]
    messages = {row.batch_index: row for row in reversed(entry)}
    contexts = {index: context for index, row in sorted(messages.items(), key=lambda item: item[0] or 0) if (context := _context(row))}
    own = next(iter(contexts.values()), None)
    trace = own[0] if own is not None else _id(16, *entry_name(first), first.trace_id)
    published: Context | None = None
    if first.send_time is not None:
        published = trace, _id(8, trace, "publish", *entry_name(first), first.send_time)
        batch = [] if first.batch_size is None else [_attribute("messaging.batch.message_count", first.batch_size)]
        yield _span(
            f"publish {first.topic or 'a topic'}",
            _PRODUCER,
            published,
            own[1] if own is not None else None,
            (first.send_time, first.receipt_time or first.send_time),
            [
                *_attributes(first, "send", "publish"),
                *batch,
                *_some(("messaging.message.id", None if batch else _message_id(first))),
                *_some(("pulsar.producer.name", first.producer_name), ("pulsarscope.frame", first.send_frame)),
            ],
            [context for context in dict.fromkeys(contexts.values()) if context != own],
        )
    yield from _stores(first, trace, published)
    for row in entry:
        if row.delivery_time is not None:
            yield from _received(row, _context(row), published, trace)


def _stores(row: JourneyRow, trace: str, published: Context | None) -> Iterator[dict[str, Any]]:
    for write in row.writes or ():
        attributes = [
            *_attributes(row, None, "store"),
            *_some(("server.address", write["bookie"]), ("pulsarscope.frame", write["frame"])),
        ]
        times = write["time"], write["time"] + (write["latency_ns"] or 0)
        context = trace, _id(8, trace, "store", *entry_name(row), write["frame"], write["time"])
        yield _span("store", _CLIENT, context, published and published[1], times, attributes, [], failed=write["latency_ns"] is None)


def _received(row: JourneyRow, sent: Context | None, published: Context | None, trace: str) -> Iterator[dict[str, Any]]:
    """Yield the delivery to a subscription, starting at the SEND, and the processing by its consumer, ending at the ACK."""
    begin, end = row.delivery_time or 0, row.ack_time
    trace = sent[0] if sent is not None else trace
    parent = published[1] if published is not None and published[0] == trace else sent[1] if sent is not None else None
    links = [*dict.fromkeys(context for context in (sent, published) if context is not None)]
    made = (trace, *entry_name(row), row.batch_index, row.subscription, row.delivery_frame, begin)
    delivered, processed = (trace, _id(8, "deliver", *made)), (trace, _id(8, "process", *made))
    started = row.send_time if row.send_time is not None and row.send_time <= begin else begin
    more = [
        *_some(("messaging.destination.subscription.name", row.subscription), ("messaging.message.id", _message_id(row))),
        _attribute("pulsar.delivery.count", len(row.deliveries or ())),
    ]
    where = _some(("pulsarscope.frame", row.delivery_frame))
    name = f"{row.topic or 'a topic'}"
    attributes = [*_attributes(row, "receive", "deliver"), *more, *where]
    yield _span(f"deliver {name}", _INTERNAL, delivered, parent, (started, begin), attributes, links)
    if end is not None:
        handed = end - row.ack_ns if row.ack_ns is not None else begin
        attributes = [*_attributes(row, "process", "process"), *more, *_some(("pulsarscope.frame", row.ack_frame))]
        yield _span(f"process {name}", _CONSUMER, processed, delivered[1], (handed, end), attributes, links)


def _context(row: JourneyRow) -> Context | None:
    """Return the span in which a message was sent, if its trace has OpenTelemetry's form."""
    if row.trace_id is None or row.span_id is None or not _TRACE_ID.fullmatch(row.trace_id):
        return None
    return row.trace_id, row.span_id


def _span(
    name: str,
    kind: int,
    context: Context,
    parent: str | None,
    times: tuple[int, int],
    attributes: Sequence[Any],
    links: Sequence[Context],
    *,
    failed: bool = False,
) -> dict[str, Any]:
    span: dict[str, Any] = {"traceId": context[0], "spanId": context[1]}
    if parent is not None:
        span["parentSpanId"] = parent
    span |= {"name": name, "kind": kind, "startTimeUnixNano": str(times[0]), "endTimeUnixNano": str(max(times))}
    span["attributes"] = attributes
    if links:
        span["links"] = [{"traceId": trace, "spanId": span_id} for trace, span_id in links]
    if failed:
        span["status"] = {"code": 2}
    return span


def _attributes(row: JourneyRow, operation: str | None, name: str) -> list[dict[str, Any]]:
    return _some(
        ("messaging.system", "pulsar"),
        ("messaging.operation.type", operation),
        ("messaging.operation.name", name),
        ("messaging.destination.name", row.topic),
        ("messaging.destination.partition.id", None if row.partition is None else str(row.partition)),
        ("pulsar.entry", f"{row.ledger}:{row.entry}"),
    )


def _message_id(row: JourneyRow) -> str:
    parts = (row.ledger, row.entry, -1 if row.partition is None else row.partition, row.batch_index)
    return ":".join(str(part) for part in parts if part is not None)


def _some(*pairs: tuple[str, str | None]) -> list[dict[str, Any]]:
    return [_attribute(key, value) for key, value in pairs if value is not None]


def _attribute(key: str, value: str | int) -> dict[str, Any]:
    return {"key": key, "value": {"intValue": str(value)} if isinstance(value, int) else {"stringValue": value}}


def _id(size: int, *parts: Any) -> str:
    return blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=size).hexdigest()
