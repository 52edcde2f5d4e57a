from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from pulsarscope.model.limits import IDLE_CONNECTION_NANOSECONDS, RESET_WINDOW_BYTES
from tests.tcp.tape import ACK, CLIENT, FIN, RST, SECOND, SERVER, SYN, Tape


class Case(NamedTuple):
    """Packets on one 4-tuple, and per connection: packets, opened, closed, closed_by, client, both joined streams."""

    name: str
    send: Callable[[Tape], None]
    want: list[tuple[int, str, str, int | None, int | None, bytes, bytes]]


def ask_and_answer(tape: Tape) -> None:
    tape.open()
    tape.send(CLIENT, 0, b"ask")
    tape.send(SERVER, 0, b"answer")


def closed_by_client(tape: Tape) -> None:
    ask_and_answer(tape)
    tape.send(CLIENT, 3, flags=FIN | ACK)
    tape.send(SERVER, 6, flags=FIN | ACK)
    tape.send(CLIENT, 4)


def fin_captured_behind_its_answer(tape: Tape) -> None:
    ask_and_answer(tape)
    tape.send(SERVER, 6, flags=FIN | ACK, after=20 * 1_000_000)
    tape.send(CLIENT, 3, flags=FIN | ACK, after=-10 * 1_000_000)
    tape.send(CLIENT, 4)


def fin_behind_the_one_that_acknowledges_it(tape: Tape) -> None:
    ask_and_answer(tape)
    tape.send(SERVER, 6, flags=FIN | ACK, ack=tape.bases[CLIENT] + 4)
    tape.send(CLIENT, 3, flags=FIN | ACK, ack=tape.bases[SERVER] + 6)
    tape.send(CLIENT, 4)


def answer_with_an_earlier_time(tape: Tape) -> None:
    ask_and_answer(tape)
    tape.send(CLIENT, 3, flags=FIN | ACK, ack=tape.bases[SERVER] + 6)
    tape.send(SERVER, 6, flags=FIN | ACK, ack=tape.bases[CLIENT] + 4, after=-9 * 1_000_000)
    tape.send(CLIENT, 4, after=9 * 1_000_000)


def answer_with_an_earlier_time_and_copies(tape: Tape) -> None:
    ask_and_answer(tape)
    tape.send(CLIENT, 3, flags=FIN | ACK, ack=tape.bases[SERVER] + 6)
    tape.send(CLIENT, 3, flags=FIN | ACK, ack=tape.bases[SERVER] + 6)
    tape.send(SERVER, 6, flags=FIN | ACK, ack=tape.bases[CLIENT] + 4, after=-30 * 1_000_000)
    tape.send(SERVER, 6, flags=FIN | ACK, ack=tape.bases[CLIENT] + 4)
    tape.send(CLIENT, 3, flags=FIN | ACK, ack=tape.bases[SERVER] + 7)


def fin_missing(tape: Tape) -> None:
    ask_and_answer(tape)
    tape.send(SERVER, 6, flags=FIN | ACK, ack=tape.bases[CLIENT] + 4)
    tape.send(CLIENT, 4)


def data_and_fin_missing(tape: Tape) -> None:
    ask_and_answer(tape)
    tape.send(SERVER, 6, flags=FIN | ACK, ack=tape.bases[CLIENT] + 20)


def both_close_at_once(tape: Tape) -> None:
    ask_and_answer(tape)
    tape.send(SERVER, 6, flags=FIN | ACK, ack=tape.bases[CLIENT] + 3)
    tape.send(CLIENT, 3, flags=FIN | ACK, ack=tape.bases[SERVER] + 6)


def stray_packets_after_the_end(tape: Tape) -> None:
    closed_by_client(tape)
    tape.send(SERVER, 6, flags=FIN | ACK)
    tape.send(SERVER, 0, b"answer")
    tape.send(CLIENT, 3, b"too late")
    tape.send(CLIENT, 0, flags=RST)


def half_closed(tape: Tape) -> None:
    tape.open()
    tape.send(CLIENT, 0, b"ask", FIN | ACK)
    tape.send(SERVER, 0, b"ans")
    tape.send(SERVER, 3, b"wer")


def fin_repeated(tape: Tape) -> None:
    tape.open()
    tape.send(SERVER, 0, flags=FIN | ACK)
    tape.send(SERVER, 0, flags=FIN | ACK)
    tape.send(CLIENT, 0, b"last", FIN | ACK)


def fin_in_a_hole(tape: Tape) -> None:
    tape.open()
    tape.send(CLIENT, 3, b"def", FIN | ACK)
    tape.send(SERVER, 0, flags=FIN | ACK)
    tape.send(CLIENT, 0, b"abc")
    tape.send(CLIENT, 0, b"abc")


def reset_by_server(tape: Tape) -> None:
    tape.open()
    tape.send(CLIENT, 0, b"ask")
    tape.send(SERVER, 0, flags=RST | ACK)
    tape.send(CLIENT, 3, b"more")


def reset_after_fin(tape: Tape) -> None:
    tape.open()
    tape.send(CLIENT, 0, b"ask", FIN | ACK)
    tape.send(SERVER, 0, flags=RST)


def reset_out_of_window(tape: Tape) -> None:
    tape.open()
    tape.send(SERVER, RESET_WINDOW_BYTES + 1, flags=RST)
    tape.send(SERVER, -RESET_WINDOW_BYTES - 1, flags=RST)
    tape.send(CLIENT, 0, b"ask")


def reset_with_words(tape: Tape) -> None:
    tape.open()
    tape.send(SERVER, 0, b"go away", RST | ACK, window=0)


def reset_that_answers_no_syn(tape: Tape) -> None:
    tape.send(CLIENT, -1, flags=SYN)
    tape.send(SERVER, -1, flags=RST | ACK, ack=999)
    tape.send(SERVER, -1, flags=SYN | ACK, ack=1_000)
    tape.send(CLIENT, 0, b"ask")


def refused(tape: Tape) -> None:
    tape.send(CLIENT, -1, flags=SYN)
    tape.send(SERVER, -5_000, flags=RST | ACK, ack=1_000)


def syn_repeated(tape: Tape) -> None:
    tape.send(CLIENT, -1, flags=SYN)
    tape.send(CLIENT, -1, flags=SYN)
    tape.send(SERVER, -1, flags=SYN | ACK, ack=1_000)
    tape.send(SERVER, -1, flags=SYN | ACK, ack=1_000)
    tape.send(CLIENT, 0, b"ask")
    tape.send(CLIENT, -1, flags=SYN)


def syn_lost(tape: Tape) -> None:
    tape.send(SERVER, -1, flags=SYN | ACK, ack=1_000)
    tape.send(CLIENT, 0)
    tape.send(CLIENT, 0, b"ask")


def syn_after_its_answer(tape: Tape) -> None:
    tape.send(SERVER, -1, flags=SYN | ACK, ack=1_000)
    tape.send(CLIENT, -1, flags=SYN)
    tape.send(CLIENT, 0, b"ask")


def syn_after_data(tape: Tape) -> None:
    tape.send(CLIENT, 0, b"ask")
    tape.send(CLIENT, -1, flags=SYN)
    tape.send(CLIENT, 3, b"more")


def answer_after_data(tape: Tape) -> None:
    tape.send(CLIENT, 0, b"ask")
    tape.send(SERVER, -1, flags=SYN | ACK, ack=1_000)
    tape.send(SERVER, 0, b"answer")


def opened_from_both_sides(tape: Tape) -> None:
    tape.send(CLIENT, -1, flags=SYN)
    tape.send(SERVER, -1, flags=SYN)
    tape.send(CLIENT, -1, flags=SYN | ACK, ack=5_000)
    tape.send(SERVER, -1, flags=SYN | ACK, ack=1_000)
    tape.send(CLIENT, 0, b"ask")
    tape.send(SERVER, 0, b"answer")


def second_answer_to_one_syn(tape: Tape) -> None:
    tape.open()
    tape.send(SERVER, 70_000, b"!", SYN | ACK, ack=1_000)
    tape.send(SERVER, 0, b"answer")


def second_answer_is_taken(tape: Tape) -> None:
    tape.open()
    tape.send(SERVER, 70_000_000, flags=SYN | ACK, ack=1_000)
    tape.send(SERVER, -1, flags=SYN | ACK, ack=1_000)
    tape.send(SERVER, 70_000_001, b"ans")
    tape.send(SERVER, 70_000_004, b"wer")


def answer_to_another_syn(tape: Tape) -> None:
    tape.send(CLIENT, -1, flags=SYN)
    tape.send(SERVER, 70_000, flags=SYN | ACK, ack=9_000_000)
    tape.send(SERVER, -1, flags=SYN | ACK, ack=1_000)
    tape.send(SERVER, 0, b"answer")


def port_reused_after_fin(tape: Tape) -> None:
    closed_by_client(tape)
    tape.bases = (700_000, 800_000)
    closed_by_client(tape)


def port_reused_without_fin(tape: Tape) -> None:
    tape.open()
    tape.send(CLIENT, 0, b"ask")
    tape.bases = (700_000, 800_000)
    tape.open()
    tape.send(CLIENT, 0, b"again")


def port_reused_syn_lost(tape: Tape) -> None:
    tape.open()
    tape.send(CLIENT, 0, b"ask")
    tape.bases = (700_000_000, 800_000_000)
    tape.send(SERVER, -1, flags=SYN | ACK, ack=tape.bases[CLIENT])
    tape.send(CLIENT, 0, b"again")


def port_reused_after_the_end_syn_lost(tape: Tape) -> None:
    closed_by_client(tape)
    tape.bases = (700_000_000, 800_000_000)
    tape.send(SERVER, -1, flags=SYN | ACK, ack=tape.bases[CLIENT])
    tape.send(CLIENT, 0, b"again")


def port_reused_midstream(tape: Tape) -> None:
    tape.send(SERVER, 0, b"old", ack=70_000_000)
    tape.send(CLIENT, -1, flags=SYN)
    tape.send(CLIENT, 0, b"new")


def port_reused_from_the_other_side(tape: Tape) -> None:
    tape.send(CLIENT, -1, flags=SYN)
    tape.send(CLIENT, 0, flags=RST)
    tape.send(SERVER, -1, flags=SYN)


def syn_repeated_after_the_end(tape: Tape) -> None:
    refused(tape)
    tape.send(CLIENT, -1, flags=SYN)
    tape.send(SERVER, -5_000, flags=RST | ACK, ack=1_000)


def midstream(tape: Tape) -> None:
    tape.send(SERVER, 0)
    tape.send(SERVER, 0, b"mid")
    tape.send(CLIENT, 500, b"dle")


def idle_half_an_hour(tape: Tape) -> None:
    tape.open()
    tape.send(CLIENT, 0, b"ask")
    tape.send(CLIENT, 3, b" again", after=IDLE_CONNECTION_NANOSECONDS // 2)


def idle_an_hour(tape: Tape) -> None:
    tape.open()
    tape.send(SERVER, 0, b"a", after=IDLE_CONNECTION_NANOSECONDS)
    tape.send(CLIENT, 0, b"ask")
    tape.send(SERVER, 1, b"b", after=IDLE_CONNECTION_NANOSECONDS + 1)
    tape.send(CLIENT, 3, b"more")


def to_itself(tape: Tape) -> None:
    tape.send(CLIENT, -1, flags=SYN)
    tape.send(CLIENT, -1, flags=SYN | ACK, ack=1_000)
    tape.send(CLIENT, 0, b"self")
    own = bytes([10, 0, 0, 1, 10, 0, 0, 1, 1, 1, 1, 1])
    tape.packets = [(file, own, segment) for file, _, segment in tape.packets]


CASES = [
    Case("closed by the client", closed_by_client, [(8, "syn", "fin", 0, 0, b"ask", b"answer")]),
    Case("a FIN behind its answer", fin_behind_the_one_that_acknowledges_it, [(8, "syn", "fin", 0, 0, b"ask", b"answer")]),
    Case("an answer with an earlier time", answer_with_an_earlier_time, [(8, "syn", "fin", 0, 0, b"ask", b"answer")]),
    Case(
        "an answer with an earlier time, and copies", answer_with_an_earlier_time_and_copies, [(10, "syn", "fin", 0, 0, b"ask", b"answer")]
    ),
    Case("a FIN not captured, and its answer", fin_missing, [(7, "syn", "open", 0, 0, b"ask", b"answer")]),
    Case("a FIN behind what was not captured", data_and_fin_missing, [(6, "syn", "open", 1, 0, b"ask", b"answer")]),
    Case("both close at once", both_close_at_once, [(7, "syn", "fin", 1, 0, b"ask", b"answer")]),
    Case("FIN captured behind its answer", fin_captured_behind_its_answer, [(8, "syn", "fin", 0, 0, b"ask", b"answer")]),
    Case("stray packets after the end", stray_packets_after_the_end, [(12, "syn", "fin", 0, 0, b"ask", b"answer")]),
    Case("half closed", half_closed, [(6, "syn", "open", 0, 0, b"ask", b"answer")]),
    Case("FIN repeated", fin_repeated, [(6, "syn", "fin", 1, 0, b"last", b"")]),
    Case("FIN in a hole", fin_in_a_hole, [(7, "syn", "fin", 0, 0, b"abcdef", b"")]),
    Case("reset by the server", reset_by_server, [(6, "syn", "rst", 1, 0, b"ask", b"")]),
    Case("reset after a FIN", reset_after_fin, [(5, "syn", "rst", 0, 0, b"ask", b"")]),
    Case("reset out of window", reset_out_of_window, [(6, "syn", "open", None, 0, b"ask", b"")]),
    Case("reset with words", reset_with_words, [(4, "syn", "rst", 1, 0, b"", b"go away")]),
    Case("reset that answers no SYN", reset_that_answers_no_syn, [(4, "syn", "open", None, 0, b"ask", b"")]),
    Case("refused", refused, [(2, "syn", "rst", 1, 0, b"", b"")]),
    Case("SYN repeated", syn_repeated, [(6, "syn", "open", None, 0, b"ask", b"")]),
    Case("SYN lost", syn_lost, [(3, "syn", "open", None, 1, b"", b"ask")]),
    Case("SYN after its answer", syn_after_its_answer, [(3, "syn", "open", None, 1, b"", b"ask")]),
    Case("SYN after data", syn_after_data, [(3, "midstream", "open", None, 0, b"askmore", b"")]),
    Case("answer after data", answer_after_data, [(3, "midstream", "open", None, 0, b"ask", b"answer")]),
    Case("opened from both sides", opened_from_both_sides, [(6, "syn", "open", None, 0, b"ask", b"answer")]),
    Case("second answer to one SYN", second_answer_to_one_syn, [(5, "syn", "open", None, 0, b"", b"answer")]),
    Case("second answer is taken", second_answer_is_taken, [(7, "syn", "open", None, 0, b"", b"answer")]),
    Case("answer to another SYN", answer_to_another_syn, [(4, "syn", "open", None, 0, b"", b"answer")]),
    Case(
        "port reused after FIN",
        port_reused_after_fin,
        [(8, "syn", "fin", 0, 0, b"ask", b"answer"), (8, "syn", "fin", 0, 0, b"ask", b"answer")],
    ),
    Case(
        "port reused without FIN",
        port_reused_without_fin,
        [(4, "syn", "open", None, 0, b"ask", b""), (4, "syn", "open", None, 0, b"again", b"")],
    ),
    Case(
        "port reused, SYN lost",
        port_reused_syn_lost,
        [(4, "syn", "open", None, 0, b"ask", b""), (2, "syn", "open", None, 1, b"", b"again")],
    ),
    Case(
        "port reused after the end, SYN lost",
        port_reused_after_the_end_syn_lost,
        [(8, "syn", "fin", 0, 0, b"ask", b"answer"), (2, "syn", "open", None, 1, b"", b"again")],
    ),
    Case(
        "port reused, first one midstream",
        port_reused_midstream,
        [(1, "midstream", "open", None, None, b"old", b""), (2, "syn", "open", None, 0, b"new", b"")],
    ),
    Case(
        "port reused from the other side",
        port_reused_from_the_other_side,
        [(2, "syn", "rst", 0, 0, b"", b""), (1, "syn", "open", None, 0, b"", b"")],
    ),
    Case("SYN repeated after the end", syn_repeated_after_the_end, [(4, "syn", "rst", 1, 0, b"", b"")]),
    Case("midstream", midstream, [(3, "midstream", "open", None, None, b"mid", b"dle")]),
    Case("idle for half an hour", idle_half_an_hour, [(5, "syn", "open", None, 0, b"ask again", b"")]),
    Case(
        "idle for over an hour",
        idle_an_hour,
        [(5, "syn", "open", None, 0, b"ask", b"a"), (2, "midstream", "open", None, None, b"b", b"more")],
    ),
    Case("connected to itself", to_itself, [(3, "syn", "open", None, 0, b"self", b"")]),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name.replace(" ", "-") for case in CASES])
def test_situation(case: Case) -> None:
    tape = Tape()
    case.send(tape)
    got = tape.run()
    assert [
        (
            connection.packets,
            connection.opened,
            connection.closed,
            connection.closed_by,
            connection.client,
            b"".join(payload for payload, _ in outcome.pieces(0)),
            b"".join(payload for payload, _ in outcome.pieces(1)),
        )
        for outcome in got
        for connection in [outcome.connection]
    ] == case.want
    assert [outcome.facts() for outcome in tape.run_apart()] == [outcome.facts() for outcome in got]


def test_a_connection_is_named_by_its_first_packet() -> None:
    tape = Tape()
    tape.next_file()
    tape.send(SERVER, 0)
    tape.open(1)
    assert [outcome.connection.name for outcome in tape.run()] == ["1:1", "1:2"]


def test_endpoints_are_those_of_the_streams() -> None:
    tape = Tape()
    tape.open()
    connection = tape.only().connection
    assert [connection.endpoint(index) for index in (0, 1)] == ["10.0.0.1:40000", "10.0.0.2:6650"]
    assert connection.client == 0


def test_a_later_layer_may_identify_the_client() -> None:
    tape = Tape()
    tape.send(SERVER, 0, b"mid")
    connection = tape.only().connection
    assert connection.client is None
    connection.set_client(1)
    assert connection.client == 1


def test_midstream_is_said_once_and_only_of_connections_with_bytes() -> None:
    tape = Tape()
    tape.send(SERVER, 0)
    tape.send(CLIENT, 0, connection=1)
    tape.send(SERVER, 0, b"mid")
    tape.send(CLIENT, 0, b"dle")
    tape.send(SERVER, 3, b"end")
    first, second = tape.run_apart()
    assert first.codes() == ["midstream-start"]
    assert first.findings[0].packet == 1
    assert second.codes() == []


def test_a_reset_says_who_and_what_was_pending() -> None:
    tape = Tape()
    tape.open()
    tape.send(CLIENT, 3, b"pending")
    reset = tape.send(SERVER, 0, flags=RST)
    outcome = tape.only()
    assert outcome.evidence("connection-reset") == {"direction": 1, "waiting": 7}
    assert outcome.shape(CLIENT) == [3, b"pending"]
    assert [item[3] for item in outcome.items[CLIENT] if item[0] == "gap"] == [(0, reset)]
    assert outcome.codes() == ["connection-reset", "stream-gap"]


def test_late_data_is_counted() -> None:
    tape = Tape()
    stray_packets_after_the_end(tape)
    first, second = tape.only().connection.streams
    assert (first.retransmitted, first.late, second.retransmitted, second.late) == (0, len("too late"), 1, 0)


@pytest.mark.parametrize(("after", "late"), [(10_000_000, False), (SECOND, False), (3 * SECOND, True)])
def test_bytes_after_a_reset_are_said_if_they_were_not_on_their_way(after: int, late: bool) -> None:
    tape = Tape()
    tape.open()
    tape.send(SERVER, 0, flags=RST | ACK, ack=1_000)
    tape.send(CLIENT, 0, b"late", ack=5_000, after=after)
    said = [finding.evidence for finding in tape.only().findings]
    assert said == [{"direction": 1, "waiting": 0}, *([{"direction": 0, "bytes": 4}] if late else [])]


def test_unbelieved_resets_are_no_finding() -> None:
    tape = Tape()
    reset_out_of_window(tape)
    assert tape.only().codes() == []


def test_times_are_those_of_the_first_and_the_latest_packet() -> None:
    tape = Tape()
    tape.open()
    latest = tape.time
    tape.send(CLIENT, 0, b"ask", after=-2_000_000_000)
    connection = tape.only().connection
    assert (connection.start, connection.end) == (tape.packets[0][2][1], latest)


def test_a_reset_that_repeats_the_number_of_a_fin_does_not_end_what_the_peer_still_sends() -> None:
    tape = Tape()
    tape.open()
    tape.send(CLIENT, 0, b"ask")
    tape.send(CLIENT, 3, flags=FIN)
    tape.send(CLIENT, 3, flags=RST)
    tape.send(SERVER, 0, b"answer")
    assert tape.only().shape(SERVER) == [b"answer"]


def test_a_reset_behind_a_fin_ends_the_connection() -> None:
    tape = Tape()
    tape.open()
    tape.send(CLIENT, 0, flags=FIN)
    tape.send(CLIENT, 1, flags=RST)
    tape.send(SERVER, 0, b"answer")
    outcome = tape.only()
    assert outcome.shape(SERVER) == []
    assert outcome.connection.closed == "rst"


def test_data_of_the_other_one_of_two_handshakes_are_of_the_same_connection() -> None:
    tape = Tape()
    tape.open()
    elsewhere = 1_180_489_186  # beyond any jump within a stream
    tape.send(SERVER, elsewhere - 1, flags=SYN | ACK, ack=tape.bases[CLIENT])
    tape.send(SERVER, elsewhere, b"answer")
    tape.send(CLIENT, 0, b"ask", ack=tape.bases[SERVER] + elsewhere + 6)
    outcome = tape.only()
    assert outcome.shape(SERVER) == [b"answer"]
