"""Rows of an index are those of a run, whatever the filter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pulsarscope as ps
from pulsarscope.capture import expand_inputs
from pulsarscope.engine import local
from pulsarscope.filter import Catalogue, Filter, FollowFilter, JoinedFilter
from pulsarscope.index.reader import Index
from pulsarscope.index.run import indexed_run
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols import make_dissectors
from tests.places import CAPTURES
from tests.scenarios import rows
from tests.scenarios.indexes import INDEX_OPTIONS, indexed

SHOWN = msgspec.structs.replace(INDEX_OPTIONS, rules=False)
CATALOGUE = Catalogue.of(make_dissectors())
AnyFilter = Filter | FollowFilter | JoinedFilter


@pytest.fixture(
    scope="module", params=["quickstart.pcapng", "raw-strange.pcap", "stuck-consumer.pcap", "rw-shuffle.pcap", "go-nack-dlq-gz.pcap.gz"]
)
def capture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Index]:
    path = CAPTURES / request.param
    return path, indexed(path, tmp_path_factory.mktemp("index") / "index.psidx")


def filters(path: Path) -> list[tuple[str, str]]:
    """Filters decided by columns, in part or completely: (subject, or "" for a display filter, text)."""
    frames = list(ps.open(str(path)).frames())
    middle = frames[len(frames) // 2]
    topics = sorted({frame.topic for frame in frames if frame.topic is not None})[:2]
    return [
        ("connection", str(middle.connection)),
        *(("topic", topic) for topic in topics),
        ("", f'connection == "{middle.connection}" && command != SEND'),
        ("", f"time >= {middle.time / 1e9:.9f} || command == CONNECT"),
        ("", "time in {0s..50ms} and not (connection == #2)"),
        ("", "command == ACK and latency > 1s"),
        *(("", f'topic == "{topic}" && size > 100') for topic in topics),
        *(("", f'not (topic contains "{topic[-3:]}")') for topic in topics),
    ]


def make(subject: str, text: str) -> AnyFilter:
    return FollowFilter(subject, text, make_dissectors()) if subject else Filter(text, ("frame",), CATALOGUE)


def passed(run: Any, row_filter: AnyFilter) -> list[Any]:
    row_filter.begin(run)
    return [row for batch in run for row in row_filter.select(batch.rows, run.endpoints)]


def test_rows_and_counts_are_those_of_a_run(capture: tuple[Path, Index]) -> None:
    path, index = capture
    served = 0
    for subject, text in filters(path):
        read, found = make(subject, text), make(subject, text)
        run = local.run([str(path)], SHOWN)
        expected = passed(run, read)
        by_index = indexed_run(index, run.inputs, SHOWN, found)
        if by_index is None:
            assert not read.kept["frame"], "what has frames is served"
            continue
        served += 1
        assert passed(by_index, found) == expected, text
        assert (found.seen, found.kept) == (read.seen, read.kept)
        assert (by_index.packets, by_index.connections, by_index.severities) == (run.packets, run.connections, run.severities)
        assert (by_index.start, by_index.damaged, by_index.complete) == (run.start, run.damaged, True)
    assert served


@pytest.mark.parametrize(
    ("subject", "text"),
    [("", "size > 100"), ("", 'topic == "x" || send.sequence_id == 7'), ("producer", "p"), ("consumer", "c"), ("message", "1:1")],
)
def test_what_columns_lack_is_read_from_the_captures(capture: tuple[Path, Index], subject: str, text: str) -> None:
    path, index = capture
    assert indexed_run(index, expand_inputs([str(path)]), SHOWN, make(subject, text)) is None


@pytest.mark.parametrize("values", [{"raw": True}, {"rules": True}, {"anchors": True}, {"records": frozenset({"message"})}])
def test_other_runs_are_not_served(capture: tuple[Path, Index], values: dict[str, Any]) -> None:
    path, index = capture
    options = msgspec.structs.replace(SHOWN, **values)
    assert indexed_run(index, expand_inputs([str(path)]), options, make("", "command == CONNECT")) is None


def test_only_chunks_with_frames_that_may_pass_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.index.writer.INDEXED_FRAMES_PER_CHUNK", 16)
    monkeypatch.setattr("pulsarscope.index.reader.INDEXED_FRAMES_PER_CHUNK", 16)
    path = CAPTURES / "stuck-consumer.pcap"
    index = indexed(path, tmp_path / "x.psidx")
    read: list[int] = []
    some = index.some

    def noted(number: int, positions: Sequence[int] | None) -> list[FrameRow]:
        read.append(number)
        return some(number, positions)

    monkeypatch.setattr(index, "some", noted)
    run = indexed_run(index, expand_inputs([str(path)]), SHOWN, make("", "time < 40ms"))
    assert run is not None
    assert sum(len(batch.rows) for batch in run)
    assert 0 < len(read) < index.chunks / 4
    frames = list(ps.open(str(path)).frames())
    assert (len(index), index.chunks) == (len(frames), -(-len(frames) // 16))
    assert [index[at] for at in (0, 17, len(frames) - 1)] == [frames[at] for at in (0, 17, len(frames) - 1)]
    with pytest.raises(IndexError):
        index[index.chunks * 16]


def test_findings_of_the_rules_are_left_out_with_what_they_say_of_themselves(tmp_path: Path) -> None:
    path = CAPTURES / "ipv6.pcap"
    index = indexed(path, tmp_path / "x.psidx")
    early = {"code": "memory-cap", "connection": None, "packet": None, "sub": None}
    extra = [
        rows.finding(**early, evidence={"judged_early": 3}),
        rows.finding(**early, evidence={"bytes": 3}),
        rows.finding(code="rule-failed"),
        rows.finding(code="consumer-starved"),
    ]
    index.others += [(len(index), row) for row in extra]
    run = indexed_run(index, expand_inputs([str(path)]), SHOWN, make("", "command == CONNECT"))
    assert run is not None
    assert [row for batch in run for row in batch.rows if row.kind == "finding"][-1] is extra[1]


def findings(all_rows: list[Any]) -> bytes:
    return msgspec.json.encode([row for row in all_rows if row.kind == "finding"])


def test_who_copies_packets_gets_the_findings_of_the_rules_and_the_frames_that_open_connections(tmp_path: Path) -> None:
    path = CAPTURES / "stuck-consumer.pcap"
    index = indexed(path, tmp_path / "x.psidx")
    options = msgspec.structs.replace(INDEX_OPTIONS, places=True)
    read = local.run([str(path)], options)
    expected = [row for batch in read for row in batch.rows]
    run = indexed_run(index, read.inputs, options, make("", "command == ACK"))
    assert run is not None
    rows = [row for batch in run for row in batch.rows]
    assert findings(rows) == findings(expected)
    assert run.severities == read.severities
    opened = [row for batch in run.again(options) for row in batch.rows if row.kind == "frame"]
    assert opened == [row for row in expected if row.kind == "frame" and row.command in ("CONNECT", "CONNECTED")]
    assert [run.place(row) for row in opened] == [(row.offset, row.offset + row.size) for row in opened]
