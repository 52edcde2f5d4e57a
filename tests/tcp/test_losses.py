"""Networks with constant loss, seen at either end, and captures in which something else only looks like it."""

from __future__ import annotations

from struct import pack
from time import process_time
from typing import NamedTuple

import pytest

from pulsarscope.tcp.losses import HELD_UP_MAX, Losses
from tests.tcp.tape import BASES, CLIENT, SECOND, SERVER, Outcome, Tape

LOSS = "network-loss"
MILLISECOND = 1_000_000


class Lossy(NamedTuple):
    """A stream of three-byte segments, one every `pace` ms, of which each `nth` is repeated, or late, after `delay` ms."""

    name: str
    nth: int
    delay: int
    heavy: bool
    segments: int = 80
    pace: int = 100


CASES = [
    Lossy("a fifth for 250 ms", 5, 250, heavy=True),
    Lossy("a tenth for 400 ms", 10, 400, heavy=True),
    Lossy("each 30th for a second", 30, 1_000, heavy=True, segments=400),
    Lossy("four times", 20, 1_000, heavy=False),
    Lossy("each 50th", 50, 1_000, heavy=False, segments=400),
    Lossy("soon repaired", 5, 20, heavy=False, segments=40),
    Lossy("for a small part of the time", 40, 180, heavy=False, segments=560, pace=200),
]


def lost(case: Lossy, end: str) -> Tape:
    """Return the capture at the sender's or the receiver's end."""
    tape = Tape()
    tape.open()
    for number in range(case.segments):
        is_lost = number % case.nth == 1
        if end == "sender" or number % case.nth not in (1, 2):
            tape.send(CLIENT, 3 * number, b"abc", after=case.pace * MILLISECOND)
        if is_lost:
            if end == "receiver":
                tape.send(CLIENT, 3 * number + 3, b"abc")
            tape.send(CLIENT, 3 * number, b"abc", after=case.delay * MILLISECOND)
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3 * number + 3)
    return tape


def codes(outcome: Outcome) -> list[str]:
    return [finding.code for finding in outcome.findings]


@pytest.mark.parametrize("case", CASES, ids=[case.name.replace(" ", "-") for case in CASES])
@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_much_that_is_lost_for_long_is_reported(case: Lossy, end: str) -> None:
    outcome = lost(case, end).only()
    assert (LOSS in codes(outcome)) == case.heavy
    if case.heavy:
        evidence = outcome.evidence(LOSS)
        assert evidence["count"] == evidence["waits"] == len(range(1, case.segments, case.nth))
        assert evidence["resent"] == (evidence["count"] if end == "sender" else 0)
        assert evidence["longest_ns"] == case.delay * MILLISECOND
        assert evidence["waited_ns"] == evidence["waits"] * case.delay * MILLISECOND


@pytest.mark.parametrize("case", CASES, ids=[case.name.replace(" ", "-") for case in CASES])
@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_rules_know_for_how_long_a_sender_was_held_up(case: Lossy, end: str) -> None:
    """At its end of the path, even if that is no finding; if it is long, also until the acknowledgment."""
    times = [took for found in lost(case, end).only().counted for took, _ in found.evidence["held_up"]]
    count = len(range(1, case.segments, case.nth)) if end == "sender" else 0
    expected = [case.delay * MILLISECOND] * (count * (case.delay >= 150)) + [(case.delay + 10) * MILLISECOND] * (
        count * (case.delay >= 750)
    )
    assert times == expected[-HELD_UP_MAX:]


def test_its_text_gives_share_and_time() -> None:
    (finding,) = [finding for finding in lost(CASES[0], "sender").only().findings if finding.code == LOSS]
    assert finding.severity == "warning"
    assert finding.text == (
        "The network lost about 16 of 91 segments from 10.0.0.1:40000 in 12.2 s (18%): the stream stood still 16 times, "
        "for 4.00 s in all, 250 ms at most."
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("nth", "segments", "pace", "heavy"),
    [
        (8, 600, 20, True),
        (12, 600, 20, True),
        (20, 1_500, 20, True),
        (33, 2_000, 20, True),
        (60, 2_000, 20, False),
        (100, 3_000, 20, False),
        (40, 500, 20, False),
        (8, 150, 5, False),
    ],
)
def test_very_much_needs_no_wait(nth: int, segments: int, pace: int, heavy: bool) -> None:
    """If data continue, a sender soon knows what was lost."""
    case = Lossy("", nth, 20, heavy, segments, pace)
    outcome = lost(case, "sender").only()
    assert (LOSS in codes(outcome)) == heavy
    assert LOSS not in codes(lost(case, "receiver").only())  # it may have been overtaken
    if heavy:
        assert outcome.evidence(LOSS)["waits"] == 0


def numbered(nth: int, segments: int, *, resent: bool, stamps: bool, behind: int = 3) -> Tape:
    """Return the receiver's capture of a stream of which each `nth` segment comes `behind` others, because it was resent, or overtaken."""
    tape = Tape()
    tape.open()
    number = 100
    waiting: dict[int, tuple[int, int]] = {}

    def send(which: int, numbers: int) -> None:
        options = bytes(4) + b"\1\1\x08\x0a" + pack(">II", numbers, 1) if stamps else b""
        tape.send(CLIENT, 3 * which, b"abc", after=10 * MILLISECOND, identification=numbers & 0xFFFF, options=options)

    for which in range(segments):
        number += 1
        if which % nth == 1:
            waiting[which + behind] = which, number
        else:
            send(which, number)
        if which in waiting:
            late, sent = waiting.pop(which)
            number += resent
            send(late, number if resent else sent)
    return tape


@pytest.mark.parametrize("stamps", [True, False])
@pytest.mark.parametrize(("nth", "segments"), [(10, 800), (20, 1_500), (33, 2_500)])
def test_a_receiver_tells_by_their_numbers_what_was_lost(nth: int, segments: int, stamps: bool) -> None:
    outcome = numbered(nth, segments, resent=True, stamps=stamps).only()
    evidence = outcome.evidence(LOSS)
    assert evidence["resent"] == evidence["count"] == len(range(1, segments - 3, nth))


@pytest.mark.slow
@pytest.mark.parametrize("stamps", [True, False])
@pytest.mark.parametrize("behind", [1, 3, 7])
@pytest.mark.parametrize("nth", [10, 20])
def test_what_was_only_overtaken_is_not_lost(nth: int, behind: int, stamps: bool) -> None:
    assert LOSS not in codes(numbered(nth, 1_500, resent=False, stamps=stamps, behind=behind).only())


@pytest.mark.parametrize("seed", range(3))
def test_segments_shuffled_by_the_capture_are_not_lost(seed: int) -> None:
    tape = Tape()
    tape.open()
    for which in sorted(range(1_500), key=lambda which: which + (which * 7_919 * (seed + 1) % 97) / 24):
        tape.send(CLIENT, 3 * which, b"abc", identification=100 + which)
    assert LOSS not in codes(tape.only())


def test_a_single_outage_loses_many_at_once() -> None:
    tape = Tape()
    tape.open()
    for number in range(40):
        tape.send(CLIENT, 3 * number, b"abc")
    for number in range(40):
        tape.send(CLIENT, 3 * number, b"abc", after=(3 * SECOND if number == 0 else MILLISECOND))
    assert LOSS not in codes(tape.only())


def test_a_window_that_is_sent_again_for_long_is_one_outage() -> None:
    tape = Tape()
    tape.open()
    for number in range(400):
        tape.send(CLIENT, 3 * number, b"abc")
    for number in range(400):
        tape.send(CLIENT, 3 * number, b"abc", after=(3 * SECOND if number == 0 else 20 * MILLISECOND))
    assert LOSS not in codes(tape.only())


def test_waits_within_one_another_count_once() -> None:
    losses = Losses()
    for began, end in ((40, 50), (30, 51), (10, 52)):
        losses.add(began * SECOND, (0, end, end * SECOND), end, resent=True)
    assert (losses.waits, losses.waited, losses.longest, losses.episodes) == (1, 42 * SECOND, 42 * SECOND, 1)


def test_what_a_closed_window_holds_back_is_not_lost() -> None:
    tape = Tape()
    tape.open()
    for number in range(8):
        tape.send(CLIENT, 3 * number, b"abc")
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3 * number, window=0)
        tape.send(CLIENT, 3 * number, b"abc", after=SECOND)
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3 * number + 3)
    assert LOSS not in codes(tape.only())


def test_segments_captured_twice_are_not_lost() -> None:
    tape = Tape()
    tape.open()
    for number in range(600):
        tape.send(CLIENT, 3 * number, b"abc", after=20 * MILLISECOND)
        tape.send(CLIENT, 3 * number, b"abc", after=20_000)
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3 * number + 3)
    assert LOSS not in codes(tape.only())


def test_what_only_the_capture_lost_is_not_lost() -> None:
    tape = Tape()
    tape.open()
    for number in range(200):
        if number % 5:
            tape.send(CLIENT, 3 * number, b"abc", after=100 * MILLISECOND)
        tape.send(SERVER, 0, ack=BASES[CLIENT] + 3 * number + 3)
    assert LOSS not in codes(tape.only())


def twice(sack: tuple[int, int, int] | None, *, nth: int = 4, later: int = 1, delay: int = MILLISECOND, pause: int = 0) -> Tape:
    """Return a stream of which each `nth` segment is sent again.

    `sack`: edges of the SACK block in its acknowledgment, relative to the segment, and number of bytes that it does not acknowledge.
    `later`: segments that follow before the acknowledgment.
    """
    tape = Tape()
    tape.open()
    for number in range(0, 240, later):
        base = BASES[CLIENT] + 3 * number
        tape.send(CLIENT, 3 * number, b"abc", after=100 * MILLISECOND)
        if number // later % nth == 1:
            tape.send(CLIENT, 3 * number, b"abc", after=delay + 45 * MILLISECOND)
        for more in range(1, later):
            tape.send(CLIENT, 3 * (number + more), b"abc")
        end, options = base + 3 * later, b""
        if number // later % nth == 1 and sack is not None:
            stamp, edges = pack(">II", number, number), pack(">II", base + sack[0], base + sack[1])
            options = bytes(4) + b"\1\1\x08\x0a" + stamp + b"\1\1\x05\x0a" + edges
            end -= sack[2]
            tape.send(SERVER, 0, ack=end, options=options, after=delay + pause)
        else:
            tape.send(SERVER, 0, ack=end)
    return tape


@pytest.mark.parametrize("later", [1, 3])
@pytest.mark.parametrize("delay", [MILLISECOND, 300 * MILLISECOND])
@pytest.mark.parametrize("nth", [2, 4])
def test_what_arrived_twice_is_not_lost(nth: int, delay: int, later: int) -> None:
    assert LOSS not in codes(twice((0, 3, 0), nth=nth, delay=delay, later=later).only())


@pytest.mark.parametrize(
    ("sack", "pause"),
    [
        (None, 0),
        ((0, 1, 0), 0),  # a part of it arrived twice
        ((3, 6, 3), 0),  # what came behind it
        ((-30, -27, 0), 0),  # another one
        ((0, 3, 0), 3 * SECOND),
    ],
)
def test_a_segment_is_lost_unless_its_receiver_soon_says_that_it_came_twice(sack: tuple[int, int, int] | None, pause: int) -> None:
    assert LOSS in codes(twice(sack, delay=300 * MILLISECOND, pause=pause).only())


def test_a_duplicate_among_bytes_that_arrived_early() -> None:
    segment = (9, SECOND, 0, 1_000, 0x10, 1_000, b"", 0, 0, bytes(4) + b"\5\x12" + pack(">IIII", 1_030, 1_040, 1_020, 1_090))
    for span, left in (((0, 10), 1), ((30, 40), 0), ((25, 35), 1)):
        losses = Losses()
        losses.add(0, (0, 1, SECOND), 1, resent=True, span=span)
        losses.answer(segment, 1_000, 0)
        assert len(losses.doubtful) == left


def test_what_arrived_twice_in_pieces_is_not_lost() -> None:
    losses = Losses()
    losses.add(0, (0, 1, SECOND), 1, resent=True, span=(0, 20))
    for low, high, left in ((1_010, 1_020, 1), (1_000, 1_010, 0)):
        options = bytes(4) + b"\5\x0a" + pack(">II", low, high)
        losses.answer((9, SECOND, 0, 1_020, 0x10, 1_000, b"", 0, 0, options), 1_000, 0)
        assert len(losses.doubtful) == left
    losses.settle()
    assert losses.count == 0


def test_answers_take_no_longer_when_many_segments_are_in_doubt() -> None:
    """No answer is about any of them."""
    took: list[float] = []
    for doubtful in (1, 1_000):
        losses = Losses()
        for number in range(doubtful):
            losses.add(0, (0, number, SECOND), 1, resent=True, span=(10 * number, 10 * number + 10))
        began = process_time()
        for _ in range(2_000):
            options = bytes(4) + b"\5\x0a" + pack(">II", 100, 110)
            losses.answer((9, SECOND, 0, 1_000, 0x10, 1_000, b"", 0, 0, options), 1_000, 0)
        took.append(process_time() - began)
        assert len(losses.doubtful) == doubtful
    assert took[1] < 10 * took[0]
