"""Decoding shares of the connections of landing captures, batch after batch, each from the state after the previous batch.

One process of a cluster decodes a batch of several shares, which may be others in each batch. The rows of all batches of all shares equal
those of one run over the captures in the order of their list. The result of a batch depends only on its captures and on the states before
it, so it can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from itertools import pairwise
from typing import Any

import msgspec
from msgspec.structs import replace

from pulsarscope.capture import BlockReader, Inputs
from pulsarscope.engine.engine import Engine
from pulsarscope.engine.flows import LATE_NANOSECONDS
from pulsarscope.engine.options import Options
from pulsarscope.engine.row_batch import Totals
from pulsarscope.engine.rule_engine import EmitFact
from pulsarscope.inputs.key_logs import KeyLogs, Secrets, add_key_log
from pulsarscope.model.findings import LOSS_CODES
from pulsarscope.model.text import printable
from pulsarscope.spark.checkpoints.waiting_facts import WaitingFacts
from pulsarscope.spark.files.remote_files import open_path
from pulsarscope.spark.rows.shuffle_batches import StreamProgress
from pulsarscope.spark.tasks.flow_shares import FlowDivision

Secret = tuple[tuple[int, int], bytes]
"""A TLS key log in a capture, with the (file, packet) from which it applies."""


class ShareBatch(msgspec.Struct, frozen=True):
    """The captures of a batch, and the shares of their connections that a task decodes."""

    task: int
    shares: list[int]
    count: int
    """Number of all shares: a connection is always in the same one."""
    first: int
    """Position of the first capture in the list."""
    paths: list[str]
    """Paths of the captures; empty for a list entry that closes all connections."""
    sources: list[str | None]
    """Vantage point of each capture."""
    start: int | None = None
    """Time of the first packet of the stream, in nanoseconds since the epoch."""
    states: list[str] = []
    """Names of the states of the shares before the batch."""

    @property
    def end(self) -> int:
        """Position after the last capture."""
        return self.first + len(self.paths)

    @property
    def ends(self) -> bool:
        """True when no connection stays open."""
        return bool(self.paths) and not self.paths[-1]

    def divided(self) -> list[ShareBatch]:
        """Return the batch in parts, each of which ends with an entry that closes all connections: later parts do not depend on them."""
        places = sorted({0, len(self.paths), *(index + 1 for index, path in enumerate(self.paths) if not path)})
        return [
            replace(
                self,
                first=self.first + start,
                paths=self.paths[start:end],
                sources=self.sources[start:end],
            )
            for start, end in pairwise(places)
        ]


class ShareState(msgspec.Struct):
    """The state of a share after a batch. Read it only from a trusted place: the connections in it are pickled."""

    engines: list[tuple[str | None, bytes]] = []
    """Open connections of each vantage point."""
    facts: WaitingFacts | None = None
    """Files with the waiting facts of a stream whose only share evaluates them; None if there are none."""
    secrets: list[Secret] = []
    newest: list[tuple[str | None, int]] = []
    """Latest end of the captures of each vantage point in the last batch with packets from it."""
    lossy: int | None = None
    """First capture with a finding that packets are missing."""
    size: int = 0
    """Payload bytes of the share's packets in the last batch."""


States = dict[int, ShareState]
"""States by share."""


class ShareDecoder:
    """A decoder of one batch of some shares, or of a part of it (`divided`)."""

    def __init__(self, options: Options, batch: ShareBatch, states: States, emit_fact: EmitFact | None = None) -> None:
        """Resume from the states after the previous batch; the first batch has none.

        `emit_fact` takes the facts of rules across connections, if rules run.
        """
        self._batch = batch
        self._emit_fact = emit_fact
        self.totals = Totals()
        self._bytes = dict.fromkeys(batch.shares, 0)
        self.open = 0
        """Number of connections for which later batches may bring packets, without vantage points that have no packets in this batch."""
        self._begins = not states
        self._state = next(iter(states.values()), ShareState())
        """State that all shares have in common."""
        self._known = {(source, share): opened for share, state in states.items() for source, opened in state.engines}
        """Connections of vantage points and shares for which no engine runs."""
        self._engines: dict[tuple[str | None, int], Engine] = {}
        self._newest = dict(self._state.newest)
        self._ended: dict[str | None, int] = {}
        self._secrets = Secrets(options.key_logs.secrets)
        for (file, packet), log in self._state.secrets:
            add_key_log(self._secrets, BytesIO(log), "", (file, packet))
        findings = options.key_logs.findings if self._begins and self._reports_files else ()
        self._options = replace(options, key_logs=KeyLogs(self._secrets, findings))
        # One position more than there are captures: connections may continue in a later capture.
        self._paths = [*[""] * batch.first, *batch.paths, ""]

    @property
    def _reports_files(self) -> bool:
        """True if this task reports findings about files: one share does."""
        return 0 in self._batch.shares

    @property
    def bytes(self) -> int:
        """Payload bytes of the shares' packets."""
        return sum(self._bytes.values())

    @property
    def progress(self) -> StreamProgress:
        """The progress of the stream after the batch."""
        return StreamProgress(len(self._paths) - 1, max(self._newest.values(), default=0), self._batch.ends)

    @property
    def endpoints(self) -> dict[str, Any]:
        """(client, server) of the connections that have not ended, by name."""
        return {name: ends for engine in self._engines.values() for name, ends in engine.endpoints.items()}

    def rows(self) -> Iterator[list[Any]]:
        """Yield the rows that the batch completes."""
        batch = self._batch
        if self._begins and (findings := self._options.key_logs.findings):
            yield self._engine(None if not batch.sources else batch.sources[0], 0).report(findings).rows
        for index, (path, source) in enumerate(zip(batch.paths, batch.sources, strict=True)):
            if path:
                yield from self._capture(batch.first + index, path, source)
        self._newest |= self._ended
        for source, share in [*self._engines, *(key for key in self._known if batch.ends and key not in self._engines)]:
            engine = self._engine(source, share)
            self._warn_of_loss(engine, len(self._paths))
            ended = engine.end() if batch.ends else engine.end_idle(self._newest.get(source, 0) - LATE_NANOSECONDS)
            yield from (part.rows for part in ended)
        self.open = sum(engine.unfinished for engine in self._engines.values())

    def snapshot(self) -> States:
        """Return the states after the batch, once all rows were taken. The decoder then holds no connections."""
        batch = self._batch
        for key, engine in self._engines.items():
            engine.forget()
            self._known[key] = engine.snapshot()
        opened = {} if batch.ends else self._known
        states = {}
        for share, size in self._bytes.items():
            engines = [(source, data) for (source, own), data in opened.items() if own == share]
            states[share] = replace(self._state, engines=engines, newest=[*self._newest.items()], size=size)
        return states

    def _capture(self, file: int, path: str, source: str | None) -> Iterator[list[Any]]:
        shares = self._batch.shares
        engines = [self._engine(source, share) for share in shares]
        for engine in engines:
            self._warn_of_loss(engine, file)
        blocks = BlockReader(path, file, by_interface=self._options.by_interface, opener=open_path)
        division = FlowDivision(shares, self._batch.count)
        lossy = False
        for block in blocks:
            for packets_before, log in blocks.take_secrets():
                place = file, packets_before
                block.findings += add_key_log(self._secrets, BytesIO(log), printable(path), place)
                self._state.secrets.append((place, log))
            lossy = lossy or any(finding.code in LOSS_CODES for finding in block.findings)
            if not self._reports_files:
                block.findings = []
            if block.last_time:  # otherwise, it has no packets
                self._ended[source] = max(self._ended.get(source, 0), block.last_time)
            for share, engine, of_share in zip(shares, engines, division.divided(block), strict=True):
                self._bytes[share] += sum([len(segment[6]) for segments in of_share.flows.values() for segment in segments])
                yield from (part.rows for part in engine.feed(of_share))
        if lossy and self._state.lossy is None:
            self._state.lossy = file

    def _warn_of_loss(self, engine: Engine, file: int) -> None:
        engine.set_loss(lost=self._state.lossy is not None and self._state.lossy < file)

    def _inputs(self, source: str | None) -> Inputs:
        """Return the captures, all with one vantage point."""
        files = len(self._paths)
        # Later captures do not begin long before the end of the known ones.
        start = max(0, self._newest.get(source, 0) - LATE_NANOSECONDS)
        sources: list[str | None] = [] if source is None else [source] * files
        return Inputs(self._paths, None, [], sources, self._options.by_interface, [start] * files)

    def _engine(self, source: str | None, share: int) -> Engine:
        """Return the engine of a share of a vantage point, with its open connections."""
        if (engine := self._engines.get((source, share))) is None:
            engine = self._engines[source, share] = Engine(
                self._inputs(source), self._options, totals=self.totals, emit_fact=self._emit_fact
            )
            if (snapshot := self._known.pop((source, share), None)) is not None:
                engine.restore(snapshot)
        return engine
