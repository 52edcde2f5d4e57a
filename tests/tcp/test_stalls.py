from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.tcp.tape import BASES, CLIENT, FIN, RST, SECOND, SERVER, Outcome, Tape

STALL = "network-stall"
MILLISECOND = 1_000_000


def opened() -> Tape:
    tape = Tape()
    tape.open()
    return tape


def codes(outcome: Outcome) -> list[str]:
    return [finding.code for finding in outcome.findings]


class Resent(NamedTuple):
    """Retransmissions of one segment: milliseconds between them, and the client offset that the server acknowledges at the end."""

    name: str
    after: list[int]
    acknowledged: int | None
    stalls: bool


CASES = [
    Resent("never acknowledged", [200, 400, 800, 1_600], 0, stalls=True),
    Resent("acknowledged at last", [200, 400, 800, 1_600], 3, stalls=True),
    Resent("three in two seconds", [200, 1_000, 1_000], 0, stalls=True),
    Resent("nothing from the server", [200, 400, 800, 1_600], None, stalls=True),
    Resent("two only", [200, 4_900], 0, stalls=False),
    Resent("two at a late time of a timer", [3_700, 7_400], 3, stalls=True),
    Resent("one at a late time of a timer", [7_400], 3, stalls=False),
    Resent("lost thrice within a second", [100, 200, 400], 0, stalls=False),
    Resent("lost once", [200], 3, stalls=False),
]


@pytest.mark.parametrize("case", CASES, ids=[case.name.replace(" ", "-") for case in CASES])
def test_a_stall_is_what_was_resent_for_long(case: Resent) -> None:
    tape = opened() if case.acknowledged is not None else Tape()
    tape.send(CLIENT, 0, b"abc")
    first = 0
    for position, after in enumerate(case.after):
        number = tape.send(CLIENT, 0, b"abc", after=after * MILLISECOND)
        first = first if position else number
    if case.acknowledged is not None:
        tape.send(SERVER, 0, ack=BASES[CLIENT] + case.acknowledged)
    outcome = tape.only()
    assert (STALL in codes(outcome)) == case.stalls
    if case.stalls:
        (finding,) = [finding for finding in outcome.findings if finding.code == STALL]
        assert finding.packet == first
        assert finding.evidence == {
            "direction": 0,
            "offset": 0,
            "size": 3,
            "count": len(case.after),
            "took_ns": sum(case.after[1:]) * MILLISECOND,
            "acknowledged": None if case.acknowledged is None else case.acknowledged > 0,
        }


def test_the_text_of_a_stall_names_both_ends() -> None:
    tape = opened()
    for after in (0, 1, 1, 2):
        tape.send(CLIENT, 0, b"abc", after=after * SECOND)
    tape.send(SERVER, 0)
    (finding,) = tape.only().findings
    assert finding.text == (
        "10.0.0.1:40000 sent a segment of 3 bytes at offset 0 of its stream again 3 times in 3.00 s; 10.0.0.2:6650 never acknowledged it."
    )


def test_the_longest_of_several_stalls_is_told() -> None:
    tape = opened()
    for offset, after in ((0, 2), (3, 4), (6, 3), (9, 1)):
        for _ in range(4):
            tape.send(CLIENT, offset, b"abc", after=after * SECOND)
        tape.send(SERVER, 0, ack=BASES[CLIENT] + offset + 3)
    outcome = tape.only()
    assert codes(outcome) == [STALL]
    assert outcome.evidence(STALL)["offset"] == 3
    assert outcome.evidence(STALL)["took_ns"] == 8 * SECOND


@pytest.mark.parametrize("opens", [False, True])
def test_what_waits_for_a_closed_window_is_no_stall_of_the_network(opens: bool) -> None:
    tape = opened()
    tape.send(SERVER, 0, window=0)
    for _ in range(5):
        tape.send(CLIENT, 0, b"abc", after=SECOND)
    if opens:
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3)
    assert STALL not in codes(tape.only())


@pytest.mark.parametrize("before", [False, True])
def test_a_window_that_was_closed_at_another_time_does_not_explain_a_stall(before: bool) -> None:
    """Lost data arrive together when the path is back, and may fill the receiver's buffer."""
    tape = opened()
    if before:
        tape.send(SERVER, 0, window=0)
        tape.send(SERVER, 0)
    for _ in range(5):
        tape.send(CLIENT, 0, b"abc", after=SECOND)
    if not before:
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3, window=0)
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3)
    assert STALL in codes(tape.only())


def test_segments_captured_twice_are_no_stall() -> None:
    tape = opened()
    for number in range(4):
        for _ in range(3):
            tape.send(CLIENT, 3 * number, b"abc", after=SECOND // 3_000, identification=7 + number)
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3 * number + 3, after=SECOND)
    assert STALL not in codes(tape.only())


def test_a_hole_that_the_peer_never_acknowledged_is_of_the_network() -> None:
    tape = opened()
    behind = tape.send(CLIENT, 1_448, b"abc")
    tape.send(SERVER, 0)
    tape.send(SERVER, 0, b"pong", after=3 * SECOND)
    outcome = tape.only()
    assert sorted(codes(outcome)) == ["bytes-awaited", STALL]
    (finding,) = [finding for finding in outcome.findings if finding.code == STALL]
    assert finding.packet == behind
    assert finding.text == (
        "10.0.0.2:6650 never acknowledged the 1,448 bytes at offset 0 of the stream from 10.0.0.1:40000, though those behind them came "
        "3.01 s before the end: the network lost them, not the capture."
    )
    assert finding.evidence["waited_ns"] == 3 * SECOND + 10 * MILLISECOND


@pytest.mark.parametrize(
    ("acknowledged", "after"), [(1_451, 3 * SECOND), (1_448, 3 * SECOND), (-1, SECOND)], ids=["all", "the hole", "before it"]
)
def test_a_hole_may_be_of_the_capture(acknowledged: int, after: int) -> None:
    tape = opened()
    tape.send(CLIENT, 1_448, b"abc")
    tape.send(SERVER, 0, b"pong", ack=BASES[CLIENT] + acknowledged, after=after)
    assert codes(tape.only()) == ["stream-gap"]


def test_a_capture_of_one_direction_does_not_show_who_lost_bytes() -> None:
    tape = Tape()
    tape.send(CLIENT, 0, b"abc")
    tape.send(CLIENT, 9, b"abc")
    tape.send(CLIENT, 12, b"abc", after=5 * SECOND)
    assert STALL not in codes(tape.only())


AWAITED = "bytes-awaited"


@pytest.mark.parametrize("closes", [False, True])
@pytest.mark.parametrize("ended_by", ["capture", "rst"])
def test_what_the_receiver_lacks_at_the_end_too_is_awaited(closes: bool, ended_by: str) -> None:
    tape = opened()
    tape.send(CLIENT, 0, b"abc")
    behind = tape.send(CLIENT, 10, b"xyz")
    tape.send(SERVER, 0, ack=BASES[CLIENT] + 3)
    if closes:
        tape.send(CLIENT, 13, flags=FIN)
    if ended_by == "rst":
        tape.send(SERVER, 0, flags=RST)
    outcome = tape.only()
    (finding,) = [finding for finding in outcome.findings if finding.code in (AWAITED, "stream-gap")]
    assert (finding.code, finding.severity, finding.packet) == (AWAITED, "note", behind)
    assert finding.text == ("7 bytes at offset 3 of the stream from 10.0.0.1:40000 had not come, and were not acknowledged, when it ended.")
    assert finding.sender == "10.0.0.1:40000"


@pytest.mark.parametrize("case", ["filled since", "acknowledged since", "nothing since", "acknowledged less"])
def test_nobody_knows_that_the_receiver_lacks_what(case: str) -> None:
    tape = opened()
    tape.send(CLIENT, 0, b"abc")
    if case == "filled since":
        tape.send(CLIENT, 6, b"ghi")
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3)
        tape.send(CLIENT, 3, b"def")
    tape.send(CLIENT, 12, b"xyz")
    if case == "acknowledged since":
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3)
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 15)
    if case == "acknowledged less":
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 1)
    assert [code for code in codes(tape.only()) if code in (AWAITED, "stream-gap")] == ["stream-gap"]


def ahead(number: int, acknowledged: int, after: int, *, then: bytes = b"") -> Outcome:
    """The server answers 6 bytes, and later acknowledges twice, `after` ns apart, with a sequence number `number` bytes behind them."""
    tape = opened()
    tape.send(CLIENT, 0, b"ask", ack=BASES[SERVER])
    tape.send(SERVER, 0, b"answer", ack=BASES[CLIENT] + 3)
    tape.send(CLIENT, 3, ack=BASES[SERVER] + 6)
    tape.send(CLIENT, 3, b"more", ack=BASES[SERVER] + 6, after=30 * SECOND)
    tape.send(SERVER, 6 + number, ack=BASES[CLIENT] + 7)
    tape.send(CLIENT, 7, b"again", ack=BASES[SERVER] + 6, after=after)
    tape.send(SERVER, 6 + number, then, ack=BASES[CLIENT] + 12)
    tape.send(CLIENT, 12, ack=BASES[SERVER] + 6 + acknowledged)
    return tape.only()


def test_what_never_came_shows_in_the_numbers_of_acknowledgments() -> None:
    outcome = ahead(1_400, 0, 5 * SECOND)
    (finding,) = [finding for finding in outcome.findings if finding.code == STALL]
    assert finding.text.startswith("10.0.0.2:6650 sent 1,400 bytes behind offset 6 of its stream that never came")
    assert {name: finding.evidence[name] for name in ("offset", "size", "acknowledged")} == {
        "offset": 6,
        "size": 1_400,
        "acknowledged": False,
    }


@pytest.mark.parametrize(
    ("number", "acknowledged", "after", "then"),
    [
        (0, 0, 5 * SECOND, b""),
        (-1, 0, 5 * SECOND, b""),  # a keep-alive
        (1, 0, 5 * SECOND, b""),  # a FIN
        (1_400, 1_400, 5 * SECOND, b""),  # lost by the capture
        (1_400, 0, SECOND, b""),  # maybe on its way
        (0, 5, 5 * SECOND, b"later"),
    ],
)
def test_other_numbers_show_no_loss(number: int, acknowledged: int, after: int, then: bytes) -> None:
    assert STALL not in codes(ahead(number, acknowledged, after, then=then))
