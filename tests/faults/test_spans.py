"""What the consumers of a Shared or Key_Shared subscription got together: entries that none got, and the one that delays others."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.protocols.pulsar.rules.subscriptions import shares
from tests.faults.consumers import publishing
from tests.scenarios.commands import ack, close_consumer, delivery, flow, subscribe, success
from tests.scenarios.connections import connected, subscribed, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, START_NS, Conversation
from tests.scenarios.evaluation import diagnose
from tests.scenarios.frames import PUBLISH_TIME_MS, command_frame

SKIPPED, BEHIND = "messages-skipped", "consumer-behind"


def passing_over(first: int, again: int, *, kind: str = "Shared", behind: int = 10, permits: int = 0, leaves: str = "") -> Conversation:
    """A consumer that uses up its permits with `first` entries, and gets those from `again` on at 2 s; or leaves in between."""
    talk = subscribed(connected(start=10 * MILLISECOND), kind=kind).client(flow(permits or first))
    for entry in range(first):
        wait_until(talk, (110 + 20 * entry) * MILLISECOND).server(delivery(entry)).client(ack(entry))
    if leaves:
        talk.client(close_consumer(1, 300))
        wait_until(talk, 1900 * MILLISECOND)
        subscribed(talk, kind=kind)
    wait_until(talk, 2 * SECOND).client(flow(1000))
    for entry in range(again, again + behind):
        talk.wait(MILLISECOND).server(delivery(entry)).client(ack(entry))
    return talk.wait(100 * MILLISECOND)


@pytest.mark.parametrize(
    ("kind", "first", "count", "leaves"), [*product(("Shared", "Key_Shared"), (5, 20), (6, 25, 40), ("", "and comes again"))]
)
def test_what_none_of_a_shared_subscription_got_is_named(tmp_path: Path, kind: str, first: int, count: int, leaves: str) -> None:
    talk = passing_over(first, first + count, kind=kind, leaves=leaves)
    diagnosis = diagnose(tmp_path, talk, publishing(first + count + 10, 20 * MILLISECOND))
    row, evidence = diagnosis.only(SKIPPED)
    assert (evidence["before"], evidence["after"], evidence["count"]) == ([7, first - 1], [7, first + count], count)
    assert diagnosis.commands(row)[:2] == ["MESSAGE", "MESSAGE"]
    assert f"0:{row.packet}.{row.sub}" == evidence["frames"][1]
    who = "none of its 2 consumers ever" if leaves == "and comes again" else "its consumer never"
    assert f": {who} got the {count:,} entries between" in (row.text or "")


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
@pytest.mark.parametrize(("rest", "slow"), [(0, True), (1, True), (4, False), (9, False)])
def test_a_consumer_without_permits_may_be_why_they_expired(tmp_path: Path, kind: str, rest: int, slow: bool) -> None:
    """It has none for 1.7 s, and then enough for `rest` s."""
    talk = passing_over(5, 45, kind=kind).wait(rest * SECOND).server(delivery(55)).client(ack(55))
    row, _ = diagnose(tmp_path, talk, publishing(55, 20 * MILLISECOND)).only(SKIPPED)
    assert ("It had no permits most of the time" in (row.text or "")) is slow


@pytest.mark.parametrize(("kind", "first", "count"), [*product(("Shared", "Key_Shared"), (5, 20), (0, 1, 2))])
def test_markers_are_passed_over(tmp_path: Path, kind: str, first: int, count: int) -> None:
    talk = passing_over(first, first + count, kind=kind)
    assert SKIPPED not in diagnose(tmp_path, talk, publishing(first + count + 10, 20 * MILLISECOND)).codes


@pytest.mark.parametrize(
    ("first", "count", "behind", "named"),
    [*product((2, 4), (10, 40), (10, 30), (True,)), *product((1,), (40,), (30,), (False,)), *product((2, 4), (40,), (5, 9), (False,))],
)
def test_a_few_before_are_enough_when_many_come_behind(tmp_path: Path, first: int, count: int, behind: int, named: bool) -> None:
    """Another consumer would have had some of these."""
    talk = passing_over(first, first + count, behind=behind)
    diagnosis = diagnose(tmp_path, talk, publishing(first + count + behind, 20 * MILLISECOND))
    assert (SKIPPED in diagnosis.codes) == named


@pytest.mark.parametrize(("kind", "first", "count"), [*product(("Shared", "Key_Shared"), (5, 20), (10, 40))])
def test_what_another_got_is_not_skipped(tmp_path: Path, kind: str, first: int, count: int) -> None:
    other = subscribed(connected(40001, start=300 * MILLISECOND), kind=kind).client(flow(1000))
    wait_until(other, 600 * MILLISECOND)
    for entry in range(first, first + count):
        other.wait(20 * MILLISECOND).server(delivery(entry)).client(ack(entry))
    talks = passing_over(first, first + count, kind=kind), other.close()
    assert SKIPPED not in diagnose(tmp_path, *talks, publishing(first + count + 10, 20 * MILLISECOND)).codes


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_what_another_got_whose_subscription_was_captured_out_of_order_is_not_skipped(tmp_path: Path, kind: str) -> None:
    other = connected(40001, start=300 * MILLISECOND).server(success(101)).client(subscribe(1, "c1", 101, kind)).client(flow(1000))
    wait_until(other, 600 * MILLISECOND)
    for entry in range(5, 45):
        other.wait(20 * MILLISECOND).server(delivery(entry)).client(ack(entry))
    talks = passing_over(5, 45, kind=kind), other.close()
    assert SKIPPED not in diagnose(tmp_path, *talks, publishing(55, 20 * MILLISECOND)).codes


@pytest.mark.parametrize(("kind", "first", "count"), [*product(("Shared", "Key_Shared"), (5, 20), (10, 40))])
def test_with_permits_it_would_have_had_a_share(tmp_path: Path, kind: str, first: int, count: int) -> None:
    """Another one, outside the capture, may rank before it."""
    talk = passing_over(first, first + count, kind=kind, permits=1000)
    assert SKIPPED not in diagnose(tmp_path, talk, publishing(first + count + 10, 20 * MILLISECOND)).codes


@pytest.mark.parametrize("why", ["one elsewhere", "sought", "delayed", "lost", "from before", "few behind", "in the end"])
def test_what_may_have_gone_elsewhere_is_not_skipped(tmp_path: Path, why: str) -> None:
    producer = publishing(60, 20 * MILLISECOND) if why != "from before" else publishing(10, 20 * MILLISECOND, first=41)
    talk = subscribed(connected(start=10 * MILLISECOND)).client(flow(10))
    for entry in range(10):
        position = 2 * entry if why == "one elsewhere" else entry
        metadata: dict[str, Any] = {"deliver_at_time": PUBLISH_TIME_MS + 1000} if why == "delayed" else {}
        wait_until(talk, (110 + 40 * entry) * MILLISECOND).server(delivery(position, **metadata)).client(ack(position))
    if why == "sought":
        talk.client(command_frame("SEEK", consumer_id=1, request_id=77, message_id={"ledgerId": 7, "entryId": 40}))
    elif why == "lost":
        talk.lose("server", 5000)
    wait_until(talk, 2 * SECOND).client(flow(1000))
    last = {"few behind": 42, "in the end": 60}.get(why, 55)
    for entry in range(14, 44) if why == "in the end" else range(40, last):
        talk.wait(MILLISECOND).server(delivery(entry)).client(ack(entry))
    if why == "in the end":
        for entry in range(10, 14):
            talk.server(delivery(entry)).client(ack(entry))
    assert SKIPPED not in diagnose(tmp_path, talk, producer).codes


def dropping(
    rounds: int, kept: int, dropped: int, *, consumers: int = 1, work_ms: int = 400, takes_turns: bool = False, joins_ms: int = 0
) -> list[Conversation]:
    """Slow consumers that request one message at a time, and get `kept` entries; then `dropped` ones are gone, repeatedly.

    With `takes_turns`, another consumer, which the capture lacks, gets every entry after those of the others. With `joins_ms`, they
    come when all have been published.
    """
    starts = [(joins_ms + 10 + number) * MILLISECOND for number in range(consumers)]
    talks = [subscribed(connected(40000 + number, start=start)).client(flow(1)) for number, start in enumerate(starts)]
    entry = at = 0
    for index in range(rounds * kept):
        if index and index % kept == 0:
            entry += dropped
        at = joins_ms + 200 + index * work_ms // consumers
        talk = wait_until(talks[index % consumers], at * MILLISECOND).server(delivery(entry))
        wait_until(talk, (at + work_ms - 1) * MILLISECOND).client(ack(entry)).client(flow(1))
        entry += 1 + (takes_turns and index % consumers == consumers - 1)
    step = max((joins_ms // 2 or at) // (entry + 1) * MILLISECOND, MILLISECOND)
    return [*(talk.wait(100 * MILLISECOND) for talk in talks), publishing(entry + 1, step)]


@pytest.mark.parametrize(("kept", "dropped", "consumers"), [*product((5, 9), (4, 30), (1,)), *product((8, 12), (10, 30), (2,))])
def test_what_is_dropped_again_and_again_is_named_once(tmp_path: Path, kept: int, dropped: int, consumers: int) -> None:
    """A backlog quota does this when it evicts what slow consumers have not received yet."""
    rounds = 6
    diagnosis = diagnose(tmp_path, *dropping(rounds, kept, dropped, consumers=consumers))
    row, evidence = diagnosis.only(SKIPPED)
    assert (evidence["count"], evidence["holes"]) == ((rounds - 1) * dropped, rounds - 1)
    assert (evidence["before"], evidence["after"]) == ([7, kept - 1], [7, kept + dropped])
    assert (row.severity, diagnosis.commands(row)[:2]) == ("warning", ["MESSAGE", "MESSAGE"])


SLOW = [*product((2, 6), (12, 15), (30, 200), (1, 2))]


@pytest.mark.slow
@pytest.mark.parametrize(("rounds", "kept", "dropped", "consumers"), SLOW)
@pytest.mark.parametrize("seconds", [13, 40])
def test_a_slow_consumer_whose_messages_are_dropped_is_behind(
    tmp_path: Path, rounds: int, kept: int, dropped: int, consumers: int, seconds: int
) -> None:
    """They expire, for example (TTL)."""
    talks = dropping(rounds, kept, dropped, consumers=consumers, work_ms=consumers * seconds * 1000 // (rounds * kept))
    diagnosis = diagnose(tmp_path, *talks)
    row, evidence = diagnosis.only(BEHIND)
    assert (row.severity, evidence["act"], len(diagnosis.of(SKIPPED))) == ("warning", "client", 1)


@pytest.mark.slow
@pytest.mark.parametrize(("rounds", "kept", "dropped", "consumers"), SLOW)
@pytest.mark.parametrize(("seconds", "joins"), [(8, 0), (20, 6_000)])
def test_one_that_is_slow_for_a_moment_or_comes_to_a_backlog_is_not(
    tmp_path: Path, rounds: int, kept: int, dropped: int, consumers: int, seconds: int, joins: int
) -> None:
    work = consumers * seconds * 1000 // (rounds * kept)
    assert BEHIND not in diagnose(tmp_path, *dropping(rounds, kept, dropped, consumers=consumers, work_ms=work, joins_ms=joins)).codes


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
@pytest.mark.parametrize("rest", [10, 40])
def test_one_that_mostly_has_permits_is_not_behind(tmp_path: Path, kind: str, rest: int) -> None:
    talk = passing_over(5, 45, kind=kind).wait(rest * SECOND).server(delivery(55)).client(ack(55))
    codes = diagnose(tmp_path, talk, publishing(55, 20 * MILLISECOND)).codes
    assert (SKIPPED in codes, BEHIND in codes) == (True, False)


@pytest.mark.parametrize(
    ("kept", "dropped", "options"),
    [
        (2, 30, {}),  # a consumer that the capture lacks may alternate with this one, and get many at a time
        (5, 30, {"work_ms": 40, "takes_turns": True}),
        (8, 30, {"consumers": 2, "takes_turns": True}),
        (4, 30, {"consumers": 2}),
        (9, 2, {}),  # markers
    ],
)
def test_what_another_may_take_in_turns_is_not_dropped(tmp_path: Path, kept: int, dropped: int, options: dict[str, Any]) -> None:
    assert SKIPPED not in diagnose(tmp_path, *dropping(6, kept, dropped, **options)).codes


def key_shared(
    length: int,
    queue: int,
    slow_ms: int,
    *,
    kind: str = "Key_Shared",
    step: int = 50,
    both: bool = False,
    keys: Callable[[int], dict[str, Any]] = lambda _: {},
) -> list[Conversation]:
    """Two consumers of a topic that gets an entry every `step` ms: the fast one gets even entries, the slow one odd ones."""
    talks = []
    for port, first, pace in ((40000, 0, slow_ms if both else 0), (40001, 1, slow_ms)):
        talk = subscribed(connected(port, start=20 * MILLISECOND), kind=kind).client(flow(queue))
        events: list[tuple[int, int, bytes]] = []
        free, due, waits, half = 0, 0, queue, max(queue // 2, 1)
        acked: list[int] = []
        for got in range(length * 1000 // (2 * step)):
            entry = 2 * got + first
            due = max(150 + step * entry, due + 1)
            if got >= waits:  # half of the queue must be taken first
                taken = acked[waits - queue + half - 1]
                events.append((taken + 1, 1, flow(half)))
                waits += half
                due = max(due, taken + 2)
            free = max(free, due) + pace
            events += [(due, 0, delivery(entry, **keys(entry))), (free, 1, ack(entry))]
            acked.append(free)
        for time, is_client, frame in sorted(events):
            if time < length * 1000:
                talk.wait(max(START_NS + time * MILLISECOND - talk.time_ns, 0))
                (talk.client if is_client else talk.server)(frame)
        talks.append(talk)
    return [*talks, publishing(length * 1000 // step, step * MILLISECOND)]


@pytest.mark.parametrize(("length", "queue", "slow"), [*product((6, 8, 12), (4, 10), (300, 500, 800)), (12, 20, 500), (12, 20, 900)])
def test_a_slow_one_beside_one_that_is_idle_is_named(tmp_path: Path, length: int, queue: int, slow: int) -> None:
    diagnosis = diagnose(tmp_path, *key_shared(length, queue, slow))
    row, evidence = diagnosis.only(BEHIND)
    assert (row.severity, evidence["act"], evidence["waiting"] >= 10) == ("warning", "client", True)
    assert diagnosis.frames[f"0:{row.packet}.{row.sub}"].command == "FLOW"


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        (lambda _: {"partition_key": "hot"}, "have key hot, and a key goes to one consumer."),
        (lambda entry: {"partition_key": "hot" if entry % 6 else f"k{entry}"}, "have key hot, and"),
        (lambda _: {"ordering_key": b"hot", "partition_key": "other"}, "have ordering key aG90, and"),
        (lambda entry: {"partition_key": f"k{entry % 40}"}, None),
        (lambda entry: {"partition_key": f"k{entry}"}, None),
        (lambda _: {}, None),
        (lambda entry: {"partition_key": "hot"} if entry % 10 == 1 else {}, None),
    ],
    ids=["one", "mostly one", "ordering key", "many", "all different", "none", "one of a few with a key"],
)
def test_the_key_that_most_of_them_have_is_named(tmp_path: Path, keys: Callable[[int], dict[str, Any]], named: str | None) -> None:
    diagnosis = diagnose(tmp_path, *key_shared(12, 4, 500, keys=keys))
    row, evidence = diagnosis.only(BEHIND)
    assert named in row.text if named else "goes to one consumer" not in row.text
    assert (evidence["key"] is not None) == (named is not None)


@pytest.mark.parametrize(
    ("length", "queue", "slow", "kind", "both"),
    [
        *product((4, 9), (4, 10, 20), (0, 40, 90), ("Key_Shared",), (False,)),  # it keeps up
        *product((2,), (4, 10), (300,), ("Key_Shared",), (False,)),  # too short
        *product((4, 9), (4, 10), (300,), ("Key_Shared",), (True,)),  # both are slow
    ],
)
def test_those_that_keep_up_or_are_all_slow_are_not(tmp_path: Path, length: int, queue: int, slow: int, kind: str, both: bool) -> None:
    assert BEHIND not in diagnose(tmp_path, *key_shared(length, queue, slow, kind=kind, both=both)).codes


@pytest.mark.parametrize(
    ("per_consumer", "per_connection", "named"), [(1000, 10_000, True), (2, 10_000, True), (1, 10_000, False), (9, 1, False)]
)
def test_what_is_kept_of_a_share_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per_consumer: int, per_connection: int, named: bool
) -> None:
    monkeypatch.setattr(shares, "SPANS_MAX", per_consumer)
    monkeypatch.setattr(shares, "CONNECTION_SPANS_MAX", per_connection)
    diagnosis = diagnose(tmp_path, passing_over(10, 30), publishing(40, 20 * MILLISECOND))
    assert bool(diagnosis.of(SKIPPED)) == named


@pytest.mark.parametrize("end", ["open", "fin"])
def test_what_a_consumer_may_have_got_whose_connection_the_capture_leaves_is_not_missed(tmp_path: Path, end: str) -> None:
    """One of several rotated files is missing: a connection neither ends nor continues."""
    first = subscribed(connected(start=50 * MILLISECOND), kind="Shared").client(flow(1000))
    for entry in range(20):
        wait_until(first, 100 * MILLISECOND + entry * 10 * MILLISECOND).server(delivery(entry)).client(ack(entry))
    first.wait(10 * MILLISECOND)
    if end == "fin":
        first.client(close_consumer()).close()
    second = subscribed(connected(40001, start=4 * SECOND), kind="Shared").client(flow(1000))
    for entry in range(80, 120):
        second.wait(10 * MILLISECOND).server(delivery(entry)).client(ack(entry))
    codes = diagnose(tmp_path, first, second, publishing(140, 30 * MILLISECOND, until=6 * SECOND)).codes
    assert ("messages-skipped" in codes) == (end == "fin")
