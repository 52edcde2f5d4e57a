"""Stuck consumers and those that only seem so, in captures of any length."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.faults.consumers import consuming, publishing
from tests.scenarios.commands import CONNECTED, PING, PONG, ack, close_consumer, delivery, flow, receipt, send, success
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.frames import command_frame

STARVED, NOT_ACKING, UNDECIDED = "consumer-starved", "consumer-not-acking", "consumer-undecided"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("permits", "length", "kind", "end", "acks"),
    [
        *product((5, 20), (3, 4, 9), ("Shared", "Exclusive"), ("open", "closed", "rst"), (0,)),
        *product((20,), (4, 6), ("Failover", "Key_Shared"), ("open", "fin"), (3,)),
        *product((5, 20), (3, 9), ("Reader",), ("open", "closed", "rst"), (0, 3)),
    ],
)
def test_a_consumer_without_permits_is_starved_in_a_capture_of_any_length(
    tmp_path: Path, permits: int, length: int, kind: str, end: str, acks: int
) -> None:
    until = length * SECOND
    talk = consuming(permits, permits, until=until, kind=kind, acks=acks, end=end)
    diagnosis = diagnose(tmp_path, talk, publishing(70, 20 * MILLISECOND, until=until))
    row, evidence = diagnosis.only(STARVED)
    assert diagnosis.commands(row) == ["MESSAGE"]
    assert (evidence["granted"], evidence["delivered"], evidence["act"]) == (permits, permits, "client")
    assert UNDECIDED not in diagnosis.codes


@pytest.mark.parametrize(
    ("permits", "length", "kind", "end"),
    [*product((2, 3, 4), (4, 6, 9), ("Shared", "Failover"), ("open", "rst")), *product((2, 4), (4,), ("Exclusive", "Reader"), ("closed",))],
)
def test_one_with_a_small_queue_of_which_nothing_is_taken_is_starved(
    tmp_path: Path, permits: int, length: int, kind: str, end: str
) -> None:
    talk = consuming(permits, permits, until=length * SECOND, kind=kind, end=end)
    row, evidence = diagnose(tmp_path, talk, publishing(40, 20 * MILLISECOND, until=length * SECOND)).only(STARVED)
    assert evidence["delivered"] == permits
    assert row.severity == "warning"


@pytest.mark.parametrize(
    ("permits", "length", "published"),
    [*product((2, 3, 4), (2, 3), (40,)), *((4, length, published) for length in (4, 9) for published in (4, 6, 8))],
)
def test_one_with_a_small_queue_may_be_at_work_for_a_while_or_get_few(tmp_path: Path, permits: int, length: int, published: int) -> None:
    talk = consuming(permits, permits, until=length * SECOND)
    assert STARVED not in diagnose(tmp_path, talk, publishing(published, 20 * MILLISECOND, until=length * SECOND)).codes


@pytest.mark.parametrize(
    ("permits", "length", "kind", "pause", "end"),
    [*product((10, 20, 40), (2700, 3500), ("Shared", "Exclusive", "Reader"), (5, 20), ("open",)), (20, 2700, "Failover", 20, "closed")],
)
def test_one_that_acknowledged_all_and_asks_for_no_more_is_starved_soon(
    tmp_path: Path, permits: int, length: int, kind: str, pause: int, end: str
) -> None:
    talk = consuming(permits, permits, until=length * MILLISECOND, kind=kind, acks=permits, pause=pause * MILLISECOND, end=end)
    published = publishing(100, 20 * MILLISECOND, until=length * MILLISECOND)
    _, evidence = diagnose(tmp_path, talk, published).only(STARVED)
    assert evidence["granted"] == permits


def polling(period: int, times: int) -> Conversation:
    """A consumer without a queue, whose application requests one message every `period` ms, and acknowledges it at once."""
    talk = subscribed(connected(start=50 * MILLISECOND))
    for number in range(times):
        wait_until(talk, (200 + number * period) * MILLISECOND)
        talk.client(flow(1)).wait(MILLISECOND).server(delivery(number)).wait(MILLISECOND).client(ack(number))
    return talk


@pytest.mark.parametrize(("period", "times", "end"), [*product((1900, 2600, 6000), (1, 2, 6), ("open", "fin"))])
def test_one_that_asks_for_each_message_after_a_while_works_at_its_pace(tmp_path: Path, period: int, times: int, end: str) -> None:
    until = 200 + times * period - 100
    talk = polling(period, times)
    if end == "fin":
        wait_until(talk, until * MILLISECOND).close()
    published = publishing(until // 50 - 4, 50 * MILLISECOND, until=until * MILLISECOND)
    assert (STARVED in diagnose(tmp_path, talk, published).codes) == (times == 1 and period == 6000 and end == "fin")


@pytest.mark.parametrize(
    ("length", "acks", "pause", "published"),
    [
        *product((1900, 2000), (20,), (20,), (80,)),  # a pause
        *product((2300,), (16, 19), (20,), (100,)),  # messages are being processed
        *product((2400,), (20,), (60,), (100,)),  # it took as long before
        *product((2700,), (20,), (20,), (25, 38)),  # hardly anything is left to deliver
    ],
)
def test_one_that_acknowledged_all_may_pause(tmp_path: Path, length: int, acks: int, pause: int, published: int) -> None:
    talk = consuming(20, 20, until=length * MILLISECOND, acks=acks, pause=pause * MILLISECOND)
    assert STARVED not in diagnose(tmp_path, talk, publishing(published, 20 * MILLISECOND, until=length * MILLISECOND)).codes


@pytest.mark.parametrize(
    ("got", "permits", "length", "published", "acks", "pause"),
    [
        *((20, 20, length, 20, 20, 50) for length in (3, 4)),  # nothing is left to deliver
        *((20, 1000, length, 70, 20, 50) for length in (3, 4, 9)),  # permits are left
        *((20, 20, length, 70, acks, 1000) for length, acks in ((4, 3), (6, 5), (9, 8), (12, 10))),  # slow, and at work
        *((got, got, 2, 70, 0, 50) for got in (1, 5, 20)),  # too short
        *((1, 1, length, 70, 0, 50) for length in (3, 4)),  # one message, which may take long
        *((20, 20, length, 70, 1, 1900) for length in (4, 6, 7)),  # acknowledges every two seconds
    ],
)
def test_a_consumer_at_work_is_not_starved(
    tmp_path: Path, got: int, permits: int, length: int, published: int, acks: int, pause: int
) -> None:
    for kind in ("Shared", "Reader"):
        talk = consuming(got, permits, until=length * SECOND, kind=kind, acks=acks, pause=pause * MILLISECOND)
        codes = diagnose(tmp_path, talk, publishing(published, 20 * MILLISECOND, until=length * SECOND)).codes
        assert STARVED not in codes


@pytest.mark.parametrize(("kind", "group", "queue"), [*product(("Shared", "Exclusive"), (100, 1500, 2000), (4, 10, 100))])
def test_a_consumer_that_groups_its_acks_is_healthy_wherever_the_capture_ends(tmp_path: Path, kind: str, group: int, queue: int) -> None:
    """It acknowledges on a timer, and grants what it took in halves of its queue."""
    talk = subscribed(connected(start=50 * MILLISECOND), kind=kind).client(flow(queue))
    got = 0
    for _ in range(3):
        entries = range(got, got + queue // 2)
        talk.server(*[delivery(entry) for entry in entries]).wait(group * MILLISECOND).client(ack(*entries), flow(queue // 2))
        got += queue // 2
        assert not {STARVED, NOT_ACKING} & set(diagnose(tmp_path, talk, publishing(70, 20 * MILLISECOND)).codes)


@pytest.mark.parametrize(
    ("length", "end", "kind", "got"), [*product((4, 6, 15), ("open", "closed", "rst"), ("Shared", "Exclusive"), (5, 40))]
)
def test_a_consumer_that_acknowledges_nothing_is_named(tmp_path: Path, length: int, end: str, kind: str, got: int) -> None:
    talk = consuming(got, 1000, until=length * SECOND, kind=kind, end=end)
    diagnosis = diagnose(tmp_path, talk, publishing(got, 10 * MILLISECOND, until=length * SECOND))
    row, evidence = diagnosis.only(NOT_ACKING)
    assert diagnosis.commands(row) == ["MESSAGE"]
    assert evidence["unacknowledged"] == got
    assert "limit" not in (row.text or "")


def collecting(
    every: int, length: float, *, kind: str = "Shared", older: bool = False, silent: float = 0.0, permits: int = 0
) -> Conversation:
    """A consumer that gets a message every so many ms, for all but the last `silent` seconds, and acknowledges none so far."""
    talk = Conversation().server(PONG) if older else subscribed(connected(start=50 * MILLISECOND), kind=kind).client(flow(1000))
    for entry in range(round((length - silent) * 1000 / every)):
        wait_until(talk, entry * every * MILLISECOND + SECOND // 5).server(delivery(entry))
        if permits and entry % permits == permits - 1:
            talk.client(flow(permits))
    wait_until(talk, round(length * SECOND) + SECOND // 4)
    return talk.client(PING).server(PONG)


@pytest.mark.parametrize(
    ("every", "length", "kind", "permits"),
    [*product((20, 300, 1000), (7, 12, 19), ("Shared", "Exclusive"), (0, 5)), (3500, 19, "Key_Shared", 0)],
)
@pytest.mark.parametrize("older", [False, True])
def test_one_that_still_gets_messages_may_acknowledge_them_as_a_batch(
    tmp_path: Path, every: int, length: int, kind: str, permits: int, *, older: bool
) -> None:
    talk = collecting(every, length, kind=kind, older=older, permits=permits)
    found = diagnose(tmp_path, talk, publishing(length * 1000 // every, every * MILLISECOND))
    assert NOT_ACKING not in found.codes
    talk.client(ack(*range(round(length * 1000 / every))))
    assert not {NOT_ACKING, UNDECIDED} & set(diagnose(tmp_path, talk).codes)


@pytest.mark.parametrize(
    ("every", "length", "silent"),
    [*product((20, 300, 1000), (22, 40), (0.0, 2.0)), *product((20, 300), (9,), (5.0, 7.0)), *product((20, 300), (15,), (8.0, 12.0))],
)
@pytest.mark.parametrize("kind", ["Shared", "Exclusive"])
def test_one_that_gets_them_for_longer_or_no_more_is_named(tmp_path: Path, every: int, length: int, silent: float, kind: str) -> None:
    talk = collecting(every, length, kind=kind, silent=silent)
    assert diagnose(tmp_path, talk).only(NOT_ACKING)[1]["unacknowledged"] == round((length - silent) * 1000 / every)


@pytest.mark.parametrize(("got", "later", "length"), [*product((10, 60), (1, 3), (7, 12, 19))])
def test_one_that_got_most_at_once_is_named_though_a_few_came_later(tmp_path: Path, got: int, later: int, length: int) -> None:
    talk = subscribed(connected(start=50 * MILLISECOND)).client(flow(1000)).server(*map(delivery, range(got)))
    for entry in range(got, got + later):
        talk.wait(SECOND).server(delivery(entry))
    wait_until(talk, length * SECOND).server(delivery(got + later)).client(PING)
    diagnose(tmp_path, talk).only(NOT_ACKING)


@pytest.mark.parametrize(("every", "length", "end"), [*product((20, 300, 1000), (7, 12), ("consumer", "fin", "rst"))])
def test_one_that_ends_without_an_acknowledgement_collects_nothing(tmp_path: Path, every: int, length: int, end: str) -> None:
    talk = collecting(every, length)
    if end == "consumer":
        talk.client(close_consumer(1, 9)).server(success(9)).wait(SECOND // 10).client(PING).server(PONG)
    diagnose(tmp_path, talk.close() if end == "fin" else talk.reset("client") if end == "rst" else talk).only(NOT_ACKING)


@pytest.mark.parametrize(("length", "got", "acks"), [*product((6, 9), (30, 40), (5, 10, 20))])
def test_a_consumer_that_stopped_acknowledging_is_named(tmp_path: Path, length: int, got: int, acks: int) -> None:
    talk = consuming(got, 1000, until=length * SECOND, acks=acks, pause=10 * MILLISECOND)
    _, evidence = diagnose(tmp_path, talk, publishing(got, 10 * MILLISECOND, until=length * SECOND)).only(NOT_ACKING)
    assert evidence["unacknowledged"] == got - acks


@pytest.mark.parametrize(("length", "got", "acks", "pause"), [*product((4, 5), (40, 60), (10, 20), (5, 15))])
def test_one_that_acknowledged_steadily_before_it_stopped_is_named_soon(
    tmp_path: Path, length: int, got: int, acks: int, pause: int
) -> None:
    talk = consuming(got, 1000, until=length * SECOND, acks=acks, pause=pause * MILLISECOND)
    _, evidence = diagnose(tmp_path, talk, publishing(got, 10 * MILLISECOND, until=length * SECOND)).only(NOT_ACKING)
    assert evidence["unacknowledged"] == got - acks
    assert evidence["threshold"]["consumer-not-acking-first-seconds"] == 3


def in_groups(turns: int, turn: int, group: int, rest: int, more: int, kind: str = "Exclusive") -> Conversation:
    """A consumer that acknowledges each group of messages, and gets `more` messages in the pause."""
    talk = subscribed(connected(), kind=kind).client(flow(1000))
    entry = 0
    for _ in range(turns):
        for _ in range(group):
            talk.wait(turn * MILLISECOND // group).server(delivery(entry))
            entry += 1
        talk.client(ack(entry - 1, kind="Cumulative"))
    for _ in range(more):
        talk.wait(rest * MILLISECOND // more).server(delivery(entry))
        entry += 1
    return talk


@pytest.mark.parametrize(("turns", "turn", "group", "rest", "more"), [*product((12, 25), (300, 600), (1, 5), (3400, 4500), (55, 90))])
def test_one_that_holds_far_more_than_it_ever_did_is_named_soon(
    tmp_path: Path, turns: int, turn: int, group: int, rest: int, more: int
) -> None:
    _, evidence = diagnose(tmp_path, in_groups(turns, turn, group, rest, more)).only(NOT_ACKING)
    assert evidence["unacknowledged"] == more


@pytest.mark.parametrize(
    ("turns", "turn", "group", "rest", "more"),
    [(8, 600, 5, 3400, 90), (12, 600, 5, 2500, 90), (12, 600, 5, 3400, 30), (12, 1600, 5, 3400, 60), (12, 2000, 20, 4500, 190)],
)
def test_one_that_holds_hardly_more_or_rests_as_usual_is_not(
    tmp_path: Path, turns: int, turn: int, group: int, rest: int, more: int
) -> None:
    assert NOT_ACKING not in diagnose(tmp_path, in_groups(turns, turn, group, rest, more)).codes


@pytest.mark.parametrize(
    ("length", "got", "acks", "pause"),
    [*product((4, 5), (40,), (9,), (5,)), *product((8,), (40,), (10, 11), (350, 450)), *product((3,), (40,), (10, 20), (5, 15))],
)
def test_one_that_takes_longer_now_and_then_or_rests_for_less_long_is_not(
    tmp_path: Path, length: int, got: int, acks: int, pause: int
) -> None:
    talk = consuming(got, 1000, until=length * SECOND, acks=acks, pause=pause * MILLISECOND)
    assert NOT_ACKING not in diagnose(tmp_path, talk, publishing(got, 10 * MILLISECOND, until=length * SECOND)).codes


@pytest.mark.parametrize(
    ("length", "got", "acks", "pause"),
    [
        *((length, 20, 0, 50) for length in (1, 2, 3)),
        *((length, 4, 0, 50) for length in (4, 9)),
        *((length, 20, 16, 50) for length in (4, 9)),
        *((length, 20, 4, 1500) for length in (8, 10)),
        *((length, 20, 1, 1900) for length in (4, 6)),
    ],
)
def test_a_consumer_with_a_few_messages_or_a_short_wait_acknowledges(tmp_path: Path, length: int, got: int, acks: int, pause: int) -> None:
    talk = consuming(got, 1000, until=length * SECOND, acks=acks, pause=pause * MILLISECOND)
    codes = diagnose(tmp_path, talk, publishing(got, 10 * MILLISECOND, until=length * SECOND)).codes
    assert NOT_ACKING not in codes


@pytest.mark.parametrize(("length", "kind", "end"), [*product((3, 4, 9), ("Shared", "Exclusive", "Failover"), ("open", "closed", "rst"))])
def test_a_consumer_that_never_grants_permits_is_starved(tmp_path: Path, length: int, kind: str, end: str) -> None:
    talk = consuming(0, 0, until=length * SECOND, kind=kind, end=end)
    _, evidence = diagnose(tmp_path, talk, publishing(40, 20 * MILLISECOND, until=length * SECOND)).only(STARVED)
    assert evidence["granted"] == 0


@pytest.mark.parametrize(("published", "length"), [*product((0, 1, 3), (3, 4)), *product((40,), (1, 2))])
def test_one_without_permits_and_hardly_a_backlog_is_not(tmp_path: Path, published: int, length: int) -> None:
    talk = consuming(0, 0, until=length * SECOND)
    assert STARVED not in diagnose(tmp_path, talk, publishing(published, 20 * MILLISECOND, until=length * SECOND)).codes


def midstream(got: int, acks: int, length: float, end: str = "open") -> Conversation:
    """A consumer whose SUBSCRIBE was before the capture."""
    talk = Conversation().server(PONG, *[delivery(entry) for entry in range(got)]).wait(SECOND // 2)
    if acks:
        talk.client(ack(*range(acks)))
    wait_until(talk, round(length * SECOND)).client(PING).server(PONG)
    return talk if end == "open" else talk.reset("client") if end == "rst" else talk.close()


@pytest.mark.parametrize(
    ("got", "length", "end"),
    [*product((5, 20, 60), (6, 9), ("open", "fin", "rst")), *product((20, 60), (4.2, 4.6), ("open", "fin", "rst"))],
)
def test_one_that_subscribed_before_the_capture_and_acknowledges_nothing_is_named(
    tmp_path: Path, got: int, length: float, end: str
) -> None:
    row, _ = diagnose(tmp_path, midstream(got, 0, length, end)).only(NOT_ACKING)
    assert "acknowledged none, as only readers of some clients may" in (row.text or "")


@pytest.mark.parametrize(
    ("got", "acks", "length"),
    [*product((5, 20, 60), (1, 5), (6, 9)), *product((4, 20), (0,), (2, 3.8)), *product((5, 19), (0,), (4.2, 4.6)), (4, 0, 9)],
)
def test_one_that_subscribed_before_the_capture_and_acknowledges_or_has_few_is_not(
    tmp_path: Path, got: int, acks: int, length: float
) -> None:
    assert NOT_ACKING not in diagnose(tmp_path, midstream(got, acks, length)).codes


@pytest.mark.parametrize(("got", "asks", "length", "end"), [*product((20, 60, 300), (1, 5), (4.6, 9, 70), ("open", "fin", "rst"))])
def test_one_from_before_the_capture_that_asks_for_the_last_message_may_read(
    tmp_path: Path, got: int, asks: int, length: float, end: str
) -> None:
    """Readers of some clients acknowledge nothing; a reader whose SUBSCRIBE is known is a different case."""
    talk = Conversation().server(PONG, *[delivery(entry) for entry in range(got)])
    for number in range(asks):
        talk.wait(SECOND // 2).client(command_frame("GET_LAST_MESSAGE_ID", consumer_id=1, request_id=50 + number))
        last = {"ledgerId": 7, "entryId": got - 1}
        talk.server(command_frame("GET_LAST_MESSAGE_ID_RESPONSE", request_id=50 + number, last_message_id=last))
    wait_until(talk, round(length * SECOND)).client(PING).server(PONG)
    rows = diagnose(tmp_path, talk if end == "open" else talk.reset("client") if end == "rst" else talk.close())
    assert rows.of(NOT_ACKING) == []
    assert [row.severity for row in rows.of(UNDECIDED)] == ["note"]


def test_weak_evidence_makes_a_note_that_says_what_is_missing(tmp_path: Path) -> None:
    talk = consuming(20, 20, until=2 * SECOND)
    row, evidence = diagnose(tmp_path, talk, publishing(51, 20 * MILLISECOND, until=2 * SECOND + 200 * MILLISECOND)).only(UNDECIDED)
    assert row.severity == "note"
    assert evidence["rest_ns"] < 3 * SECOND
    assert "A longer capture would show" in (row.hint or "")


@pytest.mark.parametrize(("length", "got", "acks"), [*product((2, 3, 3.8), (6, 60), (0,)), (4, 60, 3), (9, 60, 3)])
def test_one_that_subscribed_before_the_capture_and_acknowledges_nothing_for_a_while_makes_a_note(
    tmp_path: Path, length: float, got: int, acks: int
) -> None:
    assert diagnose(tmp_path, midstream(got, acks, length)).only(UNDECIDED)[0].severity == "note"


@pytest.mark.parametrize(("permits", "length", "kind", "end"), [*product((5, 20), (3, 4, 9), ("Shared", "Exclusive"), ("open", "rst"))])
def test_a_consumer_without_permits_is_starved_beside_a_producer_from_before_the_capture(
    tmp_path: Path, permits: int, length: int, kind: str, end: str
) -> None:
    """No command names the topic of its connection: the ledger identifies it."""
    publisher = Conversation(("10.0.0.1", 41000))
    for number in range(60):
        wait_until(publisher, 100 * MILLISECOND + number * length * SECOND // 60)
        publisher.client(send(sequence_id=number)).server(receipt(sequence_id=number, entry=number))
    talk = consuming(permits, permits, until=length * SECOND, kind=kind, end=end)
    row, evidence = diagnose(tmp_path, talk, publisher).only(STARVED)
    assert "persistent://" in (row.text or "")
    assert evidence.get("published_behind", 5) >= 5


@pytest.mark.parametrize(("ledger", "acks"), [(8, 0), (7, 20)])
def test_one_of_another_ledger_or_at_work_is_not(tmp_path: Path, ledger: int, acks: int) -> None:
    publisher = Conversation(("10.0.0.1", 41000))
    for number in range(60):
        wait_until(publisher, 100 * MILLISECOND + number * 60 * MILLISECOND)
        publisher.client(send(sequence_id=number)).server(receipt(sequence_id=number, ledger=ledger, entry=number))
    talk = consuming(20, 20, until=4 * SECOND, acks=acks, pause=200 * MILLISECOND)
    assert STARVED not in diagnose(tmp_path, talk, publisher).codes


@pytest.mark.parametrize(("got", "length", "is_older"), [*product((20, 60), (4.6, 6, 9), (True, False))])
def test_one_whose_client_is_not_in_the_capture_is_not_judged(tmp_path: Path, got: int, length: float, is_older: bool) -> None:
    talk = Conversation(acknowledge=False)
    if not is_older:
        talk.server(CONNECTED, success(1))
    talk.server(PONG, *[delivery(entry) for entry in range(got)])
    wait_until(talk, round(length * SECOND)).server(PONG)
    assert not {NOT_ACKING, STARVED, UNDECIDED} & set(diagnose(tmp_path, talk).codes)


def hanging(folder: Path, length: int, pings: bool) -> Diagnosis:
    """A consumer that acknowledges 20 messages, then nothing, while its topic goes on; its end may be missing in the capture."""
    talk = subscribed(connected(start=50 * MILLISECOND)).client(flow(1000))
    for entry in range(20):
        wait_until(talk, (200 + entry * 20) * MILLISECOND).server(delivery(entry)).client(ack(entry))
    talk.server(*map(delivery, range(20, 40)))
    for at in range(30, length, 30) if pings else ():
        wait_until(talk, at * SECOND).server(PING).client(PONG)
    return diagnose(folder, talk, publishing(length, SECOND, until=length * SECOND))


@pytest.mark.parametrize(("length", "pings"), [*product((20, 50), (False, True)), (200, True)])
def test_one_that_hangs_while_its_connection_lives_is_named(tmp_path: Path, length: int, pings: bool) -> None:
    assert NOT_ACKING in hanging(tmp_path, length, pings).codes


@pytest.mark.parametrize("length", [70, 100, 200])
def test_a_connection_without_any_packet_for_two_keepalives_ended_unseen(tmp_path: Path, length: int) -> None:
    assert NOT_ACKING not in hanging(tmp_path, length, pings=False).codes
