"""Traces in the properties of messages."""

from __future__ import annotations

from base64 import b64encode

import pytest

from pulsarscope.protocols.pulsar.entry.traces import trace_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
W3C = f"00-{TRACE}-{SPAN}-01"


def sw8(trace: bytes, segment: bytes) -> str:
    parts = [b64encode(part).decode() for part in (trace, segment)]
    return f"1-{parts[0]}-{parts[1]}-3-c2VydmljZQ==-aW5zdGFuY2U=-L2FwaQ==-MTI3LjAuMC4x"


@pytest.mark.parametrize(
    "properties",
    [
        {"traceparent": W3C},
        {"traceparent": f"01-{TRACE}-{SPAN}-01-more"},
        {"b3": f"{TRACE}-{SPAN}"},
        {"b3": f"{TRACE}-{SPAN}-d"},
        {"b3": f"{TRACE.upper()}-{SPAN.upper()}-1-{SPAN}"},
        {"X-B3-TraceId": TRACE, "X-B3-SpanId": SPAN, "X-B3-Sampled": "1"},
        {"x-b3-traceid": TRACE, "x-b3-spanid": SPAN},
        {"uber-trace-id": f"{TRACE}:{SPAN}:0:1"},
        {"uber-trace-id": f"{TRACE}%3A{SPAN.lstrip('0')}%3A0%3A1"},
        {"messaging.traceparent": W3C},
        {"messaging.b3": f"{TRACE}-{SPAN}-1"},
        {"messaging.uber-trace-id": f"{TRACE}:{SPAN}:0:1"},
        {"messaging.trace_id": TRACE, "messaging.span_id": SPAN},
        {
            "x-datadog-trace-id": str(int(TRACE[16:], 16)),
            "x-datadog-parent-id": str(int(SPAN, 16)),
            "x-datadog-tags": f"_dd.p.dm=-1,_dd.p.tid={TRACE[:16]}",
        },
        {"traceparent": W3C, "messaging.traceparent": f"00-{'1' * 32}-{'2' * 16}-01"},
        {"traceparent": W3C, "b3": f"{'1' * 32}-{'2' * 16}"},
        {"traceparent": "damaged", "b3": f"{TRACE}-{SPAN}"},
    ],
)
def test_the_dialects_of_tracers_name_one_trace(properties: dict[str, str]) -> None:
    assert trace_of(properties | {"other": "x"}) == (TRACE, SPAN)


def test_short_ids_have_zeros_before_them() -> None:
    assert trace_of({"uber-trace-id": "abc:1:0:1"}) == ("abc".zfill(32), "1".zfill(16))
    assert trace_of({"b3": f"{SPAN}-{SPAN}"}) == (SPAN.zfill(32), SPAN)


def test_a_trace_of_datadog_without_tags_has_64_bits() -> None:
    assert trace_of({"x-datadog-trace-id": "255", "x-datadog-parent-id": "16"}) == ("ff".zfill(32), "10".zfill(16))


def test_ids_of_skywalking_are_text() -> None:
    assert trace_of({"sw8": sw8(b"a1.2.3", b"b4.5")}) == ("a1.2.3", "b4.5-3")


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"b3": "0"},
        {"TRACEPARENT": W3C},
        {"traceparent": W3C.upper()},
        {"traceparent": f"{W3C}-more"},
        {"traceparent": f"{W3C}\n"},
        {"traceparent": f"ff{W3C[2:]}"},
        {"traceparent": f"00-{'0' * 32}-{SPAN}-01"},
        {"traceparent": f"00-{TRACE}-{'0' * 16}-01"},
        {"traceparent": "\x1b[31m" + W3C},
        {"traceparent": "0" * 1_000_000},
        {"X-B3-TraceId": TRACE},
        {"X-B3-TraceId": f"{TRACE}-{SPAN}", "X-B3-SpanId": "1"},
        {"uber-trace-id": f"{TRACE}:{SPAN}:0"},
        {"uber-trace-id": "0:0:0:0"},
        {"sw8": "1-a-b-c"},
        {"messaging.trace_id": TRACE},
        {"messaging.system": "pulsar", "messaging.message.id": "1:2"},
        {"x-datadog-trace-id": str(1 << 64), "x-datadog-parent-id": "1"},
        {"x-datadog-trace-id": "12", "x-datadog-parent-id": "0"},
        {"x-datadog-trace-id": "9" * 1_000_000, "x-datadog-parent-id": "1"},
        {"sw8": sw8(b"\xff", b"b")},
        {"sw8": sw8(b"a\x1b[31m", b"b")},
        {"sw8": "1-" + "A" * 1_000_000},
    ],
)
def test_what_is_not_of_its_form_names_nothing(properties: dict[str, str]) -> None:
    assert trace_of(properties) is None
