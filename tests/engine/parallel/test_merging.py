"""Rows of several processes are put in order, however they are cut into results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from operator import itemgetter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.engine.ordering import RowKey
from pulsarscope.engine.parallel import merging
from pulsarscope.engine.parallel.channel import pack_keys
from pulsarscope.engine.parallel.merging import merged
from pulsarscope.engine.parallel.worker import Result
from pulsarscope.engine.row_batch import KeyedFact, RowBatch
from pulsarscope.model.platform import load_native


def result(rows: list[Any], keys: list[RowKey], facts: list[KeyedFact], *, ends: bool) -> Result:
    return Result(RowBatch(rows, 3, 70, 9, rows), keys, ends, [facts], 0, 0, Counter(), False, False)


def results(keys: list[RowKey], cuts: list[int], number: int) -> list[Result]:
    """Results of one process: a row is its key and the number of the process."""
    ends = [*sorted(min(cut, len(keys)) for cut in cuts), len(keys)]
    starts = [0, *ends[:-1]]
    fact = 0, "k", b"", number, True, (number, 0)
    return [
        result([(key, number) for key in keys[start:end]], keys[start:end], [fact], ends=index == len(ends) - 1)
        for index, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


keys = st.tuples(st.integers(0, 30), st.integers(0, 5))
processes = st.lists(st.tuples(st.lists(keys, max_size=30), st.lists(st.integers(0, 30), max_size=4)), min_size=1, max_size=4)


@pytest.mark.slow
@given(processes, st.lists(keys, max_size=3), st.booleans())
def test_all_rows_come_in_order_and_facts_before_the_last(streams: list[Any], found: list[RowKey], prepared: bool) -> None:
    # Each position of a connection occurs in one process only.
    own: list[tuple[list[RowKey], list[int]]] = [
        (sorted({(order, index * len(streams) + number) for order, index in some}), cuts) for number, (some, cuts) in enumerate(streams)
    ]
    answers = [iter(results(some, cuts, number)).__next__ for number, (some, cuts) in enumerate(own)]
    heard: list[list[KeyedFact]] = []

    def conclude(facts: Sequence[KeyedFact]) -> RowBatch:
        heard.append([*facts])
        return RowBatch([(key, 99) for key in sorted(found)], 0, 0, 0, [(key, 99) for key in sorted(found)], sorted(found))

    batches = list(merged(answers, conclude, list if prepared else None))
    rows = [row for batch in batches for row in (batch.prepared if prepared else batch.rows)]
    want = [(key, number) for number, (some, _) in enumerate(own) for key in some]
    assert sorted(rows) == sorted(want + [(key, 99) for key in found])
    mine = [row for row in rows if row[1] != 99]
    assert mine == sorted(mine)
    assert [fact[5] for fact in heard[0]] == sorted(fact[5] for fact in heard[0])
    assert len(heard) == 1
    assert all((batch.file, batch.bytes_read, batch.last_packet) == (3, 70, 9) for batch in batches)


lines = st.binary(max_size=100).map(lambda data: data.replace(b"\n", b"").replace(b"\r", b"") + b"\n")
of_lines = st.lists(
    st.tuples(st.lists(st.tuples(keys, lines), max_size=30), st.lists(st.integers(0, 30), max_size=4)), min_size=1, max_size=4
)


@pytest.mark.parametrize(
    "reader",
    ["off", pytest.param("compiled", marks=pytest.mark.skipif(load_native()[0] is None, reason="pulsarscope-native is not installed"))],
)
@pytest.mark.parametrize("packed", [True, False])
def test_lines_are_put_in_order_as_values_are(reader: str, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if reader == "off":
        monkeypatch.setattr(merging, "load_native", lambda: (None, ""))

    @given(of_lines)
    def check(streams: list[Any]) -> None:
        answers = []
        want = []
        for number, (some, cuts) in enumerate(streams):
            of_own: list[tuple[RowKey, bytes]] = [
                ((order, index * len(streams) + number), line) for (order, index), line in some
            ]  # a connection belongs to one process
            rows = sorted(of_own, key=itemgetter(0))
            want += [(key, number, at, line) for at, (key, line) in enumerate(rows)]
            ends = [*sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
            portions = [rows[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]
            answers.append(iter([of_lines_together(portion, packed, last=at == len(cuts)) for at, portion in enumerate(portions)]).__next__)
        batches = [*merged(answers, lambda _: RowBatch([], 0, 0, 0, b"", []), b"".join)]
        assert b"".join(batch.prepared for batch in batches) == b"".join(line for *_, line in sorted(want, key=itemgetter(0, 1, 2)))

    check()


def of_lines_together(portion: list[tuple[RowKey, bytes]], packed: bool, *, last: bool) -> Result:
    """A portion whose rows are prepared as a single item of lines."""
    of_rows = [key for key, _ in portion]
    batch = RowBatch([], 3, 70, 9, b"".join(line for _, line in portion))
    return Result(batch, pack_keys(of_rows) if packed else of_rows, last, [], 0, 0, Counter(), False, False)


def test_lines_that_come_together_are_merged_with_values_of_each_row() -> None:
    lines: list[Any] = [b'{"a":1}\n', b'{"a":2}\n', b'{"a":3}\n', (b'{"a":4}\n', ["damaged"]), b'{"a":5}\n']
    keys: list[RowKey] = [(1, 0), (3, 0), (5, 0), (2, 1), (4, 1)]
    parts = [result(b"".join(lines[:3]), keys[:3], [], ends=True), result(lines[3:], keys[3:], [], ends=True)]  # type: ignore[arg-type]
    answers = [iter([part]).__next__ for part in parts]
    found = RowBatch([], 0, 0, 0, b'{"a":6}\n', [(3, 0, 1)])
    batches = [*merged(answers, lambda _: found, list)]
    assert [value for batch in batches for value in batch.prepared] == [lines[0], lines[3], lines[1], b'{"a":6}\n', lines[4], lines[2]]
