"""The composition flow by flow: what the tasks of a cluster do, of which each has all packets of some 4-tuples, and no others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from io import BytesIO
from itertools import groupby
from operator import itemgetter

import msgspec

from pulsarscope.analysis import LOSS_CODES, Doctor, Tell, keep
from pulsarscope.capture import Block, Inputs
from pulsarscope.capture.names import printable
from pulsarscope.dissectors import make_dissectors
from pulsarscope.findings import Finding
from pulsarscope.flow import reverse_key
from pulsarscope.key_logs import KeyLogs, take_key_log
from pulsarscope.pipeline import Options, Run
from pulsarscope.records import ConnectionRow, FindingRow, RawFrame, Row
from pulsarscope.tcp import Assembler
from pulsarscope.tls.secrets import Position
from pulsarscope.wire.rules import Fact

__all__ = ["LOSS_CODES", "Fact", "FlowRun", "Glance", "check_options", "judge", "with_secrets"]


def check_options(options: Options) -> None:
    """Raise UsageError when a run cannot be carried out with these options: before anything starts, not in some task."""
    Run(Inputs([], 0, []), options)


class FlowRun(Run):
    """One decode of some flows, one after the other, of which each has all its packets here: what one process of a cluster does."""

    def __init__(self, inputs: Inputs, options: Options, tell: Tell, lossy: int | None = None) -> None:
        """Nothing is read.

        Args:
            inputs: the captures of the whole run.
            options: those of the whole run.
            tell: as for `Run`.
            lossy: the first file of which a finding says that it lacks packets of whatever connection; None: no file does.
        """
        super().__init__(inputs, options, tell=tell)
        self._lossy = lossy

    def flow(self, blocks: Iterable[Block]) -> Iterator[list[Row | RawFrame]]:
        """The rows of all connections of one 4-tuple of one source, from blocks with its packets, in order."""
        assembler = Assembler()
        file = None
        for block in blocks:
            # The files between have nothing of the flow, but end, too.
            for index in range(block.file if file is None else file + 1, block.file + 1):
                self._enter(index)
                if file is not None:
                    yield from self.joined((self._ending(assembler.end_file(index)),))
            file = block.file
            yield from self._rows(assembler.feed(block), block.findings)
        self._enter(len(self.inputs.paths))
        yield from self.joined((self._ending(assembler.finish()),))

    def whole(self, findings: Sequence[Finding]) -> list[Row | RawFrame]:
        """Rows of findings about no connection."""
        return self._tallied(self._finding_rows(findings))

    def known(self, rows: Sequence[Row]) -> list[Row | RawFrame]:
        """Rows that `strangers` has found, as far as they are asked for."""
        self.connections += sum(type(row) is ConnectionRow for row in rows)
        return [row for row in self._tallied([*rows]) if not isinstance(row, RawFrame) and row.kind in self._options.records]

    def _enter(self, file: int) -> None:
        """What was said at the end of the files before is known."""
        if self._doctor is not None:
            self._doctor.lost = self._lossy is not None and self._lossy < file


class Glance(Run):
    """A first look into one file: which connections need not be decoded, because nobody knows their protocol."""

    def __init__(self, inputs: Inputs, options: Options) -> None:
        """`inputs` and `options` are those of the whole run."""
        kinds = frozenset({ConnectionRow.kind, FindingRow.kind})
        super().__init__(inputs, msgspec.structs.replace(options, records=kinds, payloads=False, payload=None, rules=False))

    def strangers(self, blocks: Iterable[Block]) -> dict[bytes, list[Row] | None]:
        """All rows of each 4-tuple without any connection of a known protocol, by the lower flow key; None for the other 4-tuples.

        They hold if no other file has packets of it. What is TLS may be more than is seen here.
        """
        assembler = Assembler()
        flow_of: dict[str, bytes] = {}
        found: dict[bytes, list[Row] | None] = {}

        def take(rows: Iterable[Row | RawFrame]) -> None:
            for row in rows:
                if isinstance(row, Row) and row.connection is not None:
                    flow = flow_of[row.connection]
                    kept = found[flow]
                    if kept is not None:
                        kept.append(row)
                        if isinstance(row, ConnectionRow) and (row.dissector is not None or row.tls is not None):
                            found[flow] = None

        for block in blocks:
            for key in [key for key in block.flows if found.get(min(key, reverse_key(key)), ()) is None]:
                del block.flows[key]
            block.control &= block.flows.keys()
            events = assembler.feed(block)
            for event in events:
                key = event.connection.key
                flow_of[event.connection.name] = flow = min(key, reverse_key(key))
                found.setdefault(flow, [])
            for rows in self._rows(events, ()):
                take(rows)
            for name in self._recognised:
                found[flow_of[name]] = None
        for rows in self.joined((self._ending(assembler.finish()),)):
            take(rows)
        return found


def with_secrets(inputs: Inputs, options: Options, found: Iterable[tuple[Position, bytes]]) -> Options:
    """The options with the secrets that captures bring, in their order, and with what is wrong with them."""
    secrets = deepcopy(options.key_logs.secrets)
    findings = [*options.key_logs.findings]
    for position, log in found:
        findings += take_key_log(secrets, BytesIO(log), printable(inputs.paths[position[0]]), position)
    return msgspec.structs.replace(options, key_logs=KeyLogs(secrets, tuple(findings)))


def judge(facts: Iterable[tuple[str, str, Fact]], options: Options) -> Iterator[FindingRow]:
    """The findings of the rules that look across connections, from (rule, key, fact), sorted by rule, key and place of the fact."""
    doctor = Doctor({one.name: one.rules for one in make_dissectors(show_secrets=options.show_secrets)}, {}, {})
    for (rule, key), told in groupby(facts, itemgetter(0, 1)):
        kept: list[Fact] = []
        for _, _, fact in told:
            keep(kept, fact)
        yield from doctor.judge(rule, key, kept)
