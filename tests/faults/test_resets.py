"""Consumers that the broker closes, while the topic stays or not."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import (
    BY_BROKER,
    ack,
    close_consumer,
    close_producer,
    created,
    delivery,
    flow,
    message,
    producer,
    redeliver,
    success,
)
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.frames import command_frame

RESET, UNLOADED = "cursor-reset", "topic-unloaded"


def closing(
    folder: Path, consumers: int, other: str, *, together: bool, back: bool, after: int = SECOND, end: str = "open", gone: str = ""
) -> Diagnosis:
    """Consumers of one subscription that the broker closes beside another client; `gone`: how that one ends, `after` ns later."""
    talk = connected()
    beside = talk if together else connected(41000)
    if other == "producer":
        beside.client(producer()).server(created())
    elif other:
        subscribed(beside, 9, subscription=other)
    for number in range(1, consumers + 1):
        subscribed(talk, number)
    talk.wait(50 * MILLISECOND)
    if gone == "before":
        beside.client(close_producer(1, 50) if other == "producer" else close_consumer(9)).wait(10 * MILLISECOND)
    talk.time_ns = max(talk.time_ns, beside.time_ns)
    talk.server(*[close_consumer(number, BY_BROKER) for number in range(1, consumers + 1)])
    beside.time_ns = talk.time_ns
    if gone == "after":
        beside.wait(after).server(close_producer(1) if other == "producer" else close_consumer(9, BY_BROKER))
        talk.time_ns = beside.time_ns
    talk.wait(100 * MILLISECOND)
    for number in range(1, consumers + 1):
        if back:
            subscribed(talk, number)
    for each in dict.fromkeys((talk, beside)):
        _ended(each.wait(2 * SECOND), end)
    return diagnose(folder, *dict.fromkeys((talk, beside)))


def _ended(talk: Conversation, end: str) -> None:
    if end == "rst":
        talk.reset("client")
    elif end == "fin":
        talk.close()


@pytest.mark.parametrize(
    ("consumers", "other", "together", "back", "end"),
    [*product((1, 3), ("producer", "other"), (True, False), (True, False), ("open", "fin", "rst"))],
)
def test_a_topic_on_which_others_stay_is_not_unloaded(
    tmp_path: Path, consumers: int, other: str, together: bool, back: bool, end: str
) -> None:
    diagnosis = closing(tmp_path, consumers, other, together=together, back=back, end=end)
    row, evidence = diagnosis.only(RESET)
    assert evidence["closed"] == consumers
    assert diagnosis.commands(row)[0] == "CLOSE_CONSUMER"
    assert diagnosis.of(UNLOADED) == []


@pytest.mark.parametrize(
    ("consumers", "other", "gone", "after", "end"),
    [
        *product((1, 3), ("producer", "other"), ("after",), (0, SECOND // 5, SECOND * 4 // 5), ("open", "fin")),
        *product((1, 3), ("", "s"), ("",), (0,), ("open", "fin")),
        *product((1, 3), ("producer", "other"), ("before",), (0,), ("open", "fin")),
    ],
)
def test_a_topic_that_closes_all_its_clients_is_no_reset(
    tmp_path: Path, consumers: int, other: str, gone: str, after: int, end: str
) -> None:
    diagnosis = closing(tmp_path, consumers, other, together=False, back=True, gone=gone, after=after, end=end)
    assert diagnosis.of(RESET) == []
    assert diagnosis.of(UNLOADED)


def sent_again(folder: Path, got: int, acks: int, first: int, *, kind: str = "Exclusive", late: int = 0) -> Diagnosis:
    """The only consumer of a topic, closed after these messages and ACKs, which then gets messages from the first one on."""
    talk = subscribed(connected(), kind=kind).client(flow(1000)).wait(50 * MILLISECOND)
    talk.server(*[delivery(entry) for entry in range(got)]).wait(50 * MILLISECOND)
    if acks:
        talk.client(ack(*range(acks)))
    talk.wait(SECOND).server(close_consumer(1, BY_BROKER)).wait(100 * MILLISECOND + late)
    subscribed(talk, kind=kind).client(flow(1000)).wait(10 * MILLISECOND)
    talk.server(*[delivery(entry) for entry in range(first, max(got, first + 1))]).wait(SECOND)
    return diagnose(folder, talk)


@pytest.mark.parametrize(
    ("got", "acks", "first", "kind"),
    [
        *product((20,), (20,), (0, 7, 19), ("Exclusive", "Shared", "Failover")),
        *product((5, 60), (5,), (0, 4), ("Exclusive", "Key_Shared")),
        (3, 1, 0, "Exclusive"),
    ],
)
def test_a_topic_whose_only_consumer_gets_again_what_it_had_acknowledged_was_reset(
    tmp_path: Path, got: int, acks: int, first: int, kind: str
) -> None:
    diagnosis = sent_again(tmp_path, got, acks, first, kind=kind)
    row, _ = diagnosis.only(RESET)
    assert f"sent 7:{first} again" in (row.text or "")
    assert diagnosis.of(UNLOADED) == []


@pytest.mark.parametrize(
    ("got", "acks", "first"),
    [*((20, 20, first) for first in (20, 21, 40)), *((20, acks, acks) for acks in (0, 1, 12, 19)), (5, 0, 0), (60, 30, 45)],
)
def test_one_that_goes_on_with_what_it_had_not_acknowledged_was_unloaded(tmp_path: Path, got: int, acks: int, first: int) -> None:
    for late in (0, 3 * SECOND):
        diagnosis = sent_again(tmp_path, got, acks, first, late=late)
        assert diagnosis.of(RESET) == []
        assert diagnosis.of(UNLOADED)


def older(folder: Path, got: int, acks: int, again: range, *, kind: str = "Exclusive", ledger: int = 7, sought: bool = False) -> Diagnosis:
    """The same for a consumer from before the capture, whose first captured message is the hundredth."""
    talk = Conversation().server(*[delivery(100 + entry) for entry in range(got)]).wait(50 * MILLISECOND)
    if acks:
        talk.client(ack(*range(100, 100 + acks)))
    if sought:
        talk.client(command_frame("SEEK", consumer_id=1, request_id=20, message_id={"ledgerId": 7, "entryId": 1})).server(success(20))
    talk.wait(SECOND).server(close_consumer(1, BY_BROKER)).wait(100 * MILLISECOND)
    subscribed(talk, kind=kind).client(flow(1000)).wait(10 * MILLISECOND)
    talk.server(*[message(1, entry, ledger=ledger) for entry in again]).wait(SECOND)
    return diagnose(folder, talk)


@pytest.mark.parametrize(
    ("got", "acks", "first", "kind"), [*product((20,), (20, 5), (0, 90, 100, 103), ("Exclusive", "Shared")), (6, 1, 0, "Failover")]
)
def test_one_from_before_the_capture_that_gets_again_what_it_had_acknowledged_was_reset(
    tmp_path: Path, got: int, acks: int, first: int, kind: str
) -> None:
    row, _ = older(tmp_path, got, acks, range(first, 130), kind=kind).only(RESET)
    assert f"sent 7:{max(first, 100)} again" in (row.text or "")


@pytest.mark.parametrize(
    ("got", "acks", "again", "ledger", "sought"),
    [
        *((20, acks, range(100 + acks, 140), 7, False) for acks in (0, 1, 12, 20)),  # it continues
        *((20, 20, range(first, 100), 7, False) for first in (0, 90)),  # what it may not have acknowledged before
        (20, 20, range(50), 8, False),  # another ledger
        (20, 20, range(100, 120), 7, True),  # its own SEEK
    ],
)
def test_one_from_before_the_capture_that_goes_on_was_not(
    tmp_path: Path,
    got: int,
    acks: int,
    again: range,
    ledger: int,
    sought: bool,
) -> None:
    assert older(tmp_path, got, acks, again, ledger=ledger, sought=sought).of(RESET) == []


def sharing(folder: Path, *, kind: str, share: int, order: tuple[int, ...], older: bool) -> Diagnosis:
    """An unload while one consumer has acknowledged all its messages, and another on its connection none; then it gets the other's."""
    talk = Conversation() if older else subscribed(subscribed(connected(), kind=kind), 2, kind=kind).client(flow(1000))
    owners = {entry: 1 + (entry // share) % 2 for entry in range(100, 140)}
    talk.server(*[message(owner, entry) for entry, owner in owners.items()]).wait(50 * MILLISECOND)
    talk.client(ack(*[entry for entry, owner in owners.items() if owner == 1])).wait(2 * SECOND)
    talk.server(*[close_consumer(number, BY_BROKER) for number in order]).wait(100 * MILLISECOND)
    subscribed(subscribed(talk, kind=kind), 2, kind=kind).client(flow(1000)).wait(10 * MILLISECOND)
    talk.server(*[message(1, entry) for entry, owner in owners.items() if owner == 2]).wait(SECOND)
    return diagnose(folder, talk)


@pytest.mark.parametrize(
    ("kind", "share", "order", "older"), [*product(("Shared", "Key_Shared"), (1, 5, 20), ((1, 2), (2, 1)), (False, True))]
)
def test_one_that_gets_what_another_had_not_acknowledged_was_not(
    tmp_path: Path, kind: str, share: int, order: tuple[int, ...], older: bool
) -> None:
    assert sharing(tmp_path, kind=kind, share=share, order=order, older=older).of(RESET) == []


@pytest.mark.parametrize(("first", "is_reset"), [*product((0, 20, 39), (True,)), *product((56, 59, 60), (False,))])
@pytest.mark.parametrize("gap", [1, 50])
def test_acks_that_the_broker_may_not_have_got_before_it_closed_the_consumer_show_nothing(
    tmp_path: Path, first: int, is_reset: bool, gap: int
) -> None:
    """The consumer acknowledges an entry every 100 ms, up to `gap` ms before the close."""
    talk = subscribed(connected(), kind="Exclusive").client(flow(1000))
    for entry in range(60):
        talk.wait(100 * MILLISECOND).server(delivery(entry)).client(ack(entry))
    talk.wait(gap * MILLISECOND).server(close_consumer(1, BY_BROKER)).wait(100 * MILLISECOND)
    subscribed(talk, kind="Exclusive").client(flow(1000)).wait(10 * MILLISECOND)
    diagnosis = diagnose(tmp_path, talk.server(*[delivery(entry) for entry in range(first, 80)]).wait(SECOND))
    assert len(diagnosis.of(RESET)) == is_reset


def test_what_the_client_returned_comes_again(tmp_path: Path) -> None:
    talk = subscribed(connected()).client(flow(1000)).server(*[delivery(entry) for entry in range(20)]).wait(50 * MILLISECOND)
    talk.client(ack(*range(5), *range(6, 20))).wait(2 * SECOND).client(redeliver(5)).server(close_consumer(1, BY_BROKER))
    subscribed(talk.wait(100 * MILLISECOND)).client(flow(1000)).server(*[delivery(entry) for entry in (5, *range(20, 40))]).wait(SECOND)
    assert diagnose(tmp_path, talk).of(RESET) == []


def gone(
    folder: Path, got: int, acks: int, first: int, *, kind: str = "Exclusive", away: int = 100, how: str = "", durable: bool = True
) -> Diagnosis:
    """The same as `sent_again`, `away` ms later and beside a producer, with messages up to the hundredth; `how`: what else happens."""
    talk = subscribed(connected(), kind=kind, durable=durable).client(flow(1000)).wait(50 * MILLISECOND)
    talk.client(producer()).server(created())
    talk.server(*[delivery(entry) for entry in range(got)]).wait(50 * MILLISECOND)
    talk.client(ack(*range(acks)))
    if how == "returned":
        talk.client(redeliver())
    elif how == "sought":
        talk.client(command_frame("SEEK", consumer_id=1, request_id=20, message_id={"ledgerId": 7, "entryId": first})).server(success(20))
    elif how == "acknowledged":
        talk.client(ack(*range(acks, got)))
    talk.wait(SECOND)
    if how == "by the client":
        talk.client(close_consumer(1, 30)).server(success(30))
    else:
        talk.server(close_consumer(1, BY_BROKER))
    if how == "whole topic":
        talk.server(close_producer(1))
    talk.wait(away * MILLISECOND)
    if how == "lost":
        talk.lose("client", 100)
    subscribed(talk, kind=kind, durable=durable).client(flow(1000)).wait(10 * MILLISECOND)
    talk.server(*[delivery(entry) for entry in range(first, 100)]).wait(SECOND)
    return diagnose(folder, talk)


@pytest.mark.parametrize(("got", "acks", "first"), [(20, 5, 20), (20, 19, 20), (60, 1, 80), (20, 5, 12), (20, 5, 6)])
@pytest.mark.parametrize("away", [5, 4_000])
@pytest.mark.parametrize("how", ["", "whole topic"])
def test_what_a_consumer_had_not_acknowledged_and_does_not_get_again_is_lost(
    tmp_path: Path, got: int, acks: int, first: int, away: int, how: str
) -> None:
    row, evidence = gone(tmp_path, got, acks, first, away=away, how=how).only("messages-skipped")
    assert (evidence["before"], evidence["after"]) == ([7, acks], [7, first])
    assert evidence["count"] == (got - acks if first >= got else None)
    assert f"went on with 7:{first}" in (row.text or "")
    assert len(evidence["frames"]) == 2


@pytest.mark.parametrize(
    ("first", "how"),
    [
        (5, ""),
        (5, "whole topic"),
        (0, ""),
        (20, "acknowledged"),
        *product((20, 40), ("returned", "sought", "by the client", "lost")),
    ],
)
def test_one_that_gets_them_again_or_does_not_need_them_lost_none(tmp_path: Path, first: int, how: str) -> None:
    assert gone(tmp_path, 20, 5, first, how=how).of("messages-skipped") == []


@pytest.mark.parametrize(
    ("kind", "away", "durable"),
    [*(("Shared", 100, True), ("Failover", 100, True), ("Key_Shared", 100, True)), ("Exclusive", 6_000, True), ("Exclusive", 100, False)],
)
def test_what_another_consumer_may_have_got_is_not_lost(tmp_path: Path, kind: str, away: int, *, durable: bool) -> None:
    assert gone(tmp_path, 20, 5, 20, kind=kind, away=away, durable=durable).of("messages-skipped") == []
