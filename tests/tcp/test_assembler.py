from __future__ import annotations

import io
import time
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.capture import Block, BlockReader, Segment
from pulsarscope.model.limits import (
    CLOSED_CONNECTION_NANOSECONDS,
    HOLE_NANOSECONDS_MAX,
    HOLE_PACKETS_MAX,
    IDLE_CONNECTION_NANOSECONDS,
    LATE_HOLE_PACKETS_MAX,
)
from pulsarscope.model.live_limits import LIVE_HOLE_NANOSECONDS_MAX, LIVE_UNHEARD_LEAST_NANOSECONDS, LIVE_UNHEARD_NANOSECONDS
from pulsarscope.tcp import Assembler, connection_table
from tests.scenarios.both_readers import reader
from tests.scenarios.capturefile import Packet as CapturedPacket
from tests.scenarios.capturefile import pcap
from tests.scenarios.conversation import Conversation
from tests.tcp.oracle import Byte, reassemble
from tests.tcp.tape import ACK, CLIENT, FIN, RST, SECOND, SERVER, SYN, Outcome, Tape, flow_key, outcomes

Packet = tuple[int, int, bytes, int, int, int, int, int, int, bool]
firsts = st.one_of(st.integers(0, 0xFFFF_FFFF), st.integers(0xFFFF_FF80, 0xFFFF_FFFF))
cuts = st.lists(st.integers(1, 60), max_size=12)


def flat(outcome: Outcome, side: int) -> list[Byte]:
    """Return a stream byte by byte, in the form of the oracle."""
    stream: list[Byte] = []
    for item in outcome.items[side]:
        if item[0] == "gap":
            stream += [(-1, 0, item[3][1])] * item[2]
        else:
            stream += [(value, item[4], item[6][1]) for value in item[3]]
    return stream


@st.composite
def complete(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int]]]:
    """Draw a stream and the (start, size) of segments that cover it: cut anywhere, swapped, repeated, overlapping."""
    data = bytes(draw(st.lists(st.integers(0, 255), min_size=1, max_size=60)))
    edges = sorted({0, len(data), *draw(st.lists(st.integers(0, len(data)), max_size=12))})
    segments = [(start, end - start) for start, end in pairwise(edges)]
    for index in draw(st.lists(st.integers(0, len(segments) - 1), max_size=12)):
        start, size = segments[index]
        start = max(0, start - draw(st.integers(0, 3)))
        segments.insert(draw(st.integers(0, len(segments))), (start, min(len(data) - start, size + draw(st.integers(0, 5)))))
    for index in draw(st.lists(st.integers(0, len(segments) - 1), max_size=12)):
        other = min(len(segments) - 1, index + draw(st.integers(0, 4)))
        segments[index], segments[other] = segments[other], segments[index]
    return data, segments


@pytest.mark.slow
@given(complete(), firsts, cuts)
def test_any_segmentation_order_and_repetition_gives_the_same_bytes_and_names(
    stream: tuple[bytes, list[tuple[int, int]]], first: int, positions: list[int]
) -> None:
    data, segments = stream
    tape = Tape((first, 7))
    tape.open()
    sent = []
    for start, size in segments:
        payload = data[start : start + size]
        sent.append((tape.send(CLIENT, start, payload), start, payload, 0))
        tape.send(SERVER, 0)
    (outcome,) = tape.run(positions)
    assert b"".join(payload for payload, _ in outcome.pieces(CLIENT)) == data
    assert flat(outcome, CLIENT) == reassemble(sent, tape.number)
    assert outcome.codes() == []


@st.composite
def lossy(draw: st.DrawFn) -> list[tuple[int, bytes, int]]:
    """Draw (start, payload, missing) of segments with holes, conflicts and cut payloads."""
    return draw(
        st.lists(
            st.tuples(st.integers(-5, 50), st.binary(max_size=12), st.sampled_from([0, 0, 0, 1, 4])),
            max_size=25,
        )
    )


@pytest.mark.slow
@given(lossy(), firsts, cuts)
def test_holes_contradictions_and_snapped_segments_agree_with_the_slow_way(
    segments: list[tuple[int, bytes, int]], first: int, positions: list[int]
) -> None:
    tape = Tape((first, 7))
    tape.open()
    sent = [(tape.send(CLIENT, start, payload, missing=missing), start, payload, missing) for start, payload, missing in segments]
    (outcome,) = tape.run(positions)
    assert flat(outcome, CLIENT) == reassemble(sent, tape.number)


flags = st.sampled_from([ACK] * 12 + [SYN, SYN | ACK, FIN | ACK, FIN, RST, RST | ACK, SYN | FIN, SYN | RST, 0, 0xFF])
HOUR = IDLE_CONNECTION_NANOSECONDS
delays = st.sampled_from([0, 1_000, 10**9, -(10**9), HOUR // 2, HOUR + 1, CLOSED_CONNECTION_NANOSECONDS + 1])
FAR = (-(1 << 31), 1 << 30, (1 << 30) + 1, (1 << 31) - 1, 1 << 22, -(1 << 23))
FAR_ACKS = [5_000 + far + size for far in FAR for size in (1, 4, 8)]
packets = st.lists(
    st.tuples(
        st.sampled_from([CLIENT, SERVER]),
        st.one_of(st.integers(-3, 40), st.sampled_from(FAR)),
        st.one_of(st.just(b""), st.binary(max_size=8)),
        flags,
        st.sampled_from([0, 1_000, 1_000, 1_000]),
        st.sampled_from([0, 0, 0, 5]),
        st.one_of(st.sampled_from([0, 5_000]), st.integers(1_000, 1_048), st.integers(5_000, 5_048), st.sampled_from(FAR_ACKS)),
        st.integers(0, 1),
        st.one_of(st.just(1_000), delays),
        st.sampled_from([False] * 9 + [True]),
    ),
    max_size=40,
)


@pytest.mark.slow
@given(packets, cuts, firsts)
def test_any_packets_in_any_blocks_give_the_same(packets: list[Packet], positions: list[int], first: int) -> None:
    tape = Tape((first, 5_000))
    for side, offset, payload, flag, window, missing, ack, connection, after, next_file in packets:
        if next_file:
            tape.next_file()
        tape.send(side, offset, payload, flag, window=window, missing=missing, ack=ack, connection=connection, after=after)
    uncut = [outcome.facts() for outcome in tape.run()]
    assert [outcome.facts() for outcome in tape.run(positions)] == uncut
    assert [outcome.facts() for outcome in tape.run_apart()] == uncut


@pytest.mark.slow
@given(packets, cuts)
def test_bounds_that_are_reached_give_the_same_in_any_blocks(packets: list[Packet], positions: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pulsarscope.tcp.reorder_buffer.OUT_OF_ORDER_MAX_BYTES", 6)
        patch.setattr("pulsarscope.tcp.delivered.OVERLAP_WINDOW_BYTES", 4)
        patch.setattr("pulsarscope.tcp.stream.STREAM_FINDINGS_MAX", 2)
        patch.setattr("pulsarscope.tcp.assembler.STRAY_PACKETS_MAX", 3)
        patch.setattr("pulsarscope.tcp.reorder_buffer.HOLE_PACKETS_MAX", 3)
        patch.setattr("pulsarscope.tcp.reorder_buffer.LATE_HOLE_PACKETS_MAX", 6)
        for module in ("connection_table", "delivered", "stream"):
            patch.setattr(f"pulsarscope.tcp.{module}.OVERLAP_WINDOW_PACKETS", 5)
        test_any_packets_in_any_blocks_give_the_same.hypothesis.inner_test(packets, positions, 0xFFFF_FFF0)


def closed(tape: Tape, count: int) -> None:
    for connection in range(count):
        tape.send(CLIENT, -1, flags=SYN, connection=connection)
        tape.send(SERVER, 0, flags=RST, connection=connection)


def test_of_too_many_closed_connections_the_oldest_do_not_wait_for_late_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.tcp.connection_table.CLOSED_CONNECTIONS_MAX", 2)
    tape = Tape()
    closed(tape, 5)
    assembler = Assembler()
    (block,) = tape.blocks()
    finished = [events for events in assembler.feed(block) if events.finished]
    assert [events.connection.name for events in finished] == ["0:1", "0:3", "0:5"]
    assert [finding.code for events in finished for finding in events.findings].count("memory-cap") == 1


@pytest.mark.parametrize("next_file", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_late_packets_are_those_of_a_minute(next_file: bool, late: bool) -> None:
    tape = Tape()
    closed(tape, 1)
    if next_file:
        tape.next_file()
    tape.send(SERVER, 0, flags=RST, after=CLOSED_CONNECTION_NANOSECONDS + (not late))
    assert len(tape.run()) == len(tape.run_apart()) == (1 if late else 2)


@pytest.mark.parametrize("skew", [-20, 0, 20])
def test_what_a_second_file_captured_again_is_no_retransmission(skew: int) -> None:
    tape = Tape()
    tape.open()
    for offset in range(0, 40, 4):
        tape.send(CLIENT, offset, b"data", ack=5_000, after=SECOND)
        tape.send(SERVER, 0, ack=1_004 + offset)
    tape.send(CLIENT, 4, b"data", FIN | ACK)
    tape.send(CLIENT, 40, flags=FIN | ACK)
    tape.send(SERVER, 0, flags=FIN | ACK, ack=1_041)
    start = tape.packets[0][2][1]
    for _, key, (number, at, *rest) in tape.packets[:]:
        tape.packets.append((1, key, (number, at + skew * SECOND, *rest)))  # type: ignore[arg-type]
    assembler = Assembler()
    outcome = None
    for block in tape.blocks():
        for events in assembler.feed(block, start):
            outcome = outcome or Outcome(events.connection)
            outcome.add(events)
    assert outcome is not None
    for events in assembler.finish():
        outcome.add(events)
    assert outcome.connection.streams[CLIENT].retransmitted == 1
    assert outcome.shape(CLIENT) == [b"data" * 10]
    assert outcome.codes() == ["packet-duplicate"]


@pytest.mark.slow
@pytest.mark.parametrize("strangers", [0, 9_000])
def test_rows_do_not_depend_on_how_many_other_connections_close(strangers: int) -> None:
    tape = Tape()
    tape.open(9_000)
    tape.send(CLIENT, 0, b"ask", FIN | ACK, connection=9_000)
    tape.send(SERVER, 0, b"answer", FIN | ACK, connection=9_000)
    for connection in range(strangers):
        tape.send(CLIENT, -1, flags=SYN, connection=connection, after=1_000)
        tape.send(SERVER, 0, flags=RST, connection=connection, after=1_000)
    tape.send(SERVER, 0, b"answer", FIN | ACK, connection=9_000)
    tape.send(CLIENT, 50_000_000, b"reused", ack=1, connection=9_000)
    got = [outcome for outcome in tape.run() if outcome.connection.key == flow_key(CLIENT, 9_000)]
    assert [(outcome.connection.packets, outcome.shape(CLIENT)) for outcome in got] == [(6, [b"ask"]), (1, [b"reused"])]


def test_the_connections_idle_longest_are_ended_when_too_many_are_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.tcp.connection_table.OPEN_CONNECTIONS_MAX", 16)
    tape = Tape()
    for connection in range(17):
        tape.send(CLIENT, -1, flags=SYN, connection=connection)
        if connection == 1:
            tape.send(CLIENT, 5, b"waits", connection=connection)
    tape.send(CLIENT, 0, b"alive", connection=0)
    assembler = Assembler()
    events = [events for block in tape.blocks() for events in assembler.feed(block)]
    assert [each.connection.name for each in events if each.finished] == ["0:2", "0:4"]
    assert sorted(finding.code for each in events for finding in each.findings) == ["memory-cap", "one-sided-capture", "stream-gap"]
    assert (assembler.buffered_bytes, assembler._buffering) == (0, {})


def test_closed_connections_do_not_count_as_open(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.tcp.connection_table.OPEN_CONNECTIONS_MAX", 16)
    tape = Tape()
    tape.open(99)
    tape.send(CLIENT, 0, b"alive", connection=99)
    for connection in range(40):
        tape.send(CLIENT, -1, flags=SYN, connection=connection)
        tape.send(SERVER, 0, flags=RST, connection=connection)
    assembler = Assembler()
    events = [events for block in tape.blocks() for events in assembler.feed(block)]
    assert not [finding.code for each in events for finding in each.findings if finding.code == "memory-cap"]
    assert flow_key(CLIENT, 99) not in [each.connection.key for each in events if each.ended]


def test_as_many_connections_are_ended_as_open_in_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.tcp.connection_table.OPEN_CONNECTIONS_MAX", 16)
    tape = Tape()
    for connection in range(100):
        tape.send(CLIENT, -1, flags=SYN, connection=connection)
    assembler = Assembler()
    events = [events for block in tape.blocks() for events in assembler.feed(block)]
    assert sum(each.ended for each in events) == 100 - 15


def test_connections_without_data_beyond_a_bound_share_one_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.tcp.connection_table.SILENT_CONNECTIONS_MAX", 16)
    tape = Tape()
    for connection in range(40):
        tape.send(CLIENT, -1, flags=SYN, connection=connection)
        if connection % 2:
            tape.send(SERVER, -1, flags=SYN | ACK, ack=1_000, connection=connection)
        if connection == 3:
            tape.send(CLIENT, 0, b"speaks", connection=connection)
    tape.send(CLIENT, -1, flags=SYN, connection=0)
    assembler = Assembler()
    events = [events for block in tape.blocks(range(len(tape.packets))) for events in assembler.feed(block)] + assembler.finish()
    finished = [each for each in events if each.finished]
    (said,) = [finding for each in finished for finding in each.findings]
    assert (said.code, said.connection) == ("memory-cap", "0:1")
    assert [each.connection.name for each in finished].count("0:1") == 1
    assert said.evidence == {"connections": sum(each.unlisted for each in finished)}
    assert len(finished) == 41
    assert {each.connection.name for each in finished if not each.unlisted} >= {"0:1", "0:5", f"0:{tape.number}"}


def before_the_end(tape: Tape) -> list[bytes | int]:
    """Return the client's stream as delivered before the end of the capture."""
    assembler = Assembler()
    outcome = None
    for block in tape.blocks():
        for events in assembler.feed(block):
            outcome = outcome or Outcome(events.connection)
            outcome.add(events)
    assert outcome is not None
    return outcome.shape(CLIENT)


def hole(tape: Tape, *, acknowledged: bool, packets: int, nanoseconds: int) -> list[bytes | int]:
    """Send "d" after a hole, and `packets` acknowledgments within `nanoseconds`; return the stream before the end of the capture."""
    tape.open()
    tape.send(CLIENT, 0, b"abc")
    tape.send(CLIENT, 6, b"d")
    for _ in range(packets):
        tape.send(SERVER, 0, ack=1_000 + (7 if acknowledged else 3), after=nanoseconds // (packets - 1))
    return before_the_end(tape)


def test_a_hole_is_given_up_some_time_after_the_peer_acknowledged_it() -> None:
    given_up = [b"abc", 3, b"d"]
    assert hole(Tape(), acknowledged=True, packets=HOLE_PACKETS_MAX + 2, nanoseconds=0) == given_up
    assert hole(Tape(), acknowledged=True, packets=HOLE_PACKETS_MAX + 1, nanoseconds=0) == [b"abc"]
    assert hole(Tape(), acknowledged=True, packets=2, nanoseconds=HOLE_NANOSECONDS_MAX + 1) == given_up
    assert hole(Tape(), acknowledged=True, packets=2, nanoseconds=HOLE_NANOSECONDS_MAX) == [b"abc"]
    assert hole(Tape(), acknowledged=False, packets=2 * HOLE_PACKETS_MAX, nanoseconds=2 * HOLE_NANOSECONDS_MAX) == [b"abc"]


def late_hole(late: int, *, packets: int, nanoseconds: int) -> list[bytes | int]:
    """Fill a hole with a packet `late` ns late, and leave one as `hole` does; return the stream before the end of the capture."""
    tape = Tape()
    tape.open()
    tape.send(CLIENT, 1, b"b", after=late)
    tape.send(CLIENT, 0, b"a", after=-late)
    tape.send(CLIENT, 3, b"d", after=late)
    for _ in range(packets):
        tape.send(SERVER, 0, ack=1_004, after=nanoseconds // (packets - 1))
    return before_the_end(tape)


@pytest.mark.parametrize("late", [1_000_000, 300_000_000, 20 * SECOND])
def test_a_hole_waits_twice_as_long_as_packets_of_its_connection_were_late(late: int) -> None:
    given_up, waits = [b"ab", 1, b"d"], [b"ab"]
    for nanoseconds in (0, late, 2 * late):
        assert late_hole(late, packets=2 * HOLE_PACKETS_MAX, nanoseconds=nanoseconds) == waits
    longer = max(2 * late, HOLE_NANOSECONDS_MAX) + 2 * HOLE_PACKETS_MAX
    assert late_hole(late, packets=2, nanoseconds=longer) == given_up
    assert late_hole(late, packets=LATE_HOLE_PACKETS_MAX + 2, nanoseconds=0) == given_up


def test_a_hole_older_than_that_is_given_up_after_as_many_packets_as_any() -> None:
    late = 1_000_000
    assert late_hole(late, packets=HOLE_PACKETS_MAX + 2, nanoseconds=3 * late) == [b"ab", 1, b"d"]
    assert late_hole(late, packets=HOLE_PACKETS_MAX // 2, nanoseconds=3 * late) == [b"ab"]


def test_a_clock_that_was_set_back_lets_no_hole_wait_for_hours() -> None:
    assert late_hole(3_600 * SECOND, packets=2, nanoseconds=2 * CLOSED_CONNECTION_NANOSECONDS + 2) == [b"ab", 1, b"d"]


def test_giving_up_a_hole_changes_no_name() -> None:
    outcomes = []
    for acknowledged in (False, True):
        tape = Tape()
        hole(tape, acknowledged=acknowledged, packets=2 * HOLE_PACKETS_MAX, nanoseconds=0)
        tape.send(CLIENT, 7, b"e")
        outcomes.append(tape.only())
    assert outcomes[0].pieces(CLIENT) == outcomes[1].pieces(CLIENT) == [(b"abc", 4), (b"d", 5), (b"e", 6 + 2 * HOLE_PACKETS_MAX)]
    [awaited], [given_up] = (outcome.findings for outcome in outcomes)
    assert (awaited.code, given_up.code) == ("bytes-awaited", "stream-gap")
    assert awaited.order > given_up.order  # each has the order of the packet that shows the hole
    assert (awaited.packet, awaited.evidence) == (given_up.packet, given_up.evidence)


def test_what_fills_a_hole_too_late_is_counted() -> None:
    tape = Tape()
    hole(tape, acknowledged=True, packets=2 * HOLE_PACKETS_MAX, nanoseconds=0)
    for _ in range(2):
        tape.send(CLIENT, 3, b"xyz")
    stream = tape.only().connection.streams[CLIENT]
    assert (stream.missing, stream.dropped, stream.retransmitted) == (3, 3, 2)


def test_the_connection_that_waits_longest_gives_up_its_holes_when_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.tcp.connection_table.MEMORY_MAX_BYTES", 3_000)
    tape = Tape()
    for connection in range(3):
        tape.open(connection)
        tape.send(CLIENT, 5, bytes(1_000), connection=connection)
        tape.send(CLIENT, 5, bytes(1_000), connection=connection)
    first, second, third = tape.run_apart()
    assert first.codes() == ["memory-cap", "stream-gap"]
    assert first.items[CLIENT][0][3] == (0, 5)
    for outcome in (second, third):
        assert outcome.codes() == ["stream-gap"]
    assert len({outcome.items[CLIENT][0][3] for outcome in (first, second, third)}) == 3


def test_packets_captured_twice_are_said_of_the_connection() -> None:
    tape = Tape()
    tape.open()
    for offset in range(0, 40, 4):
        tape.send(CLIENT, offset, b"data")
        tape.send(CLIENT, offset, b"data", after=1_000)
        tape.send(SERVER, 0)
        tape.send(SERVER, 0, after=1_000)
    outcome = tape.only()
    assert outcome.evidence("packet-duplicate") == {"copies": 10, "segments": 10}
    assert outcome.connection.streams[CLIENT].retransmitted == 0


@pytest.mark.parametrize("large_first", [True, False])
def test_what_was_cut_into_other_segments_between_two_captures_is_captured_twice(large_first: bool) -> None:
    """Model the host of a container: one large packet inside, and its segments in a tunnel."""
    tape = Tape()
    tape.open()
    small = [(offset, b"data") for offset in range(0, 40, 4)]
    for offset, data in [(0, b"data" * 10), *small] if large_first else [*small, (0, b"data" * 10)]:
        tape.send(CLIENT, offset, data, after=1_000)
    outcome = tape.only()
    copies = 10 if large_first else 1
    stream = outcome.connection.streams[CLIENT]
    assert (stream.duplicates, stream.retransmitted, stream.length) == (copies, 0 if large_first else 1, 40)
    assert ("packet-duplicate" in outcome.codes()) is large_first


def test_retransmissions_are_not_packets_captured_twice() -> None:
    tape = Tape()
    tape.open()
    for offset in range(0, 40, 4):
        tape.send(CLIENT, offset, b"data")
        tape.send(CLIENT, offset, b"data", after=100_000_000)
    assert tape.only().codes() == []


def test_findings_of_both_directions_stand_in_order_of_capture() -> None:
    tape = Tape()
    tape.open()
    tape.send(CLIENT, 0, b"GOOD")
    tape.send(SERVER, 0, b"GOOD")
    conflicting = [tape.send(side, 0, b"EVIL") for side in (SERVER, CLIENT, SERVER, CLIENT)]
    assert [finding.packet for finding in tape.only().findings] == conflicting


def test_a_connection_may_span_files() -> None:
    tape = Tape()
    tape.open()
    tape.send(CLIENT, 0, b"a")
    tape.send(CLIENT, 2, b"c")
    tape.next_file()
    tape.send(CLIENT, 1, b"b")
    tape.send(CLIENT, 4, b"e")
    outcome = tape.only()
    assert outcome.connection.name == "0:1"
    assert [(item[1], item[3], item[4], item[6]) for item in outcome.items[CLIENT] if item[0] == "bytes"] == [
        (0, b"a", 4, (0, 4)),
        (1, b"b", 1, (1, 1)),
        (1, b"c", 1, (1, 1)),
        (1, b"e", 2, (1, 2)),
    ]


def test_bytes_that_wait_across_files_keep_their_file_behind_a_gap() -> None:
    tape = Tape()
    tape.open()
    waited = tape.send(CLIENT, 2, b"c")
    tape.next_file()
    tape.send(CLIENT, 4, b"e")
    outcome = tape.only()
    assert [(item[1], item[4], item[6]) for item in outcome.items[CLIENT] if item[0] == "bytes"] == [(0, waited, (1, 1)), (1, 1, (1, 1))]


def test_a_block_without_packets_brings_nothing() -> None:
    assert outcomes([Block(0, {}, set(), [], 0, 0, 0, 0, 0)]) == []


def test_a_capture_without_an_end_lets_go_of_connections_that_are_closed_or_idle() -> None:
    tape = Tape()
    tape.open()
    tape.send(CLIENT, 0, b"idle")
    tape.send(CLIENT, -1, flags=SYN, connection=1)
    tape.send(CLIENT, 0, flags=RST, connection=1)
    assembler = Assembler()
    for block in tape.blocks():
        assembler.feed(block)
    assert assembler.expire(tape.time + CLOSED_CONNECTION_NANOSECONDS) == []
    (closed,) = assembler.expire(tape.time + 3 * CLOSED_CONNECTION_NANOSECONDS)
    assert (closed.connection.name, closed.finished) == ("0:5", True)
    (idle,) = assembler.expire(tape.time + 2 * IDLE_CONNECTION_NANOSECONDS)
    assert (idle.connection.name, idle.ended, idle.finished) == ("0:1", True, True)
    assert assembler.finish() == []


@pytest.mark.parametrize(
    ("skipped", "heard_since", "silent", "let_go"),
    [
        (True, False, LIVE_UNHEARD_NANOSECONDS + 1, True),
        (True, False, LIVE_UNHEARD_NANOSECONDS, False),
        (True, True, LIVE_UNHEARD_NANOSECONDS + 1, False),
        (False, False, LIVE_UNHEARD_NANOSECONDS + 1, False),
    ],
)
def test_a_silent_connection_whose_end_may_be_among_skipped_packets_is_let_go(
    skipped: bool, heard_since: bool, silent: int, let_go: bool
) -> None:
    assembler, tape = Assembler(), Tape()
    tape.open()
    tape.send(CLIENT, 0, b"abc")
    for block in tape.blocks():
        assembler.feed(block)
    assert assembler.expire(tape.time + 10, skipped=skipped) == []
    if heard_since:
        tape.send(CLIENT, 3, b"d")
        assembler.feed(tape.blocks([len(tape.packets) - 1])[-1])
    events = assembler.expire(tape.time + silent)
    assert [(event.connection.closed, event.finished) for event in events] == ([("open", True)] if let_go else [])


@pytest.mark.parametrize("kept", [0, 3, 10])
def test_of_many_silent_connections_behind_skipped_packets_those_heard_last_are_kept(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_table, "LIVE_UNHEARD_MAX", kept)
    assembler, tape = Assembler(), Tape()
    for connection in range(10):
        tape.open(connection)
        tape.send(CLIENT, 0, b"abc", connection=connection)
    for block in tape.blocks():
        assembler.feed(block)
    heard = tape.time
    assert assembler.expire(heard + 1, skipped=True) == []
    assert assembler.expire(heard + LIVE_UNHEARD_LEAST_NANOSECONDS - SECOND) == []
    ended = assembler.expire(heard + 2 * LIVE_UNHEARD_LEAST_NANOSECONDS)
    assert [event.connection.name for event in ended if event.finished] == [f"0:{1 + 4 * number}" for number in range(9 - kept)]


def test_what_is_open_keeps_no_packets_that_were_handed_on_when_a_file_is_done() -> None:
    assembler, tape = Assembler(), Tape()
    for connection in (0, 1):
        tape.open(connection)
        tape.send(CLIENT, 0, b"question", connection=connection)
    connections = {event.connection.name: event.connection for block in tape.blocks() for event in assembler.feed(block)}
    latest = connections["0:5"]
    assert latest.streams[CLIENT].delivered
    assembler.drop_delivered()
    assert latest.streams[CLIENT].delivered == ()


@pytest.mark.parametrize(("bound", "kept"), [(99, 0), (100, 1), (250, 2), (399, 3), (400, 4), (1_000, 4)])
def test_streams_idle_for_longest_lose_their_recent_data_beyond_a_bound(monkeypatch: pytest.MonkeyPatch, bound: int, kept: int) -> None:
    monkeypatch.setattr("pulsarscope.tcp.connection_table.OVERLAP_MEMORY_MAX_BYTES", bound)
    assembler, tape = Assembler(), Tape()
    for connection in range(4):
        tape.open(connection)
        tape.send(CLIENT, 0, bytes(100), connection=connection)
    sent = len(tape.packets)
    for connection in range(4):
        tape.send(CLIENT, 0, b"\1" * 100, connection=connection)
    events = [event for block in tape.blocks([4, 8, 12, sent]) for event in assembler.feed(block)]
    conflicts = [event.connection.name for event in events for row in event.findings if row.code == "overlap-conflict"]
    assert conflicts == [f"0:{1 + 4 * number}" for number in range(4 - kept, 4)]


def test_recent_data_of_a_connection_that_ends_leaves_room_for_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.tcp.connection_table.OVERLAP_MEMORY_MAX_BYTES", 250)
    assembler, tape = Assembler(), Tape()
    cuts = []
    for connection in range(6):
        tape.open(connection)
        tape.send(CLIENT, 0, bytes(100), connection=connection)
        cuts.append(len(tape.packets))
        if connection:
            tape.send(CLIENT, 100, flags=FIN | ACK, connection=connection)
            tape.send(SERVER, 0, flags=FIN | ACK, ack=tape.bases[CLIENT] + 101, connection=connection)
            tape.send(CLIENT, 101, ack=tape.bases[SERVER] + 1, connection=connection)
    tape.send(CLIENT, 0, b"\1" * 100)
    events = [event for block in tape.blocks(cuts) for event in assembler.feed(block)]
    assert [event.connection.name for event in events for row in event.findings if row.code == "overlap-conflict"] == ["0:1"]


def test_ipv6_directions_belong_together() -> None:
    tape = Tape()
    tape.open()
    tape.send(SERVER, 0, b"answer")
    ends = {(10, 0, 0, 1): bytes(15) + b"\1", (10, 0, 0, 2): bytes(15) + b"\2"}
    tape.packets = [
        (file, ends[tuple(key[:4])] + ends[tuple(key[4:8])] + key[8:], segment)  # type: ignore[index]
        for file, key, segment in tape.packets
    ]
    connection = tape.only().connection
    assert [connection.endpoint(index) for index in (0, 1)] == ["[::1]:40000", "[::2]:6650"]
    assert connection.packets == 4


def bulk(offsets: list[int], payload: bytes) -> list[Block]:
    """Return one long stream as blocks of 5,000 packets."""
    tape = Tape()
    tape.open()
    for offset in offsets:
        tape.send(CLIENT, offset, payload)
    return tape.blocks(range(5_000, len(tape.packets), 5_000))


def cost(blocks: list[Block]) -> float:
    """Return the shortest CPU time of three runs, in seconds."""
    seconds = []
    for _ in range(3):
        assembler = Assembler()
        start = time.process_time()
        for block in blocks:
            assembler.feed(block)
        assembler.finish()
        seconds.append(time.process_time() - start)
    return min(seconds)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["copies", "reversed", "odd then even"])
def test_disorder_stays_linear(order: str) -> None:
    def offsets(count: int) -> list[int]:
        if order == "copies":
            return [10 + 10 * (index * 7_919 % 5_000) for index in range(count)]
        if order == "reversed":
            return list(range(10 * count, 0, -10))
        return [*range(10, 10 * count, 20), *range(0, 10 * count, 20)]

    small, large = (cost(bulk(offsets(count), bytes(10))) for count in (5_000, 25_000))
    assert large < 5 * 3 * small + 0.05


@pytest.mark.slow
def test_connections_stay_small() -> None:
    count = 5_000
    tape = Tape()
    for connection in range(count):
        tape.open(connection)
    uncut = tape.blocks()
    for connection in range(count):
        tape.send(CLIENT, 0, flags=RST, connection=connection)
    closing = tape.blocks([len(tape.packets) - count])[1:]
    tracemalloc.start()
    try:
        assembler = Assembler()
        before = tracemalloc.get_traced_memory()[0]
        for block in uncut:
            assembler.feed(block)
        opened = tracemalloc.get_traced_memory()[0] - before
        for block in closing:
            assembler.feed(block)
        closed = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert opened < 1_536 * count
    assert closed < 1_296 * count


LIVE = LIVE_HOLE_NANOSECONDS_MAX


class Live:
    """An assembler fed as in a live run, and the outcome of its only connection."""

    def __init__(self) -> None:
        self.assembler = Assembler()
        self.outcome: Outcome | None = None

    def add(self, events: Any) -> None:
        for each in events:
            self.outcome = self.outcome or Outcome(each.connection)
            self.outcome.add(each)

    def feed(self, block: Block, *, skipped: bool = False) -> None:
        self.add(self.assembler.feed(block))
        self.add(self.assembler.expire(block.last_time, skipped=skipped))

    def shape(self) -> list[bytes | int]:
        assert self.outcome is not None
        return self.outcome.shape(CLIENT)


def unfilled(tape: Tape) -> Live:
    tape.open()
    tape.send(CLIENT, 0, b"abc")
    tape.send(CLIENT, 6, b"d")
    live = Live()
    for block in tape.blocks():
        live.feed(block)
    assert live.shape() == [b"abc"]
    assert live.assembler.waiting()[0] == 1
    return live


@pytest.mark.parametrize(("age", "given_up"), [(LIVE - 1, False), (LIVE, True), (30 * LIVE, True)])
def test_a_hole_is_given_up_when_bytes_wait_for_a_second_behind_it(age: int, given_up: bool) -> None:
    tape = Tape()
    live = unfilled(tape)
    live.add(live.assembler.expire(tape.time + age))
    assert live.shape() == ([b"abc", 3, b"d"] if given_up else [b"abc"])
    assert live.assembler.waiting() == ((0, 0) if given_up else (1, live.assembler.buffered_bytes))


def test_a_hole_before_younger_bytes_is_not_given_up_with_an_older_one() -> None:
    tape = Tape()
    live = unfilled(tape)
    tape.send(CLIENT, 9, b"e", after=LIVE // 2)
    live.feed(list(tape.blocks())[-1])
    live.add(live.assembler.expire(tape.time + LIVE // 2))
    assert live.shape() == [b"abc", 3, b"d"]


@pytest.mark.parametrize("jump", [-10 * LIVE, -3_600 * LIVE, 3_600 * LIVE - 1])
def test_a_clock_that_jumps_keeps_no_hole_for_long(jump: int) -> None:
    tape = Tape()
    tape.time = 10_000 * LIVE
    live = unfilled(tape)
    live.add(live.assembler.expire(tape.time + jump))
    assert live.shape() == [b"abc", 3, b"d"]
    tape.send(CLIENT, 9, b"e", after=jump)
    live.add(live.assembler.feed(list(tape.blocks())[-1]))
    live.add(live.assembler.expire(tape.time))
    assert live.shape() == [b"abc", 3, b"d"]
    live.add(live.assembler.expire(tape.time + LIVE))
    assert live.shape() == [b"abc", 3, b"d", 2, b"e"]


def test_what_was_skipped_is_no_hole_to_wait_for() -> None:
    tape = Tape()
    live = unfilled(tape)
    live.add(live.assembler.expire(tape.time, skipped=True))
    assert live.shape() == [b"abc", 3, b"d"]
    tape.send(CLIENT, 9, b"e")
    live.feed(list(tape.blocks())[-1])
    assert live.shape() == [b"abc", 3, b"d", 2, b"e"]


def test_holes_long_after_a_skip_are_waited_for_again() -> None:
    tape = Tape()
    live = unfilled(tape)
    live.add(live.assembler.expire(tape.time, skipped=True))
    tape.send(CLIENT, 9, b"e", after=LIVE + 1)
    live.feed(list(tape.blocks())[-1])
    assert live.shape() == [b"abc", 3, b"d"]


def test_a_connection_ends_with_the_hole_that_held_back_its_end() -> None:
    tape = Tape()
    live = unfilled(tape)
    tape.send(CLIENT, 7, flags=FIN)
    tape.send(SERVER, 0, flags=FIN)
    for block in list(tape.blocks())[-2:]:
        live.feed(block)
    live.add(live.assembler.expire(tape.time + LIVE))
    assert live.outcome is not None
    assert live.outcome.connection.closed == "fin"


def _with_window(packet: CapturedPacket, window: int) -> CapturedPacket:
    data = packet.data
    return packet._replace(data=data[:48] + window.to_bytes(2, "big") + data[50:])


def _with_other_bytes(packet: CapturedPacket) -> CapturedPacket:
    return packet._replace(data=packet.data[:-4] + b"else")


DISTURBANCES: dict[str, tuple[bool, Callable[[list[CapturedPacket]], list[CapturedPacket]]]] = {
    "none": (True, lambda sent: sent),
    "again": (True, lambda sent: [*sent[:200], sent[198], *sent[200:]]),
    "again, from the block before": (True, lambda sent: [*sent[20:40], sent[18], *sent[40:]]),
    "the first one again, and the last one": (True, lambda sent: [sent[0], sent[0], *sent[1:], sent[-2]]),
    "three times, far apart": (True, lambda sent: [*sent[:80], sent[78], *sent[80:200], sent[78], *sent[200:300], sent[298], *sent[300:]]),
    "with other bytes": (True, lambda sent: [*sent[:200], _with_other_bytes(sent[198]), *sent[200:]]),
    "both sides again": (True, lambda sent: [*sent[:100], sent[98], sent[97], *sent[100:]]),
    "late by one": (True, lambda sent: [*sent[:200], sent[202], sent[201], sent[200], *sent[203:]]),
    "late by many": (False, lambda sent: [*sent[:200], *sent[202:260], sent[200], *sent[260:]]),
    "lost": (False, lambda sent: [*sent[:200], *sent[202:]]),
    "a window closes and opens": (True, lambda sent: [*sent[:201], _with_window(sent[201], 0), *sent[202:]]),
    "a window closes at the end": (True, lambda sent: [*sent[:-1], _with_window(sent[-1], 0)]),
    "many again": (False, lambda sent: [packet for place in range(0, 400, 2) for packet in (*sent[place : place + 2], sent[place])]),
}
"""Changes of 400 packets, alternately from client and server, and whether few of them are processed one by one."""


@pytest.mark.parametrize("named", DISTURBANCES)
@pytest.mark.parametrize("acknowledge", [True, False])
def test_the_compiled_reader_takes_together_what_lies_between_segments_out_of_order(
    named: str, acknowledge: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    few, disturb = DISTURBANCES[named]
    conversation = Conversation(acknowledge=acknowledge).handshake()
    for number in range(10 + 200):
        conversation.client(bytes([number]) * 40)
        if not acknowledge:
            conversation.server(bytes([number, 1]) * 9)
    opened, sent = conversation.packets[:23], disturb(conversation.packets[23:])
    packets = [*opened, *(packet._replace(time_ns=sent[0].time_ns + 1000 * place) for place, packet in enumerate(sent))]
    received: list[bytes] = []
    receive = Assembler._receive

    def count(assembler: Assembler, key: bytes, segment: Segment, file: int) -> None:
        received.append(key)
        receive(assembler, key, segment, file)

    monkeypatch.setattr(Assembler, "_receive", count)
    of_packet, whole = 16 + 54 + 18, 1 << 30
    found = []
    for choice, sizes in (("off", [whole]), ("off", [of_packet]), ("require", [24 + 23 * of_packet, whole]), ("require", [20 * of_packet])):
        received.clear()
        with reader(choice):
            (outcome,) = outcomes([*BlockReader(_Parts(pcap(packets), sizes))])
        found.append(outcome.facts())
        if len(sizes) > 1:
            assert (len(received) < 40) == few
    assert found == found[:1] * len(found)


def test_connections_stand_in_the_same_order_where_packets_are_taken_together() -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    packets: list[CapturedPacket] = []
    for port, every in ((1, 2), (2, 100), (3, 1000)):  # many repeated segments, few, none
        conversation = Conversation(("10.0.0.1", port), start_ns=SECOND + port, acknowledge=False).handshake()
        for number in range(200):
            conversation.client(bytes([number]) * 40)
        for place, packet in enumerate(conversation.packets):
            again = place > 20 and place % every == 0
            packets += [packet, packet._replace(time_ns=packet.time_ns + 1000)] if again else [packet]
    packets.sort(key=lambda packet: packet.time_ns)
    found = []
    for choice in ("off", "require"):
        with reader(choice):
            assembler = Assembler()
            blocks = BlockReader(_Parts(pcap(packets), [24 + 80 * (16 + 54), 1 << 30]))
            found.append([[event.name for event in assembler.feed(block)] for block in blocks])
    assert found[0][1] == ["0:3", "0:1", "0:2"]
    assert found[0] == found[1]


class _Parts(io.BytesIO):
    """A stream that returns parts of these sizes, the last one repeatedly."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        super().__init__(data)
        self._sizes = sizes

    def read1(self, size: int | None = -1, /) -> bytes:
        del size
        return super().read1(self._sizes.pop(0) if len(self._sizes) > 1 else self._sizes[0])
