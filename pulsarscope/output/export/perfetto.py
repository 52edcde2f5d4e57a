"""Perfetto: journeys as slices on the tracks of producers, bookies and consumers, with arrows from each publish to what follows from it.

The trace is Perfetto's protobuf `Trace` (https://perfetto.dev/docs/reference/trace-packet-proto): packets that describe tracks, and
packets that begin and end slices. Slices of one track must be nested. Slices that overlap are on several tracks of the same name, which the
viewer shows as one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.limits import PERFETTO_TRACKS_MAX
from pulsarscope.model.records import JourneyRow
from pulsarscope.output.export.entries import EntriesOutput, entry_name
from pulsarscope.output.export.sink import Sink
from pulsarscope.output.registry import OutputOptions

_PACKET = 1
_TIMESTAMP, _SEQUENCE, _TRACK_EVENT, _TRACK_DESCRIPTOR = 8, 10, 11, 60
_UUID, _NAME, _PARENT = 1, 2, 5
_ANNOTATION, _TYPE, _TRACK, _EVENT_NAME, _FLOW, _LAST_FLOW = 4, 9, 11, 23, 47, 48
_ANNOTATION_NAME, _TEXT = 10, 6
"""Numbers of the fields: of Trace, TracePacket, TrackDescriptor, TrackEvent, DebugAnnotation."""

_BEGIN, _END = 1, 2


class _Slice(NamedTuple):
    track: int
    name: str
    start: int
    end: int
    about: dict[str, str | None]


class PerfettoOutput(EntriesOutput):
    """The output `perfetto`."""

    def __init__(self, sink: Sink, options: OutputOptions) -> None:
        super().__init__(sink, options)
        self._lanes: dict[tuple[str, int], list[int]] = {}
        """End of the latest slice of each track, by the name and parent of the tracks."""

    def encode(self, entry: Sequence[JourneyRow]) -> bytes:
        """Return the packets of an entry (see `EntriesOutput`)."""
        packets: list[bytes] = []
        first = entry[0]
        following = [*self._writes(first, packets), *self._deliveries(entry, packets)]
        flows = [_hash("flow", entry_name(first), each.track, each.start, number) for number, each in enumerate(following)]
        if first.send_time is None:
            flows = []
        else:
            parent = self._connection(first.connection, packets)
            name = f"producer {first.producer_name or '?'} {first.topic or ''}".rstrip()
            end = max(first.receipt_time or first.send_time, first.send_time)
            about = {"frame": first.send_frame, "receipt": first.receipt_frame, "topic": first.topic, "trace_id": first.trace_id}
            track = self._track(name, parent, first.send_time, end, packets)
            packets += _packets(_Slice(track, f"publish {first.ledger}:{first.entry}", first.send_time, end, about), flows, _FLOW)
        for number, each in enumerate(following):
            packets += _packets(each, flows[number : number + 1], _LAST_FLOW)
        return b"".join(_part(_PACKET, packet) for packet in packets)

    def _writes(self, row: JourneyRow, packets: list[bytes]) -> Iterator[_Slice]:
        for write in row.writes or ():
            start, end = write["time"], write["time"] + (write["latency_ns"] or 0)
            track = self._track(f"bookie {write['bookie']}", 0, start, end, packets)
            yield _Slice(track, f"store {row.ledger}:{row.entry}", start, end, {"frame": write["frame"], "topic": row.topic})

    def _deliveries(self, entry: Sequence[JourneyRow], packets: list[bytes]) -> Iterator[_Slice]:
        """Yield each delivery of the entry once. It ends at the last ACK of one of its messages; without an ACK, its duration is 0."""
        ends: dict[str, int] = {}
        found: dict[str, tuple[JourneyRow, dict[str, Any]]] = {}
        for row in entry:
            for delivery in row.deliveries or ():
                frame, time = delivery["frame"], delivery["time"]
                found.setdefault(frame, (row, delivery))
                is_acked = row.ack_time is not None and row.ack_ns is not None and time == row.ack_time - row.ack_ns
                ends[frame] = max(ends.get(frame, time), row.ack_time or time if is_acked else time)
        for frame, (row, delivery) in found.items():
            parent = self._connection(delivery["connection"], packets)
            name = f"consumer {delivery['consumer_id']} {row.subscription or '?'} {row.topic or ''}".rstrip()
            track = self._track(name, parent, delivery["time"], ends[frame], packets)
            about = {"frame": frame, "ack": row.ack_frame, "topic": row.topic, "subscription": row.subscription}
            yield _Slice(track, f"deliver {row.ledger}:{row.entry}", delivery["time"], ends[frame], about)

    def _connection(self, name: str, packets: list[bytes]) -> int:
        """Return the track of a connection, the parent of the tracks of its producers and consumers."""
        return self._track(f"connection {name}", 0, 0, 0, packets)

    def _track(self, name: str, parent: int, start: int, end: int, packets: list[bytes]) -> int:
        """Return the first track of this name that is free from `start` on, and mark it as taken until `end`."""
        lanes = self._lanes.get((name, parent))
        if lanes is None:
            lanes = []
            remember(self._lanes, (name, parent), lanes, PERFETTO_TRACKS_MAX)
        lane = next((number for number, until in enumerate(lanes) if until <= start), len(lanes))
        track = _hash("track", name, parent, lane)
        if lane == len(lanes):
            lanes.append(end)
            fields = _number(_UUID, track) + _part(_NAME, _text(name)) + (_number(_PARENT, parent) if parent else b"")
            packets.append(_number(_SEQUENCE, 1) + _part(_TRACK_DESCRIPTOR, fields))
        lanes[lane] = end
        return track


def _packets(each: _Slice, flows: Iterable[int], flow_field: int) -> list[bytes]:
    """Return the packets of a slice: its begin and its end."""
    of_track = _number(_TRACK, each.track)
    about = [(name, text) for name, text in each.about.items() if text is not None]
    begin = _number(_TYPE, _BEGIN) + of_track + _part(_EVENT_NAME, _text(each.name))
    begin += b"".join(_part(_ANNOTATION, _part(_ANNOTATION_NAME, _text(name)) + _part(_TEXT, _text(text))) for name, text in about)
    begin += b"".join(_varint(flow_field << 3 | 1) + flow.to_bytes(8, "little") for flow in flows)
    end = _number(_TYPE, _END) + of_track
    return [
        _number(_TIMESTAMP, max(time, 0)) + _number(_SEQUENCE, 1) + _part(_TRACK_EVENT, event)
        for time, event in ((each.start, begin), (each.end, end))
    ]


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _part(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _text(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")


def _hash(*parts: Any) -> int:
    return int.from_bytes(blake2b(repr(parts).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") | 1
