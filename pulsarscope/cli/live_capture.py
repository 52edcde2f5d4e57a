"""A live capture: its source, the files for its packets, and the findings that save packets or end it."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

from pulsarscope import __version__
from pulsarscope.analysis.counted_once import CountedOnce
from pulsarscope.analysis.learned_topics import LearnedTopics
from pulsarscope.analysis.tally import ReportRecord
from pulsarscope.cli.arguments.live_request import LiveRequest
from pulsarscope.cli.arguments.quantities import has_unit, quantity
from pulsarscope.cli.late_imports import import_late_modules
from pulsarscope.cli.signals import EndedBeforeStartError, handled
from pulsarscope.cli.standard_error import warn
from pulsarscope.dissect.contract.capabilities import LiveFold, ReportTable
from pulsarscope.dissect.plugins.report_tables import report_tables
from pulsarscope.dissect.plugins.topic_names import join_topic_names
from pulsarscope.engine import parallel
from pulsarscope.engine.local import RowBatch, Run, run_blocks
from pulsarscope.engine.options import Options
from pulsarscope.live import sources_by_name
from pulsarscope.live.feed import LAG_SECONDS, LiveFeed
from pulsarscope.live.metrics import Metrics
from pulsarscope.live.packet_source import CaptureHealth, PacketSource, PacketWriter, interface_blocks
from pulsarscope.live.pipe import PipeFeed
from pulsarscope.live.privileges import drop_privileges
from pulsarscope.live.recorder import Recorder, Rotation, TriggeredRecorder
from pulsarscope.live.sources_by_name import is_pipe
from pulsarscope.model.errors import UsageError
from pulsarscope.model.findings import ERROR
from pulsarscope.model.live_limits import LIVE_QUEUE_MAX_BYTES, LIVE_RING_BYTES, LIVE_RING_MEMORY_SHARE
from pulsarscope.model.records import ROWS, ExchangeRow, FindingRow, FrameRow, MessageRow, RawFrame
from pulsarscope.model.text import hint_for, plural
from pulsarscope.model.units import DURATIONS, SECOND, SIZES
from pulsarscope.output.export.pcapng import section_block, statistics_block
from pulsarscope.protocols import make_dissectors

if TYPE_CHECKING:
    from pulsarscope.filter import Filter
    from pulsarscope.output.render.top import Status


ANY_ERROR = "any-error"

_CODE = re.compile(r"[a-z0-9-]+")
_FILTERED = (FrameRow.kind, ExchangeRow.kind, FindingRow.kind)


class Trigger:
    """The records named by --trigger."""

    def __init__(self, text: str, codes: Collection[str]) -> None:
        """Take the option's value; `codes`: codes of all findings. Raises UsageError, or FilterError for an invalid filter."""
        self.kinds: frozenset[str] = frozenset({FindingRow.kind})
        """Kinds of the records that it examines."""
        self._text = text
        self._filter: Filter | None = None
        if text == ANY_ERROR or text in codes:
            return
        if _CODE.fullmatch(text):
            hint = hint_for(text, (*codes, ANY_ERROR), "pulsarscope findings lists them; any-error stands for all errors")
            raise UsageError(f"--trigger: unknown finding {text}{hint}")
        from pulsarscope.cli.commands.fields import catalogue  # most triggers are not filters
        from pulsarscope.filter import Filter

        self._filter = Filter(text, _FILTERED, catalogue())
        self.kinds = frozenset(_FILTERED)

    def select(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]]) -> list[Any]:
        """Return these records among rows."""
        if self._filter is not None:
            return self._filter.select([row for row in rows if row.kind in self.kinds], endpoints)
        findings = [row for row in rows if type(row) is FindingRow]
        return [row for row in findings if row.code == self._text or (self._text == ANY_ERROR and row.severity == ERROR)]


FORGET_FEEDS = 256
"""Number of feeds after which ended entries are dropped, because they would fill the bounded tables."""


class LiveTables:
    """The tables of endless runs, which any thread may read."""

    def __init__(self, tables: Iterable[ReportTable]) -> None:
        self.tables: list[ReportTable] = []
        self._folds: dict[str, LiveFold] = {}
        for table in tables:
            if isinstance(fold := table.make(), LiveFold):
                self.tables.append(table)
                self._folds[table.name] = fold
        self._lock = threading.Lock()
        self._feeds = 0

    def feed(self, rows: list[Any], endpoints: Mapping[str, tuple[str, str]]) -> None:
        """Take rows (see `ReportFold`)."""
        with self._lock:
            self._feeds += bool(rows)
            for fold in self._folds.values():
                fold.feed(rows, endpoints)
                if self._feeds % FORGET_FEEDS == 0:
                    fold.forget_ended()

    def records(self, name: str) -> list[ReportRecord]:
        """Return the records of a table; an empty list if there is no such table."""
        with self._lock:
            return self._folds[name].records() if name in self._folds else []


CONSUMERS = "consumers"
"""Name of the table of consumers of a protocol."""

SHOWN_TWICE = frozenset(ROWS) - {MessageRow.kind, FindingRow.kind}
"""Kinds of rows that are shown for all legs of a path."""


class LiveCapture:
    """A live capture: its feed of packets, the files for them, and the findings that save packets or end it."""

    def __init__(self, request: LiveRequest, options: Options, shown: frozenset[str], trigger: Trigger | None = None) -> None:
        """Open the source, drop privileges, open the file; the output gets record kinds `shown`. Raises UsageError or OutputError."""
        self.metrics: Metrics | None = None
        self.tables = LiveTables(_tables(options, all_of_them=request.top)) if request.top or request.metrics is not None else None
        """Tables for the screen, or the table of consumers for the metrics."""
        self.topic_names = join_topic_names(make_dissectors())
        self.topics = LearnedTopics(self.topic_names.stood_in)
        """Topics of ledgers, for the screen and the metrics."""
        self.run: Run | parallel.LiveRun | None = None
        """Run that decodes the packets."""
        self._trigger = trigger
        self.listening = ""
        """Description of the source and its filter, in one line."""
        self._request = request
        self._hidden = options.records - shown
        self.once = CountedOnce(shown=frozenset() if request.top else SHOWN_TWICE, clock=time.monotonic)
        """Removes rows that occur a second time, on another leg of their path: messages and findings; on the screen, all rows."""
        size, seconds = _rotation(request.rotate or ())
        self.rotation = Rotation(size, seconds, request.keep, numbered=request.trigger is not None)
        self._around = quantity(request.around or "10s", DURATIONS, "--around")
        key_logs = request.reading.tls_keylog or ()
        if is_pipe(request.interface):
            recorder = self._open_recorder(b"", bytes)
            pipe = PipeFeed(
                request.interface, recorder=recorder, packets_max=request.packets, by_interface=options.by_interface, key_logs=key_logs
            )
            self.feed: LiveFeed | PipeFeed = pipe
            self.listening = f"listening to {self.feed.name}{_expected(key_logs)}; Ctrl-C stops"
            return
        ports = ports_of(request, options)
        self.listening = f"listening on {request.interface}: {_traffic(request, ports)}{_expected(key_logs)}; Ctrl-C stops"
        source = open_source(request, ports)
        drop_privileges(partial(import_late_modules, browse=request.browse))
        try:
            head = interface_blocks(source)
            recorder = self._open_recorder(head, partial(_statistics, source))
        except BaseException:
            source.close()
            raise
        self.feed = LiveFeed(
            source,
            recorder=recorder,
            packets_max=request.packets,
            by_interface=options.by_interface,
            queue_bytes=None if request.capture_only else LIVE_QUEUE_MAX_BYTES,
            key_logs=key_logs,
            notify=self._notify,
        )
        self.feed.start()  # before any thread starts: threads do not survive a fork

    def start(self, options: Options, prepare: parallel.Prepare | None) -> Run | parallel.LiveRun:
        """Return the run that decodes the packets; other processes prepare their rows with `prepare`. A pipe is read by one process."""
        feed, jobs = self.feed, self._request.jobs or parallel.cores()
        if jobs > 1 and not _may_start_python():
            self._notify(f"decoding in one process: {sys.executable} cannot be run by the user of this process")
        elif jobs > 1 and isinstance(feed, LiveFeed):
            self.run = parallel.LiveRun(feed.name, feed.steps, options, jobs, prepare)
        self.run = self.run or run_blocks(feed.name, feed, options)
        return self.run

    def _open_recorder(self, head: bytes, tail: Callable[[], bytes]) -> PacketWriter | None:
        request = self._request
        if request.write is None:
            return None
        recorder = Recorder(request.write, section_block(f"pulsarscope {__version__}") + head, self.rotation, tail)
        return recorder if request.trigger is None else TriggeredRecorder(recorder, self._around / SECOND)

    def _notify(self, line: str) -> None:
        """Write a line to standard error, unless there is a screen, which shows the same."""
        if not (self._request.quiet or self._request.top):
            warn(line)

    def watch(self, batch: RowBatch) -> None:
        """Act on findings that stop the capture or save packets, and remove rows that the output does not show."""
        if self._trigger is not None and self.run is not None:
            for row in self._trigger.select(batch.rows, self.endpoints()):
                self.feed.trigger(row.time or time.time_ns())
        if self._request.until is not None and any(type(row) is FindingRow and row.code == self._request.until for row in batch.rows):
            self.feed.stop()
        if self.tables is not None:
            rows = self.topics.named(batch.rows)
            self._count(rows)
            if self._request.top:
                batch.rows = rows
        if self._hidden:
            batch.rows = [row for row in batch.rows if isinstance(row, RawFrame) or row.kind not in self._hidden]

    def _count(self, rows: list[Any]) -> None:
        if self.tables is not None:
            self.tables.feed(rows, self.endpoints())
        if self.metrics is not None:
            self.metrics.count(row for row in rows if isinstance(row, RawFrame) or row.connection not in self.once.outer_of)

    def health(self) -> CaptureHealth:
        """Return the recent state of the capture and its streams."""
        health = self.feed.health()
        if self.run is None:
            return health
        streams, size = self.run.waiting()
        return health._replace(waiting_streams=streams, stream_bytes=size, connections=self.run.open_connections())

    def consumer_records(self) -> list[dict[str, Any]]:
        """Return the records of the open consumers."""
        return [record for record in self._records(CONSUMERS) if record["state"] == "open"]

    def table_records(self) -> dict[str, list[dict[str, Any]]]:
        """Return the records of the other tables, by name."""
        return {table.name: self._records(table.name) for table in self.other_tables}

    def _records(self, name: str) -> list[dict[str, Any]]:
        """Return the records of a table, without connections that are inner legs; any thread may call it."""
        records = [] if self.tables is None else self.tables.records(name)
        return [record for record in records if record.get("connection") not in self.once.outer_of]

    @property
    def other_tables(self) -> list[ReportTable]:
        """The tables other than the table of consumers."""
        return [] if self.tables is None else [table for table in self.tables.tables if table.name != CONSUMERS]

    def endpoints(self) -> Mapping[str, tuple[str, str]]:
        """Return (client, server) of the recognised connections, including those whose rows waited."""
        return {} if self.run is None else self.once.endpoints or self.run.endpoints

    def status(self) -> Status:
        """Return the state of the capture for the screen."""
        from pulsarscope.output.render.text_report import size_text  # only for the screen
        from pulsarscope.output.render.top import Status

        health = self.health()
        notes = [(f"{health.skipped_packets:,} not decoded", bool(health.skipped_packets))]
        if self.feed.reports_drops:
            notes.insert(0, (f"{health.dropped:,} dropped by the kernel", bool(health.dropped)))
            notes.append((f"{size_text(health.waiting_bytes)} waiting", health.waiting_bytes > LIVE_QUEUE_MAX_BYTES // 2))
            notes.append((f"ring {health.ring:.0%} full", health.ring > 0.5))
        if health.waiting_streams:
            streams = plural(health.waiting_streams, "stream")
            notes.append((f"{streams} with lost packets, {size_text(health.stream_bytes)} behind them", True))
        notes.append((f"{health.lag:.1f} s behind", health.lag > LAG_SECONDS))
        if self.feed.state.down:
            notes.insert(0, (f"{self.feed.name} is down: waiting for it", True))
        if latest := self.feed.state.latest:
            notes.append((f"saved to {latest}", False))
        return Status(f"{self.feed.name}: {plural(health.packets, 'packet')}", notes)

    def summary(self, *, limited: bool = False) -> str:
        """Return one line with the numbers of captured and lost packets. Packets after a limit was reached do not count as lost."""
        feed = self.feed
        health, state = feed.health(), feed.state
        parts = [f"{plural(feed.packets, 'packet')} from {feed.name}"]
        undecoded = health.skipped_packets
        if isinstance(feed, LiveFeed):
            if not limited:
                undecoded = 0 if self._request.capture_only else feed.undecoded
            dropped = f"{health.dropped:,} dropped by the kernel" if health.dropped else "none dropped by the kernel"
            parts.append(dropped if feed.reports_drops else "number of dropped packets unknown on this system")
        if undecoded:
            parts.append(f"{undecoded:,} not decoded")
        if self._request.write is not None and state.failure is None:
            parts.append(self._saved(state.files, state.latest))
        if health.shortened_triggers:
            parts.append(f"packets before {plural(health.shortened_triggers, 'finding')} were partly gone already")
        return ", ".join(parts)

    def _saved(self, files: int, latest: str) -> str:
        """Return where the packets are, if they could be written."""
        if not files:
            return "nothing saved" if self._request.trigger is None else "nothing saved, as nothing matched --trigger"
        if files == self._request.keep:  # earlier files may have been removed
            return f"saved to {latest}, the latest file" if files == 1 else f"the latest saved to {files} files"
        return f"saved to {latest}" if files == 1 else f"saved to {files} files"


def _may_start_python() -> bool:
    """Return True when this process, which may have become another user, may start another interpreter and read its library."""
    return os.access(sys.executable, os.X_OK) and os.access(os.__file__, os.R_OK)


def _tables(options: Options, *, all_of_them: bool) -> list[ReportTable]:
    """Return the protocol tables whose kinds of rows are requested, or only the table of consumers."""
    known = report_tables(make_dissectors()).values()
    return [table for table in known if table.kinds <= options.records and (all_of_them or table.name == CONSUMERS)]


def _statistics(source: PacketSource) -> bytes:
    """Return the last block of a file: the packets received and dropped so far."""
    source.count()
    return statistics_block(time.time_ns(), source.received, source.dropped)


def ports_of(request: LiveRequest, options: Options) -> set[int]:
    """Return the TCP ports to capture; an empty set for all."""
    if request.any_port:
        return set()
    return {port for dissector in make_dissectors() for port in dissector.ports} | options.ports | set(options.decode_as)


def _traffic(request: LiveRequest, ports: Collection[int]) -> str:
    if request.capture_filter is not None:
        return f"packets that match {request.capture_filter or 'anything'}"
    return f"TCP ports {', '.join(map(str, sorted(ports)))}" if ports else "all TCP"


def _expected(key_logs: Sequence[str]) -> str:
    """Return a note about key logs that do not exist yet: a wrong name would otherwise go unnoticed."""
    absent = [path for path in key_logs if not os.path.lexists(path)]
    return f"; waiting for {', '.join(absent)}" if absent else ""


def open_source(request: LiveRequest, ports: Collection[int]) -> PacketSource:
    """Open the source of a request. Raises UsageError, or EndedBeforeStartError at a signal while there is no interface."""

    def end(_number: int, _frame: object) -> None:
        raise EndedBeforeStartError

    with handled(end, always={signal.SIGINT}) if request.wait_for_interface else nullcontext():
        return sources_by_name.open_source(
            request.interface,
            ports,
            capture_filter=request.capture_filter,
            ring_bytes=_ring_bytes(request.buffer),
            waits=request.wait_for_interface,
            notify=str if request.quiet else warn,
        )


def _ring_bytes(size_text: str | None) -> int:
    """Return the size of the ring. Raises UsageError when it is more than a quarter of the host's memory."""
    if size_text is None:
        return LIVE_RING_BYTES
    size = int(quantity(size_text, SIZES, "--buffer"))
    largest = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // LIVE_RING_MEMORY_SHARE
    if size > largest:
        raise UsageError(f"--buffer {size_text}: at most a quarter of this host's memory, {largest >> 20} MiB")
    return size


def _rotation(values: Sequence[str]) -> tuple[int | None, float | None]:
    """Return the number of bytes and of seconds after which a file is full; --rotate may set each once."""
    size: int | None = None
    seconds: float | None = None
    for value in values:
        if has_unit(value, DURATIONS):
            seconds = quantity(value, DURATIONS, "--rotate") / SECOND
        else:
            size = int(quantity(value, {**SIZES, **DURATIONS}, "--rotate"))
    return size, seconds
