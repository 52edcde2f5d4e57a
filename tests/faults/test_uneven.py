"""Workers of a Shared subscription, one of them slow, and holding messages that the others could process."""

from __future__ import annotations

from functools import partial
from itertools import product
from pathlib import Path

import pytest

from tests.faults.consumers import publishing
from tests.scenarios.commands import ack, close_consumer, created, delivery, flow, producer, receipt, send
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, START_NS, Conversation
from tests.scenarios.evaluation import diagnose

BEHIND = "consumer-behind"
EVERY = 20
"""Milliseconds between two messages of the topic."""


def worker(
    place: int,
    workers: int,
    length: int,
    *,
    queue: int = 50,
    takes: int = 0,
    first: int = 0,
    kind: str = "Shared",
    start: int = 0,
    group: int = 1,
    end: str = "open",
) -> Conversation:
    """One of several workers that get entries in turn while they have permits; `takes`: ms for each entry after the first ones."""
    talk = subscribed(connected(40000 + place, start=(start or 10) * MILLISECOND), kind=kind).client(flow(queue))
    permits, free = queue, 0
    held: list[int] = []
    done: list[int] = []
    for time in range(start + 100, length * 1000, EVERY):
        wait_until(talk, time * MILLISECOND)
        while held and free <= time:
            done.append(held.pop(0))
            free = max(free, time) + takes if takes and done[-1] >= first else time
            if len(done) >= group:
                talk.client(ack(*done))
                permits += len(done)
                talk.client(flow(len(done)))
                done = []
        entry = (time - 100) // EVERY
        if entry % workers == place and permits > 0:
            talk.server(delivery(entry))
            if not held:
                free = time + takes if entry >= first else time
            held.append(entry)
            permits -= 1
    if end != "open":
        talk.client(close_consumer())
        talk.close() if end == "fin" else talk.reset("client")
    return talk


def beside(length: int) -> Conversation:
    return publishing(length * 1000 // EVERY, EVERY * MILLISECOND)


@pytest.mark.slow
@pytest.mark.parametrize(("length", "takes", "queue"), [*product((6, 20), (700, 1200), (30, 80)), (9, 1500, 50), (40, 2000, 200)])
@pytest.mark.parametrize("workers", [2, 3])
def test_a_slow_worker_that_holds_what_others_could_have(tmp_path: Path, length: int, takes: int, queue: int, workers: int) -> None:
    slow = worker(0, workers, length, queue=queue, takes=takes)
    talks = [slow, *(worker(place, workers, length, queue=queue) for place in range(1, workers))]
    row, evidence = diagnose(tmp_path, *talks, beside(length)).only(BEHIND)
    assert evidence["consumer_id"] == 1
    assert evidence["unacknowledged"] >= 20
    assert "of connection" not in (row.text or "")


@pytest.mark.parametrize("end", ["fin", "rst"])
def test_one_that_is_stopped_at_the_end(tmp_path: Path, end: str) -> None:
    talks = [worker(0, 2, 7, takes=900, end=end), worker(1, 2, 7)]
    assert BEHIND in diagnose(tmp_path, *talks, beside(8)).codes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("story", "length"),
    [
        *product(
            (
                "all are slow", "alone", "small queues", "just joined", "groups", "other just joined", "other is gone", "few of the other",
                "not so slow", "stopped", "works off a burst",
            ),
            (6, 15),
        )
    ],
)  # fmt: skip
def test_workers_that_hold_no_more_than_they_should(story: str, length: int, tmp_path: Path) -> None:
    late = length * 1000 - 1500
    slow, other = partial(worker, 0, 2, length, takes=700, queue=60), partial(worker, 1, 2, length)
    talks = {
        "all are slow": [slow, partial(other, takes=700, queue=60)],
        "alone": [partial(worker, 0, 1, length, queue=30, takes=10)],
        "small queues": [partial(slow, queue=10), partial(other, queue=10)],
        "just joined": [partial(slow, start=late), other],
        "groups": [partial(worker, 0, 2, length, queue=500, group=60), other],
        "other just joined": [slow, partial(other, start=late)],
        "other is gone": [slow, partial(worker, 1, 2, 1, end="fin")],
        "few of the other": [slow, partial(worker, 1, 40, length)],
        "works off a burst": [partial(worker, 0, 2, length, takes=50, queue=200), partial(other, queue=200)],
        "stopped": [partial(worker, 0, 2, length, takes=60_000, first=20), other],
        "not so slow": [partial(worker, 0, 2, length, takes=30), other],
    }[story]
    found = diagnose(tmp_path, *[talk() for talk in talks], beside(length)).of(BEHIND)
    assert not any("smaller receiver queue" in (row.text or "") for row in found)


def after_idling(place: int, idle: int, number: int, *, every: float, takes: float, until: int) -> Conversation:
    """One of two workers that idle for some time and then get this many entries, with times in milliseconds; its end is not captured."""
    talk = subscribed(connected(40000 + place, start=10 * MILLISECOND), kind="Shared").client(flow(1000))
    events, free = [], 0.0
    for entry in range(number):
        got = idle + entry * every
        free = max(free, got) + takes
        events += [(got, True, 2 * entry + place), (free, False, 2 * entry + place)]
    for time, is_delivery, entry in sorted(events):
        if time > idle + until:
            break
        if START_NS + round(time * MILLISECOND) > talk.time_ns:
            wait_until(talk, round(time * MILLISECOND))
        talk.server(delivery(entry)) if is_delivery else talk.client(ack(entry))
    return talk


@pytest.mark.slow
@pytest.mark.parametrize("idle", [100, 60_000, 600_000])
@pytest.mark.parametrize(("takes", "behind"), [(10, False), (500, True)])
def test_the_pace_of_a_worker_is_that_while_it_has_work(idle: int, takes: int, behind: bool, tmp_path: Path) -> None:
    """A worker that works off a burst is soon done, however long it was idle before."""
    slow = after_idling(0, idle, 400, every=0.25, takes=takes, until=3600)
    fast = after_idling(1, idle, 400, every=0.25, takes=2, until=3600)
    publisher = connected(50000, start=(idle - 50) * MILLISECOND).client(producer()).server(created())
    for entry in range(800):
        publisher.client(send(1, entry)).server(receipt(1, entry, entry=entry))
    found = diagnose(tmp_path, slow, fast, publisher).of(BEHIND)
    assert any("smaller receiver queue" in (row.text or "") for row in found) == behind
