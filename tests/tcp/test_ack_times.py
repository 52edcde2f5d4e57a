"""Slow paths, seen at either end or midway, and captures in which something else only looks like one."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from tests.tcp.tape import BASES, CLIENT, FIN, SECOND, SERVER, Outcome, Tape

DELAY = "path-delay"
MILLISECOND = 1_000_000


def opened() -> Tape:
    tape = Tape()
    tape.open()
    return tape


def codes(outcome: Outcome) -> list[str]:
    return [finding.code for finding in outcome.findings]


def exchange(tape: Tape, number: int, *, acked_after: int, answered_after: int, side: int = CLIENT, pause: int = 200) -> None:
    """Append request `number` of one side, its acknowledgment, and an answer that is acknowledged at once; all times in ms."""
    peer = 1 - side
    tape.send(side, 3 * number, b"abc", ack=BASES[peer] + 3 * number, after=pause * MILLISECOND)
    tape.send(peer, 3 * number, ack=BASES[side] + 3 * number + 3, after=acked_after * MILLISECOND)
    tape.send(peer, 3 * number, b"xyz", ack=BASES[side] + 3 * number + 3, after=answered_after * MILLISECOND)
    tape.send(side, 3 * number + 3, ack=BASES[peer] + 3 * number + 3, after=MILLISECOND)


class Path(NamedTuple):
    name: str
    acked_after: int
    answered_after: int
    slow: bool
    times: int = 6


PATHS = [
    Path("slow path", 1_200, 1, slow=True),
    Path("very slow path", 4_000, 1, slow=True, times=3),
    Path("barely slow path", 750, 0, slow=True),
    Path("satellite", 640, 5, slow=False),
    Path("slow broker", 40, 5_000, slow=False),
    Path("slow broker with a lazy host", 500, 9_000, slow=False),
    Path("twice only", 2_000, 1, slow=False, times=2),
]


@pytest.mark.parametrize("path", PATHS, ids=[path.name.replace(" ", "-") for path in PATHS])
@pytest.mark.parametrize("side", [CLIENT, SERVER])
@pytest.mark.parametrize("midstream", [False, True])
def test_a_path_is_slow_if_hosts_acknowledge_late(path: Path, side: int, midstream: bool) -> None:
    tape = Tape() if midstream else opened()
    for number in range(path.times + midstream):  # before the first data of a stream, its next number is unknown
        exchange(tape, number, acked_after=path.acked_after, answered_after=path.answered_after, side=side)
    outcome = tape.only()
    assert (DELAY in codes(outcome)) == path.slow
    if path.slow:
        evidence = outcome.evidence(DELAY)
        assert evidence["count"] == path.times
        assert evidence["took_ns"] == path.times * path.acked_after * MILLISECOND
        assert evidence["delay_max_ns"] == path.acked_after * MILLISECOND


@pytest.mark.parametrize("side", [CLIENT, SERVER])
@pytest.mark.parametrize("skew", [1, 300])
@pytest.mark.parametrize(("early", "slow"), [(3, False), (0, True)], ids=["of-the-data", "of-the-data-before"])
def test_an_acknowledgment_captured_before_its_data_is_not_late(early: int, slow: bool, skew: int, side: int) -> None:
    """One direction may be captured a moment later than the other."""
    tape = opened()
    for number in range(6):
        tape.send(1 - side, 0, ack=BASES[side] + 3 * number + early, after=1_200 * MILLISECOND)
        tape.send(side, 3 * number, b"abc", ack=BASES[1 - side], after=skew * 1_000)
    assert (DELAY in codes(tape.only())) == slow


def test_its_text_gives_both_hosts_and_the_time() -> None:
    tape = opened()
    for number, acked_after in enumerate((800, 1_000, 1_500)):
        exchange(tape, number, acked_after=acked_after, answered_after=1)
    (finding,) = [finding for finding in tape.only().findings if finding.code == DELAY]
    assert finding.severity == "warning"
    assert finding.text == (
        "10.0.0.2:6650 acknowledged what 10.0.0.1:40000 sent only after 1.10 s on average, 1.50 s at most, 3 times: "
        "a round trip takes so long."
    )


def test_delays_may_begin_late_and_end() -> None:
    tape = opened()
    for number in range(30):
        exchange(tape, number, acked_after=900 if 10 <= number < 15 else 5, answered_after=1)
    assert tape.only().evidence(DELAY)["count"] == 5


@pytest.mark.parametrize(("base", "count"), [(0xFFFF_FFFF - 4, 6), (0xFFFF_FFFF - 2, 6), (0x7FFF_FFFF - 4, 6)])
def test_sequence_numbers_may_wrap(base: int, count: int) -> None:
    tape = Tape((base, 5_000))
    tape.send(CLIENT, -1, flags=0x02)
    tape.send(SERVER, -1, flags=0x12, ack=base)
    tape.send(CLIENT, 0)
    for number in range(6):
        tape.send(CLIENT, 3 * number, b"abc", after=200 * MILLISECOND)
        tape.send(SERVER, 0, ack=base + 3 * number + 3, after=SECOND)
    assert tape.only().evidence(DELAY)["count"] == count


def test_a_queue_is_measured_one_segment_at_a_time() -> None:
    tape = opened()
    for number in range(40):  # one each 100 ms; each is acknowledged 20 segments later
        tape.send(CLIENT, 3 * number, b"abc", after=100 * MILLISECOND)
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3 * max(number - 20, 0), after=0)
    assert DELAY not in codes(tape.only())  # once only: the second has no acknowledgment
    for number in range(40, 90):
        tape.send(CLIENT, 3 * number, b"abc", after=100 * MILLISECOND)
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3 * (number - 20), after=0)
    assert tape.only().evidence(DELAY)["count"] == 4


def test_what_is_resent_is_not_measured() -> None:
    tape = opened()
    for number in range(8):
        tape.send(CLIENT, 3 * number, b"abc", after=200 * MILLISECOND)
        tape.send(CLIENT, 3 * number, b"abc", after=1_000 * MILLISECOND)
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3 * number + 3)
    assert DELAY not in codes(tape.only())


def test_packets_with_data_alone_show_nothing() -> None:
    """If the capture has no bare acknowledgments, those of a slow broker come with its answers."""
    tape = opened()
    for number in range(8):
        tape.send(CLIENT, 3 * number, b"abc", ack=BASES[SERVER] + 3 * number, after=200 * MILLISECOND)
        tape.send(SERVER, 3 * number, b"xyz", ack=BASES[CLIENT] + 3 * number + 3, after=2_000 * MILLISECOND)
    tape.send(CLIENT, 24, flags=0x10 | FIN, ack=BASES[SERVER] + 24)
    assert DELAY not in codes(tape.only())


def test_captures_with_holes_show_nothing() -> None:
    """They may also lack acknowledgments."""
    tape = opened()
    for number in range(8):
        exchange(tape, number, acked_after=1_500, answered_after=1)
    tape.send(SERVER, 30, b"xyz", ack=BASES[CLIENT] + 24)
    tape.send(CLIENT, 24, ack=BASES[SERVER] + 33)
    outcome = tape.only()
    assert "stream-gap" in codes(outcome)
    assert DELAY not in codes(outcome)


def test_a_closed_window_explains_it() -> None:
    tape = opened()
    for number in range(8):
        tape.send(CLIENT, 3 * number, b"abc", after=200 * MILLISECOND)
        tape.send(SERVER, 0, window=0, ack=BASES[CLIENT] + 3 * number)
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3 * number + 3, after=1_500 * MILLISECOND)
    assert DELAY not in codes(tape.only())


@pytest.mark.parametrize("closes", [False, True])
def test_a_connection_within_one_block_is_measured_too(closes: bool) -> None:
    tape = opened()
    for number in range(5):
        exchange(tape, number, acked_after=1_000, answered_after=1)
    if closes:
        tape.send(CLIENT, 15, flags=0x10 | FIN, ack=BASES[SERVER] + 15)
        tape.send(SERVER, 15, flags=0x10 | FIN, ack=BASES[CLIENT] + 16)
        tape.send(CLIENT, 16, ack=BASES[SERVER] + 16)
    assert tape.only().evidence(DELAY)["count"] == 5
