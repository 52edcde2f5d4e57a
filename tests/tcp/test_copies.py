"""Tests of pulsarscope.tcp.copies."""

from __future__ import annotations

import pytest

from pulsarscope.tcp.copies import identity, is_copy
from tests.tcp.tape import ACK, CLIENT, SYN, Outcome, Tape, outcomes

MILLISECOND = 1_000_000
SIZE = 100
Sender = str


def options(value: int, *, padded: bool = True) -> bytes:
    """Return the rest of a TCP header: checksum, urgent pointer, timestamps with this value."""
    return bytes(4) + (b"\1\1" if padded else b"") + b"\x08\x0a" + (value & 0xFFFF_FFFF).to_bytes(4, "big") + bytes(4)


def mark(sender: Sender, number: int, time: int) -> tuple[int, bytes]:
    """Return identification and options of packet `number` of a sender at a time in ms. Both wrap soon; the identification skips 0, which
    means none.
    """
    identification = (0xFFF9 + 2 * number) & 0xFFFF if sender in ("ids", "both") else 0
    return identification, options(0xFFFF_FFF0 + time) if sender in ("timestamps", "both") else bytes(4)


def twice(sender: Sender, skew: int, *, segments: int = 40, lost: int = 7, midstream: bool = False, second_file: bool = False) -> Tape:
    """Return two merged captures of one stream, the second one `skew` ms late; segment `lost` is sent again after 25 ms."""
    sent: list[tuple[int, int, int, int]] = []  # time in ms, stream offset, flags, number of the packet
    if not midstream:
        sent.append((0, -1, SYN, 0))
    for at in range(segments):
        sent.append((10 + 10 * at, SIZE * at, ACK, len(sent)))
        if at == lost + 2:
            sent.append((10 + 10 * at + 5, SIZE * lost, ACK, len(sent)))
    first, second = [(time, 0, packet) for packet in sent for time in packet[:1]], [(packet[0] + skew, 1, packet) for packet in sent]
    tape = Tape()
    times: list[int] = []
    order = first + second if second_file else sorted(first + second)
    for time, file, (moment, offset, flags, number) in order:
        if second_file and file != tape.file:
            tape.next_file()
        identification, rest = mark(sender, number, moment)
        payload = b"" if flags & SYN else bytes([offset // SIZE % 251]) * SIZE
        after = MILLISECOND * (time - (times[-1] if times else 0))
        tape.send(CLIENT, offset, payload, flags, after=after, identification=identification, options=rest)
        times.append(time)
    return tape


def only(tape: Tape) -> Outcome:
    """Return the only connection; it must be equal however the packets are cut into blocks."""
    (outcome,) = tape.run()
    for cuts in (range(len(tape.packets)), [3], [5, 20, 21, 60]):
        (other,) = tape.run(cuts)
        assert other.facts() == outcome.facts()
    return outcome


@pytest.mark.parametrize("midstream", [False, True])
@pytest.mark.parametrize("skew", [1, 2, 20, 33, 3_000])
@pytest.mark.parametrize("sender", ["ids", "timestamps", "both"])
def test_copies_are_distinguished_from_retransmissions_whatever_their_skew(sender: Sender, skew: int, midstream: bool) -> None:
    outcome = only(twice(sender, skew, midstream=midstream))
    stream = outcome.connection.streams[0]
    assert (stream.segments, stream.retransmitted, stream.copies and stream.copies.count) == (41, 1, 41)
    code = "captured-twice" if skew > 1 else "packet-duplicate"
    evidence = outcome.evidence(code)
    assert (evidence["copies"], evidence["segments"]) == (41, 41)
    if not (midstream and skew == 3_000):
        assert evidence.get("later_ns", skew * MILLISECOND) == skew * MILLISECOND


@pytest.mark.parametrize("skew", [-3_000, -20, 0, 20, 3_000])
@pytest.mark.parametrize("sender", ["ids", "timestamps", "both"])
def test_copies_in_another_file_are_no_retransmissions(sender: Sender, skew: int) -> None:
    (outcome,) = outcomes(twice(sender, skew, second_file=True).blocks())
    stream = outcome.connection.streams[0]
    assert (stream.retransmitted, stream.copies and stream.copies.count) == (1, 41)
    code = "captured-twice" if abs(skew) > 1 else "packet-duplicate"
    assert code in outcome.codes()
    assert "41 of 41 segments" in next(finding.text for finding in outcome.findings if finding.code == code)


@pytest.mark.parametrize("sender", ["ids", "timestamps", "both", "neither"])
def test_everything_sent_again_is_no_copy(sender: Sender) -> None:
    tape = Tape()
    for number in range(60):
        identification, rest = mark(sender, number, 10 * number)
        tape.send(CLIENT, SIZE * (number // 2), b"x" * SIZE, identification=identification, options=rest)
    outcome = only(tape)
    assert (outcome.connection.streams[0].retransmitted, outcome.connection.streams[0].copies) == (30, None)
    assert not {"captured-twice", "packet-duplicate"} & {*outcome.codes()}


@pytest.mark.parametrize("behind", [1, 2, 5])
def test_copies_that_follow_at_once_are_none_sent_again_when_identifications_do_not_count(behind: int) -> None:
    sent = [(SIZE * at, at * 40_503 + 1) for at in range(60)]
    tape = Tape()
    for first in range(0, len(sent), behind):
        for offset, identification in sent[first : first + behind] * 2:
            tape.send(CLIENT, offset, b"x" * SIZE, after=50_000, identification=identification & 0xFFFF, options=bytes(4))
    outcome = only(tape)
    stream = outcome.connection.streams[0]
    assert (stream.retransmitted, stream.copies and stream.copies.count) == (0, 60)
    assert outcome.evidence("packet-duplicate") == {"copies": 60, "segments": 60}


@pytest.mark.parametrize(
    ("identification", "copy"), [(100, True), (65_000, True), (101, False), (1_123, False), (1_124, None), (30_000, None)]
)
def test_an_identification_far_ahead_proves_nothing(identification: int, copy: bool | None) -> None:
    assert is_copy((1, 0, 0, 0, ACK, 1, b"x", 0, identification, bytes(4)), identity(100, bytes(4), 1)) is copy


def test_segments_that_a_network_card_cut_are_copies() -> None:
    """The sender's capture has one large segment; the receiver's has its parts, numbered one by one."""
    tape = Tape()
    for number in range(10):
        tape.send(CLIENT, 4_380 * number, bytes(4_380), identification=100 + 3 * number)
    for number in range(30):
        tape.send(CLIENT, 1_460 * number, bytes(1_460), identification=100 + number)
    stream = only(tape).connection.streams[0]
    assert (stream.retransmitted, stream.copies and stream.copies.count) == (0, 30)


@pytest.mark.parametrize(
    "rest", [b"", bytes(4), bytes(4) + b"\x08", bytes(4) + b"\x08\x0a\1", bytes(4) + b"\5\0\0\0", bytes(4) + b"\1" * 9]
)
def test_odd_options_prove_nothing(rest: bytes) -> None:
    assert is_copy((1, 0, 0, 0, ACK, 1, b"x", 0, 0, rest), identity(0, rest, 1)) is None


def test_timestamps_behind_other_options_are_read() -> None:
    newest = identity(0, bytes(4) + b"\2\4\5\xb4" + options(7, padded=False)[4:], 1)
    assert is_copy((1, 0, 0, 0, ACK, 1, b"x", 0, 0, options(6)), newest) is True
    assert is_copy((1, 0, 0, 0, ACK, 1, b"x", 0, 0, options(8)), newest) is False
