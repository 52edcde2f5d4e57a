from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import NamedTuple

import pytest

from pulsarscope.model.limits import OUT_OF_ORDER_MAX_BYTES, RESET_WINDOW_BYTES, SEQUENCE_JUMP_MAX_BYTES, STREAM_FINDINGS_MAX
from tests.tcp.tape import ACK, CLIENT, FIN, RST, SECOND, SERVER, SYN, Tape


class Sent(NamedTuple):
    """Segment of the client: stream offset, payload, bytes cut off by the snap length."""

    offset: int
    payload: bytes
    missing: int = 0


class Case(NamedTuple):
    """Segments that the client sends as packets 4, 5, …, and the resulting stream."""

    name: str
    sent: list[Sent]
    shape: list[bytes | int]
    retransmitted: int = 0
    out_of_order: int = 0
    codes: tuple[str, ...] = ()


GAP = "stream-gap"
CONFLICT = "overlap-conflict"

CASES = [
    Case("in order", [Sent(0, b"ab"), Sent(2, b"cd")], [b"abcd"]),
    Case("swapped", [Sent(2, b"cd"), Sent(0, b"ab")], [b"abcd"], 0, 1),
    Case("reversed", [Sent(4, b"ef"), Sent(2, b"cd"), Sent(0, b"ab")], [b"abcdef"], 0, 2),
    Case("repeated", [Sent(0, b"abcd"), Sent(0, b"abcd"), Sent(4, b"ef")], [b"abcdef"], 1),
    Case("repeated beyond a hole", [Sent(2, b"cd"), Sent(2, b"cd"), Sent(0, b"ab")], [b"abcd"], 1, 1),
    Case("overlap on the left", [Sent(0, b"abcd"), Sent(2, b"cdef")], [b"abcdef"]),
    Case("overlap on the right", [Sent(2, b"cdef"), Sent(0, b"abcd")], [b"abcdef"], 0, 1),
    Case("overlap inside", [Sent(0, b"abcdef"), Sent(2, b"cd")], [b"abcdef"], 1),
    Case("overlap covering what waits", [Sent(2, b"cd"), Sent(0, b"abcdef")], [b"abcdef"], 0, 1),
    Case("other boundaries", [Sent(0, b"abc"), Sent(3, b"def"), Sent(0, b"abcde"), Sent(5, b"fgh")], [b"abcdefgh"], 1),
    Case("good then evil", [Sent(0, b"GOOD"), Sent(0, b"EVIL")], [b"GOOD"], 1, 0, (CONFLICT,)),
    Case("good waits, then evil", [Sent(2, b"GOOD"), Sent(2, b"EVIL"), Sent(0, b"ab")], [b"abGOOD"], 1, 1, (CONFLICT,)),
    Case("evil overlaps on the left", [Sent(0, b"GOOD"), Sent(2, b"xxyy")], [b"GOODyy"], 0, 0, (CONFLICT,)),
    Case("evil covers what waits", [Sent(2, b"OO"), Sent(0, b"Gxxxxx")], [b"GxOOxx"], 0, 1, (CONFLICT,)),
    Case("hole at the end", [Sent(0, b"VERY"), Sent(8, b"DATA")], [b"VERY", 4, b"DATA"], 0, 1, (GAP,)),
    Case("hole at the start", [Sent(4, b"ab")], [4, b"ab"], 0, 1, (GAP,)),
    Case("two holes", [Sent(6, b"c"), Sent(3, b"b"), Sent(0, b"a")], [b"a", 2, b"b", 2, b"c"], 0, 2, (GAP, GAP)),
    Case("hole filled late", [Sent(0, b"a"), Sent(2, b"c"), Sent(3, b"d"), Sent(1, b"b")], [b"abcd"], 0, 2),
    Case("hole filled in part", [Sent(0, b"a"), Sent(4, b"e"), Sent(2, b"c")], [b"a", 1, b"c", 1, b"e"], 0, 2, (GAP, GAP)),
    Case("keep-alive without a byte", [Sent(0, b"abc"), Sent(2, b""), Sent(3, b"d")], [b"abcd"]),
    Case("keep-alive with a garbage byte", [Sent(0, b"abc"), Sent(2, b"\0"), Sent(3, b"d")], [b"abcd"]),
    Case("keep-alive beyond a hole", [Sent(0, b"a"), Sent(2, b"cd"), Sent(3, b"\0"), Sent(1, b"b")], [b"abcd"], 0, 1),
    Case("probe of a closed window", [Sent(0, b"abc"), Sent(3, b"d"), Sent(3, b"def")], [b"abcdef"]),
    Case("snapped", [Sent(0, b"ab", 3), Sent(5, b"fg", 1), Sent(8, b"i")], [b"ab", 3, b"fg", 1, b"i"], 0, 0, (GAP,)),
    Case("snapped to the header", [Sent(0, b"", 5), Sent(5, b"f")], [5, b"f"], 0, 0, (GAP,)),
    Case("snapped and repeated", [Sent(0, b"ab", 3), Sent(0, b"ab", 3), Sent(5, b"f")], [b"ab", 3, b"f"], 1, 0, (GAP,)),
    Case("snapped, whole too late", [Sent(0, b"ab", 2), Sent(0, b"abcd"), Sent(4, b"e")], [b"ab", 2, b"e"], 1, 0, (GAP,)),
    Case("whole waits, then snapped", [Sent(1, b"bcd"), Sent(0, b"a", 3), Sent(4, b"e")], [b"abcde"], 0, 1),
    Case("part waits, then snapped", [Sent(2, b"c"), Sent(0, b"a", 4)], [b"a", 1, b"c", 2], 0, 1, (GAP,)),
    Case("snapped beyond a hole", [Sent(2, b"c", 2), Sent(0, b"ab"), Sent(5, b"f")], [b"abc", 2, b"f"], 0, 1, (GAP,)),
    Case("snapped beyond a hole, then whole", [Sent(2, b"c", 2), Sent(2, b"cde"), Sent(0, b"ab")], [b"abcde"], 0, 2),
    Case("snapped beyond a hole, twice", [Sent(2, b"", 2), Sent(2, b"", 2), Sent(0, b"ab")], [b"ab", 2], 1, 1, (GAP,)),
    Case("jump ahead", [Sent(0, b"a"), Sent(2 + SEQUENCE_JUMP_MAX_BYTES, b"z"), Sent(1, b"b")], [b"ab"], 0, 0, ("sequence-jump",)),
    Case("jump back", [Sent(0, b"a"), Sent(-SEQUENCE_JUMP_MAX_BYTES, b"z"), Sent(1, b"b")], [b"ab"], 0, 0, ("sequence-jump",)),
    Case("before the start", [Sent(0, b"a"), Sent(-9, b"old"), Sent(1, b"b")], [b"ab"], 1, 0, ("sequence-jump",)),
    Case("overlapping the start", [Sent(0, b"a"), Sent(-2, b"xyab")], [b"ab"], 0, 0, ("sequence-jump",)),
]


@pytest.mark.parametrize("first", [1_000, 0xFFFF_FFFF, 0xFFFF_FFFE, 0], ids=hex)
@pytest.mark.parametrize("case", CASES, ids=[case.name.replace(" ", "-") for case in CASES])
def test_situation(case: Case, first: int) -> None:
    tape = Tape((first, 5_000))
    tape.open()
    for offset, payload, missing in case.sent:
        tape.send(CLIENT, offset, payload, missing=missing)
    outcome = tape.only()
    stream = outcome.connection.streams[CLIENT]
    assert outcome.shape(CLIENT) == case.shape
    assert (stream.retransmitted, stream.out_of_order) == (case.retransmitted, case.out_of_order)
    assert tuple(outcome.codes()) == case.codes


def opened(first: int = 1_000) -> Tape:
    tape = Tape((first, 5_000))
    tape.open()
    return tape


def test_a_late_segment_names_all_that_it_releases() -> None:
    tape = opened()
    tape.send(CLIENT, 0, b"a")
    tape.send(CLIENT, 2, b"c")
    tape.send(CLIENT, 3, b"d")
    late = tape.send(CLIENT, 1, b"b")
    tape.send(CLIENT, 4, b"e")
    items = tape.only().items[CLIENT]
    assert [(item[3], item[4], item[6][1]) for item in items] == [
        (b"a", 4, 4),
        (b"b", late, late),
        (b"c", late, late),
        (b"d", late, late),
        (b"e", 8, 8),
    ]
    assert {item[5] for item in items[1:4]} == {tape.packets[late - 1][2][1]}


def test_what_a_packet_releases_has_its_time_also_where_times_go_back() -> None:
    tape = opened()
    tape.send(CLIENT, 0, b"a")
    tape.send(CLIENT, 2, b"c", after=SECOND)
    tape.send(CLIENT, 1, b"b", after=1 - SECOND)  # the capture has these two in the wrong order
    assert [item[5] for item in tape.only().items[CLIENT]][1:] == [tape.packets[-1][2][1]] * 2


def test_behind_a_gap_pieces_go_by_the_packets_that_brought_them() -> None:
    tape = opened()
    tape.send(CLIENT, 0, b"a")
    tape.send(CLIENT, 4, b"e")
    tape.send(CLIENT, 3, b"d")
    last = tape.send(SERVER, 0, b"x")
    outcome = tape.only()
    assert outcome.pieces(CLIENT) == [(b"a", 4), (b"d", 6), (b"e", 5)]
    assert [item[3] if item[0] == "gap" else item[6] for item in outcome.items[CLIENT]] == [(0, 4), (0, last), (0, last), (0, last)]


def test_behind_a_snapped_segment_a_late_one_names_only_itself() -> None:
    tape = opened()
    tape.send(CLIENT, 0, b"a", missing=1)
    tape.send(CLIENT, 3, b"d")
    tape.send(CLIENT, 2, b"c")
    outcome = tape.only()
    assert outcome.pieces(CLIENT) == [(b"a", 4), (b"c", 6), (b"d", 5)]
    assert [item[6][1] for item in outcome.items[CLIENT] if item[0] == "bytes"] == [4, 6, 6]


def test_the_store_gives_up_the_oldest_hole_when_it_is_full() -> None:
    tape = opened()
    size = 1 << 16
    fits = OUT_OF_ORDER_MAX_BYTES // size
    for index in range(fits + 1):
        tape.send(CLIENT, 10 + index * size, bytes(size))
    full = tape.number
    tape.send(CLIENT, 10 + (fits + 1) * size, b"next")
    outcome = tape.only()
    assert outcome.items[CLIENT][0] == ("gap", 0, 10, (0, full), "hole")
    assert outcome.connection.streams[CLIENT].out_of_order == fits + 1
    assert outcome.evidence(GAP) == {"direction": 0, "offset": 0, "size": 10, "reason": "hole"}


def test_the_store_gives_up_one_hole_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.tcp.reorder_buffer.OUT_OF_ORDER_MAX_SEGMENTS", 3)
    tape = opened()
    for offset in range(2, 14, 2):
        tape.send(CLIENT, offset, b"x")
    outcome = tape.only()
    moments = [item[3][1] for item in outcome.items[CLIENT] if item[0] == "gap"]
    assert moments == [7, 8, 9, 9, 9, 9]
    assert outcome.pieces(CLIENT) == [(b"x", packet) for packet in range(4, 10)]


def test_late_bytes_of_a_declared_gap_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.tcp.reorder_buffer.OUT_OF_ORDER_MAX_SEGMENTS", 1)
    tape = opened()
    tape.send(CLIENT, 2, b"c")
    tape.send(CLIENT, 4, b"e")
    tape.send(CLIENT, 0, b"ab")
    outcome = tape.only()
    assert outcome.shape(CLIENT) == [2, b"c", 1, b"e"]
    assert outcome.connection.streams[CLIENT].retransmitted == 1
    assert CONFLICT not in outcome.codes()


def test_a_conflict_names_both_packets() -> None:
    tape = opened()
    first = tape.send(CLIENT, 0, b"GOOD bytes")
    second = tape.send(CLIENT, 2, b"xD by!")
    assert tape.only().evidence(CONFLICT) == {
        "direction": 0,
        "offset": 2,
        "size": 2,
        "first_file": 0,
        "first_packet": first,
        "first_sha256": sha256(b"OD byt").hexdigest()[:16],
        "packet": second,
        "sha256": sha256(b"xD by!").hexdigest()[:16],
    }


@pytest.mark.parametrize(("distance", "reported"), [(65_000, True), (66_000, False)])
def test_delivered_bytes_are_compared_within_the_window(distance: int, reported: bool) -> None:
    tape = opened()
    tape.send(CLIENT, 0, b"GOOD")
    for offset in range(4, distance, 1_000):
        tape.send(CLIENT, offset, bytes(1_000))
    tape.send(CLIENT, 0, b"EVIL")
    assert (CONFLICT in tape.only().codes()) is reported


@pytest.mark.parametrize(("between", "reported"), [(5, True), (20, False)])
def test_delivered_bytes_are_compared_for_some_packets(monkeypatch: pytest.MonkeyPatch, between: int, reported: bool) -> None:
    for module in ("connection_table", "delivered", "stream"):
        monkeypatch.setattr(f"pulsarscope.tcp.{module}.OVERLAP_WINDOW_PACKETS", 10)
    tape = opened()
    tape.send(CLIENT, 0, b"GOOD")
    for _ in range(between):
        tape.send(SERVER, 0)
    tape.send(CLIENT, 0, b"EVIL")
    assert (CONFLICT in tape.only().codes()) is reported


@pytest.mark.parametrize(("between", "reported"), [(9, True), (10, False)])
def test_delivered_bytes_are_compared_for_some_packets_of_the_same_stream(
    monkeypatch: pytest.MonkeyPatch, between: int, reported: bool
) -> None:
    for module in ("connection_table", "delivered", "stream"):
        monkeypatch.setattr(f"pulsarscope.tcp.{module}.OVERLAP_WINDOW_PACKETS", 10)
    tape = opened()
    tape.send(CLIENT, 0, b"GOOD")
    for offset in range(between):
        tape.send(CLIENT, 4 + offset, b"x")
    tape.send(CLIENT, 0, b"EVIL")
    assert (CONFLICT in tape.only().codes()) is reported


def test_delivered_bytes_are_not_compared_across_files() -> None:
    tape = opened()
    tape.send(CLIENT, 0, b"GOOD")
    tape.next_file()
    tape.send(CLIENT, 0, b"EVIL")
    assert CONFLICT not in tape.only().codes()


def test_many_gaps_are_counted_in_one_finding() -> None:
    tape = opened()
    for offset in range(2, 2 * STREAM_FINDINGS_MAX + 12, 2):
        tape.send(CLIENT, offset, b"x")
    outcome = tape.only()
    gaps = [finding.evidence for finding in outcome.findings if finding.code == GAP]
    assert len(gaps) == STREAM_FINDINGS_MAX + 1
    assert gaps[0]["size"] == 2
    assert gaps[-1] == {"direction": 0, "count": 5, "bytes": 5}


def test_snapped_segments_are_one_finding() -> None:
    tape = opened()
    for offset in range(0, 400, 4):
        tape.send(CLIENT, offset, b"x", missing=3)
    outcome = tape.only()
    assert outcome.evidence(GAP) == {"direction": 0, "count": 100, "bytes": 300, "reason": "snaplen"}
    assert [(found.packet, found.evidence["offset"]) for found in outcome.counted] == [(4 + at, 4 * at + 1) for at in range(25)]
    assert all(found.time > 0 and found.sender for found in outcome.counted)
    assert outcome.connection.streams[CLIENT].retransmitted == 0


def fin_then_data(tape: Tape) -> None:
    tape.send(CLIENT, 0, b"ab", FIN | ACK)
    tape.send(CLIENT, 2, b"cd")
    tape.send(CLIENT, 1, b"bcd")


def fin_waits(tape: Tape) -> None:
    tape.send(CLIENT, 1, b"b", FIN | ACK)
    tape.send(CLIENT, 2, b"cd")
    tape.send(CLIENT, 0, b"a")


def data_waits_beyond_fin(tape: Tape) -> None:
    tape.send(CLIENT, 1, b"bcd")
    tape.send(CLIENT, 2, b"", FIN | ACK)
    tape.send(CLIENT, 0, b"a")


@pytest.mark.parametrize("send", [fin_then_data, fin_waits, data_waits_beyond_fin])
def test_the_stream_ends_at_its_fin(send: Callable[[Tape], None]) -> None:
    tape = opened()
    send(tape)
    outcome = tape.only()
    stream = outcome.connection.streams[CLIENT]
    assert outcome.shape(CLIENT) == [b"ab"]
    assert (stream.fin, stream.ended) == (2, True)


def test_an_old_fin_ends_nothing() -> None:
    tape = opened()
    tape.send(CLIENT, 0, b"abc")
    tape.send(CLIENT, 1, b"", FIN | ACK)
    tape.send(CLIENT, 3, b"d")
    outcome = tape.only()
    assert outcome.shape(CLIENT) == [b"abcd"]
    assert outcome.connection.streams[CLIENT].fin < 0


def test_bytes_missing_before_a_fin_are_a_gap() -> None:
    tape = opened()
    tape.send(CLIENT, 0, b"ab")
    tape.send(CLIENT, 5, b"", FIN | ACK)
    outcome = tape.only()
    assert outcome.shape(CLIENT) == [b"ab", 3]
    assert outcome.evidence(GAP)["size"] == 3


def test_a_gap_of_one_byte_is_told_in_the_singular() -> None:
    tape = opened()
    tape.send(CLIENT, 0, b"ab")
    tape.send(CLIENT, 3, b"", FIN | ACK)
    (text,) = [finding.text for finding in tape.only().findings if finding.code == GAP]
    assert text.startswith("1 byte at offset 2 of the stream from ")
    assert text.endswith(" is not in the capture.")


@pytest.mark.parametrize(
    ("ahead", "gap"),
    [(-1, 0), (0, 0), (1, 0), (2, 2), (1448, 1448), (RESET_WINDOW_BYTES, RESET_WINDOW_BYTES), (RESET_WINDOW_BYTES + 1, 0)],
)
@pytest.mark.parametrize("flags", [ACK, RST | ACK, 0])
@pytest.mark.parametrize("first", [0, 5_000, 0xFFFF_FFF0])
def test_bytes_that_only_an_acknowledgment_proves_are_a_gap_at_the_end(ahead: int, gap: int, flags: int, first: int) -> None:
    """One byte may be a FIN; a RST need not acknowledge, and an acknowledgment too far ahead is never believed."""
    tape = Tape((1_000, first))
    tape.open()
    tape.send(CLIENT, 0, b"ask")
    tape.send(SERVER, 0, b"answer")
    tape.send(CLIENT, 3, ack=first + 6)
    tape.send(CLIENT, 3, flags=flags, ack=first + 6 + ahead)
    (outcome,) = tape.run()
    assert outcome.shape(SERVER) == [b"answer", *([gap] if gap and flags == ACK else [])]
    (apart,) = tape.run_apart()
    assert apart.facts() == outcome.facts()


@pytest.mark.parametrize("first", [1_000, 2], ids=["plain", "wrapping"])
def test_bytes_before_the_first_one_of_a_capture_that_begins_late_are_a_note(first: int) -> None:
    tape = Tape((first, 5_000))
    tape.send(CLIENT, 6)
    tape.send(SERVER, 0)
    for offset, payload in ((6, b"gh"), (3, b"def"), (0, b"abc"), (3, b"def"), (8, b"i")):
        tape.send(CLIENT, offset, payload)
    outcome = tape.only()
    assert outcome.codes() == ["midstream-start", "midstream-start"]
    assert (outcome.shape(CLIENT), outcome.connection.streams[CLIENT].dropped) == ([b"ghi"], 6)
    assert {"direction": 0, "bytes": 6} in [finding.evidence for finding in outcome.findings]


def test_a_keep_alive_or_a_bare_acknowledgment_before_the_first_byte_says_nothing() -> None:
    tape = Tape((1_000, 5_000))
    tape.send(SERVER, 0)
    tape.send(CLIENT, -1)
    tape.send(CLIENT, 0, b"ab")
    tape.send(CLIENT, -1)
    tape.send(CLIENT, 1, b"\0")
    tape.send(CLIENT, 2, b"c")
    assert tape.only().codes() == ["midstream-start"]


@pytest.mark.parametrize("positions", [[], [3], [2, 3]])
def test_findings_before_the_first_data_of_a_connection_come_first_in_any_blocks(positions: list[int]) -> None:
    tape = Tape((1_000, 5_000))
    tape.send(CLIENT, 0)
    tape.send(CLIENT, 0, flags=SYN | ACK)
    tape.send(CLIENT, -(1 << 31), flags=FIN | ACK)
    tape.send(CLIENT, 0, missing=5)
    (outcome,) = tape.run(positions)
    assert outcome.codes()[:2] == ["sequence-jump", "midstream-start"]


def test_data_on_a_syn_begins_the_stream() -> None:
    tape = Tape()
    tape.send(CLIENT, -1, b"early", SYN)
    tape.send(SERVER, -1, flags=SYN | ACK, ack=tape.bases[CLIENT] + 5)
    tape.send(CLIENT, 5, b" data")
    outcome = tape.only()
    assert outcome.shape(CLIENT) == [b"early data"]
    assert outcome.connection.client == CLIENT


def test_a_closed_window_is_counted_and_timed() -> None:
    tape = opened()
    shut = tape.send(SERVER, 0, window=0)
    tape.send(SERVER, 0, window=0)
    tape.send(CLIENT, 0, b"abc")
    tape.send(SERVER, 0, b"open", after=1_000)
    tape.send(SERVER, 4, b"shut", window=0, after=1_000)
    tape.send(CLIENT, 3, b"d", after=500)
    outcome = tape.only()
    (finding,) = [finding for finding in outcome.findings if finding.code == "zero-window"]
    assert finding.packet == shut
    assert finding.evidence == {"direction": 1, "host": "10.0.0.2:6650", "count": 2, "closed_ns": 20_000_000 + 1_000 + 500}
    assert outcome.shape(SERVER) == [b"openshut"]


def test_time_that_runs_backwards_makes_no_negative_closed_time() -> None:
    tape = opened()
    tape.send(SERVER, 0, window=0)
    tape.send(SERVER, 0, after=-5_000_000_000)
    outcome = tape.only()
    assert outcome.evidence("zero-window")["closed_ns"] == 0
    assert outcome.connection.end >= outcome.connection.start
