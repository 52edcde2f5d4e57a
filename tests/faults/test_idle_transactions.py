"""Transactions that come to a halt, and those that are only slow."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.commands import PING, PONG, TOPIC, created, delivery, flow, producer, receipt, send
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose
from tests.scenarios.frames import command_frame

OPEN = "txn-open"


def transactions(before: int, steps: int, pause: int, *, number: int = 5, ttl: int = 60_000, port: int = 40000) -> Conversation:
    """Transactions that are committed, and one with `steps` SENDs, `pause` ms apart, that is not."""
    talk = connected(port).client(producer(request=90)).server(created(request=90))
    sent = 0
    for index in range(before + 1):
        ident: dict[str, Any] = {"txnid_most_bits": 3, "txnid_least_bits": number + index}
        talk.client(command_frame("NEW_TXN", request_id=100 + 3 * index, txn_ttl_millis=ttl, tc_id=0))
        talk.server(command_frame("NEW_TXN_RESPONSE", request_id=100 + 3 * index, **ident))
        for _ in range(steps):
            talk.wait(pause * MILLISECOND).client(send(1, sent, **ident)).server(receipt(1, sent, entry=sent))
            sent += 1
        if index < before:
            end_of(talk, number + index, 101 + 3 * index)
    return talk


def end_of(talk: Conversation, number: int, request: int = 900) -> Conversation:
    ident: dict[str, Any] = {"txnid_most_bits": 3, "txnid_least_bits": number}
    talk.client(command_frame("END_TXN", request_id=request, txn_action="COMMIT", **ident))
    return talk.server(command_frame("END_TXN_RESPONSE", request_id=request, **ident))


def beside(until: int, *, host: str = "10.0.0.1") -> Conversation:
    """Another connection of the client, which continues."""
    talk = connected(40009, host=host).client(producer(1, "q", 1, f"{TOPIC}-2")).server(created("q", 1))
    for number in range(until * 2):
        wait_until(talk, (number + 1) * SECOND // 2).client(send(1, number)).server(receipt(1, number, entry=number))
    return talk


@pytest.mark.parametrize(("before", "steps", "pause", "length"), [*product((0, 3), (1, 5), (10, 100), (6, 12, 40))])
def test_one_without_a_step_for_long_is_named(tmp_path: Path, before: int, steps: int, pause: int, length: int) -> None:
    diagnosis = diagnose(tmp_path, transactions(before, steps, pause), beside(length))
    row, evidence = diagnosis.only(OPEN)
    assert (row.severity, evidence["txn"], evidence["topic"]) == ("warning", f"(3,{5 + before})", TOPIC)
    assert diagnosis.commands(row)[:2] == ["NEW_TXN_RESPONSE", "SEND"]


@pytest.mark.parametrize("length", [35, 65])
def test_its_own_connection_may_give_the_time(tmp_path: Path, length: int) -> None:
    talk = wait_until(transactions(1, 3, 20, ttl=600_000), length * SECOND).client(PING).server(PONG)
    assert diagnose(tmp_path, talk).only(OPEN)[1]["closed_by"] is None


@pytest.mark.parametrize(
    ("before", "steps", "pause", "length"),
    [
        *product((0, 3), (1, 5), (10, 100), (2,)),  # not for long
        *product((0, 1), (4, 9), (1500, 3000), (33,)),  # its steps are as slow
        *product((2,), (2,), (5_000,), (36,)),  # others take as long
    ],
)
def test_one_that_may_go_on_is_not(tmp_path: Path, before: int, steps: int, pause: int, length: int) -> None:
    talk = transactions(before, steps, pause)
    until = max(length if length < 3 else 0, (before + 1) * steps * pause // 1000 + 2)
    assert OPEN not in diagnose(tmp_path, talk, beside(until)).codes


@pytest.mark.parametrize(("steps", "length", "how"), [*product((1, 5), (6, 30), ("ended", "ended elsewhere", "steps elsewhere", "lost"))])
def test_one_that_ends_or_goes_on_is_not(tmp_path: Path, steps: int, length: int, how: str) -> None:
    talk, other = transactions(0, steps, 50), beside(length)
    if how == "ended":
        wait_until(talk, (length - 1) * SECOND)
        end_of(talk, 5)
    elif how == "ended elsewhere":
        end_of(other, 5)
    elif how == "steps elsewhere":
        other.client(send(1, 1000, txnid_most_bits=3, txnid_least_bits=5)).server(receipt(1, 1000, entry=1000))
    else:
        talk.lose("client", 60).server(PING).client(PONG)
    assert OPEN not in diagnose(tmp_path, talk, other).codes


@pytest.mark.parametrize(("length", "ends", "every"), [*product((8, 12), (False, True), (50, 500))])
def test_a_broker_is_not_silent_that_waits_for_the_end_of_a_transaction(tmp_path: Path, length: int, every: int, *, ends: bool) -> None:
    """What another producer publishes to the topic in the meantime is delivered after it."""
    into = subscribed(connected(40001, start=10 * MILLISECOND)).client(flow(1000))
    within, plain = transactions(0, 3, 20, port=40000), connected(40002).client(producer(2, "q", 1)).server(created("q", 1))
    for number in range(length * 1000 // every - 1):
        wait_until(plain, (300 + number * every) * MILLISECOND).client(send(2, number)).server(receipt(2, number, entry=10 + number))
    if ends:
        end_of(wait_until(within, length * SECOND), 5)
        wait_until(into, length * SECOND + 10 * MILLISECOND).server(*[delivery(entry) for entry in range(10)])
    assert "broker-silent" not in diagnose(tmp_path, within, plain, into).codes


@pytest.mark.parametrize(("rest", "answer"), [*product((4, 12), ("none", "late", "receipt"))])
def test_a_client_that_waits_for_a_step_is_not_idle(tmp_path: Path, rest: int, answer: str) -> None:
    """The last step has no answer before the end, or a late one."""
    talk = end_of(transactions(2, 3, 10), 7)
    talk.client(command_frame("NEW_TXN", request_id=400, txn_ttl_millis=60_000, tc_id=0))
    ident: dict[str, Any] = {"txnid_most_bits": 3, "txnid_least_bits": 99}
    talk.server(command_frame("NEW_TXN_RESPONSE", request_id=400, **ident))
    added = command_frame("ADD_SUBSCRIPTION_TO_TXN", request_id=401, subscription=[{"topic": TOPIC, "subscription": "s"}], **ident)
    response = command_frame("ADD_SUBSCRIPTION_TO_TXN_RESPONSE", request_id=401, **ident)
    talk.wait(10 * MILLISECOND).client(added)
    if answer == "receipt":
        talk.server(response)
    wait_until(talk, (rest - 1) * SECOND)
    if answer == "late":
        talk.server(response)
    diagnosis = diagnose(tmp_path, wait_until(talk, rest * SECOND).client(PING).server(PONG), beside(rest))
    assert (OPEN in diagnosis.codes) == (answer == "receipt")


def leaking(
    count: int, *, steps: int = 1, committed: int = 0, elsewhere: int = 0, port: int = 40000, first: int = 990, tail: int = 2
) -> list[Conversation]:
    """A client that begins transactions and ends `committed` of them, and `elsewhere` on a connection of another host."""
    talk = connected(port).client(producer(request=90)).server(created(request=90))
    other = connected(port + 1, host="10.0.0.9")
    for index in range(count + committed + elsewhere):
        ident: dict[str, Any] = {"txnid_most_bits": 3, "txnid_least_bits": first + index}
        talk.client(command_frame("NEW_TXN", request_id=100 + 3 * index, txn_ttl_millis=60_000, tc_id=3))
        talk.server(command_frame("NEW_TXN_RESPONSE", request_id=100 + 3 * index, **ident)).wait(MILLISECOND)
        for step in range(steps):
            number = index * steps + step
            talk.client(send(1, number, **ident)).server(receipt(1, number, entry=number))
        if index >= count + committed:
            end_of(wait_until(other, 5 * SECOND + index * MILLISECOND), first + index, 500 + index)
        elif index >= count:
            end_of(talk, first + index, 101 + 3 * index)
    return [wait_until(talk, tail * SECOND).client(PING).server(PONG), other]


@pytest.mark.parametrize(
    ("count", "steps", "committed", "elsewhere", "end", "first"),
    [
        *product((2, 40), (0, 3), (0, 5), (0, 4), ("client", "server"), (0,)),
        (300, 1, 10, 0, "client", 0),
        (300, 1, 0, 20, "open", 1_000),
    ],
)
def test_many_of_one_client_are_one_finding(
    tmp_path: Path, count: int, steps: int, committed: int, elsewhere: int, end: str, first: int
) -> None:
    talk, other = leaking(count, steps=steps, committed=committed, elsewhere=elsewhere, first=first, tail=70 if end == "open" else 2)
    row, evidence = diagnose(tmp_path, talk if end == "open" else talk.close(end), other).only(OPEN)
    assert (evidence["count"], evidence["txn"]) == (count, f"(3,{first})")
    assert evidence["transactions"] == [f"(3,{first + index})" for index in range(min(count, 10))]
    assert f"{count:,} transactions of client 10.0.0.1, begun within" in (row.text or "")
    assert "stay open. The first: transaction (3," in (row.text or "")


def test_transactions_far_apart_are_several_findings(tmp_path: Path) -> None:
    talk, _ = leaking(30, first=990)
    assert [(row.evidence or {})["count"] for row in diagnose(tmp_path, talk.close("client")).of(OPEN)] == [10, 20]


@pytest.mark.parametrize(("count", "steps"), [*product((2, 40), (1, 3))])
def test_many_idle_ones_are_one_finding(tmp_path: Path, count: int, steps: int) -> None:
    talk, _ = leaking(count, steps=steps, tail=30)
    row, evidence = diagnose(tmp_path, talk, beside(29)).only(OPEN)
    assert (evidence["count"], evidence["closed_by"]) == (count, None)
    assert f"{count} transactions of client 10.0.0.1" in (row.text or "")


@pytest.mark.parametrize("clients", [2, 5])
def test_each_client_has_its_finding(tmp_path: Path, clients: int) -> None:
    talks = []
    for client in range(clients):
        talk = connected(40000 + client, host=f"10.0.0.{20 + client}")
        for number in range(3):
            ident: dict[str, Any] = {"txnid_most_bits": 3, "txnid_least_bits": 10 * client + number}
            talk.client(command_frame("NEW_TXN", request_id=number, txn_ttl_millis=60_000, tc_id=3))
            talk.server(command_frame("NEW_TXN_RESPONSE", request_id=number, **ident))
        talks.append(talk.wait(SECOND).close("client"))
    assert [(row.evidence or {})["count"] for row in diagnose(tmp_path, *talks).of(OPEN)] == [3] * clients
