"""Metrics of a live run for Prometheus, served over HTTP."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import Any, NamedTuple
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from pulsarscope.live.packet_source import CaptureHealth
from pulsarscope.model.errors import UsageError, system_reason
from pulsarscope.model.live_limits import METRICS_CONNECTIONS_MAX, METRICS_NAME_MAX_CHARACTERS, METRICS_NAMES_MAX, METRICS_TIMEOUT_SECONDS
from pulsarscope.model.platform import install_command
from pulsarscope.model.records import ExchangeRow, FindingRow, FrameRow
from pulsarscope.model.text import escape

PREFIX = "pulsarscope"

OTHER = "other"
"""Label value for names beyond METRICS_NAMES_MAX."""

UNKNOWN = "unknown"
"""Label value for a name that the capture lacks. Prometheus would treat an empty value as no label."""

LATENCY_BUCKETS_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Buckets from 0.1 ms, the shortest time in which brokers store a message, to the 30 s after which clients time out."""

TOPIC_BUCKETS_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0)
"""Fewer buckets by topic, because there may be a thousand topics. The library has no native histograms."""


def require_prometheus() -> None:
    """Raise UsageError with the way to install prometheus-client when it is missing."""
    try:
        import prometheus_client  # noqa: F401, PLC0415 - the import is the test
    except ImportError as error:
        raise UsageError(f"--metrics needs prometheus-client: {install_command('live')}") from error


class Metric(NamedTuple):
    """A metric as users see it; the table in docs/live.md is made from these."""

    name: str
    """Name without the prefix pulsarscope_; a counter also gets the suffix _total."""
    kind: str
    """counter, histogram or gauge."""
    labels: tuple[str, ...]
    text: str


_SUBSCRIPTION = ("topic", "subscription")
_OF_ROWS = (
    Metric("frames", "counter", ("command", "direction"), "Frames decoded."),
    Metric("frame_bytes", "counter", ("command", "direction"), "Bytes of frames decoded."),
    Metric("messages", "counter", ("topic", "direction"), "Messages that clients sent and that servers delivered."),
    Metric("message_bytes", "counter", ("topic", "direction"), "Bytes of the frames with these messages."),
    Metric("subscription_messages", "counter", _SUBSCRIPTION, "Messages that servers delivered."),
    Metric("subscription_message_bytes", "counter", _SUBSCRIPTION, "Bytes of the frames with these messages."),
    Metric("requests", "counter", ("request", "status"), "Requests by how they ended."),
    Metric("findings", "counter", ("code", "severity"), "Findings."),
    Metric("request_seconds", "histogram", ("request",), "Time from a request to its response."),
    Metric("send_seconds", "histogram", ("topic",), "Time from a message to its receipt."),
)
_OF_CONSUMERS = (
    Metric("consumers", "gauge", _SUBSCRIPTION, "Open consumers."),
    Metric("unacknowledged_messages", "gauge", _SUBSCRIPTION, "Messages delivered to open consumers and not acknowledged."),
    Metric("oldest_unacknowledged_seconds", "gauge", _SUBSCRIPTION, "Age of the oldest of these."),
    Metric(
        "permits",
        "gauge",
        _SUBSCRIPTION,
        "Messages that open consumers have asked for and not received; only of consumers that subscribed in the capture.",
    ),
    Metric("redelivered_messages", "gauge", _SUBSCRIPTION, "Messages delivered again to open consumers."),
)
_LEVELS = tuple(metric.name for metric in _OF_CONSUMERS if metric.name != "permits")  # these are not known for every subscription
_OF_CAPTURE: tuple[tuple[Metric, Callable[[CaptureHealth], float]], ...] = (
    (Metric("packets", "counter", (), "Packets captured."), lambda health: health.packets),
    (Metric("dropped_packets", "counter", (), "Packets that the kernel dropped."), lambda health: health.dropped),
    (
        Metric("skipped_packets", "counter", (), "Packets captured but not decoded, because decoding was too slow."),
        lambda health: health.skipped_packets,
    ),
    (Metric("queue_bytes", "gauge", (), "Captured bytes that wait to be decoded."), lambda health: health.waiting_bytes),
    (Metric("waiting_streams", "gauge", (), "Streams that wait for lost packets."), lambda health: health.waiting_streams),
    (Metric("stream_bytes", "gauge", (), "Bytes that wait behind lost packets."), lambda health: health.stream_bytes),
    (Metric("ring_fullness", "gauge", (), "Used part of the kernel's ring, 0 to 1."), lambda health: health.ring),
    (Metric("decode_lag_seconds", "gauge", (), "How far decoding is behind the traffic."), lambda health: health.lag),
    (Metric("connections", "gauge", (), "Open connections of a known protocol."), lambda health: health.connections),
)
METRICS = (*_OF_ROWS, *_OF_CONSUMERS, *(metric for metric, _ in _OF_CAPTURE))


class Metrics:
    """A collector of row counts and of the state of the capture."""

    def __init__(
        self, health: Callable[[], CaptureHealth], consumers: Callable[[], Iterable[Mapping[str, Any]]] = tuple, process: int | None = None
    ) -> None:
        """Register the metrics. Raises UsageError like `require_prometheus`.

        `consumers` gives the records of open consumers; `process` is the id of the capturing process, if it is not this one.
        """
        require_prometheus()
        from prometheus_client import CollectorRegistry, Histogram, ProcessCollector  # noqa: PLC0415 - only --metrics needs it
        from prometheus_client import Counter as Count  # noqa: PLC0415 - as above

        self.registry = CollectorRegistry(auto_describe=True)
        self._health = health
        self._consumers = consumers
        self._names: dict[str, set[Any]] = {}
        common: dict[str, Any] = {"registry": self.registry, "namespace": PREFIX}
        buckets = {"request_seconds": LATENCY_BUCKETS_SECONDS, "send_seconds": TOPIC_BUCKETS_SECONDS}
        self._counts: dict[str, Any] = {
            metric.name: Histogram(metric.name, metric.text, metric.labels, buckets=buckets[metric.name], **common)
            if metric.kind == "histogram"
            else Count(metric.name, metric.text, metric.labels, **common)
            for metric in _OF_ROWS
        }
        self.registry.register(self)
        collector: Any = ProcessCollector
        collector(registry=self.registry)
        if process is not None:
            collector(f"{PREFIX}_capture", lambda: process, registry=self.registry)

    def count(self, rows: Iterable[Any]) -> None:
        """Count frames, exchanges and findings."""
        counts: Counter[tuple[str, tuple[str, ...]]] = Counter()
        carriers = self._names.setdefault("carriers", set())
        timed: list[ExchangeRow] = []
        for row in rows:
            if isinstance(row, FrameRow):
                key = self._label_value("command", row.command), row.direction
                counts["frames", key] += 1
                counts["frame_bytes", key] += row.size
                if row.num_messages is not None and row.num_messages > 0:
                    carriers.add(key[0])
                    self._count_messages(row, counts)
            elif type(row) is ExchangeRow:
                request = self._label_value("request", row.request)
                counts["requests", (request, row.status)] += 1
                if row.latency_ns is not None:
                    self._counts["request_seconds"].labels(request).observe(row.latency_ns / 1e9)
                    timed.append(row)
            elif type(row) is FindingRow:
                counts["findings", (row.code or "", row.severity or "")] += 1
        for row in timed:  # after the frames, which show the commands that carry messages
            if self._label_value("command", row.request) in carriers:
                self._counts["send_seconds"].labels(self._label_value("topic", row.topic)).observe((row.latency_ns or 0) / 1e9)
        for (name, labels), number in counts.items():
            self._counts[name].labels(*labels).inc(number)

    def _count_messages(self, row: FrameRow, counts: Counter[tuple[str, tuple[str, ...]]]) -> None:
        shares: dict[str | None, Any] = {row.topic: {"messages": row.num_messages, "bytes": row.size}}
        if row.topics is not None:
            shares = dict(row.topics.items())
        for topic, share in shares.items():
            key = self._label_value("topic", topic), row.direction
            counts["messages", key] += share["messages"]
            counts["message_bytes", key] += share["bytes"]
            if row.subscription is not None:
                names = self._label_values(topic, row.subscription)
                counts["subscription_messages", names] += share["messages"]
                counts["subscription_message_bytes", names] += share["bytes"]

    def _label_value(self, label: str, name: str | None) -> str:
        """Return a name as a label value, escaped for terminals. There are at most METRICS_NAMES_MAX values."""
        known = self._names.setdefault(label, set())
        name = escape(name[:METRICS_NAME_MAX_CHARACTERS]) if name else UNKNOWN
        if name in known or name == UNKNOWN:
            return name
        if len(known) >= METRICS_NAMES_MAX:
            return OTHER
        known.add(name)
        return name

    def _label_values(self, topic: str | None, subscription: str | None) -> tuple[str, str]:
        """Return the label values of a subscription. There are at most METRICS_NAMES_MAX pairs."""
        known = self._names.setdefault("subscription", set())
        names = self._label_value("topic", topic), escape((subscription or UNKNOWN)[:METRICS_NAME_MAX_CHARACTERS])
        if names not in known:
            if len(known) >= METRICS_NAMES_MAX:
                return OTHER, OTHER
            known.add(names)
        return names

    def collect(self) -> Iterator[Any]:
        """Yield the metrics of the capture and of consumers, as a collector of prometheus-client."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - as above

        health = self._health()
        for metric, value in _OF_CAPTURE:
            family: Any = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            yield family(f"{PREFIX}_{metric.name}", metric.text, value(health))
        levels: dict[tuple[str, str], dict[str, float]] = {}
        for record in self._consumers():
            level = levels.setdefault(self._label_values(record["topic"], record["subscription"]), dict.fromkeys(_LEVELS, 0.0))
            level["consumers"] += 1
            level["unacknowledged_messages"] += record["unacknowledged"]
            level["oldest_unacknowledged_seconds"] = max(level["oldest_unacknowledged_seconds"], (record["oldest_age_ns"] or 0) / 1e9)
            level["redelivered_messages"] += record["redelivered"]
            if record["permits_left"] is not None:
                level["permits"] = level.get("permits", 0.0) + max(record["permits_left"], 0)
        for metric in _OF_CONSUMERS:
            gauge = GaugeMetricFamily(f"{PREFIX}_{metric.name}", metric.text, labels=metric.labels)
            for names, level in levels.items():
                if metric.name in level:
                    gauge.add_metric(names, level[metric.name])
            yield gauge


class _Handler(WSGIRequestHandler):
    """A handler of one request, with a timeout and without a log."""

    timeout = METRICS_TIMEOUT_SECONDS

    def log_message(self, *_: object) -> None:
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    """A server with a limit on connections: each takes a descriptor and a thread of the process that records packets."""

    daemon_threads = True
    request_queue_size = 128  # with socketserver's 5, a client in a burst retries after a second, then two, then four

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self._free = threading.Semaphore(METRICS_CONNECTIONS_MAX)
        super().__init__(*arguments, **options)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, or close it when there are too many."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread started, which would have released the slot
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection in its own thread."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._free.release()

    def handle_error(self, *_: object) -> None:
        """Ignore clients that go away."""


@contextmanager
def serve_metrics(metrics: Metrics, host: str, port: int) -> Iterator[int]:
    """Serve the metrics at http://host:port/metrics within the context, which yields the port.

    Raises:
        UsageError: the address is not available.
    """
    from prometheus_client import make_wsgi_app  # noqa: PLC0415 - as above

    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        server_class = type("Server", (_Server,), {"address_family": family})
        server: Any = make_server(str(address[0]), port, make_wsgi_app(metrics.registry), server_class, _Handler)
    except OSError as error:
        raise UsageError(f"--metrics {host}:{port}: {system_reason(error)}") from error
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
