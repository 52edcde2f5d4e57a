"""The inside of one of the processes: its tasks, and its loop."""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from typing import Any, BinaryIO, Protocol

import msgspec

from pulsarscope.capture import Block, Inputs
from pulsarscope.capture.block import Blocks
from pulsarscope.capture.steps import LiveStep, StepDecoder
from pulsarscope.dissect.plugins.isolation import PluginWarning
from pulsarscope.engine.engine import Engine
from pulsarscope.engine.local import open_reader, parts
from pulsarscope.engine.options import Options
from pulsarscope.engine.parallel.channel import SentKeys, pack, pack_facts, pack_keys, receive, send, send_bytes, unpack
from pulsarscope.engine.parallel.connection_shares import ProcessShare, framings_of
from pulsarscope.engine.row_batch import PackedFacts, RowBatch, Totals
from pulsarscope.engine.stall_warnings import stall_warnings
from pulsarscope.model.errors import InternalError, PulsarscopeError, internal_error
from pulsarscope.model.platform import end_without_memory
from pulsarscope.model.records import ExchangeRow, FrameRow, MessageRow, Row

FramePlace = tuple[int | None, int | None, int | None]
"""A frame by file, packet and sub."""

OUT_OF_MEMORY = InternalError.exit_code
"""Exit code of a process that ran out of memory."""

LINES_FOLLOW = ...
"""Placeholder for prepared lines, which follow in a message of their own."""


class Raised(msgspec.Struct, frozen=True):
    """The answer of a process that cannot continue."""

    error: PulsarscopeError


class Prepare(Protocol):
    """The step that a process applies to rows before it hands them over. It goes to the processes itself, so it must be picklable."""

    @property
    def takes_columns(self) -> bool:
        """Return True when the rows may include ordered rows, each of which stands for a line (`model.ordered_rows`)."""

    def prepare(self, rows: list[Any]) -> list[Any] | bytes:
        """Return a value for each row, or lines as bytes, which are then the values. The rows may be modified."""

    def join(self, prepared: list[Any]) -> Any:
        """Return the combined values of all rows of a batch, in order; one value may be the lines of several rows."""


def keep_columns(options: Options, prepare: Prepare | None) -> bool:
    """Return True if processes keep frames in columns: their rows are not written, or `prepare` takes columns, without messages."""
    written = options.records & {FrameRow.kind, ExchangeRow.kind, MessageRow.kind}
    return not written or (prepare is not None and prepare.takes_columns and FrameRow.kind in written and MessageRow.kind not in written)


class LivePart(msgspec.Struct, frozen=True):
    """State of a part of a live run, and of the process, for the driver."""

    settled: int
    """See `Engine.settled`."""
    waiting: tuple[int, int]
    """See `Engine.waiting`; the same in all processes."""
    connections: int
    """Open connections of a known protocol that this process decodes."""


class Result(msgspec.Struct):
    """Rows of one part of a run, in order, and their contribution to the run."""

    batch: RowBatch
    keys: SentKeys
    """Keys of the rows."""
    ends: bool
    """True when the part ends with them."""
    facts: list[PackedFacts]
    packets: int
    connections: int
    severities: Counter[str]
    damaged: bool
    fragmented: bool
    endpoints: dict[str, tuple[str, str]] = {}
    """Endpoints of the connections that the rows name, unless the rows are prepared."""
    dissector_of: dict[str, str] = {}
    preambles: dict[str, tuple[int, int]] = {}
    """See `Engine.preamble`; for connections inside TLS, if the options request places."""
    places: dict[FramePlace, tuple[int, int]] = {}
    """Places of their frames; see `Engine.place`."""
    live: LivePart | None = None


class Finished(msgspec.Struct):
    """The last answer of a process: data on the connections that had not ended before the last part, unless rows are prepared."""

    endpoints: dict[str, tuple[str, str]]
    dissector_of: dict[str, str]


class ReceivedBlocks:
    """Blocks of a live capture, from the steps that another process sends."""

    recognised = True

    def __init__(self, *, by_interface: bool) -> None:
        self._decoder = StepDecoder(by_interface=by_interface)
        self._secrets: list[tuple[int, bytes]] = []

    @property
    def first_time(self) -> int | None:
        """Return the time of the first packet, None before it came."""
        return self._decoder.first_time

    def __iter__(self) -> Iterator[Block]:
        step = LiveStep()
        while not step.last and (data := receive(sys.stdin.buffer)) is not None:
            step = unpack(data)
            if step.secrets:
                self._secrets.append((0, step.secrets))
            yield self._decoder.block(step)

    def take_secrets(self) -> list[tuple[int, bytes]]:
        """Return the TLS key logs received since the last call."""
        secrets, self._secrets = self._secrets, []
        return secrets


class Decode(msgspec.Struct, frozen=True):
    """Task: decode the connections of one of several processes."""

    inputs: Inputs
    options: Options
    number: int
    count: int
    prepare: Prepare | None
    by_steps: bool = False
    """True when the input comes on standard input, after the task, in steps."""

    def __call__(self) -> Iterator[Result | Finished]:
        """Yield at least one answer for each part of the run."""
        facts: list[PackedFacts] = []
        totals = Totals()
        options = self.options
        if not keep_columns(options, self.prepare):
            options = msgspec.structs.replace(options, columns=False)  # rows are sent or examined
        share = ProcessShare(self.number, self.count, framings_of(self.options.dissectors(show_secrets=False)))
        engine = Engine(self.inputs, options, totals=totals, collect=facts.append, share=share)

        def read(path: str, file: int) -> Blocks:
            by_interface = self.inputs.by_interface
            if self.by_steps:
                return share.read(ReceivedBlocks(by_interface=by_interface), ahead=0)
            return share.read(open_reader(path, file, engine, options, by_interface=by_interface))

        for part in parts(engine, self.inputs, options, read):
            waiting: RowBatch | None = None
            for batch in part:
                if waiting is not None:
                    yield self._result(engine, totals, waiting, facts, ends=False)
                waiting = batch
            yield self._result(engine, totals, waiting or RowBatch([], *engine.progress), facts, ends=True)
        yield Finished({}, {}) if self.prepare is not None else Finished({**engine.endpoints}, {**engine.dissector_of})

    def _result(self, engine: Engine, totals: Totals, batch: RowBatch, facts: list[PackedFacts], *, ends: bool) -> Result:
        """Return a batch with everything since the last one."""
        counts = totals.packets, totals.connections, totals.severities, totals.damaged, totals.fragmented
        keys, batch.keys = pack_keys(batch.keys), ()
        result = Result(batch, keys, ends, pack_facts(facts), *counts)
        if self.by_steps:
            result.live = LivePart(engine.settled, engine.waiting(), len(engine.endpoints))
        facts.clear()
        totals.packets = totals.connections = 0
        totals.severities = Counter()
        if self.prepare is not None:
            batch.prepared = self.prepare.prepare(batch.rows)
            batch.rows = []
        elif engine.endpoints:
            names = {row.connection for row in batch.rows if isinstance(row, Row)}
            result.endpoints = {name: pair for name in names if name is not None and (pair := engine.endpoints.get(name))}
            result.dissector_of = {name: engine.dissector_of[name] for name in result.endpoints}
            if self.options.places:
                result.preambles = {name: clear for name in result.endpoints if any(clear := engine.preamble(name))}
                frames = (row for row in batch.rows if isinstance(row, FrameRow) and row.connection in result.preambles)
                result.places = {(row.file, row.packet, row.sub): engine.place(row) for row in frames}
        return result


def _send(answers: BinaryIO, answer: Any) -> None:
    """Send an answer, followed by its lines: pickled, they would be copied twice."""
    lines = answer.batch.prepared if isinstance(answer, Result) else None
    if isinstance(lines, bytes):
        answer.batch.prepared = LINES_FOLLOW
        send_bytes(answers, pack(answer), lines)
    else:
        send(answers, answer)


def _show_warning(message: Warning | str, *_: object) -> None:
    sys.stderr.write(f"pulsarscope: {message}\n")


def serve() -> None:
    """Carry out one task after the other, from standard input to standard output, until the other side closes either."""
    tasks, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not get among the answers
    end_without_memory(tells=False)  # the process that asks does
    warnings.simplefilter("ignore", PluginWarning)  # the process that asks has already warned
    warnings.showwarning = _show_warning  # type: ignore[assignment]
    try:
        with stall_warnings():
            while (task := receive(tasks)) is not None:
                for answer in unpack(task)():
                    _send(answers, answer)
    except BrokenPipeError:
        os._exit(0)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
    except BaseException as error:  # noqa: BLE001 - the other process ends the run
        send(answers, Raised(error if isinstance(error, PulsarscopeError) else internal_error(error)))
