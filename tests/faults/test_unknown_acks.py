"""Acknowledgements of ids that were never delivered, and those of messages that were."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.faults.consumers import publishing
from tests.scenarios.commands import BY_BROKER, ack, close_consumer, delivery, flow, receipt, send
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose
from tests.scenarios.frames import command_frame

UNKNOWN = "ack-unknown-id"
ENDS = ("open", "fin", "rst", "closed")


def consuming(first: int, got: int, *, port: int = 40000, start: int = 0, kind: str = "Shared", end: str = "") -> Conversation:
    """A consumer that gets entries from `first` on."""
    talk = subscribed(connected(port, start=start), kind=kind).client(flow(1000)).wait(10 * MILLISECOND)
    for entry in range(first, first + got):
        talk.server(delivery(entry))
    return ended(talk, end) if end else talk


def ended(talk: Conversation, end: str) -> Conversation:
    if end == "closed":
        talk.client(close_consumer())
    return talk.reset("client") if end == "rst" else talk if end == "open" else talk.close()


def acknowledging(ledger: int, entry: int, kind: str = "Individual") -> bytes:
    return command_frame("ACK", consumer_id=1, ack_type=kind, message_id=[{"ledgerId": ledger, "entryId": entry}])


@pytest.mark.parametrize(
    ("ident", "kind", "got", "end"), [*product(((7, 1000), (99, 0), (3, 5), (7, 2)), ("Shared", "Exclusive"), (1, 10), ENDS)]
)
def test_an_id_that_was_never_delivered_is_named(tmp_path: Path, ident: tuple[int, int], kind: str, got: int, end: str) -> None:
    talk = consuming(5, got, kind=kind)
    for entry in range(5, 5 + got):
        talk.client(ack(entry))
    diagnosis = diagnose(tmp_path, ended(talk.client(acknowledging(*ident)).wait(SECOND).server(delivery(6)), end))
    row, evidence = diagnosis.only(UNKNOWN)
    assert evidence["message_ids"] == [[*ident]]
    assert evidence["frames"] == [f"0:{row.packet}.{row.sub}"]
    assert diagnosis.commands(row) == ["ACK"]


@pytest.mark.parametrize(("ledger", "entry", "others"), [*product((7, 99), (500, 5000), (0, 1, 2))])
def test_a_cumulative_ack_ahead_of_all_is_named(tmp_path: Path, ledger: int, entry: int, others: int) -> None:
    talks = [consuming(0, 5, port=41000 + number, kind="Exclusive", end="fin") for number in range(others)]
    talk = consuming(0, 10, start=SECOND, kind="Exclusive").client(acknowledging(ledger, entry, "Cumulative"))
    diagnose(tmp_path, *talks, talk).only(UNKNOWN)


@pytest.mark.parametrize(("end", "pause", "kind"), [*product(("fin", "rst", "closed"), (10, 1500), ("Shared", "Exclusive"))])
def test_acks_of_what_a_former_connection_got_are_right(tmp_path: Path, end: str, pause: int, kind: str) -> None:
    first = consuming(0, 20, kind=kind, end=end)
    again = consuming(3, 2, port=40001, start=pause * MILLISECOND + SECOND, kind=kind)
    again.client(ack(15), ack(2), ack(19)).wait(10 * MILLISECOND).server(delivery(5))
    assert diagnose(tmp_path, first, again).of(UNKNOWN) == []


@pytest.mark.parametrize("late", [1, 900])
@pytest.mark.parametrize("entry", [8, 30])
def test_acks_of_what_comes_again_behind_a_reconnect_are_right(tmp_path: Path, entry: int, late: int) -> None:
    """The previous connection is not in the capture."""
    talk = consuming(3, 2).client(ack(entry), ack(4)).wait(late * MILLISECOND)
    talk.server(*[delivery(number) for number in range(5, 35)])
    assert diagnose(tmp_path, talk).of(UNKNOWN) == []


@pytest.mark.parametrize(
    ("how", "end"), [*product(("midstream", "gap", "before any", "twice", "by the broker", "previous", "latest"), ENDS[:3])]
)
def test_acks_that_cannot_be_judged_or_are_right_are_not_named(tmp_path: Path, how: str, end: str) -> None:
    if how == "midstream":
        talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), acknowledge=False).server(delivery(5)).client(ack(3), ack(9))
    elif how == "before any":
        talk = consuming(0, 0).client(ack(3))
    else:
        talk = consuming(5, 5)
    if how == "gap":
        talk.lose("server", len(delivery(20))).client(ack(20)).server(delivery(11))
    elif how == "twice":
        talk.client(ack(5), ack(6), ack(5), ack(*range(5, 10)))
    elif how == "by the broker":
        talk.server(close_consumer(1, BY_BROKER))
        subscribed(talk).client(flow(10)).server(delivery(5)).client(ack(9))
    elif how == "previous":
        talk.client(ack(4, kind="Cumulative"))
    elif how == "latest":
        talk.client(acknowledging((1 << 63) - 1, (1 << 63) - 1), acknowledging((1 << 64) - 1, (1 << 64) - 1))
    assert diagnose(tmp_path, ended(talk, end)).of(UNKNOWN) == []


def idle(pause: int, *acks: bytes, kind: str = "Shared", flows: bool = True, midstream: bool = False, **fields: Any) -> Conversation:
    """A consumer that gets nothing, and acknowledges after this many ms."""
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), acknowledge=False) if midstream else connected(start=2 * SECOND)
    talk = talk if midstream else subscribed(talk, kind=kind, **fields)
    return talk.client(flow(1000) if flows else flow(1, 9)).wait(pause * MILLISECOND).client(*acks).wait(SECOND)


@pytest.mark.parametrize(("ident", "kind", "pause", "count"), [*product(((7, 3), (99, 0)), ("Shared", "Exclusive"), (450, 3000), (1, 4))])
def test_an_ack_of_one_that_has_permits_and_got_nothing_is_named(
    tmp_path: Path, ident: tuple[int, int], kind: str, pause: int, count: int
) -> None:
    acks = [acknowledging(ident[0], ident[1] + number) for number in range(count)]
    for end in ("open", "fin"):
        diagnosis = diagnose(tmp_path, ended(idle(pause, *acks, kind=kind), end))
        row, evidence = diagnosis.only(UNKNOWN)
        assert (len(evidence["message_ids"]), {*diagnosis.commands(row)}) == (count, {"ACK"})


@pytest.mark.parametrize(
    ("entry", "kind", "flows"), [*product((0, 5, 500), ("Shared", "Exclusive", "Failover", "Key_Shared"), (False, True))]
)
def test_an_ack_of_what_is_published_meanwhile_and_sent_to_nobody_is_named(tmp_path: Path, entry: int, kind: str, flows: bool) -> None:
    talk = idle(100, acknowledging(7, entry), kind=kind, flows=flows)
    diagnose(tmp_path, publishing(10, 20 * MILLISECOND), talk).only(UNKNOWN)


@pytest.mark.parametrize(
    ("why", "kind", "pause"),
    [
        *product(("at once",), ("Shared", "Exclusive", "Failover", "Key_Shared"), (0, 100, 300)),  # from its previous connection
        *product(("no permits", "midstream", "reader"), ("Shared", "Exclusive"), (100, 3000)),
        *product(("standby",), ("Failover", "Key_Shared"), (500, 3000)),
    ],
)
def test_an_ack_that_may_be_of_something_from_before_is_right(tmp_path: Path, why: str, kind: str, pause: int) -> None:
    fields = {"durable": False} if why == "reader" else {}
    talk = idle(pause, acknowledging(7, 3), kind=kind, flows=why != "no permits", midstream=why == "midstream", **fields)
    assert UNKNOWN not in diagnose(tmp_path, talk).codes


@pytest.mark.parametrize(("kind", "end", "pause"), [*product(("Shared", "Exclusive"), ("fin", "rst"), (100, 3000))])
def test_an_ack_of_what_a_former_connection_or_another_got_is_right(tmp_path: Path, kind: str, end: str, pause: int) -> None:
    former = consuming(0, 8, port=40007, kind=kind, end=end)
    talk = idle(pause, acknowledging(7, 7), acknowledging(7, 3), kind=kind)
    assert UNKNOWN not in diagnose(tmp_path, publishing(10, 20 * MILLISECOND), former, talk).codes


def publishing_since(count: int, every: int) -> Conversation:
    """A producer from before the capture."""
    talk = Conversation(("10.0.0.1", 41000), acknowledge=False)
    for entry in range(count):
        wait_until(talk, (100 + entry * every) * MILLISECOND).client(send(1, entry)).server(receipt(1, entry, entry=entry))
    return talk


@pytest.mark.parametrize(("ahead", "every", "at", "kind"), [*product((5, 500), (20, 100), (5, 20), ("Individual", "Cumulative"))])
def test_an_ack_of_what_is_not_published_yet_is_named_though_its_consumer_is_older(
    tmp_path: Path, ahead: int, every: int, at: int, kind: str
) -> None:
    talk, count = Conversation(acknowledge=False), at + ahead + 3000 // every
    for entry in range(at):
        wait_until(talk, (100 + entry * every + 5) * MILLISECOND).server(delivery(entry)).client(ack(entry))
    ahead += 1000 // every
    talk.client(acknowledging(7, at + ahead, kind))
    _, evidence = diagnose(tmp_path, publishing_since(count, every), talk).only(UNKNOWN)
    assert evidence["message_ids"] == [[7, at + ahead]]


@pytest.mark.parametrize(("story", "every"), [*product(("earlier", "just before", "others", "end"), (5, 20, 100))])
def test_an_ack_of_an_older_consumer_of_what_may_be_published_is_right(tmp_path: Path, story: str, every: int) -> None:
    talk, at = Conversation(acknowledge=False), 20
    for entry in range(10, at):
        wait_until(talk, (100 + entry * every + 5) * MILLISECOND).server(delivery(entry)).client(ack(entry))
    ident = {"earlier": (7, 3), "just before": (7, at + 1), "others": (6, 900), "end": (7, at + 300)}[story]
    count = at if story == "end" else at + 3000 // every
    assert UNKNOWN not in diagnose(tmp_path, publishing_since(count, every), talk.client(acknowledging(*ident))).codes


@pytest.mark.parametrize(("ledger", "entry", "every", "kind"), [*product((8, 84), (0, 500), (20, 100), ("Individual", "Cumulative"))])
def test_an_ack_of_a_ledger_to_come_is_named_though_its_consumer_is_older(
    tmp_path: Path, ledger: int, entry: int, every: int, kind: str
) -> None:
    talk = Conversation(acknowledge=False)
    for number in range(10):
        wait_until(talk, (100 + number * every + 5) * MILLISECOND).server(delivery(number)).client(ack(number))
    talk.client(acknowledging(ledger, entry, kind))
    _, evidence = diagnose(tmp_path, publishing_since(10 + 1000 // every, every), talk).only(UNKNOWN)
    assert evidence["message_ids"] == [[ledger, entry]]


@pytest.mark.parametrize("every", [5, 20, 100])
def test_an_ack_of_the_next_ledger_is_right_once_it_is_there(tmp_path: Path, every: int) -> None:
    talk = Conversation(acknowledge=False)
    for number in range(10):
        wait_until(talk, (100 + number * every + 5) * MILLISECOND).server(delivery(number)).client(ack(number))
    publisher = publishing_since(10, every)
    for number in range(20):
        publisher.wait(every * MILLISECOND).client(send(1, 10 + number)).server(receipt(1, 10 + number, ledger=8, entry=number))
    assert UNKNOWN not in diagnose(tmp_path, publisher, talk.client(acknowledging(8, 3))).codes


def two_workers(kind: str, count: int, story: str, end: str) -> list[Conversation]:
    """Two consumers that share a topic entry by entry; at 2 s, the second acknowledges five entries of the first."""
    first, second = (subscribed(connected(40000 + number), kind=kind).client(flow(1000)) for number in range(2))
    for entry in range(count):
        time = (100 + 20 * entry) * MILLISECOND
        wait_until(second if entry % 2 else first, time).server(delivery(entry))
    if story == "left":
        first.client(close_consumer()).close()
    elif story == "disorder":
        second.server(delivery(count + 9), delivery(count + 3))
    elif story == "lost":
        second.lose("server", 5000)
    wait_until(second, 2 * SECOND)
    taken = [*range(1, count, 2)] if story == "own" else [*range(0, 10, 2)]
    if story == "again":
        second.server(*(delivery(entry, again=1) for entry in taken))
    second.client(ack(*range(1, count, 2)), ack(*taken))
    if story == "again later":
        second.wait(SECOND).server(*(delivery(entry, again=1) for entry in taken))
    if story != "left":
        first = wait_until(first, 3500 * MILLISECOND).client(ack(*range(10, count, 2)))
        first = ended(first, end)
    return [first, ended(second.wait(SECOND), end)]


@pytest.mark.parametrize(("kind", "count", "end"), [*product(("Shared", "Key_Shared"), (20, 60), ENDS)])
def test_an_ack_of_what_another_consumer_holds_is_named(tmp_path: Path, kind: str, count: int, end: str) -> None:
    diagnosis = diagnose(tmp_path, *two_workers(kind, count, "", end))
    row, evidence = diagnosis.only(UNKNOWN)
    assert evidence["message_ids"] == [[7, entry] for entry in range(0, 10, 2)]
    assert diagnosis.commands(row) == ["ACK"]


@pytest.mark.parametrize(
    ("story", "kind", "count"),
    [*product(("own", "again", "again later", "left", "disorder", "lost"), ("Shared", "Key_Shared"), (20, 60))],
)
def test_an_ack_of_what_it_may_have_is_right(tmp_path: Path, story: str, kind: str, count: int) -> None:
    assert UNKNOWN not in diagnose(tmp_path, *two_workers(kind, count, story, "open")).codes


def test_too_many_that_came_again_leave_it_undecided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.protocols.pulsar.rules.subscriptions.shares.AGAIN_MAX", 3)
    first, second = two_workers("Shared", 20, "", "open")
    wait_until(second, 4 * SECOND).server(*(delivery(entry, again=1) for entry in range(1, 13, 2)))
    assert UNKNOWN not in diagnose(tmp_path, first, second).codes


@pytest.mark.parametrize(("late", "got", "lost", "before"), [*product((3, 40), (1, 8), (0, 1), (0, 3))])
def test_what_is_captured_behind_the_close_was_delivered(tmp_path: Path, late: int, got: int, lost: int, before: int) -> None:
    """A tap delays the broker's direction: what a consumer acknowledges is captured after it was closed."""
    talk = subscribed(connected(), kind="Shared").client(flow(1000)).wait(10 * MILLISECOND)
    for entry in range(before):
        talk.server(delivery(entry)).client(ack(entry))
    talk.client(*[ack(entry) for entry in range(before, before + got + lost)], close_consumer()).wait(late * MILLISECOND)
    talk.server(*[delivery(entry) for entry in range(before, before + got)]).wait(SECOND)
    diagnosis = diagnose(tmp_path, talk.close(), publishing(before + got + lost, MILLISECOND))
    assert (UNKNOWN in diagnosis.codes) == bool(lost)
