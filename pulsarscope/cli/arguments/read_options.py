"""The meaning of the options of commands that read captures: record kinds, filters, options of the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pulsarscope.cli.arguments.options import CommandRequest, ReadOptions
from pulsarscope.cli.standard_error import warn
from pulsarscope.inputs.private_keys import read_key_files
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import ALL, ROWS, FrameRow
from pulsarscope.model.text import hint_for

if TYPE_CHECKING:
    from pulsarscope.engine.options import Options
    from pulsarscope.filter import Filter, RowFilter


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in a list separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def choose(text: str, known: Sequence[str], option: str, noun: str) -> tuple[str, ...]:
    """Return the comma-separated names in `text`, in the order of `known`. Raises UsageError for an unknown name, or if there is none."""
    if not (names := names_in(text)):
        raise UsageError(f"{option} is empty: give {noun}s of {', '.join(known)}")
    for name in names:
        if name not in known:
            raise UsageError(f'unknown {noun} "{name}"{hint_for(name, known)}')
    return tuple(name for name in known if name in names)


def record_kinds(records: str | None) -> tuple[str, ...]:
    """Return the kinds named by --records, frames by default, in the order of the record table. Raises UsageError as `choose` does."""
    if records is None:
        return (FrameRow.kind,)
    kinds = choose(records, (*ROWS, "all"), "--records", "record kind")
    return tuple(kind for kind in ROWS if kind in kinds or ("all" in kinds and kind in ALL))


def filter_of(request: CommandRequest, kinds: tuple[str, ...]) -> Filter | None:
    """Return the filter given by -Y for rows of these kinds. Raises FilterError when it is invalid."""
    if request.filter is None:
        return None
    from pulsarscope.cli.commands.fields import catalogue  # most runs have no filter
    from pulsarscope.filter import Filter

    return Filter(request.filter, kinds, catalogue(), payload=request.payload)


def warn_of_absent_names(request: CommandRequest, row_filter: RowFilter | None) -> None:
    """Warn if nothing matched because the captures lack a name in the filter, or the followed name; suggest names that they have."""
    explains = request.subject is not None or not request.quiet
    if explains and row_filter is not None and (absence := row_filter.absence()) is not None:
        warn(absence)


def engine_options(reading: ReadOptions) -> Options:
    """Return the engine options for these command-line options. Raises UsageError for an invalid value or an unreadable file."""
    # Imported here, so that a wrong command line is refused before anything heavy is imported.
    from pulsarscope.engine.options import Options
    from pulsarscope.inputs.given_files import given_names, given_schemas
    from pulsarscope.inputs.key_logs import read_key_logs
    from pulsarscope.protocols import chosen_thresholds, make_dissectors, names_readers, schema_readers

    return Options(
        ports=frozenset(reading.port or ()),
        decode_as=dict(map(_port_and_dissector, reading.decode_as or ())),
        key_logs=read_key_logs(reading.tls_keylog or ()),
        private_keys=read_key_files(reading.private_key or ()),
        passwords=read_key_files(reading.ledger_password or (), "password"),
        schemas=given_schemas(map(_topics_and_file, reading.schema or ()), schema_readers),
        names=given_names(reading.names or (), names_readers),
        source_by=reading.source_by,
        thresholds=chosen_thresholds(dict(map(_name_and_value, reading.threshold or ()))),
        dissectors=make_dissectors,
    )


def _topics_and_file(text: str) -> tuple[str, str]:
    """Split the value of --schema. Raises UsageError when it is not TOPIC=FILE."""
    topics, _, file = text.partition("=")
    if not (topics and file):
        raise UsageError(f"--schema {text}: give a topic and a file, as in --schema orders=order.avsc")
    return topics, file


def _port_and_dissector(text: str) -> tuple[int, str]:
    """Split the value of -d. Raises UsageError when it is not PORT=DISSECTOR."""
    port, _, dissector = text.partition("=")
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65_536 and dissector):
        raise UsageError(f"-d {text}: give a port and a dissector, as in -d 16650=pulsar")
    return int(port), dissector


def _name_and_value(text: str) -> tuple[str, str]:
    """Split the value of --threshold. Raises UsageError when it is not NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise UsageError(f"--threshold {text}: give a name and a value, as in --threshold slow-exchange-seconds=2")
    return name, value
