"""The command `live`: what an interface or a pipe brings, decoded while it happens."""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import msgspec

from pulsarscope import __version__
from pulsarscope.cli.run_command import (
    FOLDER_OUTPUT,
    Delivery,
    Request,
    complain,
    deliver,
    encoding_of,
    filter_of,
    kinds_named,
    output_name,
    output_options,
    pour,
    run_options,
)
from pulsarscope.cli.signals import handled
from pulsarscope.dissect.capabilities import join_topic_names
from pulsarscope.dissect.registry import finding_codes
from pulsarscope.engine.local import Batch, Options, run_blocks
from pulsarscope.filter.literals import DURATIONS, SIZES
from pulsarscope.live.bpf import compiled, tcp_program
from pulsarscope.live.feed import LAG_SECONDS, Feed
from pulsarscope.live.interfaces import ANY, interface, interfaces
from pulsarscope.live.metrics import Metrics, address, served
from pulsarscope.live.pipe import PipeFeed
from pulsarscope.live.privileges import drop_privileges
from pulsarscope.live.recorder import Keeper, Rotation, TriggeredKeeper
from pulsarscope.live.ring import ETHERNET, PacketRing
from pulsarscope.live.sniff import expression, open_sniffer
from pulsarscope.live.source import Keep, Source
from pulsarscope.model.errors import OutputError, UsageError
from pulsarscope.model.limits import LIVE_QUEUE_MAX_BYTES, LIVE_RING_BYTES, LIVE_RING_MEMORY_SHARE, PACKET_MAX_BYTES
from pulsarscope.model.records import ExchangeRow, FindingRow, FrameRow, RawFrame
from pulsarscope.output.export.pcapng import interface_block, section_block, statistics_block
from pulsarscope.output.registry import Output, output
from pulsarscope.output.render.cell_text import escape
from pulsarscope.output.render.style import is_terminal, wants_color
from pulsarscope.output.render.view import count_text
from pulsarscope.protocols import make_dissectors

if TYPE_CHECKING:
    from pulsarscope.output.render.top import Status, Top

STANDARD_INPUT = "-"
NANOSECONDS = 1_000_000_000
WATCHED_KINDS = frozenset({FrameRow.kind, ExchangeRow.kind, FindingRow.kind})
"""Rows that the screen and the metrics count."""
SWITCH_SECONDS = 0.0005
"""How long decoding may keep the thread that captures waiting, which waits twice for each block: with Python's 5 ms twice as many
packets were dropped at 400 MB/s."""
NO_RING = frozenset({errno.ENOPROTOOPT, errno.EAFNOSUPPORT, errno.EINVAL})
"""How a kernel refuses a ring that it does not know."""
RAW_IP = 101
"""Link type by which a filter is compiled where packets come without a link header."""
_SCALED = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-zµ]+)")


class Sniffing(msgspec.Struct, frozen=True):
    """Where a live capture comes from, what is kept of it, and when it ends."""

    interface: str = ANY
    capture_filter: str | None = None
    any_port: bool = False
    buffer: str | None = None
    write: str | None = None
    rotate: tuple[str, ...] = ()
    keep: int | None = None
    duration: str | None = None
    packets: int | None = None
    until: str | None = None
    trigger: str | None = None
    around: str = "10s"
    top: bool = False
    metrics: str | None = None


def sniff(request: Request, sniffing: Sniffing) -> int:
    """Capture and decode until something ends it, and return the exit code.

    Raises:
        UsageError: it cannot be carried out as asked.
        CaptureError: the pipe brings no capture.
        OutputError: the result could not be written.
    """
    if sniffing.top:
        _check_top(request)
        request = msgspec.structs.replace(request, records=",".join(sorted(WATCHED_KINDS)))
    kinds = kinds_named(request.records)
    name = output_name(request, kinds)
    _check_codes(sniffing)
    seconds = None if sniffing.duration is None else scaled(sniffing.duration, DURATIONS, "--for") / NANOSECONDS
    served_at = None if sniffing.metrics is None else address(sniffing.metrics)

    def carry_out(delivery: Delivery) -> int:
        chosen = filter_of(request, kinds)
        encoding = encoding_of(request, kinds, name)
        shown = msgspec.structs.replace(run_options(request, kinds, chosen), live=True)
        options = shown
        if sniffing.until is not None or sniffing.trigger is not None or sniffing.metrics is not None:
            watched = WATCHED_KINDS if sniffing.metrics is not None else {FindingRow.kind}
            options = msgspec.structs.replace(shown, records=shown.records | watched, rules=True, payloads=True)
        sys.setswitchinterval(SWITCH_SECONDS)
        with ExitStack() as stack:
            capture = Capture(sniffing, options, shown.records)
            stack.enter_context(closing(capture.feed))
            stack.enter_context(_stopped(capture.feed, seconds))
            if served_at is not None:
                capture.metrics = Metrics(capture.feed.health)
                stack.enter_context(served(capture.metrics, *served_at))
            run = run_blocks(capture.feed.name, capture.feed, options)
            sink = delivery.open(request.out, (), folder=name == FOLDER_OUTPUT and len(kinds) > 1)
            if not (request.quiet or sniffing.top):
                complain(capture.listening)
            made: Output
            if sniffing.top:
                made = stack.enter_context(_top(capture, request))
            else:
                made = output(name)(sink, output_options(request, kinds, run, chosen))
            try:
                code = pour(request, kinds, run, chosen, made, encoding, sink, delivery.interrupts, capture.watch)
            except OutputError as error:
                if name == FOLDER_OUTPUT:  # without its end nothing reads it
                    raise
                kept = delivery.keep()
                message = f"{error}; what was put out before is in {kept}" if kept else str(error)
                raise OutputError(message) from error
        if not request.quiet:
            complain(capture.summary())
        if capture.feed.failure is not None:
            raise capture.feed.failure
        return code

    return deliver(carry_out)


def _check_top(request: Request) -> None:
    """Raise UsageError when what was asked for does not go with a screen."""
    others = {
        "--format": request.format is not None,
        "-V": request.detail,
        "-x": request.hex,
        "-o": request.out is not None,
        "--columns": request.columns is not None,
        "--payload": request.payload is not None,
        "--limit": request.limit is not None,
    }
    given = [option for option, is_given in others.items() if is_given]
    if given:
        message = f"--top shows a screen of its own: leave out {', '.join(given)}"
        raise UsageError(message)
    if not is_terminal(sys.stdout):
        message = "--top needs a terminal; for programs there are --format ndjson and --metrics"
        raise UsageError(message)


def _top(capture: Capture, request: Request) -> Top:
    from pulsarscope.output.render.text_report import ReportOptions  # noqa: PLC0415 - only the screen needs it
    from pulsarscope.output.render.top import Top  # noqa: PLC0415 - as above

    color = wants_color(sys.stdout, os.environ, request.no_color)
    short_topic = join_topic_names(dissector.topics for dissector in make_dissectors()).short
    return Top(capture.status, time.time_ns, ReportOptions(color=color, encoding=sys.stdout.encoding, short_topic=short_topic))


def _check_codes(sniffing: Sniffing) -> None:
    codes = finding_codes(make_dissectors())
    for option, code in (("--until", sniffing.until), ("--trigger", sniffing.trigger)):
        if code is not None and code not in codes:
            near = get_close_matches(code, codes, 1)
            hint = f"; did you mean {near[0]}?" if near else ": docs/findings.md lists them"
            message = f"{option}: no finding is called {code}{hint}"
            raise UsageError(message)
    if sniffing.trigger is not None and sniffing.write is None:
        message = "--trigger saves packets: name a file with -w"
        raise UsageError(message)
    if (sniffing.rotate or sniffing.keep is not None) and sniffing.write is None:
        message = "--rotate and --keep are about the files that -w writes: name one"
        raise UsageError(message)
    if sniffing.keep is not None and not sniffing.rotate and sniffing.trigger is None:
        message = "--keep says how many files are kept: say with --rotate when the next one begins"
        raise UsageError(message)
    if is_pipe(sniffing.interface):
        others = {"-f": sniffing.capture_filter is not None, "--any-port": sniffing.any_port, "--buffer": sniffing.buffer is not None}
        if given := [option for option, is_given in others.items() if is_given]:
            message = f"a pipe brings what it brings: leave out {', '.join(given)}, and choose with -Y or where the packets are captured"
            raise UsageError(message)


class Capture:
    """A live capture: its feed, the files that keep it, and what its findings start and end."""

    def __init__(self, sniffing: Sniffing, options: Options, shown: frozenset[str]) -> None:
        """Opens the source, lets go of privileges, opens the file. `shown`: kinds of rows that are to be put out.

        Raises:
            UsageError: what is asked for is not there, or not allowed. OutputError: the file cannot be written.
        """
        self.metrics: Metrics | None = None
        self.listening = ""
        """What is taken, in one line."""
        self._sniffing = sniffing
        self._hidden = options.records - shown
        size, seconds = _rotation(sniffing.rotate)
        self._rotation = Rotation(size, seconds, sniffing.keep, numbered=sniffing.trigger is not None)
        self._around = scaled(sniffing.around, DURATIONS, "--around")
        self._keeper: Keeper | None = None
        self._triggered: TriggeredKeeper | None = None
        if is_pipe(sniffing.interface):
            self._source = None
            keep = self._keep(b"", bytes)
            pipe = PipeFeed(sniffing.interface, keep=keep, packets_max=sniffing.packets, by_interface=options.by_interface)
            self.feed: Feed | PipeFeed = pipe
            self.listening = f"listening to {self.feed.name}; Ctrl-C ends it"
            return
        ports = ports_of(sniffing, options)
        self.listening = f"listening on {sniffing.interface}: {_wanted(sniffing, ports)}; Ctrl-C ends it"
        source = self._source = open_source(sniffing, ports)
        drop_privileges()
        try:
            keep = self._keep(interface_block(source.link_type, PACKET_MAX_BYTES, source.name), self._statistics)
        except BaseException:
            source.close()
            raise
        self.feed = Feed(source, keep=keep, packets_max=sniffing.packets, by_interface=options.by_interface)

    def _keep(self, head: bytes, tail: Callable[[], bytes]) -> Keep | None:
        sniffing = self._sniffing
        if sniffing.write is None:
            return None
        self._keeper = Keeper(sniffing.write, section_block(f"pulsarscope {__version__}") + head, self._rotation, tail)
        if sniffing.trigger is None:
            return self._keeper
        self._triggered = TriggeredKeeper(self._keeper, self._around / NANOSECONDS)
        return self._triggered

    def _statistics(self) -> bytes:
        """What each file says at its end of what was lost so far."""
        source = self._source
        if source is None:
            return b""
        source.count()
        return statistics_block(0, time.time_ns(), source.received, source.dropped)

    def watch(self, batch: Batch) -> None:
        """Look for the findings that end the capture, or make it keep packets; leave in the batch what is to be put out."""
        for row in batch.rows:
            if type(row) is FindingRow:
                if row.code == self._sniffing.trigger and self._triggered is not None:
                    self._triggered.trigger(row.time or time.time_ns())
                if row.code == self._sniffing.until:
                    self.feed.stop()
        if self.metrics is not None:
            self.metrics.count(batch.rows)
        if self._hidden:
            batch.rows = [row for row in batch.rows if isinstance(row, RawFrame) or row.kind not in self._hidden]

    def status(self) -> Status:
        """How the capture fares, for the eye."""
        from pulsarscope.output.render.text_report import size_text  # noqa: PLC0415 - only the screen needs it
        from pulsarscope.output.render.top import Status  # noqa: PLC0415 - as above

        health = self.feed.health()
        told = [(f"{health.skipped_packets:,} not decoded", bool(health.skipped_packets))]
        if self._source is not None and self._source.tells_drops:
            told.insert(0, (f"{health.dropped:,} dropped by the kernel", bool(health.dropped)))
            told.append((f"{size_text(health.waiting_bytes)} waiting", health.waiting_bytes > LIVE_QUEUE_MAX_BYTES // 2))
            told.append((f"ring {health.ring:.0%} full", health.ring > 0.5))
        told.append((f"{health.lag:.1f} s behind", health.lag > LAG_SECONDS))
        if self._keeper is not None and self._keeper.written:
            told.append((f"kept in {self._keeper.written[-1]}", False))
        return Status(f"{self.feed.name}: {count_text(health.packets, 'packet')}", told)

    def summary(self) -> str:
        """What was captured and lost, in one line."""
        feed = self.feed
        words = [f"{count_text(feed.packets, 'packet')} from {feed.name}"]
        if self._source is not None:
            dropped = f"{self._source.dropped:,} dropped by the kernel" if self._source.dropped else "none dropped by the kernel"
            words.append(dropped if self._source.tells_drops else "the system does not tell what it dropped")
        if skipped := feed.health().skipped_packets:
            words.append(f"{skipped:,} not decoded")
        if self._keeper is not None:
            written = self._keeper.written
            words.append(f"kept in {written[-1]}" if len(written) == 1 else f"kept in {len(written)} files")
        if self._triggered is not None and self._triggered.shortened:
            words.append(f"of the packets before {count_text(self._triggered.shortened, 'finding')} some were not there any more")
        return ", ".join(words)


def is_pipe(name: str) -> bool:
    """Whether what stands for an interface is standard input, or the path of a pipe."""
    if name == STANDARD_INPUT:
        return True
    with suppress(OSError, ValueError):
        return stat.S_ISFIFO(Path(name).stat().st_mode)
    return False


def ports_of(sniffing: Sniffing, options: Options) -> set[int]:
    """TCP ports whose packets are taken; none: of all."""
    if sniffing.any_port:
        return set()
    return {port for dissector in make_dissectors() for port in dissector.ports} | options.ports | set(options.decode_as)


def _wanted(sniffing: Sniffing, ports: Collection[int]) -> str:
    if sniffing.capture_filter is not None:
        return f"packets that match {sniffing.capture_filter or 'anything'}"
    return f"TCP ports {', '.join(map(str, sorted(ports)))}" if ports else "all TCP"


def open_source(sniffing: Sniffing, ports: Collection[int]) -> Source:
    """The interface: a ring of the kernel's, or scapy's socket where there is none. `ports`: what is taken without -f; none: all TCP.

    Raises:
        UsageError: it is not there, or may not be captured on.
    """
    name = sniffing.interface
    try:
        found = interface(name)
    except OSError as error:
        if Path(name).is_file():
            message = f"{name} is a file, which nothing is added to: pulsarscope decode reads it"
            raise UsageError(message) from error
        names = ", ".join(one.name for one in interfaces())
        message = f"there is no interface {name}: there are {names}, and {ANY}; - and paths of pipes are read, too"
        raise UsageError(message) from error
    try:
        if not hasattr(socket, "AF_PACKET"):
            return open_sniffer(name, sniffing.capture_filter or expression(ports))
        if sniffing.capture_filter is not None:
            program = compiled(sniffing.capture_filter, ETHERNET if found.is_ethernet else RAW_IP, name)
        else:
            program = tcp_program(ports)
        return PacketRing(found, program, _ring_bytes(sniffing.buffer))
    except PermissionError as error:
        message = (
            f"capturing on {name} needs CAP_NET_RAW: run it with sudo, or give the capability to this Python once:"
            f" sudo setcap cap_net_raw+ep {Path(sys.executable).resolve()}"
        )
        raise UsageError(message) from error
    except OSError as error:
        if error.errno in NO_RING:
            return open_sniffer(name, sniffing.capture_filter or expression(ports))
        message = f"cannot capture on {name}: {error.strerror or error}"
        raise UsageError(message) from error


def _ring_bytes(word: str | None) -> int:
    """The size of the ring. Raises UsageError when the host has not the memory for it."""
    if word is None:
        return LIVE_RING_BYTES
    wanted = int(scaled(word, SIZES, "--buffer"))
    most = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // LIVE_RING_MEMORY_SHARE
    if wanted > most:
        message = f"--buffer {word}: the kernel would take that much memory; a quarter of this host's is the most, {most >> 20} MiB"
        raise UsageError(message)
    return wanted


@contextmanager
def _stopped(feed: Feed | PipeFeed, seconds: float | None) -> Iterator[None]:
    """A first signal ends the capture, and so does the time; what was captured is still decoded. A second signal interrupts that."""
    asked = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True
        feed.stop()

    timer = threading.Timer(seconds or 0, feed.stop)
    timer.daemon = True
    if seconds is not None:
        timer.start()
    try:
        with handled(stop):
            yield
    finally:
        timer.cancel()


def _rotation(words: Sequence[str]) -> tuple[int | None, float | None]:
    """Bytes and seconds after which a file is full; --rotate may be given with each."""
    size: int | None = None
    seconds: float | None = None
    for word in words:
        if _is_scaled(word, DURATIONS):
            seconds = scaled(word, DURATIONS, "--rotate") / NANOSECONDS
        else:
            size = int(scaled(word, {**SIZES, **DURATIONS}, "--rotate"))
    return size, seconds


def _is_scaled(word: str, units: Mapping[str, int]) -> bool:
    found = _SCALED.fullmatch(word)
    return found is not None and found[2] in units


def scaled(word: str, units: Mapping[str, int], option: str) -> float:
    """A number with a unit, in the smallest unit. Raises UsageError when it is none, or nothing at all."""
    found = _SCALED.fullmatch(word)
    value = float(found[1]) * units[found[2]] if found is not None and found[2] in units else 0
    if not value:
        message = f"{option} {word}: give a number with a unit, of {', '.join(units)}"
        raise UsageError(message)
    return value


def show_interfaces() -> None:
    """Name the interfaces, one a line."""
    found = interfaces()
    width = max((len(one.name) for one in found), default=0)
    for one in found:
        sys.stdout.write(f"{escape(one.name):{width}}  {one.state:8} MTU {one.mtu}\n")
    sys.stdout.write(f"{ANY:{width}}  all of them\n")
