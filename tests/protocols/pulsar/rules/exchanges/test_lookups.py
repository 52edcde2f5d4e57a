"""Lookups in circles, and too many concurrent lookups."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scenarios.commands import lookup, lookup_response
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import SECOND, Conversation
from tests.scenarios.evaluation import findings_of, only, problem_codes, with_code
from tests.scenarios.rules.lookups import ONE, TO_ONE, TO_TWO, brokers


def test_two_brokers_that_send_each_other_the_client_are_a_loop(tmp_path: Path) -> None:
    item, two = brokers()
    wait_until(item, SECOND).client(lookup(1)).server(lookup_response("Redirect", TO_TWO, 1))
    wait_until(two, 2 * SECOND).client(lookup(2, authoritative=True)).server(lookup_response("Redirect", TO_ONE, 2))
    wait_until(item, 3 * SECOND).client(lookup(3, authoritative=True)).server(lookup_response("Redirect", TO_TWO, 3))
    text, evidence = only(findings_of(tmp_path, item, two), "lookup-loop")
    assert "10.0.0.2:6650 → 10.0.0.3:6650 → 10.0.0.2:6650" in text
    assert "3 redirects in 2.00 s" in text
    assert text.endswith("no lookup follows the redirect to pulsar://10.0.0.3:6650.")
    assert [(hop["asked"], hop["authoritative"]) for hop in evidence["hops"]] == [
        ("10.0.0.2:6650", False),
        ("10.0.0.3:6650", True),
        ("10.0.0.2:6650", True),
    ]
    assert evidence["circle"]
    assert evidence["frames"] == [f"0:{packet}.1" for packet in range(11, 17)]


def test_a_long_circle_is_named_once(tmp_path: Path) -> None:
    item, two = brokers()
    for at in range(1, 13, 2):
        wait_until(item, at * SECOND).client(lookup(at)).server(lookup_response("Redirect", TO_TWO, at))
        wait_until(two, (at + 1) * SECOND).client(lookup(at)).server(lookup_response("Redirect", TO_ONE, at))
    text, evidence = only(findings_of(tmp_path, item, two), "lookup-loop")
    assert ": 10.0.0.2:6650 → 10.0.0.3:6650 → 10.0.0.2:6650 → 9 more; " in text
    assert (evidence["redirects"], len(evidence["hops"])) == (12, 12)


def test_one_redirect_is_none(tmp_path: Path) -> None:
    item, two = brokers()
    wait_until(item, SECOND).client(lookup(1)).server(lookup_response("Redirect", TO_TWO, 1)).close()
    wait_until(two, 2 * SECOND).client(lookup(2, authoritative=True)).server(lookup_response("Connect", TO_TWO, 2)).close()
    assert problem_codes(findings_of(tmp_path, item, two)) == []


def decided(*, redirect: bool, lookup_again: bool, response: str, more: int = 0) -> tuple[Conversation, Conversation]:
    """A lookup that goes to the leader and back, after `more` earlier circles, with these flags and this end."""
    item, two = brokers()
    at = 1
    for circle in range(more + 1):
        wait_until(item, at * SECOND).client(lookup(at, authoritative=bool(circle))).server(lookup_response("Redirect", TO_TWO, at))
        wait_until(two, (at + 1) * SECOND).client(lookup(at, authoritative=bool(circle)))
        two.server(lookup_response("Redirect", TO_ONE, at, authoritative=redirect))
        at += 2
    wait_until(item, at * SECOND).client(lookup(9, authoritative=lookup_again)).server(lookup_response(response, TO_ONE, 9))
    return item, two


def test_a_leader_that_makes_the_first_broker_the_owner_is_no_loop(tmp_path: Path) -> None:
    findings = findings_of(tmp_path, *decided(redirect=True, lookup_again=True, response="Connect"))
    assert problem_codes(findings) == []


@pytest.mark.parametrize(
    ("redirect", "again", "response", "more"),
    [(True, True, "Redirect", 0), (True, True, "Failed", 0), (False, False, "Connect", 0), (True, True, "Connect", 1)],
)
def test_one_that_decides_nothing_is_a_loop(tmp_path: Path, redirect: bool, again: bool, response: str, more: int) -> None:
    findings = findings_of(tmp_path, *decided(redirect=redirect, lookup_again=again, response=response, more=more))
    assert "lookup-loop" in problem_codes(findings)


def test_several_lookups_of_one_client_at_a_time_are_none(tmp_path: Path) -> None:
    item, two = brokers()
    wait_until(item, SECOND)
    for request in range(4):
        item.client(lookup(request)).server(lookup_response("Redirect", TO_TWO, request))
    wait_until(two, 2 * SECOND)
    for request in range(4):
        two.client(lookup(request)).server(lookup_response("Connect", TO_TWO, request))
    assert problem_codes(findings_of(tmp_path, item, two)) == []


def test_a_broker_that_names_itself_is_a_loop(tmp_path: Path) -> None:
    item = connected(server=ONE)
    for request in range(3):
        item.client(lookup(request)).server(lookup_response("Redirect", TO_ONE, request))
    text, _ = only(
        findings_of(tmp_path, item.client(lookup(9)).server(lookup_response("Failed", "", 9, error="ServiceNotReady"))), "lookup-loop"
    )
    assert "3 redirects" in text
    assert text.endswith("it failed with ServiceNotReady.")


def test_names_of_brokers_may_be_any_but_the_one_that_was_asked(tmp_path: Path) -> None:
    item, two = brokers()
    wait_until(item, SECOND).client(lookup(1)).server(lookup_response("Redirect", "pulsar://b:6650", 1))
    wait_until(two, 2 * SECOND).client(lookup(2)).server(lookup_response("Redirect", "pulsar://a:6650", 2))
    wait_until(item, 3 * SECOND).client(lookup(3)).server(lookup_response("Connect", "pulsar://a:6650", 3))
    text, _ = only(findings_of(tmp_path, item, two), "lookup-loop")
    assert text.endswith("it ended with Connect to pulsar://a:6650.")


def test_refusals_are_reported_with_how_many_waited(tmp_path: Path) -> None:
    item = connected()
    for request in range(8):
        item.client(lookup(request))
    for request in range(8):
        if request < 5:
            item.server(lookup_response("Connect", TO_ONE, request))
        else:
            item.server(lookup_response("Failed", "", request, error="TooManyRequests", message="full"))
    findings = findings_of(tmp_path, item)
    text, evidence = only(findings, "too-many-requests")
    assert "3 requests of 10.0.0.1:40000 were refused with TooManyRequests" in text
    assert "up to 8 lookups waited at once, 3 when the first was refused" in text
    assert (evidence["refused"], evidence["lookups"], evidence["outstanding_max"]) == ({"LOOKUP": 3}, 8, 8)
    assert evidence["frames"] == ["0:11.1", "0:13.1"]
    assert with_code(findings, "request-failed") == []


def test_many_lookups_that_are_answered_are_none(tmp_path: Path) -> None:
    item = connected()
    for request in range(50):
        item.client(lookup(request))
    for request in range(50):
        item.server(lookup_response("Connect", TO_ONE, request))
    assert problem_codes(findings_of(tmp_path, item)) == []
