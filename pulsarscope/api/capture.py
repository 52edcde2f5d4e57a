"""Captures as iterables of rows or as Arrow tables."""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from io import BytesIO
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

import msgspec

from pulsarscope.api.options import AnyPath, library_options
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import JOBS_MAX, ROWS_MAX
from pulsarscope.model.ordered_rows import others
from pulsarscope.model.records import (
    ALL,
    ConnectionRow,
    ExchangeRow,
    FindingRow,
    FrameRow,
    JourneyRow,
    MessageRow,
    Row,
    refuse_unknown,
    with_addresses,
)
from pulsarscope.model.text import hint_for
from pulsarscope.model.units import SECOND

if TYPE_CHECKING:
    from pulsarscope.analysis.diagnosis import Diagnosis
    from pulsarscope.engine.options import Options
    from pulsarscope.engine.parallel import AnyRun
    from pulsarscope.filter import Filter, FollowFilter, RowFilter, UserFilter

_COUNTED = (FrameRow.kind, ExchangeRow.kind)
"""Kinds of rows that statistics count and a filter selects."""

AnyRow = TypeVar("AnyRow", bound=Row)
ReadRow_co = TypeVar("ReadRow_co", bound=Row, covariant=True)


class Rows(Iterator[ReadRow_co]):
    """Rows of one kind, decoded on demand. A notebook shows the first rows as a table, and reads the capture again for it."""

    def __init__(self, kind: str, read: Callable[[], Generator[ReadRow_co]]) -> None:
        self._kind = kind
        self._read = read
        self._begun: Generator[ReadRow_co] | None = None

    def __iter__(self) -> Iterator[ReadRow_co]:  # noqa: PYI034 - the rows themselves: a loop takes no step through this class
        if self._begun is None:
            self._begun = self._read()
        return self._begun

    def __next__(self) -> ReadRow_co:
        return next(iter(self))

    def close(self) -> None:
        """End the decoding."""
        if self._begun is not None:
            self._begun.close()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the rows, decoded again, as a stream for polars, DuckDB, pandas and pyarrow. Raises UsageError without pyarrow."""
        from pulsarscope.output.export.arrow import stream

        reader: Any = stream(self._kind, self._read())
        return reader.__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        from pulsarscope.output.html.notebook import rows_html  # for notebooks

        with closing(self._read()) as rows:
            return rows_html(self._kind, rows)


class Capture:
    """One or more capture files. Each method reads them again, in memory that does not grow with their size."""

    def __init__(
        self, inputs: Sequence[str], options: Options, jobs: int, stream: BinaryIO | None = None, key: bytes | None = None
    ) -> None:
        self._inputs = inputs
        self._options = options
        self._jobs = jobs
        self._stream = stream
        self._key = key
        """Key of the masks of redacted copies; None: read the captures themselves."""
        self._copies: list[str] | None = None
        """Paths of the copies, once they are made."""

    def frames(self, *, filter: str | None = None) -> Rows[FrameRow]:  # noqa: A002 - as -Y is called
        """Iterate over the frames that a display filter passes, in the order of completion. Raises CaptureError without a capture."""
        return self._rows(FrameRow, filter)

    def messages(self, *, filter: str | None = None) -> Rows[MessageRow]:  # noqa: A002
        """Iterate over the application messages, with batches unpacked and chunks joined."""
        return self._rows(MessageRow, filter)

    def payloads(self, *, filter: str | None = None) -> Iterator[tuple[MessageRow, bytes | None]]:  # noqa: A002
        """Iterate over the messages with their application bytes, which are None if they could not be read."""
        self._filter({MessageRow.kind}, filter)  # refuses an invalid filter
        options = msgspec.structs.replace(self._options, payload="base64")
        return _with_bytes(Capture(self._inputs, options, self._jobs, self._stream, self._key).messages(filter=filter))

    def exchanges(self, *, filter: str | None = None) -> Rows[ExchangeRow]:  # noqa: A002
        """Iterate over the requests with their responses."""
        return self._rows(ExchangeRow, filter)

    def connections(self, *, filter: str | None = None) -> Rows[ConnectionRow]:  # noqa: A002
        """Iterate over the TCP connections as they end."""
        return self._rows(ConnectionRow, filter)

    def findings(self, *, filter: str | None = None) -> Rows[FindingRow]:  # noqa: A002
        """Iterate over the findings."""
        return self._rows(FindingRow, filter)

    def journeys(self, *, filter: str | None = None) -> Rows[JourneyRow]:  # noqa: A002
        """Iterate over the journeys of messages to each subscription; each comes after the records from which it is made."""
        return self._rows(JourneyRow, filter)

    def records(self, *kinds: str, filter: str | None = None) -> Iterator[Row]:  # noqa: A002
        """Iterate over rows of several kinds in one pass: frame, message, exchange, connection, finding (all by default), journey.

        Raises UsageError for an unknown kind, or a filter that is not valid for one of the kinds.
        """
        chosen = frozenset(kinds or ALL)
        refuse_unknown(chosen)
        return self._decode(chosen, self._filter(chosen, filter))

    def follow(self, /, **subject: str) -> Rows[FrameRow]:
        """Iterate over the frames of one connection, producer, consumer, topic, message or txn, as named by the argument.

        Raises UsageError for none or several of these, or a malformed name.
        """
        from pulsarscope.dissect.contract.capabilities import FOLLOW_SUBJECTS
        from pulsarscope.filter import FollowFilter
        from pulsarscope.protocols import make_dissectors

        if len(subject) != 1 or next(iter(subject)) not in FOLLOW_SUBJECTS:
            raise UsageError(f"give one of {', '.join(FOLLOW_SUBJECTS)}, as in follow(topic='orders')")
        ((kind, name),) = subject.items()
        FollowFilter(kind, name, make_dissectors())  # refuses a malformed name
        return Rows(FrameRow.kind, lambda: self._followed(kind, name)[1])

    def diagnose(self) -> dict[str, Any]:
        """Return the verdict and the findings by kind, worst first: the output of `pulsarscope diagnose --format json`."""
        from pulsarscope.output.render.diagnosis import not_judged, verdict

        run, diagnosis = self._diagnosis(frozenset({ConnectionRow.kind, FindingRow.kind}), None)
        text = {"text": verdict(diagnosis, run.packets), **diagnosis.summary()}
        return {"verdict": text, "not_judged": not_judged(diagnosis), "findings": diagnosis.records()}

    def stats(self, *sections: str, interval: float | None = None, filter: str | None = None) -> dict[str, Any]:  # noqa: A002
        """Return sections of statistics, lists of objects except for the object `total`: the output of `pulsarscope stats --format json`.

        Args:
            sections: names as in `--by`; by default the sections of the text report.
            interval: length of the intervals of time series, in seconds.
            filter: display filter for the rows to count.

        Raises:
            UsageError: an unknown section, or a filter that is not valid.
        """
        from pulsarscope.analysis.sections import Sections
        from pulsarscope.analysis.statistics import SECTIONS
        from pulsarscope.dissect.plugins.report_tables import report_tables
        from pulsarscope.output.export.report_encoding import with_objects
        from pulsarscope.protocols import make_dissectors

        tables = report_tables(make_dissectors())
        if unknown := [name for name in sections if name not in {*SECTIONS, *tables}]:
            raise UsageError(f'unknown section "{unknown[0]}"{hint_for(unknown[0], [*SECTIONS, *tables])}')
        if interval is not None and not interval > 0:
            raise UsageError(f"interval={interval}: give seconds")
        names = sections or tuple(name for name in SECTIONS if name != "intervals" or interval is not None)
        nanoseconds = None if interval is None else max(int(interval * SECOND), 1)
        selection = self._chosen(self._filter(_COUNTED, filter), frozenset(_COUNTED))
        counted = Sections(names, tables, interval=nanoseconds, selection=selection)
        kinds = frozenset({*_COUNTED, ConnectionRow.kind, FindingRow.kind, *counted.kinds})
        run = self._run(kinds, rules=False, anchors=True, columns=counted.takes_columns)
        if selection is not None:
            selection.begin(run)
        for batch in run:
            counted.feed(counted.once.kept(batch.rows, run.endpoints))
        counted.feed(counted.once.rest())
        return with_objects(counted.records())

    def compare(self, after: Capture) -> dict[str, Any]:
        """Return the changes from this capture to another, largest first: the output of `pulsarscope compare --format json`.

        Raises:
            UsageError: `after` is not an open capture.
        """
        if not isinstance(after, Capture):
            raise UsageError(f"{type(after).__name__} is not a capture: open it first, as in compare(pulsarscope.open('later.pcap'))")
        from pulsarscope.analysis.comparison import ComparedRun, Comparison
        from pulsarscope.analysis.statistics import Statistics
        from pulsarscope.output.export.report_encoding import with_objects

        sides = []
        for capture in (self, after):
            statistics = Statistics()
            _, diagnosis = capture._diagnosis(frozenset({*_COUNTED, ConnectionRow.kind, FindingRow.kind}), statistics.feed_batch)  # noqa: SLF001 - of this class
            sides.append(ComparedRun(statistics, diagnosis))
        return with_objects(Comparison(*sides).records())

    def table(self, kind: str, *, filter: str | None = None, timestamps: bool = False) -> Any:  # noqa: A002
        """Return the rows of one kind as a pyarrow.Table.

        Args:
            kind: frame, message, exchange, connection, finding or journey.
            filter: display filter of the rows.
            timestamps: give times as UTC timestamps in nanoseconds instead of int64 nanoseconds since the epoch.

        Raises:
            UsageError: the kind is unknown, the filter is not valid, or pyarrow is missing.
        """
        refuse_unknown(frozenset({kind}))
        from pulsarscope.output.export.arrow import table, with_timestamps

        chosen = frozenset({kind})
        selection = self._filter(chosen, filter)
        rows = table(kind, self._decode(chosen, selection, together=selection is None))
        return with_timestamps(kind, rows) if timestamps else rows

    def __enter__(self) -> Capture:  # noqa: PYI034 - nobody derives from it
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: each iteration opens and closes its files itself."""

    def _run(
        self,
        kinds: frozenset[str],
        *,
        rules: bool,
        together: bool = False,
        anchors: bool = False,
        columns: bool = False,
        payload: str | None = None,
        original: bool = False,
    ) -> AnyRun:
        """Start a run: of redacted copies if there is a key, except with `original`."""
        from pulsarscope.engine.parallel import run

        options = msgspec.structs.replace(
            self._options,
            records=kinds,
            rows_max=ROWS_MAX,
            rules=rules,
            together=together,
            anchors=anchors,
            columns=columns,
            payloads=rules if anchors else self._options.payloads,
            payload=payload or self._options.payload,
        )
        if self._key is not None and not original:
            from pulsarscope.redaction.copies import options_of_copies

            return run(self._copied(self._key), options_of_copies(options), self._jobs)
        if self._stream is None:
            return run(self._inputs, options, self._jobs)
        from pulsarscope.capture import BlockReader
        from pulsarscope.engine.local import run_blocks

        self._stream.seek(0)
        return run_blocks(self._inputs[0], BlockReader(self._stream), options)

    def _followed(self, kind: str, name: str) -> tuple[FollowFilter, Generator[FrameRow]]:
        """Return the filter for a subject, which knows after the frames whether there is one, and its frames. Raises UsageError."""
        from pulsarscope.filter import FollowFilter
        from pulsarscope.protocols import make_dissectors

        followed = FollowFilter(kind, name, make_dissectors())
        if followed.learn is not None:
            for batch in self._run(frozenset({MessageRow.kind}), rules=False, original=True):
                followed.learn(batch.rows)
        return followed, (row for row in self._decode(frozenset({FrameRow.kind}), followed) if isinstance(row, FrameRow))

    def _decode(self, kinds: frozenset[str], selection: UserFilter | None = None, *, together: bool = False) -> Iterator[Any]:
        payload = None if selection is None else selection.payload
        chosen = self._chosen(selection, kinds)
        of_run = kinds if chosen is None else with_addresses(kinds)
        run = self._run(of_run, rules="finding" in kinds, together=together, payload=payload)
        if chosen is not None:
            chosen.begin(run)
        with closing(iter(run)) as batches:
            for batch in batches:
                if chosen is None:
                    yield from batch.rows
                else:
                    yield from (row for row in chosen.select(batch.rows, run.endpoints) if row.kind in kinds)

    def _chosen(self, selection: UserFilter | None, kinds: frozenset[str]) -> RowFilter | None:
        """Return the filter for the rows to read. For rows of copies, it passes the rows that `selection` passes in the captures."""
        if selection is None or self._key is None:
            return selection
        from pulsarscope.filter import ChosenRows

        chosen = ChosenRows(selection, kinds)
        run = self._run(with_addresses(kinds), rules="finding" in kinds, payload=selection.payload, original=True)
        selection.begin(run)
        for batch in run:
            chosen.choose(batch.rows, run.endpoints)
        return chosen

    def _copied(self, key: bytes) -> list[str]:
        """Return the paths of the redacted copies, which are made once and exist as long as this object. Raises OutputError."""
        from pathlib import Path
        from shutil import copyfileobj, rmtree
        from tempfile import mkdtemp
        from weakref import finalize

        from pulsarscope.engine.parallel import run
        from pulsarscope.redaction.copies import options_to_copy, write_copies

        if self._copies is None:
            folder = Path(mkdtemp(prefix="pulsarscope-"))
            finalize(self, rmtree, folder, ignore_errors=True)
            inputs = self._inputs
            if self._stream is not None:
                inputs = [str(folder / "input")]
                self._stream.seek(0)
                with Path(inputs[0]).open("wb") as input_file:
                    copyfileobj(self._stream, input_file)
            copies = write_copies(run(inputs, options_to_copy(self._options), self._jobs), key, folder, lambda _: None)
            if self._stream is not None:
                Path(inputs[0]).unlink()
            self._copies = copies.paths
        return self._copies

    def _diagnosis(self, kinds: frozenset[str], feed: Callable[[Sequence[Any]], None] | None) -> tuple[AnyRun, Diagnosis]:
        """Read everything, and return the run with its diagnosis; `feed` also gets the rows, each message and finding once."""
        from pulsarscope.analysis.counted_once import CountedOnce
        from pulsarscope.analysis.diagnosis import Diagnosis

        run, once = self._run(kinds, rules=True, anchors=True, columns=True), CountedOnce()
        diagnosis = Diagnosis.of(run.dissectors.values(), self._options.ports.union(self._options.decode_as), self._options.thresholds)
        for rows in chain((once.kept(batch.rows, run.endpoints) for batch in run), (once.rest() for _ in range(1))):
            diagnosis.feed(others(rows))
            if feed is not None:
                feed(rows)
        return run, diagnosis

    def _filter(self, kinds: Collection[str], text: str | None) -> Filter | None:
        """Return the filter that a text describes for these kinds. Raises UsageError when it is not valid."""
        if text is None:
            return None
        from pulsarscope.filter import Catalogue, Filter
        from pulsarscope.protocols import make_dissectors

        return Filter(text, tuple(sorted(kinds)), Catalogue.of(make_dissectors()), payload=self._options.payload)

    def _rows(self, row_type: type[AnyRow], filter_text: str | None = None) -> Rows[AnyRow]:
        kinds = frozenset({row_type.kind})
        self._filter(kinds, filter_text)  # refuses an invalid filter
        return Rows(
            row_type.kind, lambda: (row for row in self._decode(kinds, self._filter(kinds, filter_text)) if isinstance(row, row_type))
        )

    def _repr_html_(self) -> str:
        from pulsarscope.output.html.notebook import capture_html  # for notebooks

        return capture_html(self._inputs, ALL)


def _with_bytes(messages: Iterable[MessageRow]) -> Iterator[tuple[MessageRow, bytes | None]]:
    for message in messages:
        payload = None if message.payload is None else b64decode(message.payload)
        message.payload = None
        yield message, payload


def open(  # noqa: A001 - ps.open reads as it should
    *paths: AnyPath | bytes | BinaryIO,
    show_secrets: bool = False,
    payload: str | None = None,
    ports: Collection[int] = (),
    decode_as: Mapping[int, str] | None = None,
    tls_keylog: AnyPath | Sequence[AnyPath] = (),
    private_key: AnyPath | Sequence[AnyPath] = (),
    ledger_password: AnyPath | Sequence[AnyPath] = (),
    schemas: Mapping[str, AnyPath] | None = None,
    names: AnyPath | Sequence[AnyPath] = (),
    source_by: str = "none",
    thresholds: Mapping[str, float] | None = None,
    jobs: int = 1,
    redact: bool | bytes | AnyPath = False,
) -> Capture:
    """Return captures by path, pattern or folder.

    Args:
        paths: files, patterns and folders; or one capture as bytes, or as a binary file that can seek.
        show_secrets: leave credentials in the rows.
        payload: form of MessageRow.payload: base64, hex or text; absent by default. `Capture.payloads` gives bytes.
        ports: server ports to decode as Pulsar, regardless of their bytes.
        decode_as: names of protocols by server port, regardless of the bytes there.
        tls_keylog: files with secrets of TLS connections in the NSS key log format, read at once.
        private_key: files (PEM or DER) with RSA keys that decrypt end-to-end encrypted messages.
        ledger_password: files with passwords of BookKeeper's ledgers, for digests of the kind HMAC.
        schemas: schema files of MessageRow.value, by topic or pattern of topics.
        names: output files of `pulsar-admin topics stats-internal`, which name the topics of ledgers.
        source_by: the vantage point of a capture: none, dir, interface, or a regular expression for paths. No connection spans two.
        thresholds: limits that decide findings, by name; `pulsarscope findings` lists them.
        redact: read redacted copies, as made by `pulsarscope extract --redact`: True for a random key, or a key (16 bytes or more) as
            bytes or a file. Filters and `follow` take the real names.
        jobs: number of processes among which connections are distributed, 0 for one per core. The rows and their order are the same.

    Raises:
        UsageError: an option has an invalid value, or a file that it names cannot be used.
        OutputError: a process dies; raised while rows are read.
    """
    if not 0 <= jobs <= JOBS_MAX:
        raise UsageError(f"jobs={jobs}: give a number of processes, {JOBS_MAX} at most, or 0 for one per core")
    options = library_options(show_secrets, payload, ports, decode_as, tls_keylog, private_key, ledger_password, schemas, names, thresholds)
    options = msgspec.structs.replace(options, source_by=source_by)
    key = None if redact is False else _mask_key(redact)
    if key is not None and show_secrets:
        raise UsageError("redact and show_secrets contradict each other: give one")
    names_of_files = [path for path in paths if isinstance(path, (str, os.PathLike))]
    if len(names_of_files) == len(paths):
        return Capture([os.fspath(path) for path in names_of_files], options, jobs, key=key)
    if len(paths) != 1 or jobs != 1 or source_by == "dir":
        raise UsageError("bytes or a file object cannot be combined with other captures, jobs or source_by='dir'")
    (content,) = paths
    stream = BytesIO(content) if isinstance(content, bytes) else cast("BinaryIO", content)
    if not (hasattr(stream, "read") and hasattr(stream, "seekable") and stream.seekable() and stream.read(0) == b""):
        raise UsageError(f"{type(content).__name__} is not a path, bytes or a seekable binary file")
    return Capture([str(getattr(stream, "name", "the bytes"))], options, jobs, stream, key)


def _mask_key(redact: bool | bytes | AnyPath) -> bytes:
    """Return the key for masks. Raises UsageError."""
    from pulsarscope.inputs.mask_keys import long_enough, mask_key

    if isinstance(redact, bytes):
        return long_enough(redact, "redact")
    return mask_key("redact", None if redact is True else os.fspath(cast("AnyPath", redact)))
