"""Failover subscriptions with members that come and go."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import ack, close_consumer, delivery, flow, subscribe, success
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import diagnose
from tests.scenarios.frames import command_frame

FLAPPING, BOTH = "failover-flapping", "delivered-to-both"


def member(name: str, start: int, port: int) -> Conversation:
    talk = connected(port, start=start).client(subscribe(1, name, 2, "Failover"))
    return talk.server(success(2)).client(flow(1000))


def told(active: bool) -> bytes:
    return command_frame("ACTIVE_CONSUMER_CHANGE", consumer_id=1, is_active=active)


def flapping(visits: int, pause: int, end: str, names: str) -> list[Conversation]:
    """A member that is preferred comes and goes, beside one that stays."""
    stays = member("b", 0, 40000).server(told(active=True))
    talks = [stays]
    for number in range(visits):
        begin = (2 * number + 1) * pause
        comes = member(names[number % len(names)], begin, 40100 + number).server(told(active=True)).server(delivery(number))
        wait_until(stays, begin + 10 * MILLISECOND).server(told(active=False))
        wait_until(comes, begin + pause)
        talks.append(comes.reset("client") if end == "rst" else (comes.client(close_consumer()) if end == "closed" else comes).close())
        wait_until(stays, begin + pause + 10 * MILLISECOND).server(told(active=True))
    return talks


@pytest.mark.parametrize(
    ("visits", "pause", "end", "names"), [*product((3, 5, 8), (200, 2000, 20000), ("fin", "rst", "closed"), ("a", "acdefghi"))]
)
def test_an_active_consumer_that_changes_again_and_again_is_named(tmp_path: Path, visits: int, pause: int, end: str, names: str) -> None:
    diagnosis = diagnose(tmp_path, *flapping(visits, pause * MILLISECOND, end, names))
    row, evidence = diagnosis.only(FLAPPING)
    assert set(diagnosis.commands(row)) == {"ACTIVE_CONSUMER_CHANGE"}
    assert evidence["changes"] == 2 * visits


@pytest.mark.parametrize(
    ("visits", "pause", "end"),
    [*product((0, 1), (200, 20000), ("fin", "rst", "closed")), *product((5, 9), (90000,), ("fin", "rst", "closed"))],
)
def test_a_failover_and_back_or_one_in_minutes_is_no_flapping(tmp_path: Path, visits: int, pause: int, end: str) -> None:
    assert FLAPPING not in diagnose(tmp_path, *flapping(visits, pause * MILLISECOND, end, "a")).codes


@pytest.mark.parametrize("members", [2, 5, 9])
def test_members_that_start_one_after_the_other_do_not_flap(tmp_path: Path, members: int) -> None:
    talks = [member(f"c{9 - number}", number * SECOND, 40000 + number).server(told(active=True)) for number in range(members)]
    assert FLAPPING not in diagnose(tmp_path, *talks).codes


@pytest.mark.parametrize(("held", "acked"), [*product((1, 5, 20), (0, 1, 20))])
def test_what_both_got_at_a_change_is_named(tmp_path: Path, held: int, acked: int) -> None:
    before = member("b", 0, 40000).server(told(active=True), *[delivery(entry) for entry in range(held)])
    for entry in range(min(held, acked)):
        before.client(ack(entry))
    wait_until(before, SECOND).server(told(active=False))
    first = min(held, acked)
    after = wait_until(member("a", SECOND // 2, 40001), SECOND + MILLISECOND).server(told(active=True), delivery(first))
    diagnosis = diagnose(tmp_path, before, after)
    assert len(diagnosis.of(BOTH)) == (acked < held)
    if acked < held:
        row, evidence = diagnosis.only(BOTH)
        assert (row.severity, evidence["message_id"]) == ("note", [7, first])
