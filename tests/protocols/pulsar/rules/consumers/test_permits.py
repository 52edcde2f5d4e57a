"""Consumers without permits, and negative permits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.places import CAPTURES
from tests.scenarios.commands import PING, TOPIC, ack, close_consumer, delivery, error, flow, subscribe
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.rules.permits import below_zero


def test_the_stuck_consumer_used_up_its_permits_and_gave_no_more() -> None:
    diagnosis = Diagnosis(CAPTURES / "stuck-consumer.pcap")
    row, evidence = diagnosis.only("consumer-starved")
    assert row.severity == "warning"
    assert (evidence["consumer_name"], evidence["permits"], evidence["granted"], evidence["delivered"]) == ("cons-stuck", 0, 8, 8)
    assert evidence["frames"] == [f"0:{row.packet}.{row.sub}"]
    assert diagnosis.frames[evidence["frames"][0]].command == "MESSAGE"
    assert evidence["starved_ns"] > 5 * SECOND
    assert evidence["act"] == "client"
    assert "cons-stuck" in (row.text or "")
    assert "8 permits" in (row.text or "")


def test_a_client_that_never_gives_permits_starves_its_consumer(tmp_path: Path) -> None:
    talk = subscribed(connected()).wait(6 * SECOND).client(close_consumer()).close()
    diagnosis = diagnose(tmp_path, talk)
    row, evidence = diagnosis.only("consumer-starved")
    assert (evidence["granted"], evidence["topic"], evidence["subscription"]) == (0, TOPIC, "s")
    assert diagnosis.commands(row) == ["SUCCESS"]
    assert "granted no permits for 6.00 s" in (row.text or "")


def test_a_starving_consumer_is_seen_while_the_connection_lives(tmp_path: Path) -> None:
    talk = subscribed(connected()).client(flow(1)).server(delivery(1)).wait(30 * SECOND).client(PING).wait(30 * SECOND).client(PING)
    _, evidence = diagnose(tmp_path, talk).only("consumer-starved")
    assert evidence["starved_ns"] // SECOND == 30


def test_a_consumer_whose_queue_is_full_works_at_its_own_pace(tmp_path: Path) -> None:
    """The application takes two minutes for half of its queue, and has no permits during that time."""
    talk = subscribed(connected()).client(flow(20)).server(*[delivery(entry) for entry in range(20)])
    for entry in range(10):
        talk.wait(12 * SECOND).client(ack(entry), PING)
    assert "consumer-starved" not in diagnose(tmp_path, talk.client(flow(10)).server(delivery(20)).close()).codes


@pytest.mark.parametrize("pause", [1, 20])
def test_a_short_pause_is_none(tmp_path: Path, pause: int) -> None:
    talk = subscribed(connected()).wait(pause * SECOND).client(flow(1)).server(delivery(1))
    talk.wait(pause * SECOND).client(flow(1)).wait(SECOND).close()
    assert "consumer-starved" not in diagnose(tmp_path, talk).codes


@pytest.mark.parametrize(("wait", "begins"), [(8, True), (35, True), (300, True), (8, False), (35, False), (300, False)])
def test_a_consumer_may_be_started_paused(tmp_path: Path, wait: int, *, begins: bool) -> None:
    talk = subscribed(connected())
    for _ in range(wait):
        talk.wait(SECOND).client(PING)
    if begins:
        talk.client(flow(10)).server(delivery(1)).wait(SECOND // 10).client(ack(1)).wait(SECOND)
    assert ("consumer-starved" in diagnose(tmp_path, talk.close()).codes) != begins


def test_messages_that_are_acknowledged_already_cost_nothing(tmp_path: Path) -> None:
    """An ack_set leaves two of eight messages, so that two of four permits remain."""
    talk = subscribed(connected()).client(flow(4)).server(delivery(1, ack_set=[0b1001], batch=8)).wait(10 * SECOND).close()
    assert not {"consumer-starved", "permits-negative"} & set(diagnose(tmp_path, talk).codes)


def test_a_chunk_costs_one(tmp_path: Path) -> None:
    talk = (
        subscribed(connected()).client(flow(2)).server(delivery(1, uuid="u", chunk_id=0, num_chunks_from_msg=9)).wait(10 * SECOND).close()
    )
    assert "consumer-starved" not in diagnose(tmp_path, talk).codes


def test_a_refused_consumer_is_not_starved(tmp_path: Path) -> None:
    talk = connected().client(subscribe(request=5, kind="Shared"))
    talk.server(error(5, "ConsumerBusy", "busy")).wait(10 * SECOND).close()
    assert "consumer-starved" not in diagnose(tmp_path, talk).codes


def test_a_batch_larger_than_the_permits_takes_them_below_zero(tmp_path: Path) -> None:
    diagnosis = diagnose(tmp_path, below_zero())
    row, evidence = diagnosis.only("permits-negative")
    assert (row.severity, evidence["permits"], evidence["granted"]) == ("note", -7, 53)
    assert diagnosis.commands(row) == ["MESSAGE"]


def test_below_zero_a_flow_that_is_too_small_does_not_end_the_starving(tmp_path: Path) -> None:
    talk = subscribed(connected()).client(flow(1)).server(delivery(1, batch=100)).client(flow(50)).wait(20 * SECOND).close()
    _, evidence = diagnose(tmp_path, talk).only("consumer-starved")
    assert (evidence["permits"], evidence["granted"]) == (-49, 51)
