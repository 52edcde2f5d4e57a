from __future__ import annotations

import fcntl
import io
import os
from itertools import chain
from operator import itemgetter
from typing import Any

import msgspec
import pytest

from pulsarscope.engine.ordering import RowKey
from pulsarscope.engine.parallel.channel import facts_in_order, pack_facts, pack_keys, receive, send, unpack, unpack_keys, widen
from pulsarscope.engine.row_batch import KeyedFact
from pulsarscope.model.records import FrameRow, RawFrame


@pytest.mark.parametrize("message", [None, b"", b"x" * 100_000, {"a": [1, -(1 << 63)]}, FrameRow(file=1, fields={"a": b"\x00"})])
def test_what_is_sent_is_received(message: Any) -> None:
    pipe = io.BytesIO()
    send(pipe, message)
    send(pipe, "next")
    pipe.seek(0)
    first, second = receive(pipe), receive(pipe)
    assert first is not None
    assert second is not None
    assert unpack(first) == message
    assert unpack(second) == "next"
    assert receive(pipe) is None


def test_rows_of_a_hex_view_travel() -> None:
    pipe = io.BytesIO()
    send(pipe, [RawFrame(b"\x00", [(0, 1, "totalSize", 0)])])
    pipe.seek(0)
    data = receive(pipe)
    assert data is not None
    assert unpack(data) == [RawFrame(b"\x00", [(0, 1, "totalSize", 0)])]


@pytest.mark.parametrize("key", ["3:4", "ключ", "\udc80"])
@pytest.mark.parametrize("time", [0, -1, (1 << 63) - 1, 1 << 70])
@pytest.mark.parametrize("place", [(1 << 62 | 7, 1, 2), (5, 0, 1, 1 << 62)])
def test_facts_come_as_they_went(key: str, time: int, place: RowKey) -> None:
    facts: list[KeyedFact] = [(0, key, b"\x00packed", time, False, place), (3, "", b"", 1, True, (0, 0))]
    pipe = io.BytesIO()
    send(pipe, pack_facts([facts]))
    pipe.seek(0)
    assert [*facts_in_order(unpack(receive(pipe) or b""))] == sorted(facts, key=itemgetter(5))


@pytest.mark.parametrize("bring", [[], [2], [0, 1, 2], [2, 0, 2]])
def test_facts_of_several_processes_come_in_the_order_of_their_places(bring: list[int]) -> None:
    every: list[list[KeyedFact]] = [
        [
            (1, "of the first", b"", 300, False, (5, 2, 1)),
            (1, "behind it", b"", -1, True, (5, 2, 1, 7)),
            (70_000, "k" * 40, b"p" * 70_000, 1, False, (9, 2, 3)),
        ],
        [(300, "between", b"p" * 300, -(1 << 40), False, (5, 2, 1, 1 << 62)), (1, "before", b"", -300, False, (4, 1 << 40, -1))],
        [(1, f"one of many {number}", b"", number << 20, not number % 3, (number // 4, 7, number)) for number in range(70_000)],
    ]
    chosen = [every[number] for number in bring]
    found = facts_in_order([*chain.from_iterable(pack_facts([facts]) for facts in chosen)])
    want = sorted(chain.from_iterable(chosen), key=itemgetter(5))
    assert len(found) == len(want)
    assert [*found] == want


def test_what_are_no_packed_facts_is_not_taken_for_some() -> None:
    (packed,) = pack_facts([[(1, "key", b"packed", 3, False, (5, 2, 1))]])
    assert isinstance(packed, bytes)
    for wrong in (packed[:-1], packed + b"\0", packed.replace(b"\xc2", b"\xc0"), b"\xa1"):
        with pytest.raises(msgspec.DecodeError):
            facts_in_order([packed, wrong])


def test_facts_that_are_sent_are_kept_as_they_were() -> None:
    facts: list[KeyedFact] = [(0, "\udc80", b"", 1, True, (0, 0))]
    packed = pack_facts([facts])
    facts.clear()
    assert [*facts_in_order(packed)] == [(0, "\udc80", b"", 1, True, (0, 0))]


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [(0, -1)],
        [(1 << 40 | 7, 3), (1 << 61, -1), ((1 << 63) - 1, 1 << 60)],
        [(1, 2), (1 << 62 | 7, 1, 2)],
        [(1, 2, 3), (1, 2, 3)],
        [(1, 2), (1 << 63, 0)],
    ],
)
def test_keys_of_rows_come_as_they_went(keys: list[RowKey]) -> None:
    pipe = io.BytesIO()
    send(pipe, pack_keys(keys))
    pipe.seek(0)
    assert [*unpack_keys(unpack(receive(pipe) or b""))] == keys


def test_half_a_message_is_none() -> None:
    pipe = io.BytesIO()
    send(pipe, "whole")
    for size in range(len(pipe.getvalue())):
        assert receive(io.BytesIO(pipe.getvalue()[:size])) is None


@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="the system has pipes of one size")
def test_a_wide_pipe_takes_a_result_that_nobody_reads_yet() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with os.fdopen(reading, "rb") as ours, os.fdopen(writing, "wb", buffering=0) as theirs:
        widen(ours)
        assert theirs.write(bytes(500_000)) == 500_000


def test_a_pipe_that_the_system_does_not_widen_stays_as_it_is() -> None:
    widen(io.BytesIO())
