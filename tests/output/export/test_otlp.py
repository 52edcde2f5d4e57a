"""Journeys as spans of OpenTelemetry."""

from __future__ import annotations

import json
from base64 import b64encode
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.cli.commands.decode import DecodeRequest, decode
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import JourneyRow
from pulsarscope.output.export.otlp import SCHEMA, OtlpOutput
from tests.places import CAPTURES

E3 = CAPTURES / "bookkeeper" / "e3.pcap.zst"
TRACE, SPAN, OTHER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "5" * 32


def lines_of(path: Path, tmp_path: Path, **options: Any) -> list[dict[str, Any]]:
    """Return the lines that `decode` writes for a capture."""
    out = tmp_path / "spans.jsonl"
    assert decode(DecodeRequest(files=[str(path)], format="otlp", out=str(out), **options)) == 0
    return [json.loads(line) for line in out.read_text().splitlines()]


def spans_in(lines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        span | {"values": {each["key"]: next(iter(each["value"].values())) for each in span["attributes"]}}
        for line in lines
        for resource in line["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
    ]


def spans_of(*rows: JourneyRow, cut: int = 100) -> list[dict[str, Any]]:
    """Return the spans of rows that arrive `size` at a time."""
    file = BytesIO()
    output = OtlpOutput(_Written(file), None)  # type: ignore[arg-type]
    for start in range(0, len(rows), cut):
        output.write(list(rows[start : start + cut]))
    output.close()
    return spans_in([json.loads(line) for line in file.getvalue().splitlines()])


class _Written:
    def __init__(self, file: BytesIO) -> None:
        self.write = file.write


def row(subscription: str | None = "s", *, index: int | None = None, trace: str | None = None, **more: Any) -> JourneyRow:
    """A journey: sent at 10, written at 12 to 15, received at 20, delivered at 30, acknowledged at 50."""
    steps: dict[str, Any] = {"send_frame": "0:1.1", "send_time": 10, "receipt_frame": "0:2.1", "receipt_time": 20}
    if subscription is not None:
        steps |= {"delivery_frame": "0:3.1", "delivery_time": 30, "deliveries": [{}], "ack_frame": "0:4.1", "ack_time": 50, "ack_ns": 20}
    made = JourneyRow(topic="t", subscription=subscription, ledger=7, entry=1, batch_index=index, **{**steps, **more})
    made.trace_id, made.span_id = trace, SPAN if trace else None
    return made


def test_a_message_is_published_stored_delivered_and_processed() -> None:
    writes = [
        {"frame": "0:9.1", "time": 12, "bookie": "b:1", "latency_ns": 3},
        {"frame": "0:8.1", "time": 13, "bookie": "b:2", "latency_ns": None},
    ]
    publish, stored, unanswered, deliver, process = spans_of(row(writes=writes))
    assert [(span["name"], span["kind"]) for span in (publish, stored, deliver, process)] == [
        ("publish t", 4),
        ("store", 3),
        ("deliver t", 1),
        ("process t", 5),
    ]
    times = [(int(span["startTimeUnixNano"]), int(span["endTimeUnixNano"])) for span in (publish, stored, unanswered, deliver, process)]
    assert times == [(10, 20), (12, 15), (13, 13), (10, 30), (30, 50)]
    assert ("parentSpanId" in publish, unanswered["status"]) == (False, {"code": 2})
    assert stored["parentSpanId"] == deliver["parentSpanId"] == publish["spanId"]
    assert process["parentSpanId"] == deliver["spanId"]
    assert publish["values"]["messaging.operation.type"] == "send"
    assert process["values"]["messaging.destination.subscription.name"] == "s"
    assert process["values"]["messaging.message.id"] == "7:1:-1"


def test_the_trace_of_the_client_is_that_of_all_spans_of_the_message() -> None:
    spans = spans_of(row(trace=TRACE, writes=[{"frame": "0:9.1", "time": 12, "bookie": "b:1", "latency_ns": 3}]))
    assert len(spans) == 4
    assert {span["traceId"] for span in spans} == {TRACE}
    assert spans[0]["parentSpanId"] == SPAN


def test_subscriptions_fan_out_by_links_from_one_publish() -> None:
    for cut in (1, 2):
        spans = spans_of(row("a", trace=TRACE), row("b", trace=TRACE), cut=cut)
        assert [span["name"].split()[0] for span in spans] == ["publish", "deliver", "process", "deliver", "process"]
        for span in spans[1:]:
            assert span["links"] == [{"traceId": TRACE, "spanId": SPAN}, {"traceId": TRACE, "spanId": spans[0]["spanId"]}]


def test_a_batch_is_published_once_and_its_messages_stay_in_their_traces() -> None:
    rows = [row(index=0, trace=TRACE, batch_size=3), row(index=1, trace=OTHER, batch_size=3), row(index=2, batch_size=3)]
    spans = spans_of(*rows)
    publish, *others = spans
    assert publish["values"]["messaging.batch.message_count"] == "3"
    assert (publish["traceId"], publish["links"]) == (TRACE, [{"traceId": OTHER, "spanId": SPAN}])
    assert [span["traceId"] for span in others] == [TRACE, TRACE, OTHER, OTHER, TRACE, TRACE]
    assert others[2]["parentSpanId"] == SPAN
    assert {"traceId": TRACE, "spanId": publish["spanId"]} in others[2]["links"]
    assert len({span["spanId"] for span in spans}) == len(spans)


def test_what_is_not_seen_has_no_span() -> None:
    assert [span["name"] for span in spans_of(row(None, receipt_time=None))] == ["publish t"]
    assert [span["name"] for span in spans_of(row(send_frame=None, send_time=None, ack_time=None))] == ["deliver t"]
    assert spans_of() == []


def test_ids_of_other_forms_are_no_trace() -> None:
    made = row()
    made.trace_id, made.span_id = "a skywalking trace", "1-2"
    assert all(len(span["traceId"]) == 32 and "parentSpanId" not in spans_of(made)[0] for span in spans_of(made))


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_spans_of_a_recording_are_the_same_in_every_run_and_nothing_dangles(tmp_path: Path, jobs: int) -> None:
    lines = lines_of(E3, tmp_path, jobs=jobs)
    assert lines == lines_of(E3, tmp_path)
    spans = spans_in(lines)
    known = {(span["traceId"], span["spanId"]) for span in spans}
    assert len(known) == len(spans) > 100
    for span in spans:
        assert "parentSpanId" not in span or (span["traceId"], span["parentSpanId"]) in known
        assert {(link["traceId"], link["spanId"]) for link in span.get("links", ())} <= known
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])


@pytest.mark.parametrize("options", [{"records": "message"}, {"records": "frame,journey"}, {"records": "frame"}, {"columns": "topic"}])
@pytest.mark.parametrize("name", ["otlp", "perfetto"])
def test_other_records_are_refused(options: dict[str, Any], name: Any) -> None:
    with pytest.raises(UsageError, match=f"^--format {name} writes complete journeys: leave out --{next(iter(options))}$"):
        decode(DecodeRequest(files=[str(E3)], format=name, **options))


def test_what_is_to_be_left_out_is_named_at_once() -> None:
    with pytest.raises(UsageError, match="leave out --records and --columns"):
        decode(DecodeRequest(files=[str(E3)], format="otlp", records="frame", columns="topic"))


def test_records_may_name_journeys(tmp_path: Path) -> None:
    out = [tmp_path / "default", tmp_path / "named"]
    assert decode(DecodeRequest(files=[str(E3)], format="otlp", out=str(out[0]))) == 0
    assert decode(DecodeRequest(files=[str(E3)], format="otlp", records="journey", out=str(out[1]))) == 0
    assert out[0].read_bytes() == out[1].read_bytes()


def test_each_line_is_traces_data_of_the_published_definition(tmp_path: Path) -> None:
    trace_pb2 = pytest.importorskip("opentelemetry.proto.trace.v1.trace_pb2", reason="no opentelemetry-proto: pip install -e '.[test]'")
    json_format = pytest.importorskip("google.protobuf.json_format")
    lines = lines_of(E3, tmp_path)
    for line in lines:
        for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]:  # ids are hex in OTLP, base64 in the JSON of protobuf
            for each in (span, *span.get("links", ())):
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in each:
                        each[name] = b64encode(bytes.fromhex(each[name])).decode()
        data = json_format.Parse(json.dumps(line), trace_pb2.TracesData())
        (scope,) = data.resource_spans[0].scope_spans
        assert scope.schema_url == data.resource_spans[0].schema_url == SCHEMA
        assert all(len(span.trace_id) == 16 and len(span.span_id) == 8 and span.kind for span in scope.spans)
