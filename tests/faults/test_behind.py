"""Consumers that are slower than their messages arrive, and those that are as fast, or catch up."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.commands import ack, close_consumer, delivery, flow
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, START_NS, Conversation
from tests.scenarios.evaluation import diagnose

BEHIND = "consumer-behind"
START_MS = START_NS // MILLISECOND


def consuming(
    arrivals: list[int],
    acks: list[int],
    *,
    kind: str = "Shared",
    end: str = "open",
    faster: int = 1,
    together: bool = False,
    cumulative: bool = False,
    before: int = 0,
    backwards: bool = False,
    queue: int = 0,
) -> Conversation:
    """A consumer that gets an entry at each of the times `arrivals` (ms), and at each of `acks` acknowledges one, or all that it holds.

    `faster`: entries arrive this many times faster than they were published. `before`: the number of entries that it holds when the capture
    begins. `queue`: the most entries that the broker sends ahead; it sends as many again as were acknowledged when these are half of it.
    """
    if before:
        talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), acknowledge=False).client(flow(1))
    else:
        talk = subscribed(connected(), kind=kind).client(flow(10_000))
    got, held, acknowledged = before, [*range(before)], 0
    room = queue or len(arrivals)
    due: list[int] = []
    for time, is_ack in sorted([*((time, False) for time in arrivals), *((time, True) for time in acks)]):
        talk.wait(max(0, START_NS + time * MILLISECOND - talk.time_ns))
        if not is_ack:
            due.append(time)
        elif held:
            done = [held.pop() for _ in range(len(held) if together else 1)] if backwards else [held.pop(0)]
            if together and not backwards:
                done += held
                held = []
            talk.client(ack(done[-1], kind="Cumulative") if cumulative else ack(*done))
            acknowledged += len(done)
            if queue and acknowledged >= queue // 2:
                room, acknowledged = room + acknowledged, 0
        while due and room:
            talk.server(delivery(got, publish_time=START_MS + due.pop(0) * faster))
            held.append(got)
            got, room = got + 1, room - 1
    if end == "closed":
        talk.client(close_consumer())
    return talk if end in ("open", "closed") else talk.reset("client") if end == "rst" else talk.close()


def every(pause: int, until: int, since: int = 100) -> list[int]:
    return [*range(since, until, pause)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("until", "arrives", "works", "options"),
    [
        *product((4000, 9000), (10, 40), (200, 400), ({"end": "open"}, {"kind": "Exclusive", "end": "fin"})),
        (15_000, 50, 250, {"kind": "Key_Shared", "end": "rst"}),
        (15_000, 50, 900, {"kind": "Failover", "end": "closed"}),
        *product((20_000, 60_000), (20,), (100, 300), ({"queue": 200}, {"queue": 500, "end": "fin"})),  # its queue is full before the end
        (60_000, 200, 1000, {"kind": "Exclusive", "cumulative": True}),
        *product((6000,), (20,), (100, 300), ({"before": 1}, {"before": 50}, {"before": 500}, {"backwards": True})),
    ],
)
def test_messages_that_come_faster_than_they_are_done_are_named(
    tmp_path: Path, until: int, arrives: int, works: int, options: dict[str, Any]
) -> None:
    diagnosis = diagnose(tmp_path, consuming(every(arrives, until), every(works, until, 150), **options))
    row, evidence = diagnosis.only(BEHIND)
    assert diagnosis.commands(row) == ["MESSAGE"]
    assert evidence["delivered"] >= 3 * evidence["acknowledged"]
    assert evidence["act"] == "client"


@pytest.mark.parametrize(("until", "arrives", "works", "end"), [*product((6500, 15_000), (20, 40), (1.6, 2.5), ("open", "fin"))])
def test_one_that_is_half_as_fast_for_longer_is(tmp_path: Path, until: int, arrives: int, works: float, end: str) -> None:
    talk = consuming(every(arrives, until), every(round(works * arrives), until, 150), end=end)
    _, evidence = diagnose(tmp_path, talk).only(BEHIND)
    assert evidence["delivered"] >= 1.4 * evidence["acknowledged"]


@pytest.mark.parametrize(("works", "swing"), [*product((1.5, 2), (2, 4, 9))])
def test_one_whose_few_messages_go_up_and_down_before_they_grow_is(tmp_path: Path, works: float, swing: int) -> None:
    """With grouped ACKs, the number of waiting entries varies a little each time."""
    arrivals = every(30, 9000)
    acks = every(round(30 * works), 9000)
    grouped = [time - time % (30 * swing) + 30 * swing for time in acks]
    talk = consuming(arrivals, sorted(grouped))
    assert BEHIND in diagnose(tmp_path, talk).codes


@pytest.mark.parametrize("end", ["open", "fin"])
def test_one_that_becomes_slow_is(tmp_path: Path, end: str) -> None:
    acks = [*every(20, 4000, 110), *every(400, 9000, 4000)]
    _, evidence = diagnose(tmp_path, consuming(every(20, 9000), acks, end=end)).only(BEHIND)
    assert 4_000_000_000 < evidence["span_ns"] < 6_000_000_000


def in_work(until: int, arrives: int, mean: int) -> list[int]:
    """The times of ACKs of an application that processes all messages concurrently, each for up to twice the mean (ms)."""
    return sorted(time + 2 * mean * (37 * number % 101) // 100 for number, time in enumerate(every(arrives, until)))


BURST, SLOW = [*range(100, 400, 2)], every(200, 6000)
DURING = [*every(100, 6000), *range(6000, 9000, 10)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arrivals", "acks", "options"),
    [
        (BURST, SLOW, {}),  # they came together
        (BURST, SLOW, {"cumulative": True}),
        ([*range(5000, 5900, 4)], every(200, 6000, 5050), {}),  # not for long
        ([100, *range(5000, 5900, 4)], every(300, 6000, 200), {}),
        ([*range(100, 1100, 5), *every(200, 6000, 1200)], every(200, 6000, 150), {}),  # a burst at the beginning
        (DURING, every(100, 9000, 150), {}),  # a burst at the end
        *((every(20, until), every(pause, until), {}) for until in (4500, 9000) for pause in (20, 25, 26)),  # as fast, or nearly as fast
        *((every(20, 4500), every(pause, 4500), {}) for pause in (40, 50)),  # not for long
        *((every(pause, 9000), every(2 * pause, 9000), {}) for pause in (150, 250)),  # few
        *((every(20, 6000), every(pause, 6000), {"together": True}) for pause in (100, 500, 1500, 2000)),  # in groups
        *((every(20, 6000), every(pause, 6000), {"together": True, "cumulative": True}) for pause in (100, 1500, 2000)),
        *((every(20, until), every(200, until), {}) for until in (600, 1500, 2400)),  # too short
        (every(250, 6000), every(1000, 6000, 300), {}),  # few
        *((every(20, 6000), every(200, 6000), {"faster": faster}) for faster in (0, 5, 50, 100_000)),  # an old backlog
        (every(20, 6000), [], {}),  # for consumer-not-acking
        (every(20, 9000), [*range(200, 2000, 200)], {}),  # also for consumer-not-acking
        *((every(20, 4000), [time for time in in_work(4000, 20, mean) if time < 4000], {}) for mean in (100, 1000, 3000, 9000)),
        *((every(20, 6000), every(20, 6000, 110), {"before": before}) for before in (1, 40, 1000)),  # from before the capture
        (every(20, 6000), [*every(200, 6000), *range(6000, 12_000, 10)], {}),  # drained
        ([*range(100, 2000, 10), *every(200, 20_000, 2000)], every(200, 20_000), {"queue": 100}),
        (every(20, 6000), every(25, 6000, 110), {"before": 300, "cumulative": True}),
    ],
)
def test_a_consumer_that_catches_up_is_not(tmp_path: Path, arrivals: list[int], acks: list[int], options: dict[str, Any]) -> None:
    assert BEHIND not in diagnose(tmp_path, consuming(arrivals, acks, **options)).codes
