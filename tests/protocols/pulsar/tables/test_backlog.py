from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.dissect.contract.capabilities import IntervalFold
from pulsarscope.model.limits import COURSE_CELLS_MAX
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.tables import backlog
from tests.protocols.pulsar.tables.rows import ENDPOINTS, MILLISECOND, Frames, message_id


class Subscription:
    """Rows of the subscription "a", one per millisecond."""

    def __init__(self) -> None:
        self.frame = Frames()
        self.rows: list[FrameRow] = [self.frame("SUBSCRIBE", {"consumer_id": 1}, subscription="a")]

    def publish(self, entry: int, messages: int = 1) -> None:
        self.rows.append(sent := self.frame("SEND", {"producer_id": 1}, messages=messages))
        self.rows.append(self.frame("SEND_RECEIPT", {"message_id": message_id(entry)}, request=f"0:{sent.packet}.1"))

    def deliver(self, entry: int, messages: int = 1, **more: Any) -> None:
        self.rows.append(self.frame("MESSAGE", {"message_id": message_id(entry), **more}, messages=messages, subscription="a"))

    def ack(self, entry: int, *, cumulative: bool = False, **more: Any) -> None:
        fields = {"ack_type": "Cumulative" if cumulative else "Individual", "message_id": [message_id(entry, **more)]}
        self.rows.append(self.frame("ACK", fields, subscription="a"))

    def other(self, command: str) -> None:
        self.rows.append(self.frame(command, {}, subscription="a"))

    def records(self, interval: int | None = None) -> list[dict[str, Any]]:
        fold = backlog.Backlog()
        assert isinstance(fold, IntervalFold)
        if interval is not None:
            fold.divide(interval * MILLISECOND)
        fold.feed(self.rows, ENDPOINTS)
        return fold.records()

    def end(self) -> tuple[int, int | None]:
        """Return the backlog and the age of the oldest message after all rows."""
        last = self.records()[-1]
        return last["backlog"], None if last["oldest_age_ns"] is None else last["oldest_age_ns"] // MILLISECOND


def test_messages_wait_from_their_receipt_to_their_acknowledgment() -> None:
    a = Subscription()
    a.publish(0, messages=5)  # the third row is its receipt
    a.publish(1)
    assert a.end() == (6, 2)
    a.deliver(0, messages=5)
    assert a.end() == (6, 3)
    a.ack(0)
    assert a.end() == (1, 2)
    a.ack(1)
    assert a.end() == (0, None)


def test_an_entry_waits_once_whichever_of_receipt_delivery_and_acknowledgment_comes_first() -> None:
    a = Subscription()
    a.deliver(0)
    a.publish(0)
    a.deliver(0, redelivery_count=1)
    assert a.end()[0] == 1
    a.ack(0)
    assert a.end()[0] == 0
    a.deliver(1)
    a.ack(1)
    a.publish(1)
    assert a.end()[0] == 0


def test_a_cumulative_acknowledgment_settles_all_before_it_and_a_part_of_a_batch_nothing() -> None:
    a = Subscription()
    for entry in range(4):
        a.publish(entry)
    a.ack(3, ack_set=[1])
    assert a.end()[0] == 4
    a.ack(2, cumulative=True)
    assert a.end()[0] == 1


@pytest.mark.parametrize("command", ["SEEK", "UNSUBSCRIBE"])
def test_a_seek_begins_anew(command: str) -> None:
    a = Subscription()
    a.publish(0)
    a.other(command)
    assert a.end() == (0, None)
    a.deliver(0)
    assert a.end()[0] == 1


def test_intervals_follow_the_first_packet_and_those_without_a_change_carry_the_state_on() -> None:
    a = Subscription()  # at 1 ms
    a.publish(0)  # the receipt at 3 ms
    a.frame.number = 24
    a.ack(0)  # at 25 ms
    found = a.records(interval=10)
    assert [record["at_ns"] // MILLISECOND for record in found] == [0, 10, 20]
    assert [(record["published"], record["acknowledged"], record["backlog"]) for record in found] == [(1, 0, 1), (0, 0, 1), (0, 1, 0)]
    assert [record["oldest_age_ns"] for record in found] == [8 * MILLISECOND, 18 * MILLISECOND, None]


def test_without_an_interval_there_are_few_of_any_capture() -> None:
    a = Subscription()
    for entry in range(1_000):
        a.publish(entry)
    found = a.records()
    assert 1 < len(found) <= backlog.INTERVALS
    assert sum(record["published"] for record in found) == 1_000
    assert found[-1]["backlog"] == 1_000


def test_entries_that_wait_are_bounded_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "TABLE_ENTRIES_MAX", 2)
    a = Subscription()
    for entry in range(5):
        a.publish(entry)
    fold = backlog.Backlog()
    fold.feed(a.rows, ENDPOINTS)
    assert (fold.records()[-1]["backlog"], fold.left_out) == (2, 3)


def test_subscriptions_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlog, "STATISTICS_NAMES_MAX", 0)
    a = Subscription()
    a.deliver(0)
    fold = backlog.Backlog()
    fold.feed(a.rows, ENDPOINTS)
    assert (fold.records(), fold.left_out) == ([], 2)


def test_topics_without_storage_have_no_backlog() -> None:
    a = Subscription()
    a.rows.append(a.frame("MESSAGE", {"message_id": {"ledgerId": 0, "entryId": 0}}, subscription="a"))
    assert a.records() == []


@pytest.mark.parametrize("interval", [None, 1])
def test_a_frame_of_another_century_makes_no_more_records(interval: int | None) -> None:
    a = Subscription()
    a.publish(0)
    a.frame.number = 3_000_000_000_000
    a.other("PING")
    found = a.records(interval)
    assert 1 <= len(found) <= COURSE_CELLS_MAX
    assert found[-1]["backlog"] == 1
