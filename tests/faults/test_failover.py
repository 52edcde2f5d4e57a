"""Failover subscriptions with members that come and go."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import ack, close_consumer, delivery, flow, message, subscribe, success
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.frames import command_frame

FLAPPING, BOTH = "failover-flapping", "delivered-to-both"


def member(name: str, start: int, port: int) -> Conversation:
    talk = connected(port, start=start).client(subscribe(1, name, 2, "Failover"))
    return talk.server(success(2)).client(flow(1000))


def active_change(active: bool) -> bytes:
    return command_frame("ACTIVE_CONSUMER_CHANGE", consumer_id=1, is_active=active)


def flapping(visits: int, pause: int, end: str, names: Sequence[str]) -> list[Conversation]:
    """A preferred member that comes and goes, beside one that stays."""
    stays = member("b", 0, 40000).server(active_change(active=True))
    talks = [stays]
    for number in range(visits):
        begin = (2 * number + 1) * pause
        comes = member(names[number % len(names)], begin, 40100 + number).server(active_change(active=True)).server(delivery(number))
        wait_until(stays, begin + 10 * MILLISECOND).server(active_change(active=False))
        wait_until(comes, begin + pause)
        talks.append(comes.reset("client") if end == "rst" else (comes.client(close_consumer()) if end == "closed" else comes).close())
        wait_until(stays, begin + pause + 10 * MILLISECOND).server(active_change(active=True))
    return talks


@pytest.mark.parametrize(
    ("visits", "pause", "end", "names"), [*product((3, 5, 8), (200, 2000, 20000), ("fin", "rst", "closed"), ("a", "acdefghi"))]
)
def test_an_active_consumer_that_changes_again_and_again_is_named(tmp_path: Path, visits: int, pause: int, end: str, names: str) -> None:
    diagnosis = diagnose(tmp_path, *flapping(visits, pause * MILLISECOND, end, names))
    row, evidence = diagnosis.only(FLAPPING)
    assert set(diagnosis.commands(row)) == {"ACTIVE_CONSUMER_CHANGE"}
    assert evidence["changes"] == 2 * visits
    assert ", between consumers b" in (row.text or "")


def test_consumers_without_a_name_have_a_number(tmp_path: Path) -> None:
    row, _ = diagnose(tmp_path, *flapping(5, 2 * SECOND, "fin", [""])).only(FLAPPING)
    assert "consumers b and 1 of 10.0.0.1." in (row.text or "")


@pytest.mark.parametrize(("visits", "pause", "fresh"), [*product((4, 6, 9), (600, 2000), (False, True))])
def test_one_that_takes_over_again_and_again_is_named(tmp_path: Path, visits: int, pause: int, fresh: bool) -> None:
    """The broker tells the other one each time that it is standby, and never that it is active."""
    stays, again, talks = member("b", 0, 40000), connected(40100), []
    for number in range(visits):
        begin = (number + 1) * pause * MILLISECOND
        wait_until(stays, begin - MILLISECOND).server(active_change(active=False))
        if fresh:
            comes = wait_until(member("a", begin - 200 * MILLISECOND, 40200 + number), begin)
            talks.append(comes.server(active_change(active=True)).client(close_consumer()).close())
            continue
        wait_until(again, begin).client(subscribe(number, "a", 100 + number, "Failover")).server(success(100 + number))
        again.server(command_frame("ACTIVE_CONSUMER_CHANGE", consumer_id=number, is_active=True)).client(close_consumer(number))
    diagnosis = diagnose(tmp_path, stays, *(talks if fresh else [again]))
    _, evidence = diagnosis.only(FLAPPING)
    assert evidence["changes"] == 2 * (visits - 1)


@pytest.mark.parametrize(
    ("visits", "pause", "end"),
    [*product((0, 1), (200, 20000), ("fin", "rst", "closed")), *product((5, 9), (90000,), ("fin", "rst", "closed"))],
)
def test_a_failover_and_back_or_one_in_minutes_is_no_flapping(tmp_path: Path, visits: int, pause: int, end: str) -> None:
    assert FLAPPING not in diagnose(tmp_path, *flapping(visits, pause * MILLISECOND, end, "a")).codes


@pytest.mark.parametrize("members", [2, 5, 9])
def test_members_that_start_one_after_the_other_do_not_flap(tmp_path: Path, members: int) -> None:
    talks = [member(f"c{9 - number}", number * SECOND, 40000 + number).server(active_change(active=True)) for number in range(members)]
    assert FLAPPING not in diagnose(tmp_path, *talks).codes


@pytest.mark.parametrize(("held", "acked"), [*product((1, 5, 20), (0, 1, 20))])
def test_what_both_got_at_a_change_is_named(tmp_path: Path, held: int, acked: int) -> None:
    before = member("b", 0, 40000).server(active_change(active=True), *[delivery(entry) for entry in range(held)])
    for entry in range(min(held, acked)):
        before.client(ack(entry))
    wait_until(before, SECOND).server(active_change(active=False))
    first = min(held, acked)
    after = wait_until(member("a", SECOND // 2, 40001), SECOND + MILLISECOND).server(active_change(active=True), delivery(first))
    diagnosis = diagnose(tmp_path, before, after)
    assert len(diagnosis.of(BOTH)) == (acked < held)
    if acked < held:
        row, evidence = diagnosis.only(BOTH)
        assert (row.severity, evidence["message_id"]) == ("note", [7, first])


@pytest.mark.parametrize(("visits", "pause"), [*product((2, 5, 9), (600, 2000))])
def test_the_only_member_that_comes_again_does_not_flap(tmp_path: Path, visits: int, pause: int) -> None:
    begins = [number * pause * MILLISECOND for number in range(visits)]
    talks = [member("a", begin, 40000 + number).server(active_change(active=True)).close() for number, begin in enumerate(begins)]
    assert FLAPPING not in diagnose(tmp_path, *talks).codes


@pytest.mark.parametrize(("turns", "pause"), [*product((4, 6), (600, 2000))])
def test_a_standby_that_gets_messages_has_taken_over(tmp_path: Path, turns: int, pause: int) -> None:
    stays = member("b", 0, 40000)
    talks = [stays]
    for number in range(turns):
        begin = (2 * number + 1) * pause * MILLISECOND
        wait_until(stays, begin).server(active_change(active=False))
        comes = member("a", begin - 100 * MILLISECOND, 40100 + number)
        talks.append(
            wait_until(comes, begin + MILLISECOND).server(active_change(active=True), delivery(2 * number)).client(close_consumer()).close()
        )
        wait_until(stays, begin + pause * MILLISECOND).server(delivery(2 * number + 1))
    assert diagnose(tmp_path, *talks).only(FLAPPING)[1]["changes"] == 2 * turns - 1


@pytest.mark.parametrize(("held", "acked", "end"), [*product((1, 5, 20), (0, 1, 20), ("closed", "fin", "rst"))])
def test_what_one_held_that_left_and_another_gets_is_named(tmp_path: Path, held: int, acked: int, end: str) -> None:
    before = member("b", 0, 40000).server(active_change(active=True), *[delivery(entry) for entry in range(held)])
    for entry in range(min(held, acked)):
        before.client(ack(entry))
    wait_until(before, SECOND)
    if end == "closed":
        before.client(close_consumer())
    before.reset("client") if end == "rst" else before.close()
    first = min(held, acked)
    after = wait_until(member("a", SECOND // 2, 40001).server(active_change(active=False)), 2 * SECOND).server(
        active_change(active=True), delivery(first)
    )
    assert len(diagnose(tmp_path, before, after).of(BOTH)) == (acked < held)


@pytest.mark.parametrize(("visits", "pause"), [*product((4, 6, 9), (600, 2000))])
def test_one_notified_repeatedly_that_it_is_active_was_standby_in_between(tmp_path: Path, visits: int, pause: int) -> None:
    """Brokers wait a second before they notify, and then only say who is active."""
    stays, talks = member("b", 0, 40000), []
    for number in range(visits):
        begin = (number + 1) * pause * MILLISECOND
        talks.append(wait_until(member("a", begin, 40100 + number), begin + pause * MILLISECOND // 2).client(close_consumer()).close())
        wait_until(stays, begin + pause * MILLISECOND * 3 // 4).server(active_change(active=True))
    _, evidence = diagnose(tmp_path, stays, *talks).only(FLAPPING)
    assert (evidence["changes"], evidence["consumers"]) == (2 * (visits - 1), ["b", "a"])


@pytest.mark.parametrize(("times", "pause"), [*product((2, 5, 9), (5, 600, 2000))])
def test_the_only_member_that_is_notified_again_does_not_flap(tmp_path: Path, times: int, pause: int) -> None:
    talk = member("a", 0, 40000)
    for _ in range(times):
        talk.wait(pause * MILLISECOND).server(active_change(active=True))
    assert FLAPPING not in diagnose(tmp_path, talk).codes


@pytest.mark.parametrize(("visits", "pause"), [*product((4, 6, 9), (600, 2000))])
def test_one_of_several_that_comes_again_as_standby_and_takes_over_is_named(tmp_path: Path, visits: int, pause: int) -> None:
    """Two consumers on each connection, which leave in turn; only the second one is notified."""
    one, two = connected(40000), connected(40001, start=MILLISECOND)
    for number in range(visits):
        begin = (number + 1) * pause * MILLISECOND
        wait_until(one, begin).client(subscribe(number, "a", 100 + number, "Failover")).server(success(100 + number))
        wait_until(two, begin + 20 * MILLISECOND).client(subscribe(number, "b", 100 + number, "Failover")).server(success(100 + number))
        two.server(command_frame("ACTIVE_CONSUMER_CHANGE", consumer_id=number, is_active=False))
        wait_until(one, begin + 100 * MILLISECOND).client(close_consumer(number, 500 + number))
        wait_until(two, begin + 150 * MILLISECOND).server(command_frame("ACTIVE_CONSUMER_CHANGE", consumer_id=number, is_active=True))
        wait_until(two, begin + pause * MILLISECOND // 2).client(close_consumer(number, 500 + number))
    assert diagnose(tmp_path, one, two).only(FLAPPING)[1]["changes"] == 2 * (visits - 1)


@pytest.mark.parametrize(("visits", "pause"), [*product((4, 9), (600, 2000))])
def test_a_member_that_comes_again_beside_its_own_dead_connection_does_not_flap(tmp_path: Path, visits: int, pause: int) -> None:
    """The new connection is standby until the broker notices that the old one is dead."""
    talks = []
    for number in range(visits):
        talk = member("a", number * pause * MILLISECOND, 40000 + number).server(active_change(active=number == 0))
        talks.append(talk if not number else talk.wait(100 * MILLISECOND).server(active_change(active=True)))
    assert FLAPPING not in diagnose(tmp_path, *talks).codes


@pytest.mark.parametrize(("told", "rounds"), [*product((200, 1000, 3000), (1, 4))])
def test_one_that_gets_messages_before_it_is_notified_takes_over_once(tmp_path: Path, told: int, rounds: int) -> None:
    """A third member joins, the first one is active again and gets messages; the broker reports all of this later."""
    step, first, second = 5 * SECOND, member("a", 0, 40000).server(active_change(active=True)), member("b", SECOND, 40001)
    thirds = []
    for number in range(rounds):
        begin = (number + 1) * step
        wait_until(first, begin).server(active_change(active=False))
        wait_until(second, begin).server(active_change(active=True))
        third = member("c", begin + SECOND, 40100 + number)
        wait_until(first, begin + SECOND + 100 * MILLISECOND).server(delivery(number))
        for talk, active in ((second, False), (third, False), (first, True)):
            wait_until(talk, begin + SECOND + told * MILLISECOND).server(active_change(active=active))
        thirds.append(third.client(close_consumer()).close())
    assert len(diagnose(tmp_path, first, second, *thirds).of(FLAPPING)) == (rounds > 1)


def from_before(folder: Path, visits: int, pause: int, *, kind: str = "Failover", again: bool = True) -> Diagnosis:
    """A member from before the capture is notified repeatedly that it is active; another one comes and goes."""
    stays, talks = Conversation(("10.0.0.1", 39999), acknowledge=False).server(delivery(1)), []
    for number in range(visits):
        begin = (number + 1) * pause * MILLISECOND
        if kind:
            comes = connected(40100 + number, start=begin).client(subscribe(1, "a", 2, kind)).server(success(2)).client(flow(1000))
            talks.append(wait_until(comes, begin + pause * MILLISECOND // 2).client(close_consumer()).close())
        if again or number < 2:
            wait_until(stays, begin + pause * MILLISECOND * 3 // 4).server(active_change(active=True))
    return diagnose(folder, stays, *talks)


@pytest.mark.parametrize(("visits", "pause"), [*product((4, 6, 9), (600, 2000))])
def test_a_member_from_before_the_capture_flaps(tmp_path: Path, visits: int, pause: int) -> None:
    row, evidence = from_before(tmp_path, visits, pause).only(FLAPPING)
    assert (evidence["changes"], evidence["consumers"]) == (2 * (visits - 1), ["1 of 10.0.0.1", "a"])
    assert "None" not in (row.text or "")


@pytest.mark.parametrize(
    ("visits", "kind", "again"), [(1, "Failover", True), (2, "Failover", True), (9, "", True), (9, "Shared", True), (9, "Failover", False)]
)
def test_one_from_before_the_capture_that_is_notified_seldom_or_alone_does_not(tmp_path: Path, visits: int, kind: str, again: bool) -> None:
    assert from_before(tmp_path, visits, 600, kind=kind, again=again).of(FLAPPING) == []


@pytest.mark.parametrize(("partitions", "times"), [(4, 1), (8, 2), (2, 2)])
def test_each_partition_from_before_the_capture_counts_alone(tmp_path: Path, partitions: int, times: int) -> None:
    stays = Conversation(("10.0.0.1", 39999), acknowledge=False)
    for number in range(partitions):
        stays.server(message(number, 1, ledger=number))
    talks = [member("a", number * SECOND, 40100 + number).close() for number in range(4)]
    for _ in range(times):
        stays.wait(SECOND)
        for number in range(partitions):
            stays.server(command_frame("ACTIVE_CONSUMER_CHANGE", consumer_id=number, is_active=True))
    assert diagnose(tmp_path, stays, *talks).of(FLAPPING) == []


@pytest.mark.parametrize(("others", "flaps"), [(1, False), (2, False), (5, True)])
def test_a_member_from_before_the_capture_flaps_only_beside_others_that_join_each_time(tmp_path: Path, others: int, flaps: bool) -> None:
    """Members of another topic join, too, but not each time before it is notified that it is active."""
    stays, talks = Conversation(("10.0.0.1", 39999), acknowledge=False).server(delivery(1)), []
    for number in range(5):
        begin = (2 + number) * SECOND
        if number < others:
            talks.append(connected(40100 + number, start=begin).client(subscribe(1, f"a{number}", 2, "Failover")).server(success(2)))
        wait_until(stays, begin + SECOND // 2).server(active_change(active=True))
    assert (diagnose(tmp_path, stays, *talks).of(FLAPPING) != []) == flaps


def restarted(members: int, rounds: int, pause: int, end: str, *, rest: int = 0, begin: int = 0) -> list[Conversation]:
    """Members that are stopped and started one after the other; the first of those that run is active. `rest`: time between two rounds."""
    talks: list[Conversation] = []
    running: list[tuple[str, Conversation]] = []
    names = [f"pod-{number}" for number in range(members)]
    told: list[str] = []

    def start(name: str, time: int) -> None:
        running.append((name, member(name, time, 40000 + len(talks))))
        running.sort(key=lambda each: each[0])
        talks.append(dict(running)[name])
        tell(time + 100 * MILLISECOND)

    def tell(time: int) -> None:
        """As brokers do: all when the active one changes, else the one that joined."""
        is_change = not told or told[-1] != running[0][0]
        told.append(running[0][0])
        for number, (_, talk) in enumerate(running):
            if is_change or talk is talks[-1]:
                wait_until(talk, time).server(active_change(active=number == 0))

    for name in names:
        start(name, begin + len(talks) * 200 * MILLISECOND)
    time = begin + 2 * SECOND
    for number, name in enumerate(names * rounds):
        time += rest * (number > 0 and number % members == 0)
        place = next(place for place, each in enumerate(running) if each[0] == name)
        talk = wait_until(running.pop(place)[1], time)
        talk.reset("client") if end == "rst" else (talk.client(close_consumer()) if end == "closed" else talk).close()
        tell(time + 200 * MILLISECOND)
        start(name, time + pause // 3)
        time += pause
    return talks


@pytest.mark.parametrize(("members", "pause", "end"), [*product((2, 3, 5), (3, 12), ("closed", "fin", "rst"))])
def test_a_rolling_restart_is_no_flapping(tmp_path: Path, members: int, pause: int, end: str) -> None:
    assert FLAPPING not in diagnose(tmp_path, *restarted(members, 1, pause * SECOND, end)).codes


@pytest.mark.parametrize(("members", "rounds", "pause"), [*product((2, 3), (2, 4), (3, 8))])
def test_members_that_restart_again_and_again_flap(tmp_path: Path, members: int, rounds: int, pause: int) -> None:
    assert FLAPPING in diagnose(tmp_path, *restarted(members, rounds, pause * SECOND, "closed")).codes


@pytest.mark.parametrize("rest", [2, 9])
@pytest.mark.parametrize("rounds", [2, 3])
def test_each_of_several_rolling_restarts_is_no_flapping(tmp_path: Path, rounds: int, rest: int) -> None:
    assert FLAPPING not in diagnose(tmp_path, *restarted(2, rounds, 5 * SECOND, "closed", rest=rest * 60 * SECOND)).codes


@pytest.mark.parametrize("members", [3, 5])
@pytest.mark.parametrize("order", ["before", "after"])
def test_a_rolling_restart_at_another_time_explains_no_flapping(tmp_path: Path, order: str, members: int) -> None:
    begin = 240 * SECOND * (order == "before")
    stays, talks = wait_until(member("b", begin, 41000), begin + SECOND).server(active_change(active=True)), []
    for number in range(1, 4):  # others that come once
        time = begin + 4 * number * SECOND
        wait_until(stays, time).server(active_change(active=False))
        comes = wait_until(member(f"a{number}", time - 100 * MILLISECOND, 41000 + number), time + MILLISECOND)
        talks.append(wait_until(comes.server(active_change(active=True)), time + 2 * SECOND).client(close_consumer()).close())
        wait_until(stays, time + 2 * SECOND).server(active_change(active=True))
    stays.close()
    others = restarted(members, 1, 3 * SECOND, "closed", begin=240 * SECOND - begin)
    assert FLAPPING in diagnose(tmp_path, stays, *talks, *others).codes
