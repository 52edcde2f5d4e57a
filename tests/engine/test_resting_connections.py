"""Closed connections at rest: a part of a run's state that is not restored until packets of these connections come, or their time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from pulsarscope.capture import BlockReader, Inputs
from pulsarscope.engine import resting_connections
from pulsarscope.engine.engine import Engine
from pulsarscope.engine.options import ALL_RECORDS
from pulsarscope.engine.row_batch import RowBatch
from tests.scenarios import Conversation, write_pcap
from tests.scenarios.capturefile import Packet
from tests.scenarios.commands import PING
from tests.scenarios.options import Options

OPTIONS = Options(ALL_RECORDS, rules=True)
SECOND = 1_000_000_000
START = 1_777_600_000 * SECOND


@pytest.fixture(autouse=True)
def _groups_of_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resting_connections, "RESTING_LEAST", 2)


def connection(number: int, seconds: int = 0, *, frame: bytes = PING) -> list[Packet]:
    """A connection that begins and ends within a second."""
    return Conversation(("10.0.0.1", 40_000 + number), start_ns=START + seconds * SECOND).handshake().client(frame).close().packets


def late(packets: list[Packet], seconds: int) -> list[Packet]:
    """The last packet again, later."""
    return [Packet(START + seconds * SECOND, packets[-1].data)]


BEFORE = [[*connection(0), *connection(1)], [*connection(2, 1), *connection(3, 1)], [*connection(4, 2), *connection(5, 2)]]
"""Captures with two connections each."""


class Run:
    """A run over captures, with an engine for each that restores the state of the previous one, or with one engine for all."""

    def __init__(self, folder: Path, captures: Sequence[list[Packet]], *, by_one: bool = False) -> None:
        self.rows: list[bytes] = []
        self.woken: list[int] = []
        """Number of connections that were restored for each capture, and at the end."""
        paths = [str(write_pcap(folder / f"{number}.pcap", packets)) for number, packets in enumerate(captures)]
        inputs = Inputs([*paths, ""], 0, [])
        engine = Engine(inputs, OPTIONS)
        for file, path in enumerate(paths):
            resting_before = len(engine.resting)
            for block in BlockReader(path, file):
                self._take(engine.feed(block))
            self._take(engine.end_idle(block.last_time - 600 * SECOND))
            self.woken.append(resting_before - len(engine.resting))
            engine.forget()
            if not by_one:
                engine, before = Engine(inputs, OPTIONS), engine
                engine.restore(before.snapshot())
        self.open = engine.unfinished
        self.woken.append(len(engine.resting))
        self._take(engine.end())
        self._take(engine.finish())
        self.rows.sort()

    def _take(self, batches: Iterable[RowBatch]) -> None:
        self.rows += [msgspec.json.encode(row) for batch in batches for row in batch.rows]


@pytest.mark.parametrize(
    ("last", "woken"),
    [
        pytest.param([], [0, 6], id="nothing"),
        pytest.param(connection(6, 3), [0, 6], id="another connection"),
        pytest.param(late(connection(0), 3), [2, 4], id="a late packet"),
        pytest.param([*late(connection(1), 3), *late(connection(3, 1), 3)], [4, 4], id="late packets of two groups"),
        pytest.param(connection(2, 4), [2, 4], id="another connection on the same ports"),
        pytest.param(connection(6, 660), [0, 6], id="none is old"),
        pytest.param(connection(6, 661), [2, 4], id="the first ones are old"),
        pytest.param(connection(6, 7_000), [6, 0], id="all are old"),
    ],
)
def test_connections_at_rest_are_taken_up_when_it_is_time(tmp_path: Path, last: list[Packet], woken: list[int]) -> None:
    captures = [*BEFORE, last]
    run = Run(tmp_path, captures)
    assert run.woken == [0, 0, 0, *woken]
    assert run.rows == Run(tmp_path, captures, by_one=True).rows
    assert run.open == Run(tmp_path, captures, by_one=True).open


def test_those_that_were_taken_up_rest_again_when_they_are_the_latest_again(tmp_path: Path) -> None:
    """They rest again with the next one; the one that rested with them stays."""
    run = Run(tmp_path, [*BEFORE, late(connection(0), 3), connection(6, 4)])
    assert (run.woken, run.open) == ([0, 0, 0, 2, 0, 6], 7)


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(connection(0), id="too few"),
        pytest.param(connection(0) + connection(1, frame=b""), id="one without data"),
        pytest.param(connection(0) + connection(1)[:-3], id="an open one"),
        pytest.param(connection(0) + connection(0, 1)[:5], id="an open one on the same ports"),
    ],
)
def test_others_do_not_rest(tmp_path: Path, first: list[Packet]) -> None:
    captures = [first, connection(6, 3)[:5]]
    run = Run(tmp_path, captures)
    assert run.woken == [0, 0, 0]
    assert run.rows == Run(tmp_path, captures, by_one=True).rows


@pytest.mark.parametrize("bound", [2, 4, 5])
def test_those_at_rest_and_those_that_wait_have_one_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: int) -> None:
    monkeypatch.setattr("pulsarscope.tcp.connection_table.CLOSED_CONNECTIONS_MAX", bound)
    run, by_one = Run(tmp_path, BEFORE), Run(tmp_path, BEFORE, by_one=True)
    assert (run.rows, run.open) == (by_one.rows, bound)


def test_flows_are_looked_at_once_however_many_groups_there_are() -> None:
    class Flows(dict[bytes, None]):
        looks = 0

        def __iter__(self) -> Iterator[bytes]:
            self.looks += 1
            return super().__iter__()

    groups = resting_connections.RestingConnections()
    groups._groups = [resting_connections._Group(1, 1, frozenset([b"%d" % number]), b"") for number in range(5)]
    flows = Flows({b"other": None})
    assert (groups.wake(flows, 0, 5), flows.looks) == ([], 1)
