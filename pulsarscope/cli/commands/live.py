"""The command `live`."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import msgspec

from pulsarscope.cli.arguments.live_request import LiveRequest
from pulsarscope.cli.arguments.options import RowFormat
from pulsarscope.cli.arguments.quantities import quantity
from pulsarscope.cli.arguments.read_options import filter_of, record_kinds
from pulsarscope.cli.arguments.row_request import (
    FOLDER_OUTPUT,
    check_columns,
    encoding_of,
    output_name,
    output_options,
    run_options,
    takes_columns,
    with_payload,
)
from pulsarscope.cli.command_output import CommandOutput, inputs_of, with_output
from pulsarscope.cli.encoded_rows import OnceEncoding
from pulsarscope.cli.exit_codes import EXIT_DONE
from pulsarscope.cli.rotated_output import RotatedOutput, RotatedSink
from pulsarscope.cli.run_command import write_rows
from pulsarscope.cli.selected_rows import SelectedRows
from pulsarscope.cli.signals import EndedBeforeStartError, stopped
from pulsarscope.cli.standard_error import warn
from pulsarscope.live.interfaces import ANY, all_interfaces
from pulsarscope.model.errors import OutputError, UsageError
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, FrameRow, MessageRow
from pulsarscope.model.text import STANDARD_INPUT, escape, hint_for
from pulsarscope.model.units import DURATIONS, SECOND
from pulsarscope.output.export.sink import Sink, open_sink, refuse_input, require_file_name
from pulsarscope.output.registry import Output, output
from pulsarscope.output.render.style import is_terminal, wants_color

if TYPE_CHECKING:
    from pulsarscope.cli.live_capture import LiveCapture, Trigger
    from pulsarscope.cli.screen import Screen
    from pulsarscope.output.render.top import Top

WATCHED_KINDS = frozenset({ConnectionRow.kind, FrameRow.kind, ExchangeRow.kind, FindingRow.kind})
"""Kinds of the rows that the screen and the metrics count."""

SWITCH_SECONDS = 0.0005
"""Longest wait of the capturing thread for the decoding one, twice per block. With Python's 5 ms, twice as many packets are dropped at
400 MB/s."""


def live(request: LiveRequest) -> int:
    """Decode traffic as it happens.

    From an interface (Linux; needs CAP_NET_RAW) or a pipe, until Ctrl-C. Capturing is passive: no packet is sent or delayed.
    """
    if request.list_interfaces:
        list_interfaces()
        return EXIT_DONE
    try:
        return _live(request)
    except EndedBeforeStartError:
        if not request.quiet:
            warn(f"no packets: there was no interface {request.interface}")
        return EXIT_DONE


def _live(request: LiveRequest) -> int:
    """Capture, show or save the traffic, and return the exit code."""
    if request.capture_only:
        return capture_only(request)
    if request.top or request.browse:
        _check_screen(request)
    if request.browse:
        from pulsarscope.cli.live_browse import live_browse

        return live_browse(request, _check_options(request))
    if request.top:
        more = {MessageRow.kind} if MessageRow.kind in record_kinds(request.records or FrameRow.kind) else frozenset()
        request = msgspec.structs.replace(request, records=",".join(sorted(WATCHED_KINDS | more)))
    elif not request.records:
        shows_findings = request.format is None and not (request.detail or request.hex or request.columns)
        request = msgspec.structs.replace(request, records="frame,finding" if shows_findings else "frame")
    return capture_and_decode(request)


def capture_and_decode(request: LiveRequest) -> int:
    """Capture and decode until a signal, a limit or a finding ends it, and return the exit code."""
    from pulsarscope.cli.live_capture import SHOWN_TWICE, LiveCapture
    from pulsarscope.live.metrics import Metrics, parse_address, require_prometheus, serve_metrics

    kinds = record_kinds(request.records)
    request = with_payload(request, kinds)
    name = output_name(request, kinds)
    check_columns(request, kinds, name)  # before anything is captured
    trigger = _check_options(request)
    if kinds == (FrameRow.kind,) and not any(each is not None for each in (request.until, trigger, request.metrics)):
        request = msgspec.structs.replace(request, once=False)  # frames of all legs are shown, so that they may stay in columns
    seconds = None if request.duration is None else quantity(request.duration, DURATIONS, "--for") / SECOND
    metrics_address = None if request.metrics is None else parse_address(request.metrics)
    if metrics_address is not None:
        require_prometheus()  # before any file is touched

    def run_capture(request: LiveRequest, command_output: CommandOutput) -> int:
        row_filter = filter_of(request, kinds)
        encoding = encoding_of(request, kinds, name)
        followed = msgspec.structs.replace(request.reading, tls_keylog=None)  # the feed reads them while they grow
        shown = run_options(msgspec.structs.replace(request, reading=followed), kinds, row_filter)
        shown = msgspec.structs.replace(shown, live=True, together=shown.together and name == FOLDER_OUTPUT)  # watches read rows
        options = shown
        watches = request.until is not None or trigger is not None or request.metrics is not None
        if watches:
            watched = {
                FindingRow.kind,
                *(WATCHED_KINDS if request.metrics is not None else ()),
                *((*trigger.kinds, ConnectionRow.kind) if trigger is not None else ()),  # findings after their end have its addresses
            }
            options = msgspec.structs.replace(shown, records=shown.records | watched, rules=True, payloads=True)
        sys.setswitchinterval(SWITCH_SECONDS)
        with ExitStack() as stack:
            capture = LiveCapture(request, options, shown.records, trigger)
            stack.enter_context(closing(capture.feed))
            stack.enter_context(stopped(capture.feed, seconds))
            if metrics_address is not None:
                capture.metrics = Metrics(capture.health, capture.consumer_records, capture.feed.process)
                stack.enter_context(serve_metrics(capture.metrics, *metrics_address))
            # Other processes may encode the rows only if nothing in this process reads them.
            elsewhere = encoding is not None and row_filter is None and request.limit is None and name != FOLDER_OUTPUT and not watches
            prepare = OnceEncoding(encoding, SHOWN_TWICE, time.monotonic) if elsewhere and encoding is not None else None
            run = capture.start(options, prepare)
            options_of_output = output_options(request, kinds, run, row_filter, readable=request.write is not None)
            folder = name == FOLDER_OUTPUT and len(kinds) > 1
            rotated = None
            if request.rotate and request.out is not None:
                rotated = _rotated(request, capture, lambda sink: output(name)(sink, options_of_output), folder=folder)
                command_output.adopt(rotated)
            sink = rotated or command_output.open(request, (), folder=folder)
            if not (request.quiet or request.top):
                warn(capture.listening)
                if name == FOLDER_OUTPUT and rotated is None:
                    warn("a Parquet file can be read only when it is complete: with --rotate 10m, a killed run loses only its latest file")
            row_output: Output
            if request.top:
                row_output = top = _top(capture, request)
                stack.enter_context(_screen(top, request))
            else:
                row_output = output(name)(sink, options_of_output) if rotated is None else RotatedOutput(rotated)
            try:
                once = capture.once if request.once else None
                one_by_one = not takes_columns(request, name)
                selection = SelectedRows(kinds, row_filter, request.limit, once=once, one_by_one=one_by_one, watch=capture.watch)
                code = write_rows(request, run, selection, row_output, encoding, sink, command_output.interrupts)
            except OutputError as error:
                if name == FOLDER_OUTPUT:  # Parquet without its end cannot be read
                    raise
                kept = command_output.keep()
                raise OutputError(f"{error}; the output before that is in {kept}" if kept else str(error)) from error
        if not request.quiet:
            warn(capture.summary(limited=selection.limited))
        if (failure := capture.feed.state.failure) is not None:
            raise failure
        return code

    return with_output(run_capture)(request)


def capture_only(request: LiveRequest) -> int:
    """Save packets until a signal or a limit ends it, and return the exit code."""
    from pulsarscope.cli.live_capture import LiveCapture

    _check_options(request)
    _check_capture_only(request)
    seconds = None if request.duration is None else quantity(request.duration, DURATIONS, "--for") / SECOND
    followed = msgspec.structs.replace(request.reading, tls_keylog=None)
    capture = LiveCapture(request, run_options(msgspec.structs.replace(request, reading=followed), (), None), frozenset())
    with closing(capture.feed), stopped(capture.feed, seconds):
        if not request.quiet:
            warn(capture.listening)
        capture.feed.wait()
    if not request.quiet:
        warn(capture.summary())
    state = capture.feed.state
    if state.failure is not None:
        raise state.failure
    if state.source_error is not None:
        raise OutputError(f"{capture.feed.name} is gone: {state.source_error.strerror or state.source_error}; the packets before are saved")
    return EXIT_DONE


def _rotated(request: LiveRequest, capture: LiveCapture, make: Callable[[Sink], Output], *, folder: bool) -> RotatedSink:
    """Return the rotated files of the output. Opening one raises UsageError when it would replace a file that is read."""
    inputs = inputs_of(request, (request.interface,))

    def open_part(path: str) -> tuple[Sink, Output]:
        sink = open_sink(path, folder=folder, inputs=inputs)
        return sink, make(sink)

    return RotatedSink(str(request.out), capture.rotation, open_part)


def _check_capture_only(request: LiveRequest) -> None:
    """Raise UsageError when an option needs decoding, or there is no file."""
    if request.write is None:
        raise UsageError("--capture-only needs a file to save packets in: name it with -w")
    decoding = {
        "--top": request.top,
        "--metrics": request.metrics is not None,
        "--trigger": request.trigger is not None,
        "--until": request.until is not None,
        "--format": request.format is not None,
        "-o": request.out is not None,
        "-Y": request.filter is not None,
        "-V": request.detail,
        "-x": request.hex,
        "--records": bool(request.records),
    }
    if conflicts := [option for option, is_set in decoding.items() if is_set]:
        raise UsageError(f"--capture-only decodes nothing: it cannot be combined with {', '.join(conflicts)}")


def _check_screen(request: LiveRequest) -> None:
    """Raise UsageError when an option cannot be combined with a screen, or there is no terminal."""
    screen = "--browse" if request.browse else "--top"
    others = {
        "--format": request.format is not None,
        "-V": request.detail,
        "-x": request.hex,
        "-o": request.out is not None,
        "--columns": request.columns is not None,
        "--payload": request.payload is not None,
        "--limit": request.limit is not None,
        "--top": request.top and request.browse,
        "--metrics": request.metrics is not None and request.browse,
        "--for": request.duration is not None and request.browse,
    }
    if conflicts := [option for option, is_set in others.items() if is_set]:
        raise UsageError(f"{screen} cannot be combined with {', '.join(conflicts)}")
    if not is_terminal(sys.stdout):
        raise UsageError(f"{screen} needs a terminal; for programs use --format ndjson or --metrics")
    if os.environ.get("TERM", "") in ("", "dumb"):
        raise UsageError(f"{screen} needs a terminal that can move its cursor (TERM is {os.environ.get('TERM') or 'not set'})")


def _top(capture: LiveCapture, request: LiveRequest) -> Top:
    from pulsarscope.output.render.text_report import ReportOptions  # only for the screen
    from pulsarscope.output.render.top import Top

    color = wants_color(sys.stdout, os.environ, request.no_color)
    return Top(
        capture.status,
        time.time_ns,
        ReportOptions(color=color, encoding=sys.stdout.encoding, short_topic=capture.topic_names.short),
        capture.endpoints,
        capture.consumer_records,
        capture.topics.name_of,
        capture.other_tables,
        capture.table_records,
    )


def _screen(top: Top, request: LiveRequest) -> Screen:
    from pulsarscope.cli.screen import Screen

    # q acts like Ctrl-C: the first stops the capture, the next ends the decoding of waiting packets.
    return Screen(top, partial(os.kill, os.getpid(), signal.SIGINT), keyboard=request.interface != STANDARD_INPUT)


def _check_options(request: LiveRequest) -> Trigger | None:
    """Return the trigger, if any. Raises UsageError for an unknown finding code, and for options that require or exclude one another."""
    from pulsarscope.capture.formats.compression import COMPRESSED_SUFFIXES
    from pulsarscope.cli.live_capture import Trigger
    from pulsarscope.dissect.plugins.registry import finding_codes
    from pulsarscope.live.sources_by_name import is_pipe
    from pulsarscope.protocols import make_dissectors

    if len(request.interfaces or ()) > 1:
        raise UsageError("live captures on one interface, or on all: give one -i, or -i any with a filter (-f)")
    if request.capture_filter in get_args(RowFormat):
        raise UsageError(f"-f is the capture filter of live: for {request.capture_filter} give --format {request.capture_filter}")
    codes = finding_codes(make_dissectors())
    if request.until is not None and request.until not in codes:
        raise UsageError(
            f"--until: unknown finding {request.until}{hint_for(request.until, tuple(codes), 'pulsarscope findings lists them')}"
        )
    trigger = None if request.trigger is None else Trigger(request.trigger, codes)
    if request.write is not None:
        if request.write == "-":
            raise UsageError("-w needs the name of a file: packets are not written to standard output")
        require_file_name(request.write)
        if (suffix := Path(request.write).suffix.lower()) in COMPRESSED_SUFFIXES:
            raise UsageError(f"-w saves packets uncompressed: name the file without {suffix}")
        refuse_input(request.write, inputs_of(request, (request.interface,)), "with -w")
        if request.out is not None and Path(request.write).resolve() == Path(request.out).resolve():
            raise UsageError("-w and -o name one file: give each its own")
    if request.trigger is not None and request.write is None:
        raise UsageError("--trigger needs a file to save packets in: name it with -w")
    if request.around is not None and request.trigger is None:
        raise UsageError("--around needs --trigger, which says what to save packets around")
    if (request.rotate or request.keep is not None) and request.write is None and request.out in (None, "-"):
        raise UsageError("--rotate and --keep need a file: name it with -w or -o")
    if request.rotate and request.out == "-":
        raise UsageError("--rotate makes several files: name them with -o")
    if request.keep is not None and not request.rotate and request.trigger is None:
        raise UsageError("--keep needs --rotate, which starts new files")
    if is_pipe(request.interface):
        others = {"-f": request.capture_filter is not None, "--any-port": request.any_port, "--buffer": request.buffer is not None}
        if conflicts := [option for option, is_set in others.items() if is_set]:
            raise UsageError(f"a pipe cannot be combined with {', '.join(conflicts)}: filter with -Y, or where the packets are captured")
    return trigger


def list_interfaces() -> None:
    """Write the interfaces to standard output, one per line."""
    names = all_interfaces()
    width = max((len(interface.name) for interface in names), default=0)
    for interface in names:
        size = f" MTU {interface.mtu}" if interface.mtu else ""
        sys.stdout.write(f"{escape(interface.name):{width}}  {interface.state:8}{size}".rstrip() + "\n")
    sys.stdout.write(f"{ANY:{width}}  all interfaces\n")
