"""Resets by a device between the two ends, and those of the ends themselves."""

from __future__ import annotations

from struct import pack

import pytest

from tests.tcp.tape import ACK, BASES, CLIENT, FIN, RST, SECOND, SERVER, Tape

BETWEEN = "reset-between"
MILLISECOND = 1_000_000


def stamped(time: int) -> bytes:
    """Return checksum, urgent pointer and options of a packet with a timestamp."""
    return bytes(4) + b"\1\1\x08\x0a" + pack(">II", time, 1)


def talk(tape: Tape, number: int = 1_000, *, stamps: bool = True) -> None:
    """Send a question and an answer; `number` is the identification of the answer."""
    tape.open()
    tape.send(CLIENT, 0, b"ask", ack=BASES[SERVER], identification=number, options=stamped(7) if stamps else b"")
    tape.send(SERVER, 0, b"answer", ack=BASES[CLIENT] + 3, identification=number, options=stamped(9) if stamps else b"")


@pytest.mark.parametrize("side", [CLIENT, SERVER])
@pytest.mark.parametrize("stamps", [True, False])
@pytest.mark.parametrize("after", [MILLISECOND, SECOND, 30 * SECOND])
def test_a_reset_without_an_ack_is_of_no_end(side: int, stamps: bool, after: int) -> None:
    tape = Tape()
    talk(tape, stamps=stamps)
    tape.send(side, (3, 6)[side], flags=RST, after=after)
    outcome = tape.only()
    host = ("10.0.0.1:40000", "10.0.0.2:6650")[side]
    assert outcome.evidence(BETWEEN) == {"direction": side, "host": host, "proof": "acknowledges nothing"}
    assert (outcome.connection.closed, outcome.connection.closed_by) == ("rst", side)


@pytest.mark.parametrize(
    ("number", "identification", "options", "foreign"),
    [
        (1_000, 1_001, stamped(12), False),
        (1_000, 40_000, stamped(12), False),
        (1_000, 1_001, b"", False),
        (1_000, 1_900, b"", False),
        (65_535, 3, b"", False),
        (1_000, 0, b"", True),
        (1_000, 9_000, b"", True),
        (1_000, 990, b"", True),
        (0, 0, b"", False),
        (0, 4_711, b"", False),
    ],
)
def test_a_reset_with_an_ack_is_foreign_if_neither_number_continues(
    number: int, identification: int, options: bytes, foreign: bool
) -> None:
    tape = Tape()
    talk(tape, number)
    tape.send(SERVER, 6, flags=RST | ACK, ack=BASES[CLIENT] + 3, identification=identification, options=options)
    assert (BETWEEN in tape.only().codes()) == foreign


def test_hosts_without_timestamps_may_number_as_they_like() -> None:
    tape = Tape()
    talk(tape, stamps=False)
    tape.send(SERVER, 6, flags=RST | ACK, ack=BASES[CLIENT] + 3, identification=9_000)
    assert BETWEEN not in tape.only().codes()


@pytest.mark.parametrize("first", [CLIENT, SERVER])
def test_what_comes_after_a_close_is_answered_with_a_reset(first: int) -> None:
    tape = Tape()
    talk(tape)
    tape.send(first, (3, 6)[first], flags=FIN | ACK, ack=BASES[1 - first] + (6, 3)[first])
    tape.send(1 - first, (6, 3)[first], b"more", ack=BASES[first] + (3, 6)[first])
    tape.send(first, (4, 7)[first], flags=RST)
    assert BETWEEN not in tape.only().codes()


@pytest.mark.parametrize("behind", [1, 2_000, 60_000])
@pytest.mark.parametrize("side", [CLIENT, SERVER])
def test_a_client_that_exits_answers_what_comes_while_it_still_sends(behind: int, side: int) -> None:
    """Its FIN waits behind its data. For all that is known, a device resets a broker that sends."""
    tape = Tape()
    talk(tape)
    own, other = (3, 6)[side], (6, 3)[side]
    for start in range(0, behind, 1_000):
        tape.send(side, own + start, b"x" * min(1_000, behind - start), ack=BASES[1 - side] + other)
    tape.send(1 - side, other, b"more", ack=BASES[side] + own)
    tape.send(side, own, flags=RST)
    tape.send(1 - side, other + 4, ack=BASES[side] + own + behind)
    tape.send(side, own + behind, flags=RST)
    outcome = tape.only()
    assert (BETWEEN in outcome.codes()) == (side == SERVER)
    assert (outcome.connection.closed, outcome.connection.closed_by) == ("rst", side)


@pytest.mark.parametrize("window", [0, 4_000])
@pytest.mark.parametrize("side", [CLIENT, SERVER])
def test_a_client_that_exits_cannot_send_its_fin_to_a_closed_window(side: int, window: int) -> None:
    tape = Tape()
    talk(tape)
    own, other = (3, 6)[side], (6, 3)[side]
    tape.send(side, own, b"x" * 1_000, ack=BASES[1 - side] + other)
    tape.send(1 - side, other, b"more", ack=BASES[side] + own + 1_000, window=window)
    tape.send(side, own + 1_000, flags=RST)
    assert (BETWEEN in tape.only().codes()) == (side == SERVER or window > 0)


def test_a_host_that_sent_nothing_may_not_know_the_connection() -> None:
    tape = Tape()
    tape.open()
    tape.send(CLIENT, 0, b"ask", ack=BASES[SERVER])
    tape.send(SERVER, 0, flags=RST)
    assert BETWEEN not in tape.only().codes()


@pytest.mark.parametrize("distance", [0, 400, 60_000])
@pytest.mark.parametrize("after", [MILLISECOND, 5 * SECOND])
def test_no_host_continues_after_its_own_reset(distance: int, after: int) -> None:
    tape = Tape()
    talk(tape)
    tape.send(SERVER, 6, flags=RST | ACK, ack=BASES[CLIENT] + 3, identification=1_001, options=stamped(12))
    tape.send(CLIENT, 3, b"more", ack=BASES[SERVER] + 6, after=after)
    tape.send(SERVER, 6 + distance, b"again", ack=BASES[CLIENT] + 7)
    first, second = tape.run()
    assert BETWEEN not in first.codes()
    assert second.evidence(BETWEEN)["proof"] == "continued"
    assert [each.facts() for each in tape.run_apart()] == [first.facts(), second.facts()]


@pytest.mark.parametrize("distance", [-400_000, 2_000_000])
def test_another_connection_on_the_same_ports_begins_elsewhere(distance: int) -> None:
    tape = Tape((900_000, 900_000))
    tape.open()
    tape.send(CLIENT, 0, b"ask", ack=900_000)
    tape.send(SERVER, 0, b"answer", ack=900_003)
    tape.send(SERVER, 6, flags=RST | ACK, ack=900_003)
    tape.bases = (500_000_000, 900_000 + distance)
    tape.send(CLIENT, 0, b"more", ack=tape.bases[SERVER])
    tape.send(SERVER, 0, b"again", ack=500_000_004)
    codes = [code for outcome in tape.run() for code in outcome.codes()]
    assert BETWEEN not in codes
    assert "data-after-close" in codes


@pytest.mark.parametrize("first", [CLIENT, SERVER])
@pytest.mark.parametrize("closing", ["fin", "rst"])
@pytest.mark.parametrize(
    ("count", "apart", "said"), [(2, MILLISECOND, False), (30, 20 * MILLISECOND, False), (6, SECOND, True), (2, 5 * SECOND, True)]
)
def test_what_was_on_its_way_when_its_receiver_ended_is_normal(first: int, closing: str, count: int, apart: int, said: bool) -> None:
    tape = Tape()
    talk(tape)
    own, other = (3, 6)[first], (6, 3)[first]
    ack = BASES[1 - first] + other
    if closing == "fin":
        tape.send(first, own, flags=FIN | ACK, ack=ack)
    else:
        tape.send(first, own, flags=RST | ACK, ack=ack, identification=1_001, options=stamped(12))
    for number in range(count):
        tape.send(1 - first, other + 4 * number, b"more", ack=BASES[first] + own, after=apart)
        tape.send(first, own + (closing == "fin"), flags=RST)
    outcome = tape.only()
    assert ("data-after-close" in outcome.codes()) == said
    assert "connection-reset" in outcome.codes()


@pytest.mark.parametrize("first", [CLIENT, SERVER])
@pytest.mark.parametrize(("acknowledged", "said"), [(0, False), (4, True), (8, True)])
def test_data_that_a_reset_acknowledges_were_captured_behind_it(first: int, acknowledged: int, said: bool) -> None:
    tape = Tape()
    talk(tape)
    own, other = (3, 6)[first], (6, 3)[first]
    ack = BASES[1 - first] + other + acknowledged
    tape.send(first, own, flags=RST | ACK, ack=ack, identification=1_001, options=stamped(12))
    for number in range(2):
        tape.send(1 - first, other + 4 * number, b"more", ack=BASES[first] + own, after=MILLISECOND)
    assert ("data-after-close" in tape.only().codes()) == said


@pytest.mark.parametrize("first", [CLIENT, SERVER])
def test_what_follows_its_own_fin_is_not(first: int) -> None:
    tape = Tape()
    talk(tape)
    own, other = (3, 6)[first], (6, 3)[first]
    tape.send(first, own, flags=FIN | ACK, ack=BASES[1 - first] + other)
    tape.send(first, own + 1, b"more", ack=BASES[1 - first] + other)
    tape.send(1 - first, other, flags=RST)
    assert "data-after-close" in tape.only().codes()


@pytest.mark.parametrize("first", [CLIENT, SERVER])
@pytest.mark.parametrize("size", [1, 320])
@pytest.mark.parametrize("comes", [True, False])
def test_data_that_a_fin_overtakes_are_not_missing_in_the_capture(first: int, size: int, *, comes: bool) -> None:
    """Their receiver has ended the connection, and answers both with RSTs."""
    tape = Tape()
    talk(tape)
    own, other = (3, 6)[first], (6, 3)[first]
    tape.send(first, own, flags=FIN | ACK, ack=BASES[1 - first] + other)
    tape.send(1 - first, other + size, flags=FIN | ACK, ack=BASES[first] + own + 1)
    tape.send(first, own + 1, flags=RST)
    if comes:
        tape.send(1 - first, other, b"x" * size, ack=BASES[first] + own + 1)
        tape.send(first, own + 1, flags=RST)
    codes = tape.only().codes()
    assert "bytes-awaited" in codes
    assert not {"stream-gap", "data-after-close"} & set(codes)


@pytest.mark.parametrize("first", [CLIENT, SERVER])
def test_acknowledged_data_before_a_fin_are(first: int) -> None:
    tape = Tape()
    talk(tape)
    own, other = (3, 6)[first], (6, 3)[first]
    tape.send(1 - first, other + 320, flags=FIN | ACK, ack=BASES[first] + own)
    tape.send(first, own, flags=FIN | ACK, ack=BASES[1 - first] + other + 321)
    codes = tape.only().codes()
    assert "stream-gap" in codes
    assert "bytes-awaited" not in codes
