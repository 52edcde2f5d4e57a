"""Silent brokers: permits and a backlog, but no delivery."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.faults.consumers import publishing
from tests.places import CAPTURES
from tests.scenarios import Conversation, command_frame
from tests.scenarios.commands import PING, PONG, TOPIC, ack, close_consumer, delivery, error, flow, message, success
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.frames import message_metadata, payload_frame
from tests.scenarios.rules.backlog import producing, silent


def test_a_published_message_that_does_not_come_is_the_broker_s_silence(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, *silent())
    row, evidence = diagnosis.only("broker-silent")
    assert row.severity == "warning"
    assert diagnosis.commands(row) == ["MESSAGE", "SEND_RECEIPT"]
    assert (evidence["permits"], evidence["backlog"], evidence["last_delivered"], evidence["act"]) == (9, [7, 2], [7, 1], "broker")
    assert 57 <= evidence["silent_ns"] / SECOND <= 59
    assert "7:2" in (row.text or "")
    assert diagnosis.frames[evidence["frames"][0]].time == row.time


@pytest.mark.parametrize(("size", "waits", "named"), [(200, 12, True), (100_000, 12, True), (900_000, 12, False), (900_000, 30, True)])
def test_a_broker_whose_large_message_is_on_its_way_is_not_silent(tmp_path: Path, size: int, waits: int, named: bool) -> None:
    """On a slow link, a frame takes seconds; it counts when it is complete."""
    talk = subscribed(connected()).client(flow(10)).server(delivery(0)).client(ack(0))
    for _ in range(waits):
        talk.wait(SECOND).client(PING)
    talk.server(message(1, 1, bytes(size)), PONG, mss=50_000).client(ack(1))
    beside = publishing(2, 100 * MILLISECOND, until=(waits + 2) * SECOND)
    assert ("broker-silent" in diagnose(tmp_path, talk, beside).codes) == named


@pytest.mark.parametrize(("lost", "size", "end"), [*product(("", "before", "after"), (40, 400), ("closed", "fin", "open"))])
def test_what_the_capture_may_lack_is_no_silence(tmp_path: Path, lost: str, size: int, end: str) -> None:
    """The broker's direction may end within the capture: only the client's acknowledgments show that it continued."""
    talk = subscribed(connected()).client(flow(10))
    if lost == "before":
        talk.lose("server", size)
        for _ in range(4):  # the hole is known after these
            talk.client(PING).server(PONG).wait(SECOND)
    talk.server(delivery(1)).client(ack(1)).wait(5 * SECOND)
    if lost == "after":
        talk.lose("server", size).client(flow(1))
    talk.wait(20 * SECOND)
    if end == "closed":
        talk.client(close_consumer())
    talk.wait(SECOND).client(PING)
    diagnosis = diagnose(tmp_path, talk.end() if end == "fin" else talk, producing(connected(40001, start=2 * SECOND), entry=2).close())
    assert ("broker-silent" in diagnosis.codes) is (lost != "after")


@pytest.mark.parametrize(("got", "lost", "end"), [*product((2, 5, 8), (False, True), ("closed", "open"))])
def test_permits_that_lost_messages_may_have_used_up_are_no_silence(tmp_path: Path, got: int, lost: bool, end: str) -> None:
    """A paused application has a full queue; it granted 10 permits, and messages of an earlier moment are not in the capture."""
    talk = subscribed(connected()).client(flow(10)).server(delivery(0)).client(ack(0))
    if lost:
        talk.lose("server", 300)
        for _ in range(4):
            talk.client(PING).server(PONG).wait(SECOND)
    talk.server(*map(delivery, range(11 - got, 10))).client(ack(*range(11 - got, 10))).wait(25 * SECOND)
    if end == "closed":
        talk.client(close_consumer())
    talk.wait(SECOND).client(PING)
    diagnosis = diagnose(tmp_path, talk, producing(connected(40001, start=6 * SECOND), entry=12).close())
    assert ("broker-silent" in diagnosis.codes) is (not lost or got <= 5)


@pytest.mark.parametrize(("answer", "wait"), [*product(("success", "error", "none"), (8, 60))])
def test_a_consumer_whose_subscription_is_gone_gets_nothing(tmp_path: Path, answer: str, wait: int) -> None:
    """A refused UNSUBSCRIBE changes nothing."""
    talk = subscribed(connected()).client(flow(10)).server(delivery(1)).client(ack(1)).wait(MILLISECOND)
    talk.client(command_frame("UNSUBSCRIBE", consumer_id=1, request_id=70)).wait(MILLISECOND)
    if answer != "none":
        talk.server(success(70) if answer == "success" else error(70, "PersistenceError"))
    talk = talk.wait(wait * SECOND).client(PING)
    diagnosis = diagnose(tmp_path, talk, producing(connected(40001, start=2 * SECOND), entry=2).close())
    assert ("broker-silent" in diagnosis.codes) is (answer != "success")


ELSEWHERE = ("10.0.0.3", 6650)
"""Another broker."""


@pytest.mark.parametrize(("last", "silent"), [(7, True), (3, False)])
def test_what_another_broker_stored_is_due_only_if_it_is_of_the_same_ledgers(tmp_path: Path, last: int, silent: bool) -> None:
    first = payload_frame("MESSAGE", message_metadata(), b"payload", consumer_id=1, message_id={"ledgerId": last, "entryId": 1})
    waiting = subscribed(connected()).client(flow(10)).server(first).wait(60 * SECOND).client(PING).close()
    diagnosis = diagnose(tmp_path, waiting, producing(connected(40001, start=2 * SECOND, server=ELSEWHERE), entry=2).close())
    assert ("broker-silent" in diagnosis.codes) is silent


@pytest.mark.parametrize("unit", [1, MILLISECOND, SECOND])
def test_a_delivery_counts_however_coarse_the_clock_of_the_capture_is(tmp_path: Path, unit: int) -> None:
    """Two consumers get the messages in turn; the last few are in the same second."""
    talks = [subscribed(connected(40000 + number, start=number * MILLISECOND)).client(flow(100)) for number in range(2)]
    for entry in range(20):
        wait_until(talks[entry % 2], SECOND + entry * 200 * MILLISECOND).server(delivery(entry)).client(ack(entry))
    talks = [talks[0].wait(60 * SECOND).client(PING), talks[1].wait(60 * SECOND).client(PING), publishing(20, 200 * MILLISECOND)]
    for talk in talks:
        talk.packets[:] = [packet._replace(time_ns=packet.time_ns // unit * unit) for packet in talk.packets]
    assert "broker-silent" not in diagnose(tmp_path, *talks).codes


@pytest.mark.parametrize(("name", "metadata"), [("pulsar.repl.east-->west", {}), ("p", {"replicated_from": "east"})])
def test_what_a_replicator_copies_is_no_backlog(tmp_path: Path, name: str, metadata: dict[str, Any]) -> None:
    waiting = subscribed(connected()).client(flow(10)).server(delivery(1)).wait(60 * SECOND).client(PING).close()
    published = producing(connected(40001, start=2 * SECOND), entry=2, metadata=metadata, name=name).close()
    assert "broker-silent" not in diagnose(tmp_path, waiting, published).codes


def test_the_last_message_id_says_so_on_one_connection(tmp_path: Path) -> None:
    talk = subscribed(connected()).client(flow(10)).server(delivery(1))
    talk.client(command_frame("GET_LAST_MESSAGE_ID", consumer_id=1, request_id=8))
    talk.server(command_frame("GET_LAST_MESSAGE_ID_RESPONSE", request_id=8, last_message_id={"ledgerId": 7, "entryId": 5}))
    diagnosis = diagnose(tmp_path, talk.wait(20 * SECOND).client(PING).close())
    row, evidence = diagnosis.only("broker-silent")
    assert evidence["backlog"] == [7, 5]
    assert diagnosis.commands(row) == ["MESSAGE", "GET_LAST_MESSAGE_ID_RESPONSE"]


def test_old_brokers_count_entries_whole(tmp_path: Path) -> None:
    talk = subscribed(connected()).client(flow(10)).server(delivery(1, batch=10, ack_set=[1]))
    diagnosis = diagnose(tmp_path, talk.wait(20 * SECOND).client(PING).close(), producing(connected(40001, start=SECOND), entry=2).close())
    row, evidence = diagnosis.only("broker-silent")
    assert (evidence["permits"], evidence["permits_by_whole_entries"]) == (9, 0)
    assert "counted by whole entries" in (row.text or "")


def served(number: int, kind: str, entry: int, topic: str = TOPIC) -> Conversation:
    """A second consumer, which gets the message."""
    talk = subscribed(connected(40000 + number), kind=kind, topic=topic).client(flow(10)).wait(3 * SECOND)
    return talk.server(delivery(entry)).wait(30 * SECOND).close()


@pytest.mark.parametrize("kind", ["Shared", "Failover", "Key_Shared"])
def test_what_another_consumer_of_the_subscription_got_is_no_backlog(tmp_path: Path, kind: str) -> None:
    waiting = subscribed(connected(), kind=kind).client(flow(10)).server(delivery(1)).wait(60 * SECOND).client(PING).close()
    published = producing(connected(40002, start=2 * SECOND), entry=2).close()
    assert "broker-silent" not in diagnose(tmp_path, waiting, served(3, kind, entry=2), published).codes


def sharing(kind: str, others: int, *, lost: str = "") -> list[Conversation]:
    """A consumer that waits after 12 entries, of which it got its share and `others` consumers got theirs; 7:12 goes to none.

    `lost`: the capture lacks the last consumer's SUBSCRIBE, or its latest MESSAGE.
    """
    talks = [
        subscribed(connected(40000 + number, start=(number + 1) * MILLISECOND), kind=kind).client(flow(1000))
        for number in range(others + 1)
    ]
    if lost == "subscribe":
        talks[-1] = connected(40000 + others, start=(others + 1) * MILLISECOND).lose("client", 90).lose("server", 14).client(flow(1000))
    for entry in range(12):
        talk = talks[entry % (others + 1)]
        wait_until(talk, (150 + 100 * entry) * MILLISECOND).server(delivery(entry)).client(ack(entry))
    if lost == "message":
        wait_until(talks[-1], 1350 * MILLISECOND).lose("server", len(delivery(12))).client(ack(12))
    ended = [wait_until(talk, 20 * SECOND).client(PING).server(PONG) for talk in talks]
    return [*ended, publishing(13, 100 * MILLISECOND)]


@pytest.mark.parametrize(
    ("kind", "others", "lost"), [*product(("Shared", "Key_Shared"), (1, 2), ("subscribe", "message")), ("Shared", 1, ""), ("Shared", 2, "")]
)
def test_an_entry_may_be_at_a_consumer_that_the_capture_hardly_shows(tmp_path: Path, kind: str, others: int, lost: str) -> None:
    codes = diagnose(tmp_path, *sharing(kind, others, lost=lost)).codes
    assert ("broker-silent" in codes) == (not lost)


@pytest.mark.parametrize(
    ("kind", "held", "acked", "silent"),
    [("Shared", 20, 0, False), ("Key_Shared", 20, 0, False), ("Shared", 20, 20, True), ("Shared", 2, 0, True), ("Exclusive", 20, 0, True)],
)
def test_a_consumer_that_acknowledges_nothing_may_have_reached_a_low_limit(
    tmp_path: Path, kind: str, held: int, acked: int, silent: bool
) -> None:
    waiting = subscribed(connected(), kind=kind).client(flow(100)).server(*(delivery(entry) for entry in range(held)))
    waiting = waiting.client(*(ack(entry) for entry in range(acked))).wait(60 * SECOND).client(PING).close()
    codes = diagnose(tmp_path, waiting, producing(connected(40001, start=2 * SECOND), entry=held).close()).codes
    assert ("broker-silent" in codes) is silent
    assert ("consumer-not-acking" in codes) is (held > 2 and not acked)


@pytest.mark.parametrize(("kind", "acked", "held"), [*product(("Shared", "Key_Shared"), (5, 60), (5, 30, 200))])
def test_one_that_stopped_acknowledging_may_have_reached_a_low_limit(tmp_path: Path, kind: str, acked: int, held: int) -> None:
    diagnosis = diagnose(tmp_path, *stopping(kind, acked, held))
    assert "broker-silent" not in diagnosis.codes
    assert diagnosis.only("consumer-not-acking")[1]["unacknowledged"] == held


@pytest.mark.parametrize(("kind", "held", "later"), [("Exclusive", 30, False), ("Shared", 4, False), ("Shared", 30, True)])
def test_one_of_another_type_with_few_messages_or_that_goes_on_waits_for_the_broker(
    tmp_path: Path, kind: str, held: int, later: bool
) -> None:
    assert "broker-silent" in diagnose(tmp_path, *stopping(kind, 20, held, later=later)).codes


def stopping(kind: str, acked: int, held: int, *, later: bool = False) -> list[Conversation]:
    """A consumer that acknowledges some messages and holds others, and a producer of one more; `later`: it goes on, and gets none."""
    waiting = subscribed(connected(), kind=kind).client(flow(1000))
    for entry in range(acked):
        waiting.server(delivery(entry)).client(ack(entry)).wait(100 * MILLISECOND)
    waiting.server(*(delivery(entry) for entry in range(acked, acked + held))).wait(SECOND)
    wait_until(waiting, 30 * SECOND).client(*(ack(entry) for entry in range(acked, acked + held) if later)).wait(30 * SECOND)
    last = producing(connected(40001, start=10 * SECOND), entry=acked + held)
    return [waiting.client(PING).server(PONG).close(), last.close()]


@pytest.mark.parametrize(
    ("kind", "subscription", "acked", "silent"),
    [("Shared", "s", 0, False), ("Key_Shared", "s", 0, False), ("Shared", "s", 20, True), ("Shared", "other", 0, True)],
)
def test_one_that_acknowledges_nothing_may_block_the_others_of_its_subscription(
    tmp_path: Path, kind: str, subscription: str, acked: int, silent: bool
) -> None:
    """The broker may have a low limit for the subscription (maxUnackedMessagesPerSubscription)."""
    holding = subscribed(connected(40002), 2, kind=kind, subscription=subscription).client(flow(100, 2))
    holding.server(*(delivery(entry, 2) for entry in range(20))).client(*(ack(entry, number=2) for entry in range(acked)))
    waiting = subscribed(connected(start=MILLISECOND), kind=kind).client(flow(100)).wait(SECOND).server(delivery(20)).client(ack(20))
    talks = [talk.wait(60 * SECOND).client(PING).close() for talk in (holding, waiting)]
    codes = diagnose(tmp_path, *talks, producing(connected(40001, start=2 * SECOND), entry=21).close()).codes
    assert ("broker-silent" in codes) is (silent and kind != "Key_Shared")


def test_an_inactive_failover_consumer_waits_rightly(tmp_path: Path) -> None:
    waiting = subscribed(connected(), kind="Failover").client(flow(10))
    waiting.server(command_frame("ACTIVE_CONSUMER_CHANGE", consumer_id=1, is_active=False)).wait(60 * SECOND).client(PING).close()
    assert "broker-silent" not in diagnose(tmp_path, waiting, producing(connected(40001, start=2 * SECOND), entry=2).close()).codes


@pytest.mark.parametrize(
    ("topic", "metadata"),
    [
        (f"{TOPIC}-partition-1", {}),
        (TOPIC, {"deliver_at_time": 1}),
        (f"non-{TOPIC}", {}),
    ],
    ids=["another partition", "delayed", "not persistent"],
)
def test_what_is_not_due_is_no_backlog(tmp_path: Path, topic: str, metadata: dict[str, Any]) -> None:
    own = topic if topic.startswith("non-") else TOPIC
    waiting = subscribed(connected(), topic=own).client(flow(10)).server(delivery(1)).wait(60 * SECOND).client(PING).close()
    assert "broker-silent" not in diagnose(tmp_path, waiting, producing(connected(40001, start=SECOND), 2, topic, metadata).close()).codes


def test_what_was_published_before_the_subscription_may_not_be_due(tmp_path: Path) -> None:
    published = producing(connected(40001), entry=2).close()
    waiting = subscribed(connected(40002, start=3 * SECOND)).client(flow(10)).wait(60 * SECOND).client(PING).close()
    assert "broker-silent" not in diagnose(tmp_path, waiting, published).codes


def test_a_message_that_comes_soon_is_no_silence(tmp_path: Path) -> None:
    waiting = subscribed(connected()).client(flow(10)).server(delivery(1)).wait(30 * SECOND).server(delivery(2)).wait(SECOND).close()
    assert "broker-silent" not in diagnose(tmp_path, waiting, producing(connected(40001, start=29 * SECOND), entry=2).close()).codes


def test_the_stuck_consumer_is_not_the_broker_s_fault() -> None:
    assert "broker-silent" not in Diagnosis(CAPTURES / "stuck-consumer.pcap").codes
