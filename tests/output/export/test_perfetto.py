"""Journeys as a trace of Perfetto, read with the rules of the protobuf encoding."""

from __future__ import annotations

from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope.cli.commands.decode import DecodeRequest, decode
from pulsarscope.model.records import JourneyRow
from pulsarscope.output.export.perfetto import PerfettoOutput
from tests.places import CAPTURES

E3 = CAPTURES / "bookkeeper" / "e3.pcap.zst"


def fields_of(data: bytes) -> dict[int, list[Any]]:
    """Return the values of a message by field number: numbers for varints and fixed-size fields, bytes for others."""
    found: dict[int, list[Any]] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        if key & 7 == 0:
            value: Any = varint()
        else:
            size = 8 if key & 7 == 1 else varint()
            value = data[at : at + size]
            assert len(value) == size
            at += size
            value = int.from_bytes(value, "little") if key & 7 == 1 else value
        found.setdefault(key >> 3, []).append(value)
    return found


class Trace:
    """A trace as read by its viewer: tracks by id (name, parent), slices (track, name, begin, end), flows (id → slices)."""

    def __init__(self, data: bytes) -> None:
        self.tracks: dict[int, tuple[str, int]] = {}
        self.slices: list[tuple[int, str, int, int]] = []
        self.flows: Counter[int] = Counter()
        events = []
        for packet in map(fields_of, fields_of(data)[1] if data else ()):
            assert packet[10] == [1]
            if 60 in packet:
                track = fields_of(packet[60][0])
                self.tracks[track[1][0]] = track[2][0].decode(), track.get(5, [0])[0]
            else:
                events.append((packet[8][0], fields_of(packet[11][0])))
        stacks: dict[int, list[tuple[str, int]]] = {}
        for time, event in sorted(events, key=lambda pair: pair[0]):
            stack = stacks.setdefault(event[11][0], [])
            if event[9] == [1]:
                assert not stack, "slices overlap"
                stack.append((event[23][0].decode(), time))
                self.flows.update(event.get(47, []) + event.get(48, []))
            else:
                name, begin = stack.pop()
                self.slices.append((event[11][0], name, begin, time))
        assert not any(stacks.values())
        assert {track for track, *_ in self.slices} <= self.tracks.keys()
        assert {parent for _, parent in self.tracks.values()} - {0} <= self.tracks.keys()


def written(tmp_path: Path, **options: Any) -> bytes:
    out = tmp_path / "journeys.pftrace"
    assert decode(DecodeRequest(files=[str(E3)], format="perfetto", out=str(out), **options)) == 0
    return out.read_bytes()


def trace_of(*rows: JourneyRow) -> Trace:
    file = BytesIO()
    output = PerfettoOutput(file, None)  # type: ignore[arg-type]
    output.write(list(rows))
    output.close()
    return Trace(file.getvalue())


def sent(entry: int, start: int, end: int | None, **more: Any) -> JourneyRow:
    return JourneyRow(
        connection="0:1",
        topic="t",
        producer_name="p",
        ledger=7,
        entry=entry,
        send_frame=f"0:{entry}.1",
        send_time=start,
        receipt_time=end,
        **more,
    )


@pytest.mark.slow
def test_a_recording_has_a_slice_for_each_step_and_an_arrow_to_each_from_its_publish(tmp_path: Path) -> None:
    rows = list(ps.open(E3).journeys())
    trace = Trace(written(tmp_path))
    sends = {row.send_frame for row in rows}
    writes = {write["frame"] for row in rows for write in row.writes}
    deliveries = {delivery["frame"] for row in rows for delivery in row.deliveries or ()}
    assert Counter(name.split()[0] for _, name, *_ in trace.slices) == {
        "publish": len(sends),
        "store": len(writes),
        "deliver": len(deliveries),
    }
    assert set(trace.flows.values()) == {2}
    assert len(trace.flows) == len(writes) + len(deliveries)
    names = {name.split()[0] for name, _ in trace.tracks.values()}
    assert names == {"connection", "producer", "consumer", "bookie"}
    assert written(tmp_path, jobs=2) == written(tmp_path)


def test_sends_in_flight_together_are_on_tracks_of_one_name() -> None:
    trace = trace_of(sent(1, 10, 30), sent(2, 20, 40), sent(3, 30, 50), sent(4, 60, None))
    assert sorted((begin, end) for _, _, begin, end in trace.slices) == [(10, 30), (20, 40), (30, 50), (60, 60)]
    assert [name for name, _ in trace.tracks.values()] == ["connection 0:1", "producer p t", "producer p t"]
    assert not trace.flows


def test_a_batch_is_one_slice_on_each_track_that_lasts_up_to_its_last_ack() -> None:
    delivery = [{"frame": "0:9.1", "time": 30, "connection": "0:2", "consumer_id": 3}]
    more = {"subscription": "s", "delivery_frame": "0:9.1", "delivery_time": 30, "deliveries": delivery}
    trace = trace_of(*(sent(1, 10, 20, batch_index=index, ack_time=40 + index, ack_ns=10 + index, **more) for index in range(3)))
    assert [(name, begin, end) for _, name, begin, end in trace.slices] == [("publish 7:1", 10, 20), ("deliver 7:1", 30, 42)]
    assert [name for name, _ in trace.tracks.values()] == ["connection 0:2", "consumer 3 s t", "connection 0:1", "producer p t"]


def test_without_its_send_a_delivery_has_no_arrow() -> None:
    delivery = [{"frame": "0:9.1", "time": 30, "connection": "0:2", "consumer_id": 3}]
    row = JourneyRow(connection="0:2", topic="t\ud800", ledger=7, entry=1, subscription="\x1b[1m", deliveries=delivery)
    trace = trace_of(row)
    assert [name for _, name, *_ in trace.slices] == ["deliver 7:1"]
    assert not trace.flows


def test_nothing_is_an_empty_trace() -> None:
    assert trace_of().slices == []


def test_the_published_definition_reads_it(tmp_path: Path) -> None:
    pb = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="no perfetto: pip install perfetto")
    data = written(tmp_path)
    trace = pb.Trace.FromString(data)
    own = Trace(data)
    tracks = {packet.track_descriptor.uuid: packet.track_descriptor.name for packet in trace.packet if packet.HasField("track_descriptor")}
    assert tracks == {track: name for track, (name, _) in own.tracks.items()}
    events = [packet.track_event for packet in trace.packet if packet.HasField("track_event")]
    assert len(events) == 2 * len(own.slices)
    flows = Counter(flow for event in events for flow in (*event.flow_ids, *event.terminating_flow_ids))
    assert flows == own.flows
    assert all(event.debug_annotations[0].string_value for event in events if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN)
