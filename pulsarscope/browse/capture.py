"""What the screen shows: a run that is read in a thread of its own, and what is kept of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO

import msgspec

from pulsarscope.analysis.diagnosis import Diagnosis
from pulsarscope.browse.frame_store import FrameStore
from pulsarscope.dissect.capabilities import ReportFold, ReportTable
from pulsarscope.dissect.contract import Dissector
from pulsarscope.model.limits import BROWSED_CONNECTIONS_MAX, BROWSED_FINDINGS_MAX
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow, RawFrame

if TYPE_CHECKING:
    from pulsarscope.engine.options import Options
    from pulsarscope.engine.parallel import AnyRun
    from pulsarscope.filter import Filter

TABLES = ("consumers",)
"""Tables of statistics that have a page, where a protocol has them."""


class Browsed:
    """A capture while it is read, and after."""

    def __init__(
        self,
        run: AnyRun,
        options: Options,
        diagnosis: Diagnosis,
        make_filter: Callable[[str], Filter],
        file: BinaryIO,
        *,
        extract: Callable[[str | None, str], str],
    ) -> None:
        """Keep frames in `file`; `extract` copies the packets of a filter to a path, and says what it wrote."""
        self.run = run
        self.make_filter = make_filter
        self.extract = extract
        self.frames = FrameStore(file)
        self.endpoints: dict[str, tuple[str, str]] = {}
        self.diagnosis = diagnosis
        self.findings: list[FindingRow] = []
        self.connections: list[ConnectionRow] = []
        self.bytes_read = 0
        self.size = run.inputs.sizes or 0
        self.ended = False
        self.failure = ""
        """What ended the reading before its end."""
        self._options = options
        self._dissector_of: dict[str, Dissector] = {}
        tables = {table.name: table for dissector in run.dissectors.values() for table in dissector.tables if table.name in TABLES}
        self.tables: dict[str, tuple[ReportTable, ReportFold]] = {name: (table, table.make()) for name, table in tables.items()}

    @property
    def start(self) -> int | None:
        """Time of the first packet, None until it is known."""
        return self.run.start

    @property
    def title(self) -> str:
        """Names of the captures."""
        return ", ".join(self.run.inputs.paths[:3]) + (" …" if len(self.run.inputs.paths) > 3 else "")

    def dissector(self, row: FrameRow) -> Dissector | None:
        """Return the dissector of a frame."""
        return self.run.dissectors.get(row.dissector or "")

    def read(self, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Read the capture; yield when there is something new. What is raised by the run goes on."""
        read_before, file = 0, 0
        for batch in self.run:
            if cancelled():
                return
            frames = [row for row in batch.rows if isinstance(row, FrameRow)]
            self.endpoints.update(self.run.endpoints)
            self.frames.add(frames)
            self.diagnosis.feed(batch.rows)
            for _, fold in self.tables.values():
                fold.feed(batch.rows, self.run.endpoints)
            for row in batch.rows:
                if isinstance(row, FindingRow) and len(self.findings) < BROWSED_FINDINGS_MAX:
                    self.findings.append(row)
                elif isinstance(row, ConnectionRow) and len(self.connections) < BROWSED_CONNECTIONS_MAX:
                    self.connections.append(row)
            if batch.file != file:
                read_before, file = self.bytes_read, batch.file
            self.bytes_read = read_before + batch.bytes_read
            yield
        self.ended = True

    def raw(self, wanted: FrameRow, cancelled: Callable[[], bool]) -> RawFrame | None:
        """Return the bytes of a frame, by reading the captures again up to it; None when they are not found."""
        options = msgspec.structs.replace(self._options, records=frozenset({FrameRow.kind}), rules=False, raw=True)
        found = False
        for batch in self.run.again(options):
            for row in batch.rows:
                if isinstance(row, FrameRow):
                    found = (row.file, row.packet, row.sub, row.connection) == (wanted.file, wanted.packet, wanted.sub, wanted.connection)
                elif isinstance(row, RawFrame) and found:
                    return row
            if cancelled():
                return None
        return None

    def find(self, file: int, packet: int, sub: int) -> int | None:
        """Return the position of the frame of a name, or of the first one from its packet on; None when there is none."""
        wanted = (file, packet, sub)
        for number in self._chunks_near(wanted):
            for at, row in enumerate(self.frames.chunk(number)):
                if (row.file or 0, row.packet or 0, row.sub or 0) >= wanted:
                    return self.frames.start(number) + at
        return None

    def _chunks_near(self, wanted: tuple[int, int, int]) -> range:
        """Return the chunks from one behind which the frame is: names ascend, but for what was completed late."""
        low, high = 0, self.frames.chunks
        while low < high:
            middle = (low + high) // 2
            rows = self.frames.chunk(middle)
            low, high = (
                (middle + 1, high) if rows and (rows[0].file or 0, rows[0].packet or 0, rows[0].sub or 0) <= wanted else (low, middle)
            )
        return range(max(low - 1, 0), self.frames.chunks)
