"""The library interface: captures as iterables of rows or as Arrow tables."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import ALL, ConnectionRow, ExchangeRow, FindingRow, FrameRow, JourneyRow, MessageRow, Row, refuse_unknown

if TYPE_CHECKING:
    from pulsarscope.engine.options import Options

PAYLOAD_FORMS = ("base64", "hex", "text")

AnyPath: TypeAlias = str | os.PathLike[str]

AnyRow = TypeVar("AnyRow", bound=Row)
ReadRow_co = TypeVar("ReadRow_co", bound=Row, covariant=True)


class Rows(Iterator[ReadRow_co]):
    """Rows of one kind, decoded as they are asked for. A notebook shows the first of them as a table, for which it reads anew."""

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

    def _repr_html_(self) -> str:
        from pulsarscope.output.html.notebook import rows_html  # noqa: PLC0415 - for notebooks

        with closing(self._read()) as rows:
            return rows_html(self._kind, rows)


class Capture:
    """One or more capture files; each method reads them anew, in memory that does not grow with their size."""

    def __init__(self, inputs: Sequence[str], options: Options, jobs: int) -> None:
        self._inputs = inputs
        self._options = options
        self._jobs = jobs

    def frames(self) -> Rows[FrameRow]:
        """Iterate over the frames in the order of completion. Raises CaptureError when no file can be read."""
        return self._rows(FrameRow)

    def messages(self) -> Rows[MessageRow]:
        """Iterate over the application messages, with batches unpacked and chunks joined."""
        return self._rows(MessageRow)

    def exchanges(self) -> Rows[ExchangeRow]:
        """Iterate over the requests with their responses."""
        return self._rows(ExchangeRow)

    def connections(self) -> Rows[ConnectionRow]:
        """Iterate over the TCP connections as they end."""
        return self._rows(ConnectionRow)

    def findings(self) -> Rows[FindingRow]:
        """Iterate over the findings."""
        return self._rows(FindingRow)

    def journeys(self) -> Rows[JourneyRow]:
        """Iterate over the messages on their way to each subscription, behind all that they are made of."""
        return self._rows(JourneyRow)

    def records(self, *kinds: str) -> Iterator[Row]:
        """Iterate over rows of several kinds in one pass: frame, message, exchange, connection, finding (all by default), journey."""
        return self._decode(frozenset(kinds or ALL))

    def table(self, kind: str) -> Any:
        """Return the rows of one kind as a pyarrow.Table. Raises UsageError when the kind is unknown or pyarrow is missing."""
        refuse_unknown(frozenset({kind}))
        from pulsarscope.output.export.arrow import table  # noqa: PLC0415 - pyarrow is an extra

        return table(kind, self._decode(frozenset({kind}), together=True))

    def _decode(self, kinds: frozenset[str], *, together: bool = False) -> Iterator[Any]:
        from pulsarscope.engine.parallel import run  # noqa: PLC0415 - as below

        rules = "finding" in kinds
        options = msgspec.structs.replace(self._options, records=kinds, rows_max=ROWS_MAX, rules=rules, together=together)
        with closing(iter(run(self._inputs, options, self._jobs))) as batches:
            for batch in batches:
                yield from batch.rows

    def _rows(self, row_type: type[AnyRow]) -> Rows[AnyRow]:
        return Rows(row_type.kind, lambda: (row for row in self.records(row_type.kind) if isinstance(row, row_type)))

    def _repr_html_(self) -> str:
        from pulsarscope.output.html.notebook import capture_html  # noqa: PLC0415 - for notebooks

        return capture_html(self._inputs, ALL)


def open(  # noqa: A001 - ps.open reads as it should
    *paths: AnyPath,
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
) -> Capture:
    """Return captures by path, pattern or folder.

    Args:
        paths: files, patterns and folders.
        show_secrets: leave credentials in the rows.
        payload: base64, hex or text; the form of MessageRow.payload, which is absent by default.
        ports: server ports to decode as Pulsar, whatever their bytes.
        decode_as: names of protocols by server port, whatever the bytes there.
        tls_keylog: files with secrets of TLS connections in the NSS key log format, read at once.
        private_key: files (PEM or DER) with RSA keys that decrypt messages encrypted end to end.
        ledger_password: files with passwords of BookKeeper's ledgers, for digests of the kind HMAC.
        schemas: schema files of MessageRow.value, by topic or pattern of topics.
        names: files of pulsar-admin topics stats-internal, which tell the topics of ledgers.
        source_by: none, dir, interface, or a regular expression for paths: the vantage point of a capture. No connection spans two.
        thresholds: limits that decide findings, by name; `pulsarscope findings` lists them.
        jobs: number of processes among which connections are distributed, 0 for one per core. The rows and their order are the same.

    Raises:
        UsageError: an option has an invalid value, or a file that it names cannot be used.
        OutputError: a process dies; raised while rows are read.
    """
    if jobs < 0:
        raise UsageError(f"jobs={jobs}: give a number of processes, or 0 for one per core")
    options = library_options(show_secrets, payload, ports, decode_as, tls_keylog, private_key, ledger_password, schemas, names, thresholds)
    return Capture([os.fspath(path) for path in paths], msgspec.structs.replace(options, source_by=source_by), jobs)


def library_options(
    show_secrets: bool,
    payload: str | None,
    ports: Collection[int],
    decode_as: Mapping[int, str] | None,
    tls_keylog: AnyPath | Sequence[AnyPath],
    private_key: AnyPath | Sequence[AnyPath],
    ledger_password: AnyPath | Sequence[AnyPath],
    schemas: Mapping[str, AnyPath] | None,
    names: AnyPath | Sequence[AnyPath],
    thresholds: Mapping[str, float] | None,
) -> Options:
    """Return the options of the engine, with the contents of the named files. Raises UsageError when one is invalid."""
    if payload not in (None, *PAYLOAD_FORMS):
        raise UsageError(f"payload={payload!r}: give one of {', '.join(PAYLOAD_FORMS)}")
    from pulsarscope.engine.options import Options  # noqa: PLC0415
    from pulsarscope.inputs.key_logs import read_key_logs  # noqa: PLC0415 - importing the package must stay cheap
    from pulsarscope.inputs.name_files import given_names  # noqa: PLC0415 - as below
    from pulsarscope.inputs.private_keys import read_key_files  # noqa: PLC0415
    from pulsarscope.inputs.schema_files import given_schemas  # noqa: PLC0415 - as below
    from pulsarscope.protocols import chosen_thresholds, make_dissectors, names_readers, schema_readers  # noqa: PLC0415 - as below

    return Options(
        show_secrets=show_secrets,
        payload=payload,
        ports=frozenset(ports),
        decode_as=decode_as or {},
        key_logs=read_key_logs(_paths(tls_keylog)),
        private_keys=read_key_files(_paths(private_key)),
        passwords=read_key_files(_paths(ledger_password), "password"),
        schemas=given_schemas([(topics, os.fspath(path)) for topics, path in (schemas or {}).items()], schema_readers),
        names=given_names(_paths(names), names_readers),
        thresholds=chosen_thresholds(thresholds or {}),
        dissectors=make_dissectors,
    )


def _paths(given: AnyPath | Sequence[AnyPath]) -> list[str]:
    """Return one or several paths as text."""
    return [os.fspath(path) for path in ([given] if isinstance(given, (str, os.PathLike)) else given)]
