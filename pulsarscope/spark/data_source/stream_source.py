"""A reader of captures that land in a folder, for `spark.readStream.format("pulsarscope")`: each batch takes some of them, in order.

An offset is a number of captures in a list. The list is kept at `stateLocation`, with the open connections of each share after each batch
that Spark may still repeat. So a query continues where it stopped, and a repeated batch gives the same rows. The tables of `pipeline` also
come from this reader (`capture_stream`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pulsarscope.capture import Inputs, Portion
from pulsarscope.engine.options import Options
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import FindingRow, JourneyRow, MessageRow
from pulsarscope.model.row_lists import count_rows
from pulsarscope.output.export.arrow import RecordBatches
from pulsarscope.spark.checkpoints.checkpoint import Checkpoint, LandedCapture
from pulsarscope.spark.data_source.landing_folder import LandingFolder
from pulsarscope.spark.data_source.source_options import PACKET, SourceOptions
from pulsarscope.spark.files.table_files import UNFINISHED
from pulsarscope.spark.sessions.task_process import prepare_process
from pulsarscope.spark.tasks.flow_shares import deal
from pulsarscope.spark.tasks.only_share import OnlyShareDecoder
from pulsarscope.spark.tasks.partition import Job, ReadFiles, decode_shares
from pulsarscope.spark.tasks.share_decoder import ShareBatch, ShareDecoder, ShareState, States

if TYPE_CHECKING:
    import pyarrow as pa

try:
    from pyspark.sql.streaming import datasource as limits
except ImportError:  # Spark 4.1 lacks these
    limits = None

TASKS = 4
"""Default number of tasks; each reads all captures of a batch."""

SHARES_PER_TASK = 4
"""Number of shares for each task: in each batch, they are distributed so that no task has most of the bytes."""

LOCK_SECONDS = 10.0
"""Longest wait for the process of a stopped query to release its `stateLocation`."""

_STATE_NAME = re.compile(r"(\d+)-(\d+)-(\d+)\.bin")
"""Name of a state: captures before it, share, bytes of the share in the last batch. File systems may keep other files beside them."""

Offset = Mapping[str, int]
"""`files`: number of list entries."""


class CapturePartition(InputPartition):  # type: ignore[misc]  # pyspark is untyped here
    """A partition of a batch: some shares of its connections, or a capture whose packets are read."""


def stream_reader(options: SourceOptions, columns: Sequence[str], job: Job | None = None) -> CaptureStreamReader:
    """Return the reader for this version of Spark: since 4.2, a source limits how much it takes at a time."""
    return (LimitedStreamReader if limits is not None else UnlimitedStreamReader)(options, columns, job)


class CaptureStreamReader(DataSourceStreamReader):  # type: ignore[misc]
    """A reader of a stream of packets, of records of a kind, or (for a job) of packed batches."""

    def __init__(self, options: SourceOptions, columns: Sequence[str], job: Job | None = None) -> None:
        """Prepare to read. Without a path, another process appends to the list. Raises UsageError for options that do not fit a stream."""
        self._options = options
        self._job = job
        self._columns = tuple(columns)
        self._landings: _Landings | None = None
        if len(options.paths) > 1:
            raise UsageError("a stream reads one folder")
        if not options.stream.state_location:
            raise UsageError("a stream needs the option stateLocation, a folder for its list of captures and its open connections")

    @property
    def _captures(self) -> _Landings:
        if self._landings is None:
            self._landings = _Landings(self._options, self._tasks)
        return self._landings

    @property
    def _tasks(self) -> int:
        if self._looks_across:
            return 1  # any connection may affect these kinds
        return self._options.partitions or TASKS

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark calls it so
        """Return the offset before the first capture."""
        return {"files": 0}

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the tasks of a batch."""
        captures = self._captures.between(start["files"], end["files"])
        if self._options.kind == PACKET:
            return [CapturePartition(capture) for capture in captures if not capture.closes]
        if not captures:
            return []
        paths, sources = [capture.path for capture in captures], [capture.source for capture in captures]
        tasks, began = self._tasks, self._captures.began
        shares = 1 if tasks == 1 else tasks * SHARES_PER_TASK
        states = _States(self._options.stream.state_location).names(start["files"])
        dealt = deal([states.get(share, ("", 0))[1] for share in range(shares)], tasks)
        names = [[states[share][0] for share in part if share in states] for part in dealt]
        return [
            CapturePartition(ShareBatch(task, part, shares, start["files"], paths, sources, began, names[task]))
            for task, part in enumerate(dealt)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task, and keep the states of its shares."""
        prepare_process()
        if isinstance(partition.value, LandedCapture):
            capture = partition.value
            files = capture.position + 1
            sources = [None] * capture.position + [capture.source] if capture.source is not None else []
            inputs = Inputs([""] * capture.position + [capture.path], None, [], sources, self._options.source_by == "interface")
            return ReadFiles(inputs, [Portion(files - 1)], packets=True).read_portion(Portion(files - 1))
        batch: ShareBatch = partition.value
        states = _States(self._options.stream.state_location)
        before = states.read(batch) if batch.first else {}

        def keep(after: States) -> None:
            states.write(batch.end, after)

        if self._job is not None:
            return decode_shares(self._job, batch, before, keep, self._options.stream.state_location)
        return self._records(batch, before, keep)

    def _records(self, batch: ShareBatch, states: States, keep: Callable[[States], None]) -> Iterator[pa.RecordBatch]:
        options = self._options
        display_filter = options.make_filter()
        engine_options = options.engine
        if options.kind == MessageRow.kind and display_filter is not None:
            engine_options = msgspec.structs.replace(engine_options, payload=display_filter.payload)
        if display_filter is not None:
            display_filter.begin(batch)
        made = RecordBatches(options.kind, self._columns)
        waiting: list[Any] = []
        count = 0
        for part in batch.divided():
            decoder = self._decoder(engine_options, part, states)
            for rows in decoder.rows():
                passed = options.selected(display_filter, rows, decoder.endpoints)
                waiting += passed
                count += count_rows(passed)
                if waiting and (engine_options.payload is not None or count >= ROWS_MAX):
                    yield made.batch(waiting)
                    waiting, count = [], 0
            states = decoder.snapshot()
        if waiting:
            yield made.batch(waiting)
        keep(states)

    def _decoder(self, options: Options, batch: ShareBatch, states: States) -> ShareDecoder | OnlyShareDecoder:
        if self._looks_across:
            return OnlyShareDecoder(options, batch, states, Checkpoint(_absolute(self._options.stream.state_location)))
        return ShareDecoder(options, batch, states)

    @property
    def _looks_across(self) -> bool:
        return self._options.kind in (FindingRow.kind, JourneyRow.kind)

    def commit(self, end: Offset) -> None:
        """Drop the states before an offset: Spark does not repeat batches before it."""
        if self._options.kind != PACKET:
            states = _States(self._options.stream.state_location)
            states.drop_before(end["files"])
            if self._looks_across:
                states.drop_facts(end["files"])


class UnlimitedStreamReader(CaptureStreamReader):
    """A reader for Spark 4.1, which takes everything that has landed at once."""

    def __init__(self, options: SourceOptions, columns: Sequence[str], job: Job | None = None) -> None:
        """Prepare to read. Raises UsageError for options that do not apply to a stream of this Spark."""
        super().__init__(options, columns, job)
        if options.stream.files_max is not None or options.stream.bytes_max is not None:
            raise UsageError("maxFilesPerTrigger and maxBytesPerTrigger need Spark 4.2 or newer")

    def latestOffset(self) -> Offset:  # noqa: N802 - Spark calls it so
        """Return the offset after the captures that have landed."""
        offset: Offset = self.initialOffset()
        while (later := self._captures.offset_after(offset["files"], limited=False)) != offset:
            offset = later
        return offset


class LimitedStreamReader(CaptureStreamReader, getattr(limits, "SupportsTriggerAvailableNow", object)):  # type: ignore[misc]
    """A reader of batches with the size that Spark requests."""

    def latestOffset(self, start: Offset, limit: Any) -> Offset:  # noqa: N802
        """Return the offset after the captures of the next batch."""
        return self._captures.offset_after(start["files"], limited=not isinstance(limit, limits.ReadAllAvailable))

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """Return the limit from the options. Spark does not know the limit on bytes."""
        stream = self._options.stream
        if stream.files_max is not None:
            return limits.ReadMaxFiles(stream.files_max)
        return limits.ReadAllAvailable() if stream.bytes_max is None else limits.ReadMaxBytes(stream.bytes_max)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Ignore captures that land from now on."""
        self._captures.close()

    def reportLatestOffset(self) -> Offset:  # noqa: N802
        """Return the offset after all captures that have landed, for the progress of the query."""
        return {"files": self._captures.count}


class _Landings:
    """The list of captures of a stream, which grows as they land."""

    def __init__(self, options: SourceOptions, tasks: int) -> None:
        """Open the list. Raises UsageError when it belongs to another stream, or another query uses it."""
        self._options = options.stream
        self._checkpoint = checkpoint = Checkpoint(_absolute(options.stream.state_location))
        self._listed = checkpoint.captures()
        self._closed = False
        self._folder: LandingFolder | None = None
        checkpoint.remove_states(lambda name: name.startswith(UNFINISHED))
        if not options.paths:
            return
        engine = options.engine
        identity = {
            "folder": options.paths[0],
            "sourceBy": options.source_by,
            "records": options.kind,
            "partitions": tasks,
            "ports": sorted(engine.ports),
            "decodeAs": {str(port): name for port, name in engine.decode_as.items()},
            "thresholds": dict(engine.thresholds),
        }
        self._lock = _locked(checkpoint, None if checkpoint.resumes(identity) else identity)
        """Held for the lifetime of this object or its process."""
        self._listed = checkpoint.captures()
        self._folder = LandingFolder(_absolute(options.paths[0]), options.source_by, self._options.settle, self._listed)

    @property
    def count(self) -> int:
        """Number of list entries."""
        return len(self._listed)

    @property
    def began(self) -> int | None:
        """Time of the first packet of the stream, from which times in a display filter count."""
        return next((capture.first_time for capture in self._listed if capture.first_time is not None), None)

    def close(self) -> None:
        """Look for captures one last time."""
        self._look()
        self._closed = True

    def between(self, first: int, end: int) -> list[LandedCapture]:
        """Return captures of the list. Raises UsageError when the list is too short."""
        if end > len(self._listed):
            self._listed += self._checkpoint.captures(len(self._listed))
        if end > len(self._listed):
            raise UsageError(
                f"{self._checkpoint.path} is not the stateLocation of this query: it lists {len(self._listed)} captures, not {end}"
            )
        return self._listed[first:end]

    def offset_after(self, first: int, *, limited: bool) -> Offset:
        """Return the offset after the captures of the batch that begins at a position; a batch ends at an entry that closes connections."""
        if not self._closed:
            self._look()
        end = next((entry.position + 1 for entry in self._listed[first:] if entry.closes), len(self._listed))
        if limited and self._options.files_max is not None:
            end = min(end, first + self._options.files_max)
        if limited and self._options.bytes_max is not None:
            size = 0
            for position in range(first, end):
                size += self._listed[position].size
                if size > self._options.bytes_max and position > first:
                    end = position
                    break
        return {"files": max(first, end)}

    def _look(self) -> None:
        if self._folder is None:
            self._listed += self._checkpoint.captures(len(self._listed))
            return
        landed = self._folder.poll(time.monotonic(), take_all=self._options.finish, clock=time.time())
        if self._options.finish:
            landed += self._folder.close()
        if landed:
            self._checkpoint.append(landed)
            self._listed += landed


def _locked(checkpoint: Checkpoint, identity: Mapping[str, Any] | None) -> ExitStack:
    """Lock a checkpoint, and create it for a stream unless it exists.

    A resumed query may start before the process of its last run has ended, so wait for a while. Raises UsageError when another query holds
    the lock.
    """
    lock, deadline = ExitStack(), time.monotonic() + LOCK_SECONDS
    while True:
        try:
            lock.enter_context(checkpoint.lock(identity))
        except UsageError:  # noqa: PERF203 - it is awaited
            if time.monotonic() >= deadline:
                raise
            time.sleep(LOCK_SECONDS / 20)
        else:
            return lock


class _States:
    """The states of shares at `stateLocation`, by share and by the number of captures before them."""

    def __init__(self, location: str) -> None:
        self._checkpoint = Checkpoint(_absolute(location))

    def names(self, files: int) -> dict[int, tuple[str, int]]:
        """Return the name and bytes of the state of each share after `files` captures."""
        found = (state for name in self._checkpoint.state_names() if (state := _STATE_NAME.fullmatch(name)) is not None)
        return {int(state[2]): (state[0], int(state[3])) for state in found if int(state[1]) == files}

    def read(self, batch: ShareBatch) -> States:
        """Return the states before a batch. Raises UsageError when one is missing."""
        found = [self._checkpoint.read_state(name, ShareState) for name in batch.states]
        if None in found or len(found) < len(batch.shares):
            message = f"{self._checkpoint.path} lacks the state after {batch.first} captures: each batch must be read to its end"
            raise UsageError(message)
        return dict(zip(batch.shares, found, strict=True))

    def write(self, files: int, states: States) -> None:
        """Keep the states after `files` captures."""
        for share, state in states.items():
            self._checkpoint.write_state(f"{files:09}-{share:03}-{state.size}.bin", state)

    def drop_before(self, files: int) -> None:
        """Remove the states after fewer than `files` captures."""
        self._checkpoint.remove_states(lambda name: (state := _STATE_NAME.fullmatch(name)) is not None and int(state[1]) < files)

    def drop_facts(self, files: int) -> None:
        """Remove the facts that no longer wait after `files` captures."""
        for name, _ in self.names(files).values():
            if (state := self._checkpoint.read_state(name, ShareState)) is not None:
                self._checkpoint.remove_facts(set() if state.facts is None else state.facts.names(), files)


def _absolute(place: str) -> str:
    return place if "://" in place else str(Path(place).resolve())
