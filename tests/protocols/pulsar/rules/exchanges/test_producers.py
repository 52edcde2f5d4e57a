"""Refused producers and consumers, and those that hold their places."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pulsarscope.model.findings import ERROR
from tests.scenarios.commands import (
    PING,
    PONG,
    TOPIC,
    close_consumer,
    close_producer,
    created,
    error,
    producer,
    send_error,
    subscribe,
    success,
)
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import SECOND, Conversation
from tests.scenarios.evaluation import findings_in, findings_of, only, problem_codes, with_code
from tests.scenarios.frames import command_frame
from tests.scenarios.rules.producers import free_again


def fencing(number: int, *, name: str = "", chosen: str = "", start: int = 0) -> Conversation:
    """A producer that takes the topic over, with its own name or one chosen by the broker."""
    named = {"producer_name": name} if name else {}
    talk = connected(40000 + number, start=start)
    talk.client(command_frame("PRODUCER", topic=TOPIC, producer_id=1, request_id=1, producer_access_mode="ExclusiveWithFencing", **named))
    return talk.server(created(name or chosen or f"standalone-0-{number}", topic_epoch=number))


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("number", [2, 5])
def test_producers_that_take_a_topic_from_each_other(number: int, tmp_path: Path, *, named: bool) -> None:
    talks = [fencing(index, name=f"p{index}" if named else "", start=index * SECOND) for index in range(number)]
    rows = with_code(findings_of(tmp_path, *talks), "producer-fenced")
    assert [each["connection"] for each in (rows[0].evidence or {})["fenced"]] == ["0:1"]
    assert (rows[0].evidence or {})["connections"] == [rows[0].connection, "0:1"]
    assert len(rows) == number - 1


@pytest.mark.parametrize("named", [True, False])
def test_producers_that_take_a_topic_after_each_other(tmp_path: Path, *, named: bool) -> None:
    talks = [fencing(index, name=f"p{index}" if named else "", start=index * SECOND).close() for index in range(4)]
    assert with_code(findings_of(tmp_path, *talks), "producer-fenced") == []


@pytest.mark.parametrize("after", [0, 1, 4, 6, 20])
@pytest.mark.parametrize("number", [2, 4])
@pytest.mark.parametrize("by_client", [True, False])
def test_one_that_closes_shortly_after_it_lost_the_topic_is_replaced(tmp_path: Path, after: int, number: int, *, by_client: bool) -> None:
    talks = [fencing(index, name=f"p{index}", start=30 * index * SECOND) for index in range(number)]
    for index, talk in enumerate(talks[:-1]):
        closing = close_producer(1, 7) if by_client else close_producer()
        wait_until(talk, (30 * (index + 1) + after) * SECOND + SECOND // 10)
        (talk.client(closing).server(success(7)) if by_client else talk.server(closing)).close()
    rows = findings_of(tmp_path, *talks)
    code, other = ("producer-replaced", "producer-fenced") if by_client and after < 5 else ("producer-fenced", "producer-replaced")
    assert (len(with_code(rows, code)), with_code(rows, other)) == (number - 1, [])


@pytest.mark.parametrize("after", [0, 1, 4, 6, 20])
@pytest.mark.parametrize("how", ["fin", "rst", "broker", "gap"])
@pytest.mark.parametrize("named", [True, False])
def test_one_whose_client_is_killed_shortly_afterwards_is_replaced(tmp_path: Path, after: int, how: str, *, named: bool) -> None:
    old, new = (fencing(index, name=f"p{index}" if named else "", start=30 * index * SECOND) for index in range(2))
    wait_until(old, (30 + after) * SECOND + SECOND // 10)
    if how == "gap":
        old.lose("client", 40).client(PING)
    if how == "rst":
        old.reset("client")
    else:
        old.close("server" if how == "broker" else "client")
    rows = findings_of(tmp_path, old, wait_until(new, 60 * SECOND).client(PING).server(PONG))
    code, other = ("producer-fenced", "producer-replaced") if how == "broker" or after > 5 else ("producer-replaced", "producer-fenced")
    assert (len(with_code(rows, code)), with_code(rows, other)) == (1, [])


@pytest.mark.parametrize(("asked", "answers"), [(-15, False), (-15, True), (5, False)])
def test_one_that_was_dead_is_replaced(tmp_path: Path, asked: int, *, answers: bool) -> None:
    """It lost its power: the broker's PING before the takeover has no answer."""
    old, new = fencing(0, name="old"), fencing(1, name="new", start=30 * SECOND)
    wait_until(old, (30 + asked) * SECOND).server(PING)
    if answers:
        old.client(PONG)
    wait_until(old, 60 * SECOND).close("server")
    rows = findings_of(tmp_path, old, new)
    assert bool(with_code(rows, "producer-replaced")) == (asked < 0 and not answers)
    assert bool(with_code(rows, "producer-fenced")) != bool(with_code(rows, "producer-replaced"))


def test_one_that_comes_back_as_a_standby_is_replaced(tmp_path: Path) -> None:
    old, new = fencing(0, name="old"), fencing(1, name="new", start=10 * SECOND)
    wait_until(old, 11 * SECOND).reset("client")
    standby = connected(40005, start=12 * SECOND).client(producer(1, "old", 1, producer_access_mode="WaitForExclusive"))
    standby.server(created("old", producer_ready=False))
    rows = findings_of(tmp_path, old, wait_until(new, 40 * SECOND).client(PING).server(PONG), wait_until(standby, 40 * SECOND).close())
    assert problem_codes(rows) == []
    assert len(with_code(rows, "producer-replaced")) == len(with_code(rows, "producer-waiting")) == 1


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("number", [3, 5])
def test_those_that_outlive_the_next_takeover_are_fenced(number: int, tmp_path: Path, *, named: bool) -> None:
    """They end together, shortly after the last one."""
    talks = [fencing(index, name=f"p{index}" if named else "", start=index * SECOND // 2) for index in range(number)]
    rows = findings_of(tmp_path, *[wait_until(talk, number * SECOND).close("client") for talk in talks])
    assert (len(with_code(rows, "producer-fenced")), with_code(rows, "producer-replaced")) == (number - 1, [])


def taking_turns(turns: int, every: int, who: list[int], *, named: bool = True, one_host: bool = False) -> list[Conversation]:
    """Producers that take a topic from each other: whoever lost it ends a second later, and starts again."""
    talks = []
    for turn in range(turns):
        producing, start = who[turn % len(who)], turn * every * SECOND
        talk = connected(40000 + turn, host="10.0.0.1" if one_host else f"10.0.0.{10 + producing}", start=start)
        asked = producer(1, f"p{producing}" if named else "", 1, producer_access_mode="ExclusiveWithFencing")
        talk.client(asked).server(created(f"p{producing}" if named else f"standalone-0-{turn}", topic_epoch=turn))
        if turn < turns - 1:
            wait_until(talk, start + every * SECOND + SECOND).close("client")
        talks.append(talk)
    return talks


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("turns", "every", "who"), [(4, 3, [0, 1]), (7, 30, [0, 1]), (9, 10, [0, 1, 2])])
def test_producers_that_take_the_topic_back_from_each_other_contend(
    tmp_path: Path, turns: int, every: int, who: list[int], *, named: bool
) -> None:
    rows = findings_of(tmp_path, *taking_turns(turns, every, who, named=named))
    back = turns - len(who)
    fenced = with_code(rows, "producer-fenced")
    assert (len(fenced), len(with_code(rows, "producer-replaced"))) == (back, len(who) - 1)
    assert all(f"producers take it back from each other: {back} times." in (row.text or "") for row in fenced)


@pytest.mark.parametrize(
    ("turns", "every", "who", "one_host"),
    [
        (3, 10, [0, 1], False),  # one returns: a restart of each
        (6, 90, [0, 1], False),  # deployments in turn
        (6, 10, [0, 1, 2, 3, 4, 5], False),
        (6, 10, [0, 1, 2, 3, 4, 5], True),
    ],
)
@pytest.mark.parametrize("named", [True, False])
def test_new_instances_one_after_the_other_do_not(
    tmp_path: Path, turns: int, every: int, who: list[int], *, one_host: bool, named: bool
) -> None:
    rows = findings_of(tmp_path, *taking_turns(turns, every, who, named=named, one_host=one_host))
    assert (len(with_code(rows, "producer-replaced")), with_code(rows, "producer-fenced")) == (turns - 1, [])


def test_a_producer_that_comes_back_takes_nothing_from_itself(tmp_path: Path) -> None:
    talks = [fencing(index, name="p", start=index * SECOND) for index in range(2)]
    assert with_code(findings_of(tmp_path, *talks), "producer-fenced") == []


@pytest.mark.parametrize("number", [2, 4])
def test_one_that_comes_back_with_the_name_that_the_broker_chose_neither(number: int, tmp_path: Path) -> None:
    """Its first connection is half open: the broker has not noticed that it died."""
    talks = [fencing(0, chosen="standalone-0-0")]
    talks += [fencing(index, name="standalone-0-0", start=index * SECOND) for index in range(1, number)]
    assert with_code(findings_of(tmp_path, *talks), "producer-fenced") == []
    other = fencing(number, chosen="standalone-0-7", start=number * SECOND)
    text, _ = only(findings_of(tmp_path, *talks, other), "producer-fenced")
    assert text.startswith("Producer standalone-0-7 (ExclusiveWithFencing)")
    assert "producer standalone-0-0 (ExclusiveWithFencing) on connection 0:1" in text


def test_a_name_that_is_taken_is_reported_with_its_holder() -> None:
    text, evidence = only(findings_in("errors.pcap"), "producer-busy")
    assert "producer same-name (Shared) on connection 0:1 of 10.9.0.11:44872 has held it for 4.39 ms and is alive" in text
    assert evidence["frames"] == ["0:25.1", "0:29.1"]
    assert evidence["holders"] == [{"frame": "0:12.1", "connection": "0:1", "name": "same-name"}]


def test_a_topic_that_is_taken_alone_is_reported_with_its_holder() -> None:
    rows = with_code(findings_in("java-errors.pcap"), "producer-busy")
    assert [(row.severity, row.packet, (row.evidence or {})["holders"][0]["frame"]) for row in rows] == [
        (ERROR, 27, "0:14.1"),
        (ERROR, 86, "0:80.1"),
    ]


@pytest.mark.parametrize(("fields", "code"), [({}, "producer-busy"), ({"topic_epoch": 0, "epoch": 1}, "producer-fenced")])
@pytest.mark.parametrize("name", ["", "q"])
def test_only_a_producer_that_had_the_topic_can_lose_it(tmp_path: Path, name: str, fields: dict[str, Any], code: str) -> None:
    holder = connected().client(producer(producer_access_mode="Exclusive")).server(created())
    other = connected(40001, start=SECOND).client(producer(name=name, producer_access_mode="Exclusive", **fields))
    refused = other.server(error(1, "ProducerFenced", "Topic has an existing exclusive producer: p"))
    assert problem_codes(findings_of(tmp_path, holder, refused)) == [code]


def test_a_takeover_names_winner_and_loser() -> None:
    text, evidence = only(findings_in("java-errors.pcap"), "producer-fenced")
    assert text.startswith("Producer am-fence (ExclusiveWithFencing) of 10.9.0.12:55640 took topic")
    assert evidence["frames"] == ["0:107.1", "0:108.1", "0:92.1"]
    assert "am-wait (WaitForExclusive) on connection 0:16 of 10.9.0.12:55644, which had it for 35.1 ms" in text
    assert evidence["fenced"] == [{"frame": "0:92.1", "connection": "0:16", "name": "am-wait"}]


@pytest.mark.parametrize(("capture", "packets"), [("errors.pcap", [42, 50]), ("java-errors.pcap", [46, 54])])
def test_a_subscription_that_is_taken_is_reported_with_its_holder(capture: str, packets: list[int]) -> None:
    rows = with_code(findings_in(capture), "consumer-busy")
    assert [row.packet for row in rows] == packets
    assert all("consumer one (Exclusive) on connection 0:1" in (row.text or "") for row in rows)


def test_a_refusal_is_reported_once() -> None:
    rows = findings_in("errors.pcap")
    frames = [(row.evidence or {})["frames"][0] for row in rows if row.severity == ERROR]
    assert sorted(frames) == sorted(set(frames))
    assert {(row.evidence or {})["error"] for row in with_code(rows, "request-failed")} == {"TopicNotFound"}


def test_a_holder_that_answers_no_ping_is_called_so(tmp_path: Path) -> None:
    dead = wait_until(connected().client(producer()).server(created()), 30 * SECOND).server(PING)
    dead = wait_until(dead, 60 * SECOND).server(PING).reset()
    again = connected(40001, start=40 * SECOND)
    for attempt in range(3):
        again.client(producer(request=attempt, epoch=attempt)).server(error(attempt, "ProducerBusy")).wait(SECOND)
    text, evidence = only(findings_of(tmp_path, dead, again), "producer-busy")
    assert "with ProducerBusy, 3 times in 2.00 s: producer p (Shared) on connection 0:1 of 10.0.0.1:40000 has held it for 40.0 s" in text
    assert text.endswith("has answered no PING for 10.0 s.")
    assert [attempt["epoch"] for attempt in evidence["attempts"]] == [0, 1, 2]


def waiting(port: int, name: str = "w", start: int = 0) -> Conversation:
    """A producer that must wait for its turn."""
    talk = connected(port, start=start).client(producer(name=name, producer_access_mode="WaitForExclusive"))
    return talk.server(created(name, producer_ready=False))


def test_one_that_waits_for_its_turn_holds_nothing_yet(tmp_path: Path) -> None:
    holder = connected().client(producer(name="h", producer_access_mode="Exclusive")).server(created("h"))
    holder = wait_until(holder, 10 * SECOND).client(close_producer(1, 2)).server(success(2))
    waiter = wait_until(waiting(40001, start=SECOND), 11 * SECOND).server(created("w", producer_ready=True))
    early = connected(40002, start=2 * SECOND).client(producer(name="e")).server(error(1, "ProducerBusy"))
    late = connected(40003, start=13 * SECOND).client(producer(name="l")).server(error(1, "ProducerBusy"))
    rows = with_code(findings_of(tmp_path, holder, waiter, early, late), "producer-busy")
    assert [[item["name"] for item in (row.evidence or {})["holders"]] for row in rows] == [["h"], ["w"]]
    assert "producer w (WaitForExclusive) on connection 0:8 of 10.0.0.1:40001 has held it for 2.00 s" in (rows[1].text or "")


def test_a_holder_that_closes_while_the_other_is_refused_held_it(tmp_path: Path) -> None:
    holder = connected().client(producer(name="h", producer_access_mode="Exclusive")).server(created("h"))
    wait_until(holder, 5 * SECOND).client(close_producer(1, 2)).server(success(2))
    other = wait_until(connected(40001, start=4 * SECOND).client(producer(name="o")), 6 * SECOND).server(error(1, "ProducerBusy"))
    text, _ = only(findings_of(tmp_path, holder, other), "producer-busy")
    assert "has held it for 5.00 s and is alive: it closed 1.00 s later." in text


def test_one_that_still_waits_is_not_fenced(tmp_path: Path) -> None:
    taker = connected(40001, start=SECOND).client(producer(name="x", producer_access_mode="ExclusiveWithFencing")).server(created("x"))
    assert with_code(findings_of(tmp_path, waiting(40000), taker), "producer-fenced") == []


def test_a_holder_that_spoke_later_is_alive(tmp_path: Path) -> None:
    alive = wait_until(connected().client(producer()).server(created()), 30 * SECOND).server(PING).client(PONG).close()
    again = connected(40001, start=10 * SECOND).client(producer()).server(error(1, "ProducerBusy"))
    text, _ = only(findings_of(tmp_path, alive, again), "producer-busy")
    assert "is alive: it sent frames for another 20.0 s" in text


def test_a_holder_that_is_not_in_the_capture_is_not_made_up(tmp_path: Path) -> None:
    text, evidence = only(findings_of(tmp_path, connected().client(subscribe()).server(error(2, "ConsumerBusy"))), "consumer-busy")
    assert text.endswith("its holder is not in the capture.")
    assert evidence["holders"] == []


def test_one_that_gave_the_place_up_before_does_not_hold_it(tmp_path: Path) -> None:
    first = connected().client(subscribe()).server(success(2)).client(close_consumer(1, 3))
    second = connected(40001, start=SECOND).client(subscribe()).server(error(2, "ConsumerBusy"))
    assert only(findings_of(tmp_path, first.server(success(3)), second), "consumer-busy")[1]["holders"] == []


def test_a_name_that_is_free_again_is_no_trouble(tmp_path: Path) -> None:
    assert problem_codes(findings_of(tmp_path, *free_again())) == []


def test_a_fenced_send_is_reported(tmp_path: Path) -> None:
    refusal = send_error("ProducerFenced", "fenced")
    text, _ = only(findings_of(tmp_path, connected().client(producer()).server(created(), refusal)), "producer-fenced")
    assert text == "A SEND of producer p to persistent://public/default/t was refused with ProducerFenced: fenced."


@pytest.mark.parametrize("others", [1, 3])
def test_a_limit_is_not_the_fault_of_a_holder(tmp_path: Path, others: int) -> None:
    """A broker refuses the next one with the same error, whatever its name."""
    said = "Topic 'persistent://public/default/t' reached max producers limit"
    talks = [connected(40000 + number).client(producer(name=f"p{number}")).server(created(f"p{number}")) for number in range(others)]
    late = connected(40100, start=SECOND).client(producer(name="late")).server(error(1, "ProducerBusy", said))
    text, evidence = only(findings_of(tmp_path, *talks, late), "producer-busy")
    assert f'the broker says "{said}"' in text
    assert "has held it" not in text
    assert evidence["holders"] == []


def test_a_limit_of_consumers_is_not_the_fault_of_a_holder(tmp_path: Path) -> None:
    said = "Subscription reached max consumers limit"
    first = connected().client(subscribe(request=1)).server(success(1))
    late = connected(40100, start=SECOND).client(subscribe(request=1)).server(error(1, "ConsumerBusy", said))
    text, evidence = only(findings_of(tmp_path, first, late), "consumer-busy")
    assert f'the broker says "{said}"' in text
    assert evidence["holders"] == []


@pytest.mark.parametrize("held", [True, False])
def test_another_type_is_not_the_fault_of_a_holder_that_may_be_dead(tmp_path: Path, held: bool) -> None:
    said = "Subscription is of different type. Active subscription type of 'Exclusive' is different."
    first = connected().client(subscribe(request=1)).server(success(1))
    late = connected(40100, start=SECOND).client(subscribe(request=1)).server(error(1, "ConsumerBusy", said))
    text, _ = only(findings_of(tmp_path, *([first] if held else []), late), "consumer-busy")
    assert ("its type differs from that of consumer " in text) == held
    assert ('the broker says "Subscription is of different type. ' in text) != held
    assert "has held it" not in text
