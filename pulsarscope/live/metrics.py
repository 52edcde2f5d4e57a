"""Metrics of a live run for Prometheus, served over HTTP."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from pulsarscope.live.source import CaptureHealth
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import METRICS_CONNECTIONS_MAX, METRICS_NAME_MAX_CHARACTERS, METRICS_NAMES_MAX, METRICS_TIMEOUT_SECONDS
from pulsarscope.model.records import ExchangeRow, FindingRow, FrameRow

OTHER = "other"
"""Label value of the names above METRICS_NAMES_MAX."""

LATENCY_BUCKETS_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Buckets from 0.1 ms, the shortest time in which brokers store a message, to the 30 s after which clients time out."""


def require_prometheus() -> None:
    """Raise UsageError with the way to install prometheus-client when it is missing."""
    try:
        import prometheus_client  # noqa: F401, PLC0415 - the import is the test
    except ImportError as error:
        raise UsageError("--metrics needs prometheus-client: pip install 'pulsarscope[live]'") from error


class Metrics:
    """Collector of counts of rows and of the state of the capture."""

    def __init__(self, health: Callable[[], CaptureHealth]) -> None:
        """Register the metrics. Raises UsageError as `require_prometheus`."""
        require_prometheus()
        from prometheus_client import CollectorRegistry, Histogram  # noqa: PLC0415 - only --metrics needs it
        from prometheus_client import Counter as Count  # noqa: PLC0415 - as above

        self.registry = CollectorRegistry(auto_describe=True)
        self._health = health
        self._names: dict[str, set[str]] = {}
        common: dict[str, Any] = {"registry": self.registry, "namespace": "pulsarscope"}
        self._frames = Count("frames", "Frames decoded.", ("command", "direction"), **common)
        self._bytes = Count("frame_bytes", "Bytes of frames decoded.", ("command", "direction"), **common)
        self._messages = Count("messages", "Messages that clients sent and that servers delivered.", ("topic", "direction"), **common)
        self._exchanges = Count("requests", "Requests by how they ended.", ("request", "status"), **common)
        self._findings = Count("findings", "Findings.", ("code", "severity"), **common)
        self._latencies = Histogram(
            "request_seconds", "Time from a request to its response.", ("request",), buckets=LATENCY_BUCKETS_SECONDS, **common
        )
        self.registry.register(self)

    def count(self, rows: Iterable[Any]) -> None:
        """Count frames, exchanges and findings."""
        frames: Counter[tuple[str, str]] = Counter()
        sizes: Counter[tuple[str, str]] = Counter()
        messages: Counter[tuple[str, str]] = Counter()
        for row in rows:
            if isinstance(row, FrameRow):
                key = self._label_value("command", row.command), row.direction or ""
                frames[key] += 1
                sizes[key] += row.size or 0
                if row.num_messages is not None and row.num_messages > 0:
                    shares = {row.topic: {"messages": row.num_messages}} if row.topics is None else row.topics
                    for topic, share in shares.items():
                        messages[self._label_value("topic", topic), row.direction or ""] += share["messages"]
            elif type(row) is ExchangeRow:
                request = self._label_value("request", row.request)
                self._exchanges.labels(request, row.status or "").inc()
                if row.latency_ns is not None:
                    self._latencies.labels(request).observe(row.latency_ns / 1e9)
            elif type(row) is FindingRow:
                self._findings.labels(row.code or "", row.severity or "").inc()
        for metric, counts in ((self._frames, frames), (self._bytes, sizes), (self._messages, messages)):
            for key, number in counts.items():
                metric.labels(*key).inc(number)

    def _label_value(self, label: str, name: str | None) -> str:
        """Return a name as label value, of which there are at most METRICS_NAMES_MAX."""
        known = self._names.setdefault(label, set())
        if not (name := (name or "")[:METRICS_NAME_MAX_CHARACTERS]) or name in known:
            return name
        if len(known) >= METRICS_NAMES_MAX:
            return OTHER
        known.add(name)
        return name

    def collect(self) -> Iterator[Any]:
        """Yield the metrics of the capture, as a collector of prometheus-client."""
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
            ("waiting_streams", "Streams that wait for lost packets.", health.waiting_streams),
            ("stream_bytes", "Bytes that wait behind lost packets.", health.stream_bytes),
            ("ring_fullness", "How much of the kernel's ring is taken, 0 to 1.", health.ring),
            ("decode_lag_seconds", "How far decoding is behind the traffic.", health.lag),
        ):
            yield GaugeMetricFamily(f"pulsarscope_{name}", text, level)


class _Handler(WSGIRequestHandler):
    """Handler of one request, which must come in time; it logs nothing."""

    timeout = METRICS_TIMEOUT_SECONDS

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    """Server of few connections at a time: each takes a descriptor and a thread of the process that records packets."""

    daemon_threads = True
    request_queue_size = 128  # with socketserver's 5, who comes beside a burst of others tries again after a second, then two, then four

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._free = threading.Semaphore(METRICS_CONNECTIONS_MAX)
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, or close it when there are too many."""
        if self._free.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, *_: object) -> None:
        """Ignore clients that go away."""


@contextmanager
def serve_metrics(metrics: Metrics, host: str, port: int) -> Iterator[int]:
    """Serve the metrics at http://host:port/metrics within the context, which returns the port.

    Raises:
        UsageError: the address is not available.
    """
    from prometheus_client import make_wsgi_app  # noqa: PLC0415 - as above

    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        server_class = type("Server", (_Server,), {"address_family": family})
        server: Any = make_server(str(address[0]), port, make_wsgi_app(metrics.registry), server_class, _Handler)
    except OSError as error:
        raise UsageError(f"--metrics {host}:{port}: {error.strerror or error}") from error
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def parse_address(text: str) -> tuple[str, int]:
    """Parse HOST:PORT of --metrics. Raises UsageError when the text is not an address with a port."""
    host, _, port = text.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and int(port) < 65_536):
        raise UsageError(f"--metrics {text}: give an address and a port, as in 127.0.0.1:9464")
    return host.removeprefix("[").removesuffix("]"), int(port)
