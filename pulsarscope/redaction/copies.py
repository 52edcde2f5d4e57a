"""Redacted copies of the captures of a run. Packets keep their numbers and files their places, so that records name the same packets."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pulsarscope.capture import PacketRecord
from pulsarscope.engine.local import PacketBatch, packets
from pulsarscope.engine.options import Options
from pulsarscope.engine.row_batch import RowBatch
from pulsarscope.model.errors import OutputError, UsageError, system_reason
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow
from pulsarscope.output.export.pcapng import PcapngWriter
from pulsarscope.output.export.sink import Sink
from pulsarscope.redaction.packets import COMMENT, RedactedPacket, Redaction

if TYPE_CHECKING:
    from pulsarscope.engine.parallel import AnyRun

EMPTY = bytes.fromhex("4500 0014 0000 0000 40ff 79ec 0000 0000 0000 0000")
"""IPv4 header with no hosts and a reserved protocol number (255, RFC 791): a placeholder for a packet that is left out."""


def options_to_copy(options: Options) -> Options:
    """Return the options of the run that is copied. Raises UsageError for vantage points, which a copy does not have."""
    if options.source_by != "none":
        raise UsageError("redacted records have no vantage points: leave out --source-by")
    kinds = frozenset({FrameRow.kind, ConnectionRow.kind, FindingRow.kind})
    return msgspec.structs.replace(
        options, records=kinds, payloads=False, rules=False, raw=True, show_secrets=True, places=True, rows_max=ROWS_MAX
    )


def options_of_copies(options: Options) -> Options:
    """Return the options for reading the copies: without the secrets and names that only the user has."""
    none = Options()
    return msgspec.structs.replace(
        options,
        key_logs=none.key_logs,
        private_keys=none.private_keys,
        passwords=none.passwords,
        schemas=none.schemas,
        names=none.names,
    )


class RedactedCopies(NamedTuple):
    """Redacted copies of captures, in their order."""

    paths: list[str]
    notes: list[str]
    """Notes on the copies for the user."""


def write_copies(run: AnyRun, key: bytes, folder: Path, watch: Callable[[RowBatch | PacketBatch], None]) -> RedactedCopies:
    """Write the copies of a run with `options_to_copy` into a folder, with names masked under a key.

    `watch` gets the batches of both passes: first rows, then packets. Raises OutputError.
    """
    connections = set()
    """Names of the connections that are copied."""
    width = len(str(len(run.inputs.paths)))  # names decide the order of files whose first packets have the same time
    paths = [str(folder / f"redacted-{index + 1:0{width}}.pcapng") for index in range(len(run.inputs.paths))]
    try:
        with TemporaryFile(prefix="pulsarscope-") as kept:
            redaction = Redaction(key, run, kept)
            for batch in run:
                redaction.add(batch, run, lambda _: True)
                connections |= {
                    row.connection for row in batch.rows if isinstance(row, ConnectionRow) and redaction.allows(row, run.dissector_of)
                }
                watch(batch)
            by_file = groupby(packets(run.inputs, run.starts), lambda packet_batch: packet_batch.file)
            following = next(by_file, None)
            for index, path in enumerate(paths):
                with Path(path).open("wb") as stream:
                    writer = PcapngWriter(Sink(stream, "a redacted copy"), "pulsarscope", COMMENT)
                    if following is not None and following[0] == index:  # a capture may have no packets
                        for packet_batch in following[1]:
                            _write(packet_batch, redaction, connections, writer)
                            watch(packet_batch)
                        following = next(by_file, None)
    except OSError as error:
        raise OutputError(f"cannot keep redacted copies: {system_reason(error)}") from error
    return RedactedCopies(paths, list(redaction.notes()))


def _write(batch: PacketBatch, redaction: Redaction, connections: Collection[str | None], writer: PcapngWriter) -> None:
    """Write the packets of some connections; an empty packet replaces any other."""
    made = {packet.number: packet for packet in redaction.packets(batch)}
    written: list[tuple[PacketRecord, list[str]]] = []
    for record, place in batch.packets:
        packet = made.get(record.number) if place is not None and place.connection in connections else None
        written.append(((packet or RedactedPacket(record.number, EMPTY, len(EMPTY))).in_place_of(record), []))
    writer.packets(written)
