"""The driver of several processes: its results equal those of one process.

Each process reads all files and assembles all streams, which takes little time, and decodes the connections of its share; so everything
that depends on packets alone is the same in each. Rows come with keys, and are merged part by part. Rules of one connection run where the
connection is decoded; facts for rules across connections come here, in the order in which one process would emit them.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TypeAlias

from pulsarscope.capture import Inputs
from pulsarscope.engine import local
from pulsarscope.engine.engine import Engine
from pulsarscope.engine.options import Options
from pulsarscope.engine.parallel.merging import merged
from pulsarscope.engine.parallel.process import Process
from pulsarscope.engine.parallel.worker import Decode, Finished, FramePlace, Prepare, Result, keep_columns
from pulsarscope.engine.row_batch import KeyedFact, RowBatch, Totals
from pulsarscope.model.limits import JOBS_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.model.text import each_line


def cores() -> int:
    """Return the number of processes that suits the cores available to this one."""
    return min(JOBS_MAX, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def run(inputs: Sequence[str], options: Options, jobs: int, prepare: Prepare | None = None) -> AnyRun:
    """Decode like `local.run`, in `jobs` processes; 0: as many as there are cores.

    With `prepare`, batches from other processes have `prepared` instead of rows. Frames and messages that stay in columns are decoded in
    this process, because making objects of them takes longer; except if rules are evaluated, and the processes keep columns, too.
    """
    alone = local.run(inputs, options)
    jobs = jobs or cores()
    # A pipe can be read only once, and not by another process.
    quick = alone.engine.in_columns and not (options.rules and keep_columns(options, prepare))
    one = jobs < 2 or alone.inputs.sizes is None or quick
    return alone if one else ParallelRun(alone.inputs, options, jobs, prepare)


class ParallelRun(Totals):
    """A decode of a list of files, in several processes; `endpoints` and `dissector_of` are for the connections in the latest batch."""

    by_steps = False
    """True when the processes get the steps of a live capture, False when they read the files."""

    def __init__(self, inputs: Inputs, options: Options, jobs: int, prepare: Prepare | None) -> None:
        """Prepare; no process is started yet.

        Args:
            inputs: captures, all of them files.
            options: options of the run.
            jobs: number of processes.
            prepare: the step that processes apply to rows before they hand them over.

        Raises:
            UsageError: the options cannot be carried out.
        """
        super().__init__()
        self.inputs = inputs
        self.evaluates_rules = options.rules
        self.complete = False
        self.endpoints: dict[str, tuple[str, str]] = {}
        self.dissector_of: dict[str, str] = {}
        self._places: dict[FramePlace, tuple[int, int]] = {}
        self._preambles: dict[str, tuple[int, int]] = {}
        self._engine = Engine(inputs, options, totals=self)  # only evaluates facts
        self.dissectors = self._engine.dissectors
        self._options = options
        self._jobs = jobs
        self._prepare = prepare

    def again(self, options: Options) -> ParallelRun:
        """Return another run of the same inputs, which yields rows without preparation."""
        return ParallelRun(self.inputs, options, self._jobs, None)

    def place(self, row: FrameRow) -> tuple[int, int]:
        """Return the place of a frame of the latest batch in its stream; see `Timeline.place`."""
        start = row.offset
        return self._places.get((row.file, row.packet, row.sub), (start, start + row.size))

    def in_tls(self, connection: str) -> bool:
        """Return True when some bytes of a connection of the latest batch are needed to read any of it."""
        return connection in self._preambles

    def preamble(self, connection: str) -> tuple[int, int]:
        """Return the number of bytes of both streams that are needed to read any of a connection; see `Timeline.preamble`."""
        return self._preambles.get(connection, (0, 0))

    def __iter__(self) -> Generator[RowBatch, None, None]:
        prepare = self._prepare
        with ExitStack() as stack:
            processes = self._start(stack)
            firsts = [process.answer() for process in processes]
            while not (self.stopped or any(isinstance(answer, Finished) for answer in firsts)):
                self._begin_part(firsts)
                self.endpoints, self.dissector_of, self._preambles, self._places = {}, {}, {}, {}
                answers = [partial(next, self._results(*source)) for source in zip(firsts, processes, strict=True)]
                for batch in merged(answers, self._conclude, None if prepare is None else prepare.join):
                    self._engine.progress = batch.file, batch.bytes_read, batch.last_packet
                    yield batch
                firsts = [process.answer() for process in processes]
        for answer in firsts:
            self.endpoints |= answer.endpoints
            self.dissector_of |= answer.dissector_of
        for batch in self._engine.finish():
            if prepare is not None:
                batch.prepared, batch.rows = prepare.join(each_line(prepare.prepare(batch.rows))), []
            yield batch
        self.complete = not self.stopped

    def _start(self, stack: ExitStack) -> list[Process]:
        """Start the processes, and give them their tasks."""
        processes = [stack.enter_context(Process()) for _ in range(self._jobs)]
        for number, process in enumerate(processes):
            process.ask(Decode(self.inputs, self._options, number, self._jobs, self._prepare, by_steps=self.by_steps))
        return processes

    def _begin_part(self, firsts: Sequence[Result]) -> None:
        """Handle the first results of a part."""

    def _results(self, result: Result, process: Process) -> Iterator[Result]:
        """Yield and count the results of one process from this one on."""
        while True:
            self.packets += result.packets
            self.connections += result.connections
            self.severities.update(result.severities)
            self.damaged = self.damaged or result.damaged
            self.fragmented = self.fragmented or result.fragmented
            self.endpoints |= result.endpoints
            self.dissector_of |= result.dissector_of
            self._places |= result.places
            self._preambles |= result.preambles
            yield result
            result = process.answer()

    def _conclude(self, facts: Sequence[KeyedFact]) -> RowBatch:
        """Return the findings that facts cause before the end of the run."""
        return self._prepared(self._engine.add_facts(facts))

    def _prepared(self, batch: RowBatch) -> RowBatch:
        if self._prepare is not None:
            batch.prepared = self._prepare.prepare(batch.rows)
        return batch


AnyRun: TypeAlias = local.Run | ParallelRun
"""A run in one or in several processes."""
