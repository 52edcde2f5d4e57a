"""Messages of non-persistent topics that a broker drops for lack of room."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import created, flow, message, producer, receipt, send, subscribe, success
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import findings_of, only, problem_codes
from tests.scenarios.rules.deduplication import dropped, producing

NON_PERSISTENT = "non-persistent://public/default/t"


def publishing(
    lost: int, sent: int, *, topic: str = NON_PERSISTENT, start: int = 0, reset: bool = False, inflight: int = 1
) -> Conversation:
    """A producer whose last `lost` of `sent` messages are dropped by the broker; `inflight` wait at the same time."""
    talk = producing(start=start, topic=topic)
    for first in range(0, sent, inflight):
        numbers = range(first, min(first + inflight, sent))
        talk.client(*(send(1, number) for number in numbers))
        talk.server(*(dropped(number) if number >= sent - lost else receipt(1, number, 0, 0) for number in numbers))
    return talk.reset() if reset else talk.close()


@pytest.mark.parametrize(("lost", "others", "inflight", "reset"), [*product((1, 2, 40), (0, 1, 30), (1, 10), (False, True))])
def test_each_is_counted_with_its_receipt(tmp_path: Path, lost: int, others: int, inflight: int, *, reset: bool) -> None:
    sent = lost + others
    rows = findings_of(tmp_path, publishing(lost, sent, inflight=inflight, reset=reset))
    text, evidence = only(rows, "non-persistent-dropped")
    assert (evidence["count"], evidence["sent"]) == (lost, sent)
    assert NON_PERSISTENT in text
    assert evidence["frames"]
    assert "message-duplicate-dropped" not in problem_codes(rows)


@pytest.mark.parametrize(("sent", "inflight", "reset"), [*product((1, 5, 50), (1, 10), (False, True))])
def test_receipts_of_what_is_handed_on_are_no_loss(tmp_path: Path, sent: int, inflight: int, *, reset: bool) -> None:
    assert "non-persistent-dropped" not in problem_codes(findings_of(tmp_path, publishing(0, sent, inflight=inflight, reset=reset)))


def beside(folder: Path, permits: int, published: int, length: int, *, topic: str = NON_PERSISTENT, end: str = "open") -> list[str | None]:
    """A consumer that gets as many messages as it has permits, and a producer that publishes one every 50 ms."""
    into = connected().client(subscribe(1, "c", 1, "Shared", topic)).server(success(1)).client(flow(permits, 1))
    out = connected(41000).client(producer(1, "p", 1, topic)).server(created("p", 1))
    for number in range(published):
        wait_until(out, (100 + 50 * number) * MILLISECOND).client(send(1, number)).server(receipt(1, number, 0, 0))
        if number < permits:
            wait_until(into, (101 + 50 * number) * MILLISECOND).server(message(1, 0, ledger=0))
    if length:
        wait_until(out, length * SECOND).client(send(1, published))
    if end != "open":
        wait_until(into, length * SECOND)
        into.reset("client") if end == "rst" else into.close()
    return problem_codes(findings_of(folder, into, out))


@pytest.mark.parametrize(("permits", "published", "length", "end"), [*product((0, 1, 3, 20), (50, 80), (5, 9), ("open", "fin", "rst"))])
def test_messages_for_a_consumer_without_permits_are_dropped(tmp_path: Path, permits: int, published: int, length: int, end: str) -> None:
    assert "non-persistent-dropped" in beside(tmp_path, permits, published, length, end=end)


@pytest.mark.parametrize(("permits", "published"), [*product((1, 3, 5), (14, 18))])
def test_a_capture_of_less_than_a_second_is_enough(tmp_path: Path, permits: int, published: int) -> None:
    assert "non-persistent-dropped" in beside(tmp_path, permits, published, 0)


@pytest.mark.parametrize(
    ("permits", "published", "topic"),
    [
        *product((100, 1000), (5, 50, 90), (NON_PERSISTENT,)),
        *product((20, 50), (20,), (NON_PERSISTENT,)),
        *product((3, 20), (50,), ("persistent://public/default/t",)),
        *product((20,), (21, 23, 24), (NON_PERSISTENT,)),
    ],
)
def test_a_consumer_with_permits_or_of_a_persistent_topic_loses_none(tmp_path: Path, permits: int, published: int, topic: str) -> None:
    assert "non-persistent-dropped" not in beside(tmp_path, permits, published, 6, topic=topic)


@pytest.mark.parametrize(("lost", "sent"), [*product((1, 3), (4, 20))])
def test_the_same_receipts_of_a_persistent_topic_are_of_duplicates(tmp_path: Path, lost: int, sent: int) -> None:
    codes = problem_codes(findings_of(tmp_path, publishing(lost, sent, topic="persistent://public/default/t", start=SECOND)))
    assert "non-persistent-dropped" not in codes
    assert "message-duplicate-dropped" in codes


def slow(permits: int, every: int, published: int, *, members: int = 1) -> list[Conversation]:
    """Consumers that take `permits` messages, and request as many again `every` ms later; what comes in between is dropped."""
    talks = [connected(41000).client(producer(1, "p", 1, NON_PERSISTENT)).server(created("p", 1))]
    takers = [connected(40000 + n).client(subscribe(1, "c", 1, "Shared", NON_PERSISTENT)).server(success(1)) for n in range(members)]
    left, until = [permits] * members, [0] * members
    for taker in takers:
        taker.client(flow(permits, 1))
    for number in range(published):
        now = 100 + 20 * number
        wait_until(talks[0], now * MILLISECOND).client(send(1, number)).server(receipt(1, number, 0, 0))
        for at, taker in enumerate(takers):
            if left[at] == 0 and now >= until[at]:
                wait_until(taker, now * MILLISECOND).client(flow(permits, 1))
                left[at] = permits
        for at in [n for n in range(members) if left[n]][:1]:
            wait_until(takers[at], (now + 1) * MILLISECOND).server(message(1, 0, ledger=0))
            left[at] -= 1
            until[at] = now + every if left[at] == 0 else until[at]
    return [*talks, *takers]


@pytest.mark.parametrize(("permits", "every", "members"), [*product((1, 5, 10), (500, 1500), (1, 2))])
def test_messages_that_come_while_a_slow_consumer_has_no_permits_are_dropped(
    tmp_path: Path, permits: int, every: int, members: int
) -> None:
    rows = findings_of(tmp_path, *slow(permits, every, 250, members=members))
    assert "non-persistent-dropped" in problem_codes(rows)


@pytest.mark.parametrize(("permits", "every", "published", "members"), [*product((1, 5, 10), (10,), (40, 250), (1, 2)), (5, 60, 250, 4)])
def test_a_consumer_that_asks_again_in_time_loses_none(tmp_path: Path, permits: int, every: int, published: int, members: int) -> None:
    rows = findings_of(tmp_path, *slow(permits, every, published, members=members))
    assert "non-persistent-dropped" not in problem_codes(rows)
