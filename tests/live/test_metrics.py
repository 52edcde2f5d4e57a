"""Metrics for Prometheus and their server."""

from __future__ import annotations

import os
import re
import socket
import sys
import threading
import time
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from docs.make_metrics import PAGE, table
from pulsarscope.live import metrics as module
from pulsarscope.live.metrics import METRICS, OTHER, Metrics, parse_address, serve_metrics
from pulsarscope.live.packet_source import CaptureHealth
from pulsarscope.model.errors import UsageError
from pulsarscope.model.live_limits import METRICS_CONNECTIONS_MAX, METRICS_NAME_MAX_CHARACTERS
from pulsarscope.model.records import ExchangeRow, FindingRow, FrameRow
from tests.scenarios.loopback import free_port

HEALTH = CaptureHealth(packets=10, dropped=2, skipped_packets=3, waiting_bytes=4, ring=0.5, lag=1.5, connections=6)
CONSUMER = {
    "topic": "t",
    "subscription": "s",
    "unacknowledged": 2,
    "oldest_age_ns": 3_000_000_000,
    "permits_left": 7,
    "redelivered": 1,
}
CONSUMERS = [
    CONSUMER,
    {**CONSUMER, "unacknowledged": 3, "oldest_age_ns": None, "permits_left": None, "redelivered": 0},
]
ROWS = [
    FrameRow(direction="client", command="SEND", topic="t", num_messages=5, size=1000),
    FrameRow(direction="client", command="SEND", topic="t", num_messages=1, size=10),
    FrameRow(direction="client", command="PING", size=9),
    ExchangeRow(request="SEND", topic="t", latency_ns=2_000_000, status="ok"),
    FrameRow(direction="server", command="MESSAGE", topic="t", subscription="s", num_messages=4, size=400),
    FrameRow(direction="server", command="MESSAGE", num_messages=1, size=10),
    ExchangeRow(request="SEND", status="unanswered"),
    FindingRow(code="producer-busy", severity="error"),
]


def text(metrics: Metrics) -> list[str]:
    prometheus = pytest.importorskip("prometheus_client")
    return [line for line in prometheus.generate_latest(metrics.registry).decode().splitlines() if not line.startswith("#")]


def counted() -> Metrics:
    pytest.importorskip("prometheus_client")
    metrics = Metrics(lambda: HEALTH, lambda: CONSUMERS)
    metrics.count(ROWS)
    return metrics


@pytest.mark.parametrize(
    "line",
    [
        'pulsarscope_frames_total{command="SEND",direction="client"} 2.0',
        'pulsarscope_frame_bytes_total{command="SEND",direction="client"} 1010.0',
        'pulsarscope_messages_total{direction="client",topic="t"} 6.0',
        'pulsarscope_requests_total{request="SEND",status="unanswered"} 1.0',
        'pulsarscope_message_bytes_total{direction="client",topic="t"} 1010.0',
        'pulsarscope_messages_total{direction="server",topic="unknown"} 1.0',
        'pulsarscope_subscription_messages_total{subscription="s",topic="t"} 4.0',
        'pulsarscope_subscription_message_bytes_total{subscription="s",topic="t"} 400.0',
        'pulsarscope_send_seconds_bucket{le="0.005",topic="t"} 1.0',
        'pulsarscope_consumers{subscription="s",topic="t"} 2.0',
        'pulsarscope_unacknowledged_messages{subscription="s",topic="t"} 5.0',
        'pulsarscope_oldest_unacknowledged_seconds{subscription="s",topic="t"} 3.0',
        'pulsarscope_permits{subscription="s",topic="t"} 7.0',
        'pulsarscope_redelivered_messages{subscription="s",topic="t"} 1.0',
        "pulsarscope_connections 6.0",
        'pulsarscope_request_seconds_bucket{le="0.001",request="SEND"} 0.0',
        'pulsarscope_request_seconds_bucket{le="0.0025",request="SEND"} 1.0',
        'pulsarscope_request_seconds_count{request="SEND"} 1.0',
        'pulsarscope_findings_total{code="producer-busy",severity="error"} 1.0',
        "pulsarscope_packets_total 10.0",
        "pulsarscope_dropped_packets_total 2.0",
        "pulsarscope_skipped_packets_total 3.0",
        "pulsarscope_queue_bytes 4.0",
        "pulsarscope_ring_fullness 0.5",
        "pulsarscope_decode_lag_seconds 1.5",
    ],
)
def test_counts_are_reported(line: str) -> None:
    assert line in text(counted())


HOSTILE = ["", "\n", '"', "\\", "a" * 5_000, "\x1b[31m", "\ud800", "}", "{", "é"]


def test_what_a_parser_of_prometheus_reads_is_what_was_counted_whatever_the_names() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    prometheus = pytest.importorskip("prometheus_client")
    names = [f"{first}{second}" for first in HOSTILE for second in HOSTILE]
    metrics = Metrics(lambda: HEALTH, lambda: [{**CONSUMER, "topic": name, "subscription": name} for name in names], os.getpid())
    for name in names:
        metrics.count([FrameRow(direction="client", command=name, topic=name, subscription=name, num_messages=1, size=1)])
        metrics.count([ExchangeRow(request=name, topic=name, latency_ns=1, status="ok"), FindingRow(code="x", severity="error")])
    families = {
        family.name: family for family in parser.text_string_to_metric_families(prometheus.generate_latest(metrics.registry).decode())
    }
    assert sum(sample.value for sample in families["pulsarscope_messages"].samples if sample.name.endswith("_total")) == len(names)
    for family in families.values():
        assert family.documentation
        assert family.type in {"counter", "gauge", "histogram"}
        for sample in family.samples:
            assert all(value for value in sample.labels.values())
            assert all(value.isprintable() and len(value) <= 4 * METRICS_NAME_MAX_CHARACTERS for value in sample.labels.values())
    described = {f"pulsarscope_{metric.name}": set(metric.labels) for metric in METRICS}
    assert described.keys() <= families.keys()
    for name, labels in described.items():
        assert {label for sample in families[name].samples for label in sample.labels} - {"le"} == labels
    assert {"process_cpu_seconds", "process_resident_memory_bytes", "pulsarscope_capture_process_cpu_seconds"} <= families.keys()


def test_names_follow_the_conventions_of_prometheus() -> None:
    for metric in METRICS:
        assert re.fullmatch("[a-z]+(_[a-z]+)*", metric.name)
        assert not metric.name.endswith(("_total", "_count", "_sum", "_bucket"))
        assert metric.text.endswith((".", "1."))
        assert (metric.kind == "histogram") <= metric.name.endswith("_seconds")


def test_the_manual_lists_every_metric() -> None:
    assert table() in PAGE.read_text(encoding="utf-8"), "run python docs/make_metrics.py"


def test_there_are_never_too_many_subscriptions(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("prometheus_client")
    monkeypatch.setattr(module, "METRICS_NAMES_MAX", 2)
    metrics = Metrics(lambda: HEALTH, lambda: [{**CONSUMER, "subscription": f"s{number}"} for number in range(10)])
    consumers = [line for line in text(metrics) if line.startswith("pulsarscope_consumers")]
    assert consumers[-1] == f'pulsarscope_consumers{{subscription="{OTHER}",topic="{OTHER}"}} 8.0'
    assert len(consumers) == 3


def test_there_are_never_too_many_names(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("prometheus_client")
    monkeypatch.setattr(module, "METRICS_NAMES_MAX", 2)
    metrics = Metrics(lambda: HEALTH)
    metrics.count([FrameRow(direction="client", command="SEND", topic=f"t{number}", num_messages=1, size=0) for number in range(10)])
    topics = [line for line in text(metrics) if line.startswith("pulsarscope_messages_total")]
    assert len(topics) == 3
    assert f'pulsarscope_messages_total{{direction="client",topic="{OTHER}"}} 8.0' in topics


def test_they_are_served_until_the_end() -> None:
    metrics, port = counted(), free_port()
    with serve_metrics(metrics, "127.0.0.1", port):
        assert b"pulsarscope_packets_total 10.0" in urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read()
        with pytest.raises(UsageError, match=f"--metrics 127.0.0.1:{port}: "), serve_metrics(metrics, "127.0.0.1", port):
            pass
    with serve_metrics(metrics, "127.0.0.1", port):
        pass  # the port is free again


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"", b"GET /metrics HTTP/1.1\r\n"])
def test_idle_connections_neither_take_all_descriptors_nor_the_place_of_others(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    monkeypatch.setattr(module._Handler, "timeout", 1)
    with serve_metrics(counted(), "127.0.0.1", 0) as port, ExitStack() as stack:
        before = len([*Path("/proc/self/fd").iterdir()])
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(300)]
        for connection in idle:
            with suppress(OSError):
                connection.sendall(sent)
        time.sleep(0.3)
        assert len([*Path("/proc/self/fd").iterdir()]) <= before + len(idle) + METRICS_CONNECTIONS_MAX
        assert threading.active_count() <= METRICS_CONNECTIONS_MAX + 8
        time.sleep(1.5)
        assert b"pulsarscope_packets_total 10.0" in urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read()


def test_connections_whose_thread_does_not_begin_take_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with serve_metrics(counted(), "127.0.0.1", 0) as port:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", fail)
            for _ in range(METRICS_CONNECTIONS_MAX):
                with socket.create_connection(("127.0.0.1", port)) as connection:
                    connection.settimeout(10)
                    assert connection.recv(1) == b""
        assert b"pulsarscope_packets_total 10.0" in urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10).read()


@pytest.mark.parametrize(("text", "host", "port"), [("127.0.0.1:9464", "127.0.0.1", 9464), ("[::1]:1", "::1", 1), ("host:0", "host", 0)])
def test_an_address_has_a_host_and_a_port(text: str, host: str, port: int) -> None:
    assert parse_address(text) == (host, port)


@pytest.mark.parametrize("text", ["9464", ":9464", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:x"])
def test_what_is_no_address_is_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="give an address and a port"):
        parse_address(text)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(UsageError, match=r"-m pip install .*\[live\]"):
        Metrics(lambda: HEALTH)


def test_a_name_of_megabytes_is_cut() -> None:
    pytest.importorskip("prometheus_client")
    metrics = Metrics(lambda: HEALTH)
    metrics.count([FrameRow(direction="client", command="SEND", topic="t" * 5_000_000, num_messages=1, size=0)])
    assert max(map(len, text(metrics))) < 2_000
