"""The output contract: six kinds of rows, and the column table that every output reads.

The annotations of the six structs below are the table: name, type, meaning. `columns` derives from them what NDJSON, CSV, Arrow, Parquet,
Spark and the documentation need, so there is no second list. Absent values are None. Times are integer nanoseconds since the epoch (JSON
and CSV print them as ISO 8601 with nine digits). Unsigned 64-bit ids of the wire are int64 by two's complement.
"""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Union, get_args, get_origin, get_type_hints

import msgspec

from pulsarscope.model.errors import UsageError
from pulsarscope.model.findings import LAYERS, SEVERITIES, Finding
from pulsarscope.model.text import hint_for


class Doc:
    """Meaning and storage of a column: `type` overrides the type of the annotation, `values` lists all possible ones."""

    __slots__ = ("text", "type", "values")

    def __init__(self, text: str, type: str | None = None, values: tuple[str, ...] = ()) -> None:  # noqa: A002 - the word of the field
        self.text = text
        self.type = type
        self.values = values

    def __repr__(self) -> str:
        """Return the text, which documentation tools print."""
        return f"Doc({self.text!r})"


Object = dict[str, Any]


class Checksum(msgspec.Struct, gc=False, omit_defaults=True):
    """Verdict on the checksum of a payload frame; `stored` and `computed` are eight hex digits."""

    status: str
    stored: str | None = None
    computed: str | None = None


ALWAYS: Any = None
"""Default of columns that every finished row fills: their types do not include None, and 0 is not omitted as a default."""


class Row(msgspec.Struct, gc=False, omit_defaults=True, tag_field="record"):
    """The where columns, which every kind has."""

    kind: ClassVar[str]

    source: Annotated[str | None, Doc("Vantage point (--source-by); null when there is one, or it is not known.")] = None
    file: Annotated[int | None, Doc("Position of the file in the run's list, from 0.")] = None
    packet: Annotated[int | None, Doc("Number of the packet in its file, from 1: the number Wireshark shows.")] = None
    sub: Annotated[int | None, Doc("Counts the frames completed by one packet, from 1, in stream order.")] = None
    time: Annotated[int | None, Doc("Capture time of the packet.", "time")] = None
    connection: Annotated[str | None, Doc("Name of the connection: file:packet of its first packet.")] = None
    dissector: Annotated[str | None, Doc("Protocol of the connection; null when it is not known.")] = None


class FrameWhere(Row, gc=False, omit_defaults=True, tag_field="record"):
    """The where columns of rows located at a frame: all but the vantage point are always present."""

    if TYPE_CHECKING:
        file: int = 0
        packet: int = 0
        sub: int = 0
        time: int = 0
        connection: str = ""


class ConnectionRow(Row, gc=False, omit_defaults=True, tag_field="record", tag="connection"):
    """A TCP connection, written after it has ended."""

    kind: ClassVar[str] = "connection"

    client: Annotated[str, Doc('Endpoint of the client: "ip:port" or "[v6]:port".')] = ALWAYS
    server: Annotated[str, Doc("Endpoint of the server.")] = ALWAYS
    start: Annotated[int, Doc("Time of the first packet.", "time")] = ALWAYS
    end: Annotated[int, Doc("Time of the last packet.", "time")] = ALWAYS
    packets: Annotated[int, Doc("Packets of both directions.")] = ALWAYS
    client_bytes: Annotated[
        int,
        Doc("Length of the client's stream, decrypted where TLS was read, from the first to the last byte seen, gaps included."),
    ] = ALWAYS
    client_frames: Annotated[int, Doc("Whole frames the client sent, malformed ones included.")] = ALWAYS
    client_missing: Annotated[
        int, Doc("Bytes of the client's stream lost to the capture: gaps, and the heads of the frames that they cut.")
    ] = ALWAYS
    client_skipped: Annotated[int, Doc("Bytes of the client's stream that are not framed: resync, PROXY header, other protocol.")] = ALWAYS
    client_tail: Annotated[int, Doc("Bytes of an unfinished last frame of the client.")] = ALWAYS
    server_bytes: Annotated[int, Doc("As client_bytes, for the server.")] = ALWAYS
    server_frames: Annotated[int, Doc("As client_frames, for the server.")] = ALWAYS
    server_missing: Annotated[int, Doc("As client_missing, for the server.")] = ALWAYS
    server_skipped: Annotated[int, Doc("As client_skipped, for the server.")] = ALWAYS
    server_tail: Annotated[int, Doc("As client_tail, for the server.")] = ALWAYS
    retransmitted: Annotated[int, Doc("Segments that brought no new byte; not those of a packet-duplicate.")] = ALWAYS
    out_of_order: Annotated[int, Doc("Segments that arrived beyond a hole.")] = ALWAYS
    opened: Annotated[str, Doc("syn or midstream.", values=("syn", "midstream"))] = ALWAYS
    closed: Annotated[str, Doc("fin, rst or open.", values=("fin", "rst", "open"))] = ALWAYS
    closed_by: Annotated[str | None, Doc("client or server: who sent the first FIN or RST.", values=("client", "server"))] = None
    tls: Annotated[
        str | None,
        Doc("TLS version, then the known values as name=value: sni, alpn, cipher, certificates, how a handshake failed, alerts."),
    ] = None
    client_version: Annotated[str | None, Doc("CONNECT.client_version.")] = None
    server_version: Annotated[str | None, Doc("CONNECTED.server_version.")] = None
    protocol_version: Annotated[int | None, Doc("CONNECTED.protocol_version, else CONNECT's.")] = None
    auth_method: Annotated[str | None, Doc("CONNECT.auth_method_name, else auth_method.")] = None
    proxy_source: Annotated[str | None, Doc("Source endpoint that a PROXY protocol header names.")] = None
    client_dropped: Annotated[
        int, Doc("Other captured bytes from the client, in no stream: after a FIN or RST, before the first byte, too late for a gap.")
    ] = ALWAYS
    server_dropped: Annotated[int, Doc("As client_dropped, for the server.")] = ALWAYS
    process: Annotated[str | None, Doc("Process that owns a socket of it, from comments of ptcpdump: java (1234).")] = None
    pod: Annotated[str | None, Doc("Pod of that process, likewise: namespace/name.")] = None


class FrameRow(FrameWhere, gc=False, omit_defaults=True, tag_field="record", tag="frame"):
    """A frame, or a run of skipped bytes."""

    kind: ClassVar[str] = "frame"

    direction: Annotated[str, Doc("Sender: client or server.", values=("client", "server"))] = ALWAYS
    offset: Annotated[int, Doc("Position of the first byte in its stream.")] = ALWAYS
    size: Annotated[int, Doc("Bytes of the whole frame; for a truncated one, those in the capture.")] = ALWAYS
    command: Annotated[str | None, Doc("Name of the command as in the protocol; UNKNOWN_n for a number without a name.")] = None
    fields: Annotated[Object | None, Doc("The command, with the field names of the protocol; unknown fields under unknown.")] = None
    broker_entry_metadata: Annotated[Object | None, Doc("BrokerEntryMetadata of a MESSAGE.")] = None
    checksum: Annotated[Checksum | None, Doc("Verdict: good, bad, absent or unverified; stored and computed as hex.")] = None
    metadata: Annotated[Object | None, Doc("MessageMetadata of a payload command.")] = None
    payload_size: Annotated[int | None, Doc("Bytes after the metadata, as on the wire.")] = None
    num_messages: Annotated[int | None, Doc("Messages of the entry; for a delivery, those that are not acknowledged yet.")] = None
    topic: Annotated[str | None, Doc("Topic, from the session.")] = None
    producer_name: Annotated[str | None, Doc("Producer, from the session or the metadata.")] = None
    subscription: Annotated[str | None, Doc("Subscription, from the session.")] = None
    request: Annotated[str | None, Doc("Name of the frame that this one answers.")] = None
    latency_ns: Annotated[int | None, Doc("Nanoseconds since that frame; never negative.")] = None
    status: Annotated[str, Doc("ok, malformed, truncated or skipped.", values=("ok", "malformed", "truncated", "skipped"))] = ALWAYS
    findings: Annotated[
        list[str] | None, Doc("Codes of the findings about the form of this frame; those about its payload are rows of their own.")
    ] = None
    extra: Annotated[Object | None, Doc("Values of the protocol that no column holds.")] = None
    topics: Annotated[Object | None, Doc("Of a frame with several topics: messages and bytes of each.", "json")] = None


class MessageRow(FrameWhere, gc=False, omit_defaults=True, tag_field="record", tag="message"):
    """An application message: a batch is opened, chunks are joined."""

    kind: ClassVar[str] = "message"

    direction: Annotated[
        str, Doc("produce or deliver; store or load for a copy in a storage.", values=("produce", "deliver", "store", "load"))
    ] = ALWAYS
    topic: Annotated[str | None, Doc("Topic, from the session.")] = None
    subscription: Annotated[str | None, Doc("Subscription of a delivery, from the session.")] = None
    producer_id: Annotated[int | None, Doc("SEND.producer_id.")] = None
    consumer_id: Annotated[int | None, Doc("MESSAGE.consumer_id.")] = None
    producer_name: Annotated[str | None, Doc("MessageMetadata.producer_name.")] = None
    sequence_id: Annotated[int | None, Doc("Sequence id of the message.")] = None
    ledger: Annotated[int | None, Doc("Ledger id; of a produced message from its receipt.")] = None
    entry: Annotated[int | None, Doc("Entry id, likewise.")] = None
    partition: Annotated[int | None, Doc("Partition of the message id; null when not partitioned.")] = None
    batch_index: Annotated[int | None, Doc("Index within the batch, from 0; null when not batched.")] = None
    batch_size: Annotated[int | None, Doc("Messages in the batch.")] = None
    key: Annotated[str | None, Doc("Partition key (base64 when key_is_bytes).")] = None
    key_is_bytes: Annotated[bool | None, Doc("The key is bytes, given as base64.")] = None
    ordering_key: Annotated[bytes | None, Doc("Ordering key.")] = None
    properties: Annotated[dict[str, str] | None, Doc("Application properties; the last of a repeated key.")] = None
    publish_time: Annotated[int | None, Doc("Clock of the producer when it sent.", "time")] = None
    event_time: Annotated[int | None, Doc("Time that the application gave.", "time")] = None
    deliver_at: Annotated[int | None, Doc("Earliest delivery asked for.", "time")] = None
    broker_time: Annotated[int | None, Doc("BrokerEntryMetadata.broker_timestamp.", "time")] = None
    index: Annotated[int | None, Doc("The message's own index in its topic.")] = None
    redelivery_count: Annotated[int | None, Doc("MESSAGE.redelivery_count.")] = None
    acknowledged: Annotated[bool | None, Doc("Acknowledged before its batch came again: the client drops it; it does not count.")] = None
    schema_version: Annotated[bytes | None, Doc("Version of the schema.")] = None
    compression: Annotated[str | None, Doc("Codec of the entry.")] = None
    encrypted: Annotated[bool | None, Doc("The payload is encrypted end to end.")] = None
    chunks: Annotated[int | None, Doc("Number of chunks of a chunked message.")] = None
    txn: Annotated[str | None, Doc("Transaction id: (most bits,least bits).")] = None
    trace_id: Annotated[
        str | None, Doc("Trace that the properties name (traceparent, b3, uber-trace-id: 32 hex digits; sw8: as it is).")
    ] = None
    span_id: Annotated[str | None, Doc("Span in which the message was sent, likewise (16 hex digits).")] = None
    null_value: Annotated[bool | None, Doc("Tombstone.")] = None
    marker: Annotated[str | None, Doc("Name of the marker; no application sees such an entry.")] = None
    payload_size: Annotated[int | None, Doc("Application bytes.")] = None
    payload_sha256: Annotated[str | None, Doc("SHA-256 of the application bytes, hex.")] = None
    payload: Annotated[str | None, Doc("Application bytes, with --payload.")] = None
    value: Annotated[Any, Doc("Decoded value, by schema.", "json")] = None
    status: Annotated[
        str,
        Doc("ok, encrypted, undecodable, truncated or incomplete.", values=("ok", "encrypted", "undecodable", "truncated", "incomplete")),
    ] = ALWAYS
    extra: Annotated[Object | None, Doc("Values of the protocol that no column holds.")] = None


class ExchangeRow(FrameWhere, gc=False, omit_defaults=True, tag_field="record", tag="exchange"):
    """A request and its final response. The where columns are those of the request, or of a response without one."""

    kind: ClassVar[str] = "exchange"

    request: Annotated[str | None, Doc("Command that asks; null when unrequested.")] = None
    response: Annotated[str | None, Doc("Command that answers; null when unanswered.")] = None
    key: Annotated[str | None, Doc("Request id, or producer:sequence.")] = None
    topic: Annotated[str | None, Doc("Topic, from the session.")] = None
    producer_name: Annotated[str | None, Doc("Producer, from the session.")] = None
    subscription: Annotated[str | None, Doc("Subscription, from the session.")] = None
    response_file: Annotated[int | None, Doc("File of the response.")] = None
    response_packet: Annotated[int | None, Doc("Packet of the response.")] = None
    response_sub: Annotated[int | None, Doc("Sub of the response.")] = None
    latency_ns: Annotated[int | None, Doc("Nanoseconds from request to response; never negative.")] = None
    status: Annotated[str, Doc("ok, error, unanswered or unrequested.", values=("ok", "error", "unanswered", "unrequested"))] = ALWAYS
    error: Annotated[str | None, Doc("Name of the ServerError.")] = None
    error_message: Annotated[str | None, Doc("Error message of the peer.")] = None


class FindingRow(Row, gc=False, omit_defaults=True, tag_field="record", tag="finding"):
    """Something worth an engineer's look."""

    kind: ClassVar[str] = "finding"

    code: Annotated[str, Doc("Stable name, kebab-case.")] = ALWAYS
    severity: Annotated[str, Doc("error, warning or note.", values=SEVERITIES)] = ALWAYS
    layer: Annotated[str, Doc("capture, tcp, tls, frame, payload, session or tuning.", values=LAYERS)] = ALWAYS
    text: Annotated[str, Doc("One sentence with the numbers.")] = ALWAYS
    evidence: Annotated[Object | None, Doc("Frames, ids, counts.")] = None
    hint: Annotated[str | None, Doc("What to try.")] = None


class JourneyRow(FrameWhere, gc=False, omit_defaults=True, tag_field="record", tag="journey"):
    """A message on its way to one subscription, or to none. Its place is that of its SEND or, without one, of its first delivery."""

    kind: ClassVar[str] = "journey"

    topic: Annotated[str | None, Doc("Topic, from the sessions.")] = None
    subscription: Annotated[str | None, Doc("Subscription; null when no delivery was seen.")] = None
    producer_name: Annotated[str | None, Doc("Producer, from the session or the metadata.")] = None
    sequence_id: Annotated[int | None, Doc("Sequence id of the message.")] = None
    ledger: Annotated[int, Doc("Ledger id.")] = ALWAYS
    entry: Annotated[int, Doc("Entry id.")] = ALWAYS
    partition: Annotated[int | None, Doc("Partition of the message id; null when not partitioned.")] = None
    batch_index: Annotated[int | None, Doc("Index within the batch, from 0; null when not batched.")] = None
    batch_size: Annotated[int | None, Doc("Messages in the batch.")] = None
    trace_id: Annotated[str | None, Doc("Trace that the message belongs to, as in message records.")] = None
    span_id: Annotated[str | None, Doc("Span in which it was sent, likewise.")] = None
    send_frame: Annotated[str | None, Doc("Name of the SEND.")] = None
    send_time: Annotated[int | None, Doc("Its time.", "time")] = None
    receipt_frame: Annotated[str | None, Doc("Name of the receipt.")] = None
    receipt_time: Annotated[int | None, Doc("Its time.", "time")] = None
    receipt_ns: Annotated[int | None, Doc("Nanoseconds from SEND to receipt.")] = None
    storage_frame: Annotated[str | None, Doc("Name of the first frame that wrote the entry to a bookie.")] = None
    storage_time: Annotated[int | None, Doc("Its time.", "time")] = None
    storage_ns: Annotated[int | None, Doc("Nanoseconds from it to the last bookie's answer before the receipt.")] = None
    storage_writes: Annotated[int | None, Doc("Writes of the entry to bookies.")] = None
    storage_bookies: Annotated[list[str] | None, Doc("Endpoints of these bookies.")] = None
    writes: Annotated[Any, Doc("All these writes: frame, time, bookie, latency_ns (null: no answer that it is stored).", "json")] = None
    delivery_frame: Annotated[str | None, Doc("Name of the first delivery to the subscription.")] = None
    delivery_time: Annotated[int | None, Doc("Its time.", "time")] = None
    delivery_ns: Annotated[int | None, Doc("Nanoseconds from SEND to it.")] = None
    deliveries: Annotated[Any, Doc("All deliveries to the subscription: frame, time, connection, consumer_id.", "json")] = None
    ack_frame: Annotated[str | None, Doc("Name of the ACK.")] = None
    ack_time: Annotated[int | None, Doc("Its time.", "time")] = None
    ack_ns: Annotated[int | None, Doc("Nanoseconds from the delivery that it acknowledges to the ACK.")] = None
    replicated_from: Annotated[str | None, Doc("Cluster from which a replicator copied the message; null in that cluster itself.")] = None
    origin: Annotated[str | None, Doc("LEDGER:ENTRY of the message there, when the replicator says so.")] = None
    replications: Annotated[Any, Doc("SENDs that brought the message to other clusters: frame, time, connection, broker.", "json")] = None


ROWS: dict[str, type[Row]] = {row.kind: row for row in (FrameRow, MessageRow, ExchangeRow, ConnectionRow, FindingRow, JourneyRow)}
"""The six kinds by name, in the order in which outputs list them."""

ALL = tuple(kind for kind in ROWS if kind != JourneyRow.kind)
"""The kinds that "all" stands for. Journeys are made from the others and take as long again: they must be requested by name."""

_LATE = frozenset({FindingRow.kind, JourneyRow.kind})
"""Kinds whose rows may come after that of their connection."""


def with_addresses(kinds: frozenset[str]) -> frozenset[str]:
    """Return the kinds of rows that filters and fields need for rows of `kinds`: those after their connection have its addresses."""
    return kinds if _LATE.isdisjoint(kinds) else kinds | {ConnectionRow.kind}


def refuse_unknown(kinds: frozenset[str]) -> None:
    """Raise UsageError unless all of these are kinds of records."""
    if unknown := sorted(kinds - ROWS.keys()):
        raise UsageError(f'unknown record kind "{unknown[0]}"{hint_for(unknown[0], [*ROWS])}')


class Column(msgspec.Struct, frozen=True):
    """Column: `type` is one of int64, string, bool, time, bytes, json, strings (a list), checksum (three columns)."""

    name: str
    type: str
    text: str
    values: tuple[str, ...] = ()
    """All possible values; empty when they are not a fixed list."""


_TYPES: dict[Any, str] = {int: "int64", str: "string", bool: "bool", bytes: "bytes", Checksum: "checksum", Any: "json"}


def _column_type(annotation: Any) -> str:
    if get_origin(annotation) in (Union, UnionType):
        annotation = next(part for part in get_args(annotation) if part is not NoneType)
    if get_origin(annotation) is dict:
        return "json"
    return "strings" if get_origin(annotation) is list else _TYPES[annotation]


@cache
def columns(kind: str) -> tuple[Column, ...]:
    """Return the columns of a kind, in order (without the `record` tag). Raises KeyError when there is no such kind."""
    row = ROWS[kind]
    hints = get_type_hints(row, include_extras=True)
    table = []
    for name in row.__struct_fields__:
        annotation, doc = get_args(hints[name])
        table.append(Column(name, doc.type or _column_type(annotation), doc.text, doc.values))
    return tuple(table)


@cache
def row_type(kind: str, names: tuple[str, ...]) -> type[Any]:
    """Return a type of rows that has only these columns of a kind, in this order: faster to make and to encode than complete rows."""
    columns = [(name, Any, None) for name in names]

    def reduce(row: Any) -> tuple[Any, ...]:
        return _some, (kind, names, msgspec.structs.astuple(row))

    return msgspec.defstruct(
        f"Some{kind.title()}",
        columns,
        namespace={"kind": kind, "__reduce__": reduce},  # no module has the type, so a pickled row carries the means to make it
        tag_field="record",
        tag=kind,
        gc=False,
        omit_defaults=True,
    )


def _some(kind: str, names: tuple[str, ...], values: tuple[Any, ...]) -> Any:
    return row_type(kind, names)(*values)


def finding_row(finding: Finding, source: str | None, dissector: str | None = None) -> FindingRow:
    """Return the row of a finding; `dissector` is that of its connection, if known."""
    return FindingRow(
        source,
        finding.file,
        finding.packet,
        finding.sub,
        finding.time,
        finding.connection,
        dissector,
        finding.code,
        finding.severity,
        finding.layer,
        finding.text,
        finding.evidence or None,
        finding.hint,
    )


class RawFrame(msgspec.Struct, gc=False):
    """The bytes of the preceding frame row and their named ranges (start, end, name, depth); made only for a hex view."""

    data: bytes
    ranges: list[tuple[int, int, str, int]]
