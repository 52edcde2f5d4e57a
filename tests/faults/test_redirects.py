"""Clients that do not follow a redirect."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pulsarscope.dissect.contract.rules import Fact, Where
from pulsarscope.model.limits import FACTS_PER_KEY_MAX
from pulsarscope.model.records import FindingRow
from pulsarscope.model.thresholds import Thresholds
from pulsarscope.protocols.pulsar.rules.connections import idle_redirects
from tests.faults.attempts import attempt
from tests.scenarios.commands import PING, PONG, TOPIC, created, lookup, lookup_response, producer, subscribe, success
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import findings_of, live_findings_of, only, problem_codes, with_code
from tests.scenarios.rules.lookups import ONE, TO_ONE, TO_TWO, brokers

MINUTE = 60 * SECOND

Findings = Callable[..., list[FindingRow]]


@pytest.mark.parametrize("pause", [MILLISECOND, SECOND, 20 * SECOND])
@pytest.mark.parametrize("url", [TO_TWO, "pulsar://broker-b:6650"])
@pytest.mark.parametrize("answer", ["Connect", "Redirect", "Failed"])
@pytest.mark.parametrize("times", [1, 3])
def test_a_flag_that_is_dropped(pause: int, url: str, answer: str, times: int, tmp_path: Path) -> None:
    item, two = brokers()
    item.client(lookup(1)).server(lookup_response("Redirect", url, 1, authoritative=True))
    wait_until(two, pause + SECOND)
    for number in range(times):
        two.client(lookup(2 + number)).server(lookup_response(answer, TO_TWO, 2 + number))
    text, evidence = only(findings_of(tmp_path, item, two), "authoritative-dropped")
    assert evidence["count"] == times
    assert len(evidence["frames"]) == 2
    assert "10.0.0.3:6650 without" in text


@pytest.mark.parametrize("flagged", [True, False])
@pytest.mark.parametrize("sent", [True, False])
@pytest.mark.parametrize("url", [TO_TWO, "pulsar://broker-b:6650"])
@pytest.mark.parametrize("before", [True, False])
def test_a_flag_that_is_kept_or_was_not_set(url: str, *, flagged: bool, sent: bool, before: bool, tmp_path: Path) -> None:
    item, two = brokers()
    if before:
        two.client(lookup(7)).server(lookup_response("Connect", TO_TWO, 7))
    wait_until(item, SECOND).client(lookup(1)).server(lookup_response("Redirect", url, 1, authoritative=flagged and sent))
    wait_until(two, 2 * SECOND).client(lookup(2, authoritative=sent)).server(lookup_response("Connect", TO_TWO, 2, authoritative=True))
    two.client(producer()).server(created())
    assert problem_codes(findings_of(tmp_path, item, two)) == []


@pytest.mark.parametrize("pause", [MILLISECOND, SECOND, 20 * SECOND])
@pytest.mark.parametrize("what", ["producer", "consumer"])
@pytest.mark.parametrize("asked", [1, 2, 4])
@pytest.mark.parametrize("url", [TO_TWO, "pulsar://broker-b:6650"])
def test_a_client_that_stays(pause: int, what: str, asked: int, url: str, tmp_path: Path) -> None:
    item, _ = brokers()
    for number in range(asked):
        item.client(lookup(number)).server(lookup_response("Redirect", url, number)).wait(pause)
    item.client(producer(request=9) if what == "producer" else subscribe(request=9)).server(
        created(request=9) if what == "producer" else success(9)
    )
    text, evidence = only(findings_of(tmp_path, item), "redirect-not-followed")
    assert ("PRODUCER" if what == "producer" else "SUBSCRIBE") in text
    assert evidence["count"] == asked


@pytest.mark.parametrize("times", [5, 9])
@pytest.mark.parametrize("pause", [MILLISECOND, SECOND])
def test_a_client_that_asks_the_same_broker_again_and_again(times: int, pause: int, tmp_path: Path) -> None:
    item, _ = brokers()
    for number in range(times):
        item.client(lookup(number)).server(lookup_response("Redirect", TO_TWO, number)).wait(pause)
    assert only(findings_of(tmp_path, item), "redirect-not-followed")[1]["count"] == times


@pytest.mark.parametrize(
    ("times", "beside", "reported"), [(2, True, False), (3, True, True), (4, True, True), (3, False, False), (4, False, False)]
)
def test_fewer_are_enough_when_the_other_one_is_on_the_same_host(times: int, beside: bool, reported: bool, tmp_path: Path) -> None:
    item, _ = brokers()
    host = "10.0.0.2"
    for number in range(times):
        url = f"pulsar://{host if beside else '10.0.0.77'}:6659"
        item.client(lookup(number)).server(lookup_response("Redirect", url, number)).wait(100 * MILLISECOND)
    assert bool(with_code(findings_of(tmp_path, item), "redirect-not-followed")) == reported


@pytest.mark.parametrize("story", ["followed", "moved back", "asked again", "elsewhere", "other topic"])
@pytest.mark.parametrize("pause", [MILLISECOND, SECOND, 20 * SECOND])
@pytest.mark.parametrize("authoritative", [True, False])
def test_redirects_that_are_followed(story: str, pause: int, *, authoritative: bool, tmp_path: Path) -> None:
    item, two = brokers()
    item.client(lookup(1)).server(lookup_response("Redirect", TO_TWO, 1, authoritative=authoritative)).wait(pause)
    talks = [item]
    if story in ("followed", "moved back"):
        talks.append(wait_until(two, SECOND + pause).client(lookup(2, authoritative=authoritative)))
        two.server(lookup_response("Connect", TO_TWO if story == "followed" else TO_ONE, 2))
        user = two if story == "followed" else wait_until(item, 3 * SECOND + pause)
        user.client(producer()).server(created())
    elif story == "asked again":
        item.client(lookup(2)).server(lookup_response("Connect", TO_ONE, 2)).client(producer()).server(created())
    elif story == "elsewhere":  # outside the capture
        item.client(lookup(2)).server(lookup_response("Redirect", TO_TWO, 2))
    else:
        item.client(producer(topic="persistent://public/default/other")).server(created())
    assert problem_codes(findings_of(tmp_path, *talks)) == []


@pytest.mark.parametrize("lost", ["lookup", "answer", "both", "late"])
@pytest.mark.parametrize("pause", [MILLISECOND, SECOND])
@pytest.mark.parametrize("anew", [False, True])
def test_a_redirect_whose_next_lookup_the_capture_lacks(lost: str, pause: int, tmp_path: Path, *, anew: bool) -> None:
    item, two = brokers()
    item.client(lookup(1)).server(lookup_response("Redirect", TO_TWO, 1))
    wait_until(two, pause + SECOND).client(lookup(2)).server(lookup_response("Redirect", TO_ONE, 2, authoritative=True))
    wait_until(item, 2 * (pause + SECOND))
    asked, answered = lookup(3, authoritative=True), lookup_response("Connect", TO_ONE, 3, authoritative=True)
    if lost in ("lookup", "both"):
        item.lose("client", len(asked))
    elif lost == "answer":
        item.client(asked)
    if lost in ("answer", "both"):
        item.lose("server", len(answered))
    else:
        item.server(answered)
    if lost == "late":
        item.client(asked)
    item.wait(pause).client(subscribe(request=4)).server(success(4)).wait(pause)
    again = connected(40002, server=ONE, start=5 * (pause + SECOND)) if anew else item
    again.client(lookup(5)).server(lookup_response("Connect", TO_ONE, 5)).client(producer(request=6)).server(created(request=6))
    codes = {row.code for row in findings_of(tmp_path, item, two, *([again] if anew else []))}
    assert not codes & {"lookup-loop", "redirect-not-followed", "authoritative-dropped"}


@pytest.mark.parametrize("before", [True, False])
def test_a_flag_that_is_dropped_is_found_where_the_capture_lacks_other_bytes(tmp_path: Path, *, before: bool) -> None:
    item, two = brokers()
    if before:
        two.lose("client", len(PING)).client(PING).server(PONG)
    wait_until(item, SECOND).client(lookup(1)).server(lookup_response("Redirect", TO_TWO, 1, authoritative=True))
    wait_until(two, 2 * SECOND).client(lookup(2)).server(lookup_response("Connect", TO_TWO, 2))
    if not before:
        two.lose("server", 60).client(PING).server(PONG)
    only(findings_of(tmp_path, item, two), "authoritative-dropped")


def test_other_hosts_are_other_clients(tmp_path: Path) -> None:
    item, _ = brokers()
    item.client(lookup(1)).server(lookup_response("Redirect", TO_TWO, 1, authoritative=True))
    other = connected(40002, host="10.0.0.9", server=("10.0.0.3", 6650), start=SECOND).client(lookup(2))
    rows = findings_of(tmp_path, item, other.server(lookup_response("Connect", TO_TWO, 2)))
    assert with_code(rows, "authoritative-dropped") == []


def idle(url: str, rest: int, end: str, *, before: int = 0) -> Conversation:
    """A client that is redirected, and then does nothing until it ends."""
    talk = connected(server=ONE)
    for number in range(before):
        talk.client(lookup(50 + number, topic="persistent://public/default/u")).server(lookup_response("Connect", TO_ONE, 50 + number))
    talk.client(lookup(1)).server(lookup_response("Redirect", url, 1)).wait(rest)
    if end == "ping":
        return talk.client(PING).server(PONG)
    return talk.close() if end == "fin" else talk.reset("client")


@pytest.mark.parametrize("rest", [3 * SECOND, 25 * SECOND])
@pytest.mark.parametrize("end", ["fin", "rst", "ping"])
@pytest.mark.parametrize("url", ["pulsar://10.0.0.2:6651", "pulsar://10.0.0.2:6650", TO_TWO, "pulsar://broker-b:6650"])
@pytest.mark.parametrize("before", [0, 2])
def test_a_client_that_does_nothing_more(rest: int, end: str, url: str, before: int, tmp_path: Path) -> None:
    """Its actions on another host may not be in the capture."""
    rows = findings_of(tmp_path, idle(url, rest, end, before=before))
    text, evidence = only(rows, "redirect-not-followed" if "10.0.0.2" in url else "redirect-unseen")
    assert len(evidence["frames"]) == 1
    assert ("did nothing for" in text) == ("10.0.0.2" in url)


@pytest.mark.parametrize("end", ["fin", "rst", "ping"])
@pytest.mark.parametrize("story", ["soon", "followed", "refused", "connected before", "asked again", "asked for another"])
def test_a_client_that_goes_on(end: str, story: str, tmp_path: Path) -> None:
    talk = idle("pulsar://10.0.0.2:6651", SECOND if story == "soon" else 4 * SECOND, "ping")
    other = connected(40001, server=("10.0.0.2", 6651), start=2 * SECOND if story == "followed" else 0)
    talks = [talk]
    if story in ("followed", "connected before"):
        talks.append(wait_until(other, 3 * SECOND).client(PING).server(PONG))
    elif story == "refused":
        talks.append(attempt(("10.0.0.2", 6651), 2 * SECOND))
    elif story.startswith("asked"):
        topic = "persistent://public/default/other" if "another" in story else TOPIC
        talk.client(lookup(9, topic=topic)).server(lookup_response("Connect", TO_ONE, 9)).wait(4 * SECOND).client(PING).server(PONG)
    if end != "ping":
        talk.close() if end == "fin" else talk.reset("client")
    assert not {"redirect-not-followed", "redirect-unseen"} & {row.code for row in findings_of(tmp_path, *talks)}


@pytest.mark.parametrize("find", [findings_of, live_findings_of])
@pytest.mark.parametrize("since", [SECOND, 11 * MINUTE, 3 * 60 * MINUTE])
@pytest.mark.parametrize("end", ["fin", "ping"])
@pytest.mark.parametrize("begun", ["connected", "midstream"])
def test_a_redirect_to_a_broker_of_which_a_connection_is_old(find: Findings, since: int, end: str, begun: str, tmp_path: Path) -> None:
    """It also stays open long after the other one has ended."""
    other = connected(40001, server=("10.0.0.2", 6651), start=0)
    if begun == "midstream":
        del other.packets[:]
        other.client(PING).server(PONG)
    talk = connected(server=ONE, start=since)
    talk.client(lookup(1)).server(lookup_response("Redirect", "pulsar://10.0.0.2:6651", 1)).wait(20 * SECOND)
    talk.client(PING).server(PONG) if end == "ping" else talk.close()
    for number in range(1, 5):
        wait_until(other, since + 5 * number * MINUTE).client(PING).server(PONG)
    assert with_code(find(tmp_path, talk, other), "redirect-not-followed") == []


def test_a_redirect_is_found_where_the_client_stood_at_it(tmp_path: Path) -> None:
    (row,) = with_code(findings_of(tmp_path, idle(TO_TWO, 3 * SECOND, "fin", before=2)), "redirect-unseen")
    assert f"({row.file}:{row.packet}.{row.sub})" in row.text
    assert (row.evidence or {})["frames"] == [f"{row.file}:{row.packet}.{row.sub}"]


def redirects(count: int) -> list[Fact]:
    """Facts of `count` connections of a client, each redirected to other addresses after the previous one has begun."""
    facts = []
    for number in range(1, count + 1):
        where = Where(None, 0, number, 0, number, f"0:{number}")
        redirect = [list(where._replace(sub=1, time=SECOND + number)), [f"10.{net}.{number % 250}.1:6650" for net in range(4)], TOPIC]
        values = {"server": f"10.9.{number % 250}.{number // 250}:6650", "closed": "open", "end": 9 * SECOND, "redirect": redirect}
        facts.append(Fact(where, "ended", values))
    return facts


def test_of_more_connections_than_are_remembered_nobody_is_accused() -> None:
    found: list[str] = []
    (rule,) = idle_redirects.KEYS
    for count in (FACTS_PER_KEY_MAX // 10, FACTS_PER_KEY_MAX):
        rule.evaluate("10.0.0.1", redirects(count), lambda code, *_: found.append(code), Thresholds(idle_redirects.THRESHOLDS))
    assert found == ["redirect-unseen"] * (FACTS_PER_KEY_MAX // 10)
