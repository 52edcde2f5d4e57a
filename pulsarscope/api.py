"""The library: captures as iterables of rows, or as Arrow tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import ROWS, ConnectionRow, ExchangeRow, FindingRow, FrameRow, MessageRow, Row

if TYPE_CHECKING:
    from pulsarscope.engine.options import Options

PAYLOAD_FORMS = ("base64", "hex", "text")

AnyRow = TypeVar("AnyRow", bound=Row)


class Capture:
    """One or more capture files; each call below reads them anew, in memory that does not grow with their size."""

    def __init__(self, inputs: Sequence[str], options: Options, jobs: int) -> None:
        self._inputs = inputs
        self._options = options
        self._jobs = jobs

    def frames(self) -> Iterator[FrameRow]:
        """Every frame, in the order in which the capture completes them. Raises CaptureError when nothing can be read."""
        return self._rows(FrameRow)

    def messages(self) -> Iterator[MessageRow]:
        """Every application message: batches opened, chunks joined."""
        return self._rows(MessageRow)

    def exchanges(self) -> Iterator[ExchangeRow]:
        """Every request with its response."""
        return self._rows(ExchangeRow)

    def connections(self) -> Iterator[ConnectionRow]:
        """Every TCP connection, when it has ended."""
        return self._rows(ConnectionRow)

    def findings(self) -> Iterator[FindingRow]:
        """Everything odd."""
        return self._rows(FindingRow)

    def records(self, *kinds: str) -> Iterator[Row]:
        """Rows of several kinds in one pass: frame, message, exchange, connection, finding; all when none is named."""
        return self._decoded(frozenset(kinds or ROWS))

    def table(self, kind: str) -> Any:
        """One kind as a pyarrow.Table. Raises UsageError when pyarrow is missing."""
        from pulsarscope.output.export.arrow import table  # noqa: PLC0415 - pyarrow is an extra

        return table(kind, self._decoded(frozenset({kind}), together=True))

    def _decoded(self, wanted: frozenset[str], *, together: bool = False) -> Iterator[Any]:
        from pulsarscope.engine.parallel import run  # noqa: PLC0415 - as below

        rules = "finding" in wanted
        options = msgspec.structs.replace(self._options, records=wanted, rows_max=ROWS_MAX, rules=rules, together=together)
        with closing(iter(run(self._inputs, options, self._jobs))) as batches:
            for batch in batches:
                yield from batch.rows

    def _rows(self, row_type: type[AnyRow]) -> Iterator[AnyRow]:
        return (row for row in self.records(row_type.kind) if isinstance(row, row_type))


def open(  # noqa: A001 - ps.open reads as it should
    *paths: str,
    show_secrets: bool = False,
    payload: str | None = None,
    ports: Collection[int] = (),
    decode_as: Mapping[int, str] | None = None,
    tls_keylog: str | Sequence[str] = (),
    private_key: str | Sequence[str] = (),
    schemas: Mapping[str, str] | None = None,
    source_by: str = "none",
    jobs: int = 1,
) -> Capture:
    """Captures by path, glob or folder. `payload` (base64, hex, text) fills MessageRow.payload.

    `ports` are server ports to take for Pulsar, `decode_as` names the protocol of others, whatever the bytes there say.
    `tls_keylog` are files with the secrets of TLS connections (NSS key log format), read at once.
    `private_key` is a file (PEM or DER), or several, with an RSA key that opens what is encrypted end to end; if not, UsageError is raised.
    `schemas` are files by the topics, or patterns of topics, whose payloads they describe: MessageRow.value is read by them.
    `source_by` (none, dir, interface, or a regular expression for paths) tells vantage points apart: no connection spans two.

    Connections are shared out among `jobs` processes (0: one per core); the rows and their order are the same. If a process dies,
    OutputError is raised.
    """
    if jobs < 0:
        message = f"jobs={jobs}: give a number of processes, or 0 for one per core"
        raise UsageError(message)
    options = options_of(show_secrets, payload, ports, decode_as, tls_keylog, private_key, schemas)
    return Capture([str(path) for path in paths], msgspec.structs.replace(options, source_by=source_by), jobs)


def options_of(
    show_secrets: bool,
    payload: str | None,
    ports: Collection[int],
    decode_as: Mapping[int, str] | None,
    tls_keylog: str | Sequence[str],
    private_key: str | Sequence[str],
    schemas: Mapping[str, str] | None,
) -> Options:
    """What a caller of the library says; files are read. Raises UsageError: that cannot be carried out."""
    if payload not in (None, *PAYLOAD_FORMS):
        message = f"payload={payload!r}: give one of {', '.join(PAYLOAD_FORMS)}"
        raise UsageError(message)
    from pulsarscope.engine.options import Options  # noqa: PLC0415
    from pulsarscope.inputs.key_logs import read_key_logs  # noqa: PLC0415 - importing the package must stay cheap
    from pulsarscope.inputs.private_keys import read_key_files  # noqa: PLC0415
    from pulsarscope.inputs.schema_files import given_schemas  # noqa: PLC0415 - as below
    from pulsarscope.protocols import make_dissectors, schema_readers  # noqa: PLC0415 - as below

    return Options(
        show_secrets=show_secrets,
        payload=payload,
        ports=frozenset(ports),
        decode_as=decode_as or {},
        key_logs=read_key_logs([tls_keylog] if isinstance(tls_keylog, str) else [str(path) for path in tls_keylog]),
        private_keys=read_key_files([private_key] if isinstance(private_key, str) else private_key),
        schemas=given_schemas((schemas or {}).items(), schema_readers),
        dissectors=make_dissectors,
    )
