"""Positions and names of records."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.limits import TLS_RECORD_MAX_BYTES
from pulsarscope.tls.record_layer import Mark, RecordReader, begins_record


def record(body: bytes, kind: int = 23) -> bytes:
    return bytes((kind, 3, 3)) + len(body).to_bytes(2, "big") + body


def give(records: RecordReader, data: bytes, packet: int, file: int = 0) -> None:
    records.take(file, (data, packet, packet * 10, packet))


@pytest.mark.parametrize(
    ("head", "want"),
    [
        (b"\x16\x03\x01\x00\x01", True),
        (b"\x14\x03\x03\x00\x01", True),
        (b"\x17\x03\x04\x48\x00", True),
        (b"\x17\x03\x04\x48\x01", False),
        (b"\x17\x03\x03\x00\x00", False),
        (b"\x13\x03\x03\x00\x01", False),
        (b"\x18\x03\x03\x00\x01", False),
        (b"\x16\x03\x05\x00\x01", False),
        (b"\x16\x02\x03\x00\x01", False),
        (b"\x16", True),
        (b"\x16\x03", True),
        (b"\x16\x00", False),
        (b"\x00", False),
    ],
)
def test_a_header_is_known_by_its_fields(head: bytes, want: bool) -> None:
    assert begins_record(head) == want


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.lists(st.integers(1, 30), min_size=1))
def test_records_come_out_however_they_are_cut_with_the_packets_that_completed_them(bodies: list[bytes], sizes: list[int]) -> None:
    data = b"".join(map(record, bodies))
    records, results, position, packet = RecordReader(), [], 0, 0
    ends = []
    while position < len(data):
        packet += 1
        size = sizes[packet % len(sizes)]
        give(records, data[position : position + size], packet)
        position += size
        ends.append((position, packet))
        while (following := records.next()) is not None:
            results.append((following.body, following.end, records.accept(following)))
        records.trim()
    assert [body for body, _, _ in results] == bodies
    for _, end, mark in results:
        assert mark.packet == next(number for offset, number in ends if offset >= end)
    assert records.buffered == 0


def test_a_refused_record_is_lost_and_the_next_one_is_found() -> None:
    records = RecordReader()
    give(records, record(b"one") + record(b"two"), 1)
    first = records.next()
    assert first is not None
    assert records.refuse(first)
    assert records.lost == len(record(b"one"))
    second = records.next()
    assert second is not None
    assert second.body == b"two"
    records.accept(second)
    assert records.lost == 0


def test_after_a_gap_the_end_of_the_cut_record_shows_where_the_next_one_begins() -> None:
    records = RecordReader()
    cut = record(b"x" * 100)
    give(records, cut[:20], 1)
    assert records.next() is None
    records.gap(30)
    give(records, cut[50:], 2)
    give(records, record(b"next"), 3)
    next_record = records.next()
    assert next_record is not None
    assert next_record.body == b"next"
    assert (records.lost, records.lost_missing) == (105, 30)
    assert records.refuse(next_record)  # without a guess


def test_behind_a_gap_that_hides_where_the_next_one_begins_it_is_guessed() -> None:
    records = RecordReader()
    give(records, record(b"one")[:4], 1)
    records.gap(50)
    guess = b"\x17\x03\x03\x00\x05"
    give(records, b"rest" + guess + record(b"next", 22) + b"tail!", 2)
    next_record = records.next()
    assert next_record is not None
    assert (next_record.header, records.lost) == (guess, 58)
    assert not records.refuse(next_record)
    next_record = records.next()
    assert next_record is not None
    assert (next_record.kind, next_record.body) == (22, b"next")


def test_behind_a_gap_a_record_is_named_by_the_latest_packet_that_brought_it() -> None:
    records = RecordReader()
    records.gap(10)
    give(records, record(b"abcdef")[:4], 9)
    give(records, record(b"abcdef")[4:8], 5)
    give(records, record(b"abcdef")[8:], 7)
    next_record = records.next()
    assert next_record is not None
    assert records.accept(next_record) == Mark(0, 9, 90)


def test_the_beginning_of_a_record_is_what_is_there_of_it() -> None:
    records = RecordReader()
    complete = b"\x16\x03\x01\0\x09nine bytes"
    for end, want in ((4, None), (5, b""), (9, b"nine"), (len(complete), b"nine byte")):
        records = RecordReader()
        records.take(0, (complete[:end], 1, 1, 1))
        partial = records.partial()
        assert (partial and (partial.kind, partial.body, partial.end)) == (None if want is None else (22, want, 5 + len(want)))
        assert records.buffered == end
    records.gap(7)
    records.take(0, (complete, 2, 2, 2))
    assert records.partial() is None


def test_a_header_that_cannot_be_is_searched_past() -> None:
    records = RecordReader()
    give(records, b"\x17\x03\x03" + (TLS_RECORD_MAX_BYTES + 1).to_bytes(2, "big") + b"junk" + record(b"next"), 1)
    next_record = records.next()
    assert next_record is not None
    assert next_record.body == b"next"
    assert records.lost == 9
