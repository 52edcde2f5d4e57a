"""Consumers that pause and continue, or skip a message before the capture ends."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import PING, PONG, ack, close_consumer, delivery, flow, redeliver, success
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose

PAUSED, UNDECIDED, HOLE = "consumer-paused", "consumer-undecided", "ack-hole"


def working(
    turn: int, pause: int, waiting: int, *, kind: str = "Shared", before: int = 12, after: int = 3, end: str = "open"
) -> Conversation:
    """A consumer that acknowledges each message after `turn` ms, but `waiting` of them only after `pause` ms."""
    talk = subscribed(connected(), kind=kind).client(flow(1000))
    for entry in range(before):
        talk.server(delivery(entry)).wait(turn * MILLISECOND).client(ack(entry))
    paused = range(before, before + waiting)
    talk.server(*map(delivery, paused)).wait(pause * MILLISECOND).client(ack(*paused))
    for entry in range(before + waiting, before + waiting + after):
        talk.server(delivery(entry)).wait(turn * MILLISECOND).client(ack(entry))
    return talk if end == "open" else talk.close()


@pytest.mark.parametrize(
    ("turn", "pause", "waiting", "kind", "end"),
    [*product((5, 100, 200), (2500, 9000), (5, 60), ("Shared", "Failover"), ("open", "fin"))],
)
def test_a_pause_that_stands_out_is_noted(tmp_path: Path, turn: int, pause: int, waiting: int, kind: str, end: str) -> None:
    diagnosis = diagnose(tmp_path, working(turn, pause, waiting, kind=kind, end=end))
    row, evidence = diagnosis.only(PAUSED)
    assert (diagnosis.commands(row), evidence["unacknowledged"]) == (["ACK"], waiting)


@pytest.mark.parametrize(
    ("turn", "pause", "waiting", "before"),
    [
        *product((5, 100), (300, 1900), (5, 60), (12,)),  # short
        *product((400, 1500), (2500, 3900), (5, 60), (12,)),  # as usual
        *product((5, 100), (2500,), (1, 4), (12,)),  # a few messages
        *product((5, 100), (2500,), (20,), (0, 2)),  # nothing shows its usual pace
    ],
)
def test_waits_as_usual_are_healthy(tmp_path: Path, turn: int, pause: int, waiting: int, before: int) -> None:
    assert PAUSED not in diagnose(tmp_path, working(turn, pause, waiting, before=before)).codes


def skipping(count: int, turn: int, *, kind: str = "Shared", missing: int = 3, late: int = 0) -> Conversation:
    """A consumer that acknowledges all but one message; that one `late` ms after the last, if at all."""
    talk = subscribed(connected(), kind=kind).client(flow(1000))
    for entry in range(count):
        talk.server(delivery(entry)).wait(turn * MILLISECOND)
        if entry != missing:
            talk.client(ack(entry))
    return talk.wait(late * MILLISECOND).client(ack(missing)) if late else talk


@pytest.mark.parametrize(
    ("count", "turn", "kind"), [*product((40,), (5, 50, 300), ("Shared", "Key_Shared")), *product((120,), (5, 30), ("Shared",))]
)
def test_a_message_that_is_skipped_leaves_a_consumer_undecided(tmp_path: Path, count: int, turn: int, kind: str) -> None:
    diagnosis = diagnose(tmp_path, skipping(count, turn, kind=kind))
    row, evidence = diagnosis.only(UNDECIDED)
    assert (diagnosis.commands(row), evidence["later_acknowledged"]) == (["MESSAGE"], count - 4)


@pytest.mark.parametrize(("count", "turn", "kind", "end"), [*product((60, 200), (100, 300), ("Shared", "Key_Shared"), ("open", "fin"))])
def test_one_that_far_more_pass_soon_is_a_hole(tmp_path: Path, count: int, turn: int, kind: str, end: str) -> None:
    talk = skipping(count, turn, kind=kind)
    diagnosis = diagnose(tmp_path, talk if end == "open" else talk.close())
    row, evidence = diagnosis.only(HOLE)
    assert (diagnosis.commands(row), evidence["message_id"]) == (["MESSAGE"], [7, 3])


def returning(delay: int, age: int, *, turn: int = 1) -> Conversation:
    """A consumer that returns one message after `delay` seconds, and has held another one for `age` seconds at the end."""
    talk = subscribed(connected(), kind="Shared").client(flow(10_000)).server(delivery(0))
    held = delay + 1
    for entry in range(1, (held + age) // turn):
        talk.server(delivery(entry)).wait(turn * SECOND // 10)
        if entry * turn < delay <= (entry + 1) * turn:
            talk.client(redeliver(0)).server(delivery(0)).client(ack(0))
        if entry != held // turn:
            talk.client(ack(entry))
        talk.wait(turn * SECOND * 9 // 10)
    return talk


@pytest.mark.slow
@pytest.mark.parametrize(("delay", "age"), [(60, 58), (60, 119), (60, 170), (30, 85), (10, 25)])
def test_one_that_may_be_returned_like_another_is_no_hole(tmp_path: Path, delay: int, age: int) -> None:
    """A negative acknowledgement is not sent before its delay is over."""
    assert not {HOLE, UNDECIDED} & {*diagnose(tmp_path, returning(delay, age)).codes}


@pytest.mark.slow
@pytest.mark.parametrize(("delay", "age"), [(2, 60), (10, 95), (20, 80), (60, 200)])
def test_one_that_is_kept_far_longer_than_another_was_is_a_hole(tmp_path: Path, delay: int, age: int) -> None:
    diagnosis = diagnose(tmp_path, returning(delay, age))
    _, evidence = diagnosis.only(HOLE)
    assert evidence["message_id"] == [7, delay + 1]


def shortened(talk: Conversation, frames: list[bytes], size: int) -> Conversation:
    """The conversation, whose capture cut the packets with these frames."""
    for at in [at for at, packet in enumerate(talk.packets) if packet.data.endswith((*frames,))]:
        packet = talk.packets[at]
        talk.packets[at] = packet._replace(data=packet.data[:size], wire_bytes=len(packet.data))
    return talk


@pytest.mark.parametrize(
    ("cut", "size", "found"),
    [
        *product(([ack(30)], [ack(60), ack(90)], [ack(entry) for entry in range(30, 70)]), (54, 60), (False,)),  # may be the ACK
        *product(([flow(1000)], [delivery(30)], [delivery(50), delivery(51)]), (54, 60), (True,)),  # cannot
    ],
)
@pytest.mark.parametrize("end", ["consumer", "connection", "open"])
def test_what_the_snap_length_cut_may_be_its_acknowledgement(tmp_path: Path, cut: list[bytes], size: int, *, found: bool, end: str) -> None:
    talk = skipping(150, 100, missing=20)
    if end == "consumer":
        talk.client(close_consumer(1, 9)).server(success(9)).wait(SECOND).client(PING).server(PONG)
    talk = shortened(talk, cut, size)
    assert (HOLE in diagnose(tmp_path, talk if end == "open" else talk.close()).codes) == found


@pytest.mark.parametrize(("held", "count"), [*product((20, 60, 110), (130, 150, 220, 260))])
def test_one_of_an_application_that_takes_long_for_some_is_no_hole(tmp_path: Path, held: int, count: int) -> None:
    """A pool of threads, of which some work for seconds, wherever the capture ends."""
    talk = subscribed(connected(), kind="Shared").client(flow(1000))
    for entry in range(count):
        talk.server(delivery(entry)).wait(50 * MILLISECOND)
        if entry % 40 != 3:
            talk.client(ack(entry))
        if (entry - held) % 40 == 3 and entry > held:
            talk.client(ack(entry - held))
    assert HOLE not in diagnose(tmp_path, talk).codes


@pytest.mark.parametrize(
    ("count", "missing", "late"),
    [(12, 3, 0), (40, 31, 0), (40, 38, 0), (40, 3, 50), (40, 3, 2000)],  # few later ones, or acknowledged at the end
)
def test_one_that_is_passed_by_a_few_or_comes_late_is_healthy(tmp_path: Path, count: int, missing: int, late: int) -> None:
    assert UNDECIDED not in diagnose(tmp_path, skipping(count, 20, missing=missing, late=late)).codes


def test_exclusive_consumers_skip_nothing(tmp_path: Path) -> None:
    assert UNDECIDED not in diagnose(tmp_path, skipping(40, 20, kind="Exclusive")).codes
