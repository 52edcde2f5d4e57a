"""Redelivery storms, requests to redeliver everything, and dead letters."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.protocols.pulsar.rules.consumers.request_periods import period_of
from tests.places import CAPTURES
from tests.scenarios import Conversation
from tests.scenarios.commands import PING, PONG, TOPIC, ack, created, delivery, flow, producer, receipt, redeliver, send, subscribe, success
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND
from tests.scenarios.dialogue import RuleDialogue
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.frames import command_frame
from tests.scenarios.rules.redelivery import repeated


def test_a_message_that_comes_again_without_end_is_a_storm(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, repeated(25))
    row, evidence = diagnosis.only("redelivery-storm")
    assert row.severity == "warning"
    assert (evidence["message_id"], evidence["redelivery_count"], evidence["requests"]) == ([7, 2], 25, 25)
    assert (evidence["deliveries"], evidence["redelivered"]) == (27, 25)
    assert evidence["period_ns"] // SECOND == 30
    assert diagnosis.commands(row)[:2] == ["MESSAGE", "REDELIVER_UNACKNOWLEDGED_MESSAGES"]
    assert "7:2 as often as 25 times" in (row.text or "")


def test_one_that_comes_again_a_few_times_is_none(tmp_path: Path) -> None:
    assert "redelivery-storm" not in diagnose(tmp_path, repeated(16)).codes


def test_many_in_a_short_time_are_a_storm(tmp_path: Path) -> None:
    talk = subscribed(connected()).client(flow(10_000)).server(*[delivery(entry) for entry in range(40)])
    for again in range(1, 5):
        talk.wait(SECOND).client(redeliver(*range(40))).server(*[delivery(entry, again=again) for entry in range(40)])
    _, evidence = diagnose(tmp_path, talk.close()).only("redelivery-storm")
    assert (evidence["most_in_window"], evidence["ids_asked"], evidence["redelivery_count"]) == (160, 160, 4)


def test_a_failover_that_brings_many_once_is_none(tmp_path: Path) -> None:
    talk = subscribed(connected(), kind="Failover").client(flow(10_000)).server(*[delivery(entry) for entry in range(300)])
    talk.client(redeliver()).server(*[delivery(entry, again=1) for entry in range(300)]).close()
    diagnosis = diagnose(tmp_path, talk)
    assert "redelivery-storm" not in diagnosis.codes
    assert "redeliver-all" in diagnosis.codes


def worked_on(messages: int, *, fail: int, pause: int = 12) -> Conversation:
    """A consumer that gets `fail` of its messages again once, at its client's request, before it acknowledges them."""
    talk = subscribed(connected(), kind="Shared").client(flow(1000)).server(*[delivery(entry) for entry in range(messages)])
    for entry in range(messages):
        talk.wait(pause * SECOND)
        if entry < fail:
            talk.client(redeliver(entry)).server(delivery(entry, again=1)).wait(SECOND)
        talk.client(ack(entry))
    return talk


@pytest.mark.parametrize(("messages", "fail"), [(4, 4), (10, 5), (40, 30)])
def test_most_messages_come_again_as_with_an_ack_timeout_that_is_too_short(tmp_path: Path, messages: int, fail: int) -> None:
    row, evidence = diagnose(tmp_path, worked_on(messages, fail=fail).close()).only("most-redelivered")
    assert row.severity == "note"
    assert (evidence["entries"], evidence["came_again"], evidence["requests"]) == (messages, fail, fail)
    assert f"got {fail} of its {messages} entries again: its client asked {fail} times in" in row.text


@pytest.mark.parametrize(
    ("messages", "fail", "pause"), [(3, 3, 12), (10, 4, 12), (5, 5, 1), (8, 0, 12)], ids=["few", "less than half", "soon over", "none"]
)
def test_a_few_messages_may_come_again(tmp_path: Path, messages: int, fail: int, pause: int) -> None:
    assert "most-redelivered" not in diagnose(tmp_path, worked_on(messages, fail=fail, pause=pause).close()).codes


def in_groups(group: int, rounds: int, *, timeout: int = 10, apart: int = 8 * SECOND, twice: bool = True) -> Conversation:
    """A consumer that works on groups of messages for longer than its ack timeout, in s, and acknowledges each group at its end.

    `apart`: time until the second copies are done, too; `twice`: they are acknowledged as well.
    """
    talk = subscribed(connected(), kind="Shared").client(flow(1000))
    for number in range(rounds):
        entries = range(number * group, (number + 1) * group)
        talk.server(*[delivery(entry) for entry in entries]).wait(timeout * SECOND).client(redeliver(*entries))
        talk.server(*[delivery(entry, again=1) for entry in entries]).wait(2 * SECOND).client(*[ack(entry) for entry in entries])
        talk.wait(apart).client(*[ack(entry) for entry in entries if twice])
    return talk.close()


@pytest.mark.parametrize(("group", "rounds", "timeout"), [(5, 2, 10), (3, 4, 12), (20, 3, 10), (1, 6, 30)])
def test_an_ack_timeout_shorter_than_the_work_processes_messages_twice(tmp_path: Path, group: int, rounds: int, timeout: int) -> None:
    diagnosis = diagnose(tmp_path, in_groups(group, rounds, timeout=timeout))
    row, evidence = diagnosis.only("processed-twice")
    assert row.severity == "warning"
    assert (evidence["acknowledged_twice"], evidence["came_again"]) == (group * rounds, group * rounds)
    assert diagnosis.commands(row)[:2] == ["REDELIVER_UNACKNOWLEDGED_MESSAGES", "ACK"]
    assert "most-redelivered" not in diagnosis.codes


def read_again(entries: int, *, seek: bool) -> Conversation:
    """A consumer that processes messages which came again, and later gets and processes all of them once more."""
    talk = subscribed(connected(), kind="Shared").client(flow(1000))
    talk.server(*[delivery(entry) for entry in range(entries)]).client(redeliver(*range(entries))).wait(12 * SECOND)
    talk.server(*[delivery(entry, again=1) for entry in range(entries)]).client(*[ack(entry) for entry in range(entries)])
    talk.wait(30 * SECOND)
    if seek:
        talk.client(command_frame("SEEK", consumer_id=1, request_id=9, message_id={"ledgerId": 5, "entryId": 0}))
        talk.server(command_frame("SUCCESS", request_id=9))
    talk.server(*[delivery(entry) for entry in range(entries)]).wait(SECOND).client(*[ack(entry) for entry in range(entries)])
    return talk.wait(SECOND).client(redeliver(0)).close()


def rolled_back(lost: bool) -> Conversation:
    """A consumer whose transaction is rolled back: it returns what it had acknowledged, and gets it once more."""
    talk = subscribed(connected(), kind="Shared").client(flow(1000))
    for number in range(3):
        entries = range(number * 10, (number + 1) * 10)
        talk.server(*map(delivery, entries)).client(redeliver(*entries)).wait(12 * SECOND)
        talk.server(*[delivery(entry, again=1) for entry in entries]).client(*map(ack, entries)).wait(SECOND).client(redeliver(*entries))
        again = [delivery(entry, again=2) for entry in entries]
        talk.lose("server", sum(map(len, again))) if lost else talk.server(*again)
        for _ in range(4):
            talk.wait(SECOND).client(PING).server(PONG)
        talk.client(*map(ack, entries)).wait(SECOND)
    return talk.close()


PROCESSED_ONCE = {
    "rolled back": rolled_back(lost=False),
    "rolled back, and the capture lacks the later deliveries": rolled_back(lost=True),
    "after a seek": read_again(6, seek=True),
    "delivered once more": read_again(40, seek=False),
    "negatively acknowledged, and done at the second time": in_groups(5, 4, twice=False),
    "each ACK sent twice": in_groups(5, 4, apart=0),
    "a pause of the application": in_groups(20, 1),
    "few": in_groups(1, 4),
}


@pytest.mark.parametrize("how", PROCESSED_ONCE)
def test_messages_that_are_processed_once_are_not(tmp_path: Path, how: str) -> None:
    assert "processed-twice" not in diagnose(tmp_path, PROCESSED_ONCE[how]).codes


@pytest.mark.parametrize(("seconds", "reported"), [(3, True), (15, True), (40, False)])
@pytest.mark.parametrize("twice", [True, False])
def test_for_how_long_a_client_must_have_requested_messages_again_is_a_threshold(seconds: int, *, twice: bool, reported: bool) -> None:
    """It does so for 20 s."""
    talk = (
        RuleDialogue(thresholds={"most-redelivered-seconds": seconds})
        .client(subscribe(kind="Shared"))
        .server(success(2))
        .client(flow(1000))
    )
    for start in range(0, 30, 6):
        entries = range(start, start + 6)
        talk.server(*[delivery(entry) for entry in entries]).wait(2 * SECOND).client(redeliver(*entries))
        talk.server(*[delivery(entry, again=1) for entry in entries]).client(*[ack(entry) for entry in entries if twice])
        talk.wait(3 * SECOND).client(*[ack(entry) for entry in entries])
    expected = {"processed-twice" if twice else "most-redelivered"} if reported else set()
    assert {"processed-twice", "most-redelivered"} & {row.code for row in talk.end()} == expected


def test_a_storm_is_not_also_called_most_redelivered(tmp_path: Path) -> None:
    assert "most-redelivered" not in diagnose(tmp_path, repeated(25)).codes


def one_direction(failing: int, times: int, period: int, after: int) -> Conversation:
    """What a broker sends to a consumer some of whose messages come again, and others for so many seconds afterwards."""
    talk = Conversation(acknowledge=False).server(*[delivery(entry) for entry in range(failing)])
    for again in range(1, times + 1):
        talk.wait(period).server(*[delivery(entry, again=again) for entry in range(failing)])
    for second in range(after):
        talk.wait(SECOND).server(delivery(failing + second))
    return talk


@pytest.mark.parametrize(("failing", "times", "period"), [(1, 4, SECOND), (2, 4, 2 * SECOND), (5, 9, SECOND), (3, 16, SECOND // 2)])
def test_what_came_again_may_have_been_acknowledged_where_the_capture_lacks_the_client(
    tmp_path: Path, failing: int, times: int, period: int
) -> None:
    assert "redelivery-storm" not in diagnose(tmp_path, one_direction(failing, times, period, after=20)).codes


@pytest.mark.parametrize(("failing", "times", "period"), [(1, 6, SECOND), (2, 6, 2 * SECOND), (5, 9, SECOND), (3, 16, SECOND // 2)])
def test_what_comes_again_until_the_end_is_a_storm_even_then(tmp_path: Path, failing: int, times: int, period: int) -> None:
    assert "redelivery-storm" in diagnose(tmp_path, one_direction(failing, times, period, after=0)).codes


def test_a_consumer_that_did_not_ask_is_not_blamed(tmp_path: Path) -> None:
    talk = subscribed(connected()).client(flow(1000)).server(*[delivery(2, again=again) for again in range(25)]).close()
    row, evidence = diagnose(tmp_path, talk).only("redelivery-storm")
    assert evidence["requests"] == 0
    assert "did not ask" in (row.text or "")


def test_without_its_subscribe_a_consumer_has_its_number_and_its_ledger(tmp_path: Path) -> None:
    talk = connected().server(*[delivery(2, 9, again=again) for again in range(25)]).close()
    row, _ = diagnose(tmp_path, talk).only("redelivery-storm")
    assert (row.text or "").startswith("Consumer 9 of connection 0:1 on topic of ledger 7 got 24 of its 25 entries again")


@pytest.mark.parametrize("name", ["shared-nack-dlq.pcap", "old-java-2.4.2.pcap", "lo-java-txn.pcap", "raw-stats.pcap"])
def test_captures_with_negative_acks_have_no_storm(name: str) -> None:
    assert "redelivery-storm" not in Diagnosis(CAPTURES / name).codes


def test_the_request_for_everything_is_a_note() -> None:
    diagnosis = Diagnosis(CAPTURES / "shared-nack-dlq.pcap")
    row, evidence = diagnosis.only("redeliver-all")
    assert (row.severity, evidence["consumer_name"], evidence["count"]) == ("note", "cons-a", 1)
    (name,) = evidence["frames"]
    assert diagnosis.frames[name].command == "REDELIVER_UNACKNOWLEDGED_MESSAGES"
    assert not (diagnosis.frames[name].fields or {}).get("message_ids")


def test_many_of_them_are_one_note_and_a_storm(tmp_path: Path) -> None:
    talk = subscribed(connected(), kind="Exclusive").client(flow(10), *[redeliver()] * 12).close()
    diagnosis = diagnose(tmp_path, talk)
    _, evidence = diagnosis.only("redeliver-all")
    assert (evidence["count"], len(evidence["frames"])) == (12, 10)
    _, storm = diagnosis.only("redelivery-storm")
    assert storm["asked_for_all"] == 12


@pytest.mark.parametrize(("kind", "times", "asks"), [*product(("Exclusive", "Failover"), (2, 12, 25), (False, True))])
def test_brokers_do_not_count_for_exclusive_consumers_that_ask_for_single_messages(
    tmp_path: Path, kind: str, times: int, asks: bool
) -> None:
    """As Go clients do: the broker sends all that is unacknowledged, with a redelivery count of 0."""
    talk = subscribed(connected(), kind=kind).client(flow(100))
    for entry in range(60):
        talk.wait(SECOND // 2).server(delivery(entry, 1)).client(*[ack(entry)] * bool(entry))
        if entry < times:
            talk.client(*[redeliver(0)] * asks).wait(1000).server(delivery(0))
    talk.client(ack(0)).close()
    found = [(row.evidence or {})["redelivery_count"] for row in diagnose(tmp_path, talk).of("redelivery-storm")]
    assert found == ([times] if asks and times == 25 else [])


def test_what_is_said_of_a_request_for_everything_is_true_of_shared_consumers_too(tmp_path: Path) -> None:
    row, evidence = diagnose(tmp_path, subscribed(connected(), kind="Shared").client(flow(10), redeliver()).close()).only("redeliver-all")
    assert evidence["subscription_type"] == "Shared"
    assert "any other does when the application calls redeliverUnacknowledgedMessages" in (row.hint or "")


def test_messages_moved_to_a_dead_letter_topic_are_counted() -> None:
    diagnosis = Diagnosis(CAPTURES / "shared-nack-dlq.pcap")
    findings = diagnosis.of("dead-lettered")
    assert [(row.severity, (row.evidence or {})["count"]) for row in findings] == [("note", 1), ("note", 1)]
    assert {(row.evidence or {})["topic"] for row in findings} == {"persistent://public/default/shared-t-10-dlt"}
    assert {(row.evidence or {})["origin"] for row in findings} == {"persistent://public/default/shared-t-10"}
    assert [diagnosis.commands(row) for row in findings] == [["SEND"], ["SEND"]]


def produced(topic: str, metadata: dict[str, Any]) -> Conversation:
    talk = connected().client(producer(topic=topic)).server(created())
    return talk.client(send(metadata=metadata)).server(receipt())


MOVED = [{"key": "REAL_TOPIC", "value": TOPIC}, {"key": "ORIGIN_MESSAGE_ID", "value": "1:2:-1"}]


@pytest.mark.parametrize(
    ("topic", "metadata", "dead"),
    [
        (f"{TOPIC}-s-DLQ", {}, True),
        (f"{TOPIC}-graveyard", {"properties": MOVED}, True),
        (f"{TOPIC}-s-RETRY", {"properties": MOVED, "deliver_at_time": 5}, False),
        (TOPIC, {"properties": [{"key": "REAL_TOPIC", "value": "x"}]}, False),
        (TOPIC, {}, False),
    ],
    ids=["by its name", "by its properties", "to be retried", "a property of the application", "any"],
)
def test_a_dead_letter_is_distinguished_from_what_is_to_be_retried(
    tmp_path: Path, topic: str, metadata: dict[str, Any], dead: bool
) -> None:
    assert ("dead-lettered" in diagnose(tmp_path, produced(topic, metadata).close()).codes) == dead


@pytest.mark.parametrize(
    ("times", "period"),
    [
        ([0, 30, 60, 91, 120, 150], 30),
        ([0, 30, 60], None),
        ([0, 1, 60, 61, 200, 300, 301], None),
        ([5, 5, 5, 5, 5, 5, 5], None),
        ([0, 30, 60, 90, 92, 120, 150, 180, 210, 240, 270], 30),
    ],
    ids=["regular", "too few", "irregular", "at once", "nearly regular"],
)
def test_a_period_is_seen_when_most_intervals_are_equal(times: list[int], period: int | None) -> None:
    assert period_of(times) == period
