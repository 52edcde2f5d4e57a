"""What a live run has seen, for Prometheus: served over HTTP, in its text format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from pulsarscope.live.source import Health
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import METRICS_NAME_MAX_CHARACTERS, METRICS_NAMES_MAX
from pulsarscope.model.records import ExchangeRow, FindingRow, FrameRow

OTHER = "other"
"""What all names are called that are met when there are too many."""

LATENCY_BUCKETS_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""From 0.1 ms, the fastest that brokers store a message, to the 30 s after which clients give up."""


class Metrics:
    """Counts rows, and collects what Prometheus asks for."""

    def __init__(self, health: Callable[[], Health]) -> None:
        """Raises UsageError: prometheus-client is not installed."""
        try:
            from prometheus_client import CollectorRegistry, Histogram  # noqa: PLC0415 - only --metrics needs it
            from prometheus_client import Counter as Count  # noqa: PLC0415 - as above
        except ImportError as error:
            message = "--metrics needs prometheus-client: pip install 'pulsarscope[live]'"
            raise UsageError(message) from error
        self.registry = CollectorRegistry(auto_describe=True)
        self._health = health
        self._names: dict[str, set[str]] = {}
        what: dict[str, Any] = {"registry": self.registry, "namespace": "pulsarscope"}
        self._frames = Count("frames", "Frames decoded.", ("command", "direction"), **what)
        self._bytes = Count("frame_bytes", "Bytes of frames decoded.", ("command", "direction"), **what)
        self._messages = Count("messages", "Messages that clients sent and that servers delivered.", ("topic", "direction"), **what)
        self._exchanges = Count("requests", "Requests by how they ended.", ("request", "status"), **what)
        self._findings = Count("findings", "Findings.", ("code", "severity"), **what)
        self._latencies = Histogram(
            "request_seconds", "Time from a request to its response.", ("request",), buckets=LATENCY_BUCKETS_SECONDS, **what
        )
        self.registry.register(self)

    def count(self, rows: Iterable[Any]) -> None:
        """Count these rows: frames, exchanges and findings."""
        frames: Counter[tuple[str, str]] = Counter()
        sizes: Counter[tuple[str, str]] = Counter()
        messages: Counter[tuple[str, str]] = Counter()
        for row in rows:
            if isinstance(row, FrameRow):
                key = self._name("command", row.command), row.direction or ""
                frames[key] += 1
                sizes[key] += row.size or 0
                if row.num_messages is not None and row.num_messages > 0:
                    messages[self._name("topic", row.topic), row.direction or ""] += row.num_messages
            elif type(row) is ExchangeRow:
                request = self._name("request", row.request)
                self._exchanges.labels(request, row.status or "").inc()
                if row.latency_ns is not None:
                    self._latencies.labels(request).observe(row.latency_ns / 1e9)
            elif type(row) is FindingRow:
                self._findings.labels(row.code or "", row.severity or "").inc()
        for metric, counts in ((self._frames, frames), (self._bytes, sizes), (self._messages, messages)):
            for key, number in counts.items():
                metric.labels(*key).inc(number)

    def _name(self, label: str, name: str | None) -> str:
        """A value of a label: there are never too many."""
        known = self._names.setdefault(label, set())
        name = (name or "")[:METRICS_NAME_MAX_CHARACTERS]
        if not name or name in known:
            return name
        if len(known) >= METRICS_NAMES_MAX:
            return OTHER
        known.add(name)
        return name

    def collect(self) -> Iterator[Any]:
        """As prometheus-client asks a collector: the state of the capture itself."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - as above

        health = self._health()
        for name, text, value in (
            ("packets", "Packets taken.", health.packets),
            ("dropped_packets", "Packets that the kernel dropped.", health.dropped),
            ("skipped_packets", "Packets taken and not decoded, because decoding was too slow.", health.skipped_packets),
        ):
            yield CounterMetricFamily(f"pulsarscope_{name}", text, value)
        for name, text, level in (
            ("queue_bytes", "Bytes taken that wait to be decoded.", health.waiting_bytes),
            ("ring_fullness", "How much of the kernel's ring is taken, 0 to 1.", health.ring),
            ("decode_lag_seconds", "How far decoding is behind the traffic.", health.lag),
        ):
            yield GaugeMetricFamily(f"pulsarscope_{name}", text, level)


@contextmanager
def served(metrics: Metrics, host: str, port: int) -> Iterator[int]:
    """Serve them at http://host:port/metrics while entered; gives the port. Raises UsageError: that address cannot be had."""
    from prometheus_client import start_http_server  # noqa: PLC0415 - as above

    try:
        server, thread = start_http_server(port, host, metrics.registry)
    except OSError as error:
        message = f"--metrics {host}:{port}: {error.strerror or error}"
        raise UsageError(message) from error
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def address(text: str) -> tuple[str, int]:
    """HOST:PORT as --metrics takes it. Raises UsageError when it is none."""
    host, _, port = text.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and int(port) < 65_536):
        message = f"--metrics {text}: give an address and a port, as in 127.0.0.1:9464"
        raise UsageError(message)
    return host.removeprefix("[").removesuffix("]"), int(port)
