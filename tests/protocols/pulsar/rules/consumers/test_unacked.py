"""Consumers that do not acknowledge, and skipped messages."""

from __future__ import annotations

import sys
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.model.records import FrameRow
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.protocols.pulsar.rules.consumers import unacked
from pulsarscope.protocols.pulsar.rules.exchanges import unload
from pulsarscope.protocols.pulsar.rules.subscriptions.stuck import UNREADABLE
from tests.places import CAPTURES
from tests.scenarios.commands import PING, ack, close_consumer, delivery, flow, redeliver
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.rules.unacked import consumer_with_entries, one_after_the_other, with_a_hole
from tests.scenarios.silent_context import SilentContext


def test_the_stuck_consumer_acknowledged_none() -> None:
    diagnosis = Diagnosis(CAPTURES / "stuck-consumer.pcap")
    row, evidence = diagnosis.only("consumer-not-acking")
    assert row.severity == "warning"
    assert (evidence["consumer_name"], evidence["unacknowledged"], evidence["oldest"]) == ("cons-stuck", 8, [96, 0])
    assert evidence["oldest_age_ns"] > 5 * SECOND
    assert diagnosis.commands(row) == ["MESSAGE"]
    assert diagnosis.frames[evidence["frames"][0]].fields["message_id"]["entryId"] == 0  # type: ignore[index]
    assert "acknowledged none" in (row.text or "")


@pytest.mark.parametrize(
    ("is_encrypted", "acks", "end"), [(True, 0, "open"), (True, 0, "fin"), (True, 4, "open"), (False, 0, "open"), (False, 0, "fin")]
)
def test_one_that_lacks_the_private_key_acknowledges_none(tmp_path: Path, is_encrypted: bool, acks: int, end: str) -> None:
    """By default, clients do not pass on what they cannot decrypt; a client that can decrypt acknowledges some messages."""
    metadata: dict[str, Any] = (
        {"encryption_keys": [{"key": "app", "value": b"k" * 64}], "encryption_param": b"p" * 12} if is_encrypted else {}
    )
    talk = subscribed(connected()).client(flow(1000)).server(*[delivery(entry, **metadata) for entry in range(20)])
    talk.client(*[ack(entry) for entry in range(acks)]).wait(90 * SECOND).client(PING)
    row, _ = diagnose(tmp_path, talk.close() if end == "fin" else talk).only("consumer-not-acking")
    assert (UNREADABLE in (row.text or "")) == (is_encrypted and not acks)


def test_one_that_stops_acknowledging_is_seen_later(tmp_path: Path) -> None:
    talk = consumer_with_entries(20).client(ack(0, 1)).wait(70 * SECOND).client(PING)
    _, evidence = diagnose(tmp_path, talk).only("consumer-not-acking")
    assert (evidence["unacknowledged"], evidence["oldest"]) == (18, [7, 2])


def test_an_application_that_takes_long_for_its_first_message_is_none(tmp_path: Path) -> None:
    talk = consumer_with_entries(20).wait(30 * SECOND).client(PING).wait(20 * SECOND).client(ack(0), PING).close()
    assert "consumer-not-acking" not in diagnose(tmp_path, talk).codes


@pytest.mark.parametrize("pause", [1, 30])
def test_one_that_acknowledges_slowly_is_none(tmp_path: Path, pause: int) -> None:
    talk = consumer_with_entries(20)
    for entry in range(5):
        talk.wait(pause * SECOND if entry else 0).client(ack(entry))
    assert not {"consumer-not-acking", "ack-hole"} & set(diagnose(tmp_path, talk.client(close_consumer()).close()).codes)


def test_a_reader_has_nothing_to_acknowledge(tmp_path: Path) -> None:
    talk = subscribed(connected(), kind="Exclusive", durable=False).client(flow(1000)).server(*[delivery(entry) for entry in range(20)])
    assert "consumer-not-acking" not in diagnose(tmp_path, talk.wait(90 * SECOND).close()).codes


def test_messages_of_batches_count_and_the_limit_is_named(tmp_path: Path) -> None:
    talk = (
        subscribed(connected()).client(flow(100_000)).server(*[delivery(entry, batch=10_000) for entry in range(6)]).client(ack(0)).close()
    )
    row, evidence = diagnose(tmp_path, talk).only("consumer-not-acking")
    assert (evidence["unacknowledged"], evidence["limit"]) == (50_000, 50_000)
    assert "limit of 50,000 is reached" in (row.text or "")


def test_a_forgotten_message_among_acknowledged_ones_is_a_hole(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, *with_a_hole())
    row, evidence = diagnosis.only("ack-hole")
    assert (row.severity, evidence["message_id"], evidence["later_acknowledged"], evidence["unacknowledged"]) == ("warning", [7, 3], 27, 1)
    assert diagnosis.frames[evidence["frames"][0]].fields["message_id"]["entryId"] == 3  # type: ignore[index]


def test_so_is_one_message_of_a_batch(tmp_path: Path) -> None:
    talk = subscribed(connected()).client(flow(1000)).server(*[delivery(entry, batch=4) for entry in range(20)])
    talk.client(ack(0, ack_set=[0b1100]), ack(0, ack_set=[0b0110]), ack(*range(1, 20))).wait(100 * SECOND).client(PING)
    _, evidence = diagnose(tmp_path, talk).only("ack-hole")
    assert (evidence["message_id"], evidence["batch_indexes"], evidence["unacknowledged"]) == ([7, 0], [2], 1)


@pytest.mark.parametrize(("late", "hole"), [(2, False), (15, False), (80, False), (150, True)])
@pytest.mark.parametrize("batch", [0, 3])
def test_a_message_may_be_captured_behind_its_ack(tmp_path: Path, late: int, batch: int, hole: bool) -> None:
    """A tap holds back one direction."""
    talk = subscribed(connected()).client(flow(1000)).server(*[delivery(entry, batch=batch) for entry in range(3)]).client(ack(0, 1, 2))
    talk.client(ack(3)).wait(late * MILLISECOND).server(delivery(3, batch=batch))
    for entry in range(4, 30):
        talk.server(delivery(entry, batch=batch)).client(ack(entry))
    assert ("ack-hole" in diagnose(tmp_path, talk.wait(100 * SECOND).client(PING)).codes) == hole


def in_batches(size: int, left: int, count: int, *, pace: int = 1000, order: int = 1) -> Conversation:
    """A consumer of a batch each `pace` ms that acknowledges its messages one by one, but `left` of each."""
    talk = subscribed(connected()).client(flow(10_000))
    for entry in range(count):
        talk.server(delivery(entry, batch=size)).wait(10 * MILLISECOND)
        for index in [*range(size)][::order][: size - left]:
            talk.client(ack(entry, ack_set=[(1 << size) - 1 & ~(1 << index)])).wait(MILLISECOND)
        talk.wait((pace - 10 - size + left) * MILLISECOND)
    return talk


@pytest.mark.parametrize(("size", "left", "order"), [*product((5, 12), (1, 3), (1, -1))])
def test_messages_left_in_every_batch_are_holes(tmp_path: Path, size: int, left: int, order: int) -> None:
    row, evidence = diagnose(tmp_path, in_batches(size, left, 36, order=order)).only("ack-hole")
    assert len(evidence["batch_indexes"]) == left
    assert evidence["later_acknowledged"] == (size - left) * 35
    assert "later entries or messages of batches" in (row.text or "")


@pytest.mark.parametrize(
    ("size", "left", "count", "pace"),
    [
        (5, 0, 36, 1000),  # all are acknowledged
        (5, 1, 4, 1000),  # not yet for long
        (5, 3, 12, 1000),  # a few
        (60, 20, 1, 30_000),  # at work on the only one
    ],
)
def test_messages_of_batches_that_wait_are_no_holes(tmp_path: Path, size: int, left: int, count: int, pace: int) -> None:
    assert "ack-hole" not in diagnose(tmp_path, in_batches(size, left, count, pace=pace)).codes


def at_work(size: int, workers: int, each: int, *, seed: int, forgotten: int | None = None) -> Conversation:
    """An application that works on messages of several batches at once, each for about `each` ms, and is still at work at the end."""
    talk = subscribed(connected()).client(flow(10_000))
    steps: list[tuple[int, int, int]] = []
    left: dict[int, int] = {}
    free, now = [0] * workers, 0
    for entry in range(40):
        delivered = max(0, min(free) - each * size // workers)
        steps.append((delivered, entry, -1))
        for index in range(size):
            worker = min(range(workers), key=free.__getitem__)
            free[worker] = max(free[worker], delivered) + 1 + round(-each * log(((entry * size + index) * seed % 101 + 1) / 102))
            steps.append((free[worker], entry, index))
    for time, entry, index in sorted(step for step in steps if step[0] < min(free) - each * size // workers):
        talk.wait((time - now) * MILLISECOND)
        now = time
        if index < 0:
            talk.server(delivery(entry, batch=size))
        elif (entry, index) != (forgotten, 0):
            left[entry] = left.get(entry, (1 << size) - 1) & ~(1 << index)
            talk.client(ack(entry, ack_set=[left[entry]] if left[entry] else None))
    return talk


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "each", "seed"), [*product((8, 16), (50, 400), (37, 44, 59))])
def test_a_batch_that_is_at_work_for_no_longer_than_others_is_not_undecided(tmp_path: Path, workers: int, each: int, seed: int) -> None:
    assert "consumer-undecided" not in diagnose(tmp_path, at_work(50, workers, each, seed=seed)).codes
    assert {"consumer-undecided", "ack-hole"} & {*diagnose(tmp_path, at_work(50, workers, each, seed=seed, forgotten=1)).codes}


@pytest.mark.parametrize("size", [60, 62])
@pytest.mark.parametrize(("pace", "slow", "hole"), [(2, 30, False), (2, 60, False), (4, 60, False), (1, 90, True), (2, 200, True)])
def test_the_last_message_of_a_long_batch_may_take_longer_than_some_of_the_next(
    tmp_path: Path, size: int, pace: int, slow: int, hole: bool
) -> None:
    """Each of the others takes `pace` seconds; the last one is at work for `slow` seconds at the end."""
    talk = subscribed(connected()).client(flow(10_000)).server(delivery(0, batch=size))
    for number in range(size - 1 + slow // pace):
        entry, index = (0, number) if number < size - 1 else divmod(number + 1, size)
        if entry > 0 == index:
            talk.server(delivery(entry, batch=size))
        talk.wait(pace * SECOND).client(ack(entry, ack_set=[(1 << size) - 1 & ~(1 << index)]))
    assert ("ack-hole" in diagnose(tmp_path, talk.client(PING)).codes) == hole


@pytest.mark.parametrize("back", [3, 12])
def test_a_batch_that_is_completed_late_shows_how_long_messages_take(tmp_path: Path, back: int) -> None:
    """Messages of each batch are acknowledged `back` batches later: the oldest one is at work."""
    talk = subscribed(connected()).client(flow(10_000))
    for entry in range(60):
        talk.server(delivery(entry, batch=4)).client(ack(entry, ack_set=[0b1000])).wait(SECOND)
        if entry >= back:
            talk.client(ack(entry - back, ack_set=[0b0111]))
    assert "ack-hole" not in diagnose(tmp_path, talk).codes


def test_messages_in_flight_are_no_hole(tmp_path: Path) -> None:
    assert "ack-hole" not in diagnose(tmp_path, *one_after_the_other()).codes


def test_what_the_client_gave_back_is_no_hole(tmp_path: Path) -> None:
    talk = consumer_with_entries(30).client(ack(0, 1)).client(redeliver(*range(3, 29))).wait(100 * SECOND).client(ack(29), PING).close()
    assert "ack-hole" not in diagnose(tmp_path, talk).codes


def test_a_cumulative_ack_covers_all_before_it(tmp_path: Path) -> None:
    talk = consumer_with_entries(30, "Exclusive").client(ack(29, kind="Cumulative")).wait(100 * SECOND).client(PING).close()
    assert "consumer-not-acking" not in diagnose(tmp_path, talk).codes


def test_what_is_kept_has_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unacked, "ENTRIES_MAX", 10)
    talk = consumer_with_entries(30).wait(10 * SECOND).client(close_consumer())
    subscribed(talk, 2).client(flow(100, 2)).server(*[delivery(entry, 2) for entry in range(30)]).wait(10 * SECOND).close()
    findings = diagnose(tmp_path, talk).of("consumer-not-acking")
    assert [(row.evidence or {})["unacknowledged"] for row in findings] == [10, 10]


@pytest.mark.parametrize("kind", ["Exclusive", "Failover"])
def test_no_limit_holds_for_a_subscription_with_one_consumer_at_a_time(tmp_path: Path, kind: str) -> None:
    talk = subscribed(connected(), kind=kind).client(flow(100_000)).server(*[delivery(entry, batch=10_000) for entry in range(7)])
    row, evidence = diagnose(tmp_path, talk.wait(90 * SECOND).close()).only("consumer-not-acking")
    assert (evidence["unacknowledged"], evidence["limit"]) == (70_000, None)
    assert "limit" not in (row.text or "")


def test_a_backlog_that_is_worked_off_leaves_no_empty_places_behind() -> None:
    """Python would search them for the oldest entry at each ACK."""
    context = SilentContext()
    context.thresholds = Thresholds(unacked.THRESHOLDS + unload.THRESHOLDS)
    rule = unacked.UnackedRule(context)
    for packet, (command, fields) in enumerate(
        [("MESSAGE", {"message_id": {"ledgerId": 7, "entryId": entry}}) for entry in range(2000)]
        + [("ACK", {"message_id": [{"ledgerId": 7, "entryId": entry}]}) for entry in range(1990)]
    ):
        rule.frames[command](rule, FrameRow(None, 0, packet, 1, packet, "0:1", command=command, fields={"consumer_id": 1, **fields}))
    entries = rule.consumers[1].entries
    assert [entry for _, entry in entries] == [*range(1990, 2000)]
    assert sys.getsizeof(entries) < 20 * sys.getsizeof({})
