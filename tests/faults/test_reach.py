"""Addresses that brokers give to their clients, odd ones and ones that do not answer."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.faults.attempts import attempt
from tests.scenarios.commands import CONNECT, CONNECTED, PING, PONG, close_producer, created, error, lookup, lookup_response, producer
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import MILLISECOND, SECOND, START_NS, Conversation, Endpoint
from tests.scenarios.evaluation import findings_of, live_findings_of, only, problem_codes, with_code
from tests.scenarios.frames import command_frame
from tests.scenarios.packets import ACK, RST

ADVERTISED = ("10.0.9.9", 6650)
URL = "pulsar://10.0.9.9:6650"


def looked_up(url: str = URL, *, how: str = "Connect", client: str = "10.0.0.1", server: str = "10.0.0.2", **fields: Any) -> Conversation:
    """A client that looks up a topic and gets an address, in packet 7."""
    talk = connected(host=client, server=(server, 6650))
    return talk.client(lookup()).server(lookup_response(how, url, **fields))


def attempts(how: str, times: int, pause: int, server: Endpoint = ADVERTISED, start: int = 100 * MILLISECOND) -> list[Conversation]:
    syns = 3 if how == "unanswered" else 1
    return [attempt(server, start + number * pause, how, port=41000 + number, syns=syns) for number in range(times)]


def working(server: Endpoint, start: int, port: int = 42000) -> Conversation:
    return connected(port, server=server, start=start).client(producer()).server(created())


def give_up(talk: Conversation, how: str) -> Conversation:
    """A client that has failed: it closes its connection, or keeps it."""
    if how == "fin":
        return wait_until(talk, 15 * SECOND).close()
    if how == "rst":
        return wait_until(talk, 15 * SECOND).reset("client")
    return wait_until(talk, 2300 * MILLISECOND).client(PING).server(PONG)


@pytest.mark.parametrize(
    ("how", "times", "pause", "url"),
    [
        *product(
            ("refused", "unanswered", "reset", "closed"), (1, 4), (100 * MILLISECOND, 3 * SECOND), (URL, "pulsar://broker-9.example:6650")
        )
    ],
)
@pytest.mark.parametrize("end", ["fin", "rst", "open"])
def test_an_address_that_nobody_answers_at(how: str, times: int, pause: int, url: str, end: str, tmp_path: Path) -> None:
    text, evidence = only(findings_of(tmp_path, give_up(looked_up(url), end), *attempts(how, times, pause)), "broker-unreachable")
    assert evidence["frames"] == ["0:7.1"]
    assert evidence["count"] == times
    assert "10.0.9.9:6650" in text


@pytest.mark.parametrize("again", [0, 3])
@pytest.mark.parametrize("command", ["Redirect", "migrated", "assigned", "tls", "beside a living connection", "after it worked"])
def test_other_ways_to_advertise_an_address(command: str, again: int, tmp_path: Path) -> None:
    talk, more = looked_up(how="Redirect"), []
    if command == "migrated":
        talk = connected().client(producer()).server(created())
        talk.server(command_frame("TOPIC_MIGRATED", resource_id=1, resource_type="Producer", brokerServiceUrl=URL))
    elif command == "assigned":
        talk = connected().client(producer()).server(created())
        talk.server(command_frame("CLOSE_PRODUCER", producer_id=1, request_id=9, assignedBrokerServiceUrl=URL))
    elif command == "tls":
        talk = looked_up("pulsar://10.0.9.9:6649", brokerServiceUrlTls="pulsar+ssl://10.0.9.9:6650")
    elif command == "beside a living connection":
        talk = (
            wait_until(looked_up("pulsar://broker-9.example:6650").client(producer()).server(created()), 9 * SECOND)
            .client(PING)
            .server(PONG)
        )
    elif command == "after it worked":
        more = [working(ADVERTISED, 20 * MILLISECOND).close("server")]
    talk = talk if command == "beside a living connection" else give_up(talk, "open")
    rows = findings_of(tmp_path, talk, *attempts("refused", 2 + again, 300 * MILLISECOND), *more)
    text, evidence = only(rows, "broker-unreachable")
    assert evidence["worked_before"] == (command == "after it worked") == ("after it had worked" in text)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["refused", "unanswered", "reset", "closed"])
@pytest.mark.parametrize(("every", "failing"), [(2, 1), (10, 1), (3, 2)])
@pytest.mark.parametrize("url", ["pulsar://10.0.0.2:6650", URL])
def test_attempts_that_fail_among_others_that_work(how: str, every: int, failing: int, url: str, tmp_path: Path) -> None:
    """The address is right: busy brokers refuse some attempts. Only failures after the last success may prove otherwise."""
    server = ("10.0.0.2", 6650) if "10.0.0.2" in url else ADVERTISED
    talks = [looked_up(url)]
    for number in range(1, 31):
        start = number * 5 * SECOND
        if number % every < failing:
            talks.append(attempt(server, start, how, port=44000 + number))
        else:
            talks.append(working(server, start, 42000 + number).close())
    rows = findings_of(tmp_path, *talks)
    assert with_code(rows, "broker-unreachable") == []
    assert with_code(rows, "broker-outage")
    later = attempts(how, 3, 5 * SECOND, server, start=160 * SECOND)
    last = working(("10.0.0.7", 6650), 200 * SECOND, 43000)
    evidence = only(findings_of(tmp_path, *talks, *later, last), "broker-unreachable")[1]
    assert evidence["count"] == 3 + (30 % every < failing)


@pytest.mark.parametrize(("how", "times"), [*product(("refused", "reset", "closed"), (1, 2, 5))])
@pytest.mark.parametrize("beside", [0, 1500])
def test_a_capture_that_ends_while_the_client_tries_again(how: str, times: int, beside: int, tmp_path: Path) -> None:
    """The broker may be starting: only later packets show whether it answers."""
    talks = [looked_up(), *attempts(how, times, 350 * MILLISECOND)]
    if beside:
        talks.append(wait_until(working(("10.0.0.2", 6650), 0), beside * MILLISECOND).client(PING).server(PONG))
    rows = findings_of(tmp_path, *talks)
    assert with_code(rows, "broker-unreachable") == []
    assert len(with_code(rows, "broker-undecided")) == (times > 1)


@pytest.mark.parametrize(("how", "times"), [*product(("refused", "reset", "closed"), (2, 5))])
@pytest.mark.parametrize("closes", ["the one that was given the address", "another", "another that was given another address"])
def test_only_the_connection_that_advertised_the_address_shows_that_a_client_gave_up(
    how: str, times: int, closes: str, tmp_path: Path
) -> None:
    """The same host may have other processes, whose connections end for reasons of their own."""
    talk, other = looked_up(), working(("10.0.0.2", 6650), 0, port=43000)
    if closes == "another that was given another address":
        other.client(lookup(2)).server(lookup_response("Connect", "pulsar://10.0.9.7:6650", 2))
    wait_until(talk if closes == "the one that was given the address" else other, 1600 * MILLISECOND).close()
    rows = findings_of(tmp_path, talk, other, *attempts(how, times, 350 * MILLISECOND))
    assert len(with_code(rows, "broker-unreachable")) == (closes == "the one that was given the address")


@pytest.mark.parametrize("spoke", [300, 9000])
def test_a_connection_that_lives_shows_that_the_capture_went_on_until_then(spoke: int, tmp_path: Path) -> None:
    """A live run judges a client that was quiet for long before its connections have ended."""
    talk = wait_until(looked_up(), spoke * MILLISECOND).client(PING).server(PONG)
    elsewhere = connected(44000, host="10.0.0.7").client(producer()).server(created())
    for number in range(1, 40):
        wait_until(elsewhere, 30 * number * SECOND).client(PING).server(PONG)
    rows = live_findings_of(tmp_path, talk, elsewhere, *attempts("refused", 2, 150 * MILLISECOND))
    assert len(with_code(rows, "broker-unreachable")) == (spoke == 9000)


@pytest.mark.parametrize("how", ["refused", "unanswered", "reset"])
@pytest.mark.parametrize(
    "healthy",
    [
        "works later",
        "sibling",
        "given another address",
        "given no address",
        "asked before",
        "sibling by name",
        "localhost by IPv4",
        "proxied",
    ],
)
def test_refusals_that_harm_nobody(how: str, healthy: str, tmp_path: Path) -> None:
    failed = attempts(how, 2, 200 * MILLISECOND)
    talks = [looked_up()]
    if healthy == "works later":
        talks.append(working(ADVERTISED, 5 * SECOND))
    elif healthy == "sibling":
        talks = [looked_up(brokerServiceUrlTls="pulsar+ssl://10.0.9.9:6651"), working(("10.0.9.9", 6651), SECOND)]
    elif healthy == "given another address":
        failed = attempts(how, 2, 200 * MILLISECOND, ("10.0.9.9", 8080))
    elif healthy == "given no address":
        talks = [looked_up("pulsar://10.0.0.2:6650")]
    elif healthy == "asked before":
        failed = []
        talks = [attempt(ADVERTISED, 0, how, port=40999), wait_until(connected(start=SECOND), 2 * SECOND).client(lookup())]
        talks[1].server(lookup_response("Connect", URL))
    elif healthy == "sibling by name":
        talks = [looked_up("pulsar://broker-9.example:6650"), working(("10.0.9.8", 6650), SECOND)]
    elif healthy == "localhost by IPv4":
        failed = [attempt(("127.0.0.2", 6650), SECOND, how, client="127.0.0.1")]
        talks = [looked_up("pulsar://localhost:6650", client="127.0.0.1", server="127.0.0.1")]
        talks.append(connected(42000, host="127.0.0.1", server=("127.0.0.1", 6650), start=2 * SECOND).client(producer()).server(created()))
    elif healthy == "proxied":
        talks = [looked_up(proxy_through_service_url=True)]
    assert problem_codes(findings_of(tmp_path, *talks, *failed)) == []


@pytest.mark.parametrize("how", ["refused", "unanswered", "reset"])
@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize("end", ["fin", "rst"])
def test_how_long_a_client_was_without_its_broker(how: str, times: int, end: str, tmp_path: Path) -> None:
    first = working(ADVERTISED, 0, port=42001)
    first = first.close("server") if end == "fin" else first.reset()
    failed = attempts(how, times, SECOND, start=SECOND)
    rows = findings_of(tmp_path, first, *failed, working(ADVERTISED, 60 * SECOND), working(ADVERTISED, 61 * SECOND, port=42002))
    text, evidence = only(rows, "broker-down")
    assert "was without broker 10.0.9.9:6650 for 60.0 s" in text
    assert how == "reset" or f"failed ({how})" in text
    assert evidence["count"] == times
    assert not with_code(rows, "broker-outage")
    assert problem_codes(findings_of(tmp_path, working(ADVERTISED, 0, port=42001).close(), working(ADVERTISED, 60 * SECOND).close())) == []


def test_one_syn_at_the_end_of_the_capture_may_be_answered_yet(tmp_path: Path) -> None:
    assert problem_codes(findings_of(tmp_path, looked_up(), attempt(ADVERTISED, SECOND, "unanswered"))) == []


ODD = [
    f"pulsar://{host}:6650"
    for host in ("localhost", "127.0.0.1", "127.0.1.1", "[::1]", "0.0.0.0", "[::]", "169.254.7.7", "172.17.0.2", "[fd00::7]", "[fe80::1]")  # noqa: S104 - advertised, not bound
]


@pytest.mark.parametrize("url", ODD)
@pytest.mark.parametrize("how", ["Connect", "Redirect"])
def test_an_address_of_no_use_to_the_client(url: str, how: str, tmp_path: Path) -> None:
    text, evidence = only(findings_of(tmp_path, looked_up(url, how=how)), "advertised-address-odd")
    assert evidence["frames"] == ["0:7.1"]
    assert url.partition("://")[2] in text


@pytest.mark.parametrize(
    ("url", "client", "server"),
    [
        *((url, "127.0.0.1", "127.0.0.1") for url in ODD),
        *((url, "10.0.0.2", "10.0.0.2") for url in ODD),
        ("pulsar://172.17.0.2:6650", "172.17.0.3", "172.17.0.2"),
        ("pulsar://172.17.0.2:6650", "172.17.0.1", "172.17.0.2"),
        ("pulsar://169.254.7.7:6650", "169.254.7.8", "169.254.7.7"),
        ("pulsar://10.7.7.7:6650", "10.0.0.1", "10.0.0.2"),
        ("pulsar://broker:6650", "10.0.0.1", "10.0.0.2"),
    ],
)
def test_an_address_that_its_client_can_use(url: str, client: str, server: str, tmp_path: Path) -> None:
    assert with_code(findings_of(tmp_path, looked_up(url, client=client, server=server)), "advertised-address-odd") == []


@pytest.mark.parametrize("url", ODD)
def test_a_client_that_stays_with_its_service_url_needs_no_address(url: str, tmp_path: Path) -> None:
    assert problem_codes(findings_of(tmp_path, looked_up(url, proxy_through_service_url=True))) == []


@pytest.mark.parametrize("url", [URL, "pulsar://broker-9.example:6650"])
@pytest.mark.parametrize("how", ["refused", "closed"])
@pytest.mark.parametrize("stays", [True, False])
def test_a_broker_that_answers_in_the_end_is_reached_while_its_connection_lives(url: str, how: str, *, stays: bool, tmp_path: Path) -> None:
    """A live run judges a client before that connection has ended; without the connection, it reports that there is no answer."""
    talk, failed = looked_up(url), attempts(how, 2, 4 * SECOND)
    talks = [talk, *failed, working(ADVERTISED, 20 * SECOND)] if stays else [talk, *failed]
    for number in range(1, 6):
        for each in (talk, *talks[3:]):
            wait_until(each, 5 * 60 * number * SECOND).client(PING).server(PONG)
    assert len(with_code(live_findings_of(tmp_path, *talks), "broker-unreachable")) == (not stays)
    assert len(with_code(findings_of(tmp_path, *talks), "broker-unreachable")) == (not stays)


NAMED = "pulsar://broker-0.pulsar.svc.cluster.local:6651"


def asking(times: int, every: int, url: str = NAMED, *, uses: bool = False) -> Conversation:
    """A client that repeatedly looks up a topic, and does nothing else where it asks, unless it `uses` that broker."""
    talk = connected()
    for number in range(times):
        talk.client(lookup(number + 1)).server(lookup_response("Connect", url, number + 1)).wait(every)
    if uses:
        talk.client(producer()).server(created())
    return talk.wait(3 * SECOND).client(PING).server(PONG)


@pytest.mark.parametrize(("times", "every", "url"), [*product((4, 9), (SECOND, 5 * SECOND), (NAMED, URL))])
def test_a_client_that_asks_again_and_again_and_connects_nowhere(times: int, every: int, url: str, tmp_path: Path) -> None:
    """For example, one that cannot resolve the name: the capture shows nothing of that."""
    rows = findings_of(tmp_path, asking(times, every, url))
    text, evidence = only(rows, "advertised-address-odd")
    assert (evidence["lookups"], problem_codes(rows)) == (times, ["advertised-address-odd"])
    assert f"the client asked {times - 1} times more, and the capture has no connection to it" in text


@pytest.mark.parametrize(("times", "every"), [(1, SECOND), (3, 5 * SECOND), (9, SECOND // 20)])
def test_a_client_that_connects_nowhere_may_do_so_outside_the_capture(times: int, every: int, tmp_path: Path) -> None:
    rows = findings_of(tmp_path, asking(times, every))
    assert problem_codes(rows) == []
    assert "no connection to it" in only(rows, "broker-undecided")[0]


@pytest.mark.parametrize("times", [1, 9])
def test_a_client_that_is_sent_to_the_broker_that_it_asks_is_there(times: int, tmp_path: Path) -> None:
    rows = findings_of(tmp_path, asking(times, SECOND, "pulsar://10.0.0.2:6650"))
    assert not {"advertised-address-odd", "broker-undecided"} & {row.code for row in rows}


@pytest.mark.parametrize(("how", "times"), [*product(("uses", "works", "soon", "transactions"), (1, 9))])
def test_a_client_that_goes_on_to_a_broker_has_its_address(how: str, times: int, tmp_path: Path) -> None:
    if how == "soon":
        talks = [looked_up(NAMED).wait(SECOND).client(PING).server(PONG)]
    else:
        talks = [asking(times, SECOND, uses=how == "uses")]
        talks += [working(("10.0.9.9", 6651), SECOND)] if how == "works" else []
        if how == "transactions":
            talks[0].client(command_frame("TC_CLIENT_CONNECT_REQUEST", tc_id=0, request_id=70))
            talks[0].server(command_frame("TC_CLIENT_CONNECT_RESPONSE", request_id=70))
    assert not {"advertised-address-odd", "broker-undecided"} & {row.code for row in findings_of(tmp_path, *talks)}


def coming_back(start: int, connect: int, opened: int, *, port: int = 42000, rest: int = 0) -> Conversation:
    """A client whose CONNECT and PRODUCER are answered after these ms, the latter after a pause in seconds."""
    talk = Conversation(("10.0.0.1", port), ADVERTISED, start_ns=START_NS + start).handshake()
    talk.client(CONNECT).wait(connect * MILLISECOND).server(CONNECTED).wait(rest * SECOND)
    return talk.client(producer()).wait(opened * MILLISECOND).server(created()).wait(SECOND).client(PING).server(PONG)


@pytest.mark.parametrize(("connect", "opened", "earlier"), [*product((9_000, 10), (7_000,), (True, False)), (9_000, 10, True)])
def test_late_answers_of_a_broker_that_comes_back_belong_to_its_outage(tmp_path: Path, connect: int, opened: int, *, earlier: bool) -> None:
    talks = [coming_back(0, 5, 5, port=41900).close("server")] if earlier else []
    talks += [*attempts("refused", 3, SECOND, start=3 * SECOND), coming_back(7 * SECOND, connect, opened)]
    rows = findings_of(tmp_path, *talks)
    text, evidence = only(rows, "broker-down" if earlier else "broker-outage")
    slowest = f"{connect / 1000:.2f} s" if connect > opened else f"{opened / 1000:.2f} s"
    assert slowest in text
    assert len(evidence["frames"]) == 2
    assert "slow-exchange" not in {row.code for row in rows}


@pytest.mark.parametrize(("how", "times"), [*product(("refused", "unanswered"), (1, 4))])
@pytest.mark.parametrize("end", ["closes what it opened", "client"])
def test_a_broker_that_ends_a_connection_in_order_or_not_itself_is_not_down(how: str, times: int, end: str, tmp_path: Path) -> None:
    first = working(ADVERTISED, 0, port=42001)
    first = first.close() if end == "client" else first.server(close_producer()).close("server")
    rows = findings_of(tmp_path, first, *attempts(how, times, SECOND, start=SECOND), working(ADVERTISED, 60 * SECOND))
    assert with_code(rows, "broker-outage")
    assert not with_code(rows, "broker-down")


def stopping(name: str, text: str, *, closes: bool, rest: int = 0) -> Conversation:
    """A client whose requests the broker refuses while it stops; the client itself closes the connection `rest` s later."""
    talk = working(ADVERTISED, 0, port=42001).wait(SECOND)
    if closes:
        talk.server(close_producer())
    talk.client(producer(request=7)).server(error(7, name, text)).wait(rest * SECOND)
    return talk.close()


@pytest.mark.parametrize(
    ("name", "text", "closes"),
    [
        ("PersistenceError", "Bookie handle is not available", True),
        ("ServiceNotReady", "Topic is already fenced", True),
        ("ServiceNotReady", "Failed due to pulsar service is not ready", False),
        ("MetadataError", "Namespace bundle is being unloaded", False),
    ],
)
@pytest.mark.parametrize(("times", "rest"), [(1, 0), (5, 12)])
def test_a_broker_that_refuses_requests_as_it_stops_is_down(
    name: str, text: str, *, closes: bool, times: int, rest: int, tmp_path: Path
) -> None:
    first = stopping(name, text, closes=closes, rest=rest)
    rows = findings_of(tmp_path, first, *attempts("refused", times, SECOND, start=20 * SECOND), working(ADVERTISED, 60 * SECOND))
    said, evidence = only(rows, "broker-down")
    assert "after the broker had given up its topics and refused requests" in said
    assert evidence["count"] == times


@pytest.mark.parametrize(
    ("name", "closes", "rest", "times"),
    [
        ("PersistenceError", False, 0, 3),  # it keeps its topics
        ("PersistenceError", True, 40, 3),  # long before
        ("ServiceNotReady", True, 0, 0),  # it is there
    ],
)
def test_other_refusals_are_not_its_end(name: str, closes: bool, rest: int, times: int, tmp_path: Path) -> None:
    first = stopping(name, "no", closes=closes, rest=rest)
    failed = attempts("refused", times, SECOND, start=50 * SECOND) if times else []
    assert not with_code(findings_of(tmp_path, first, *failed, working(ADVERTISED, 60 * SECOND)), "broker-down")


@pytest.mark.parametrize(("minutes", "down"), [(0, True), (1, False), (3, False)])
def test_a_topic_that_moved_long_before_says_nothing_about_a_refusal(minutes: int, down: bool, tmp_path: Path) -> None:
    first = working(ADVERTISED, 0, port=42001).wait(SECOND).server(close_producer())
    for _ in range(2 * minutes):
        first.wait(30 * SECOND).client(PING).server(PONG)
    first.client(producer(request=7)).server(error(7, "AuthorizationError", "no")).close()
    failed = attempts("refused", 3, SECOND, start=(60 * minutes + 10) * SECOND)
    rows = findings_of(tmp_path, first, *failed, working(ADVERTISED, (60 * minutes + 20) * SECOND))
    assert bool(with_code(rows, "broker-down")) == down


def unanswered_ping(start: int, silence: int) -> Conversation:
    """A client that closes after a PING of this many seconds without an answer."""
    talk = connected(41900, server=ADVERTISED, start=start).client(producer()).server(created()).client(PING)
    return talk.wait(silence * SECOND).close()


@pytest.mark.parametrize(("silence", "connect"), [*product((15, 30, 60), (3_000, 26_000))])
def test_late_answers_after_a_broker_that_fell_silent_belong_to_its_pause(tmp_path: Path, silence: int, connect: int) -> None:
    """Its host still takes connections, so none fails."""
    rows = findings_of(tmp_path, unanswered_ping(0, silence), coming_back((silence + 1) * SECOND, connect, 10))
    evidence = only(rows, "broker-outage")[1]
    assert (silence + connect / 1000) * SECOND <= evidence["span_ns"] <= (silence + connect / 1000 + 2) * SECOND
    assert "slow-exchange" not in {row.code for row in rows}
    assert with_code(rows, "keepalive-lost")


@pytest.mark.parametrize("opened", [1, 20])
def test_a_broker_that_answered_another_connection_late_before_did_not_pause(tmp_path: Path, opened: int) -> None:
    rows = findings_of(tmp_path, unanswered_ping(0, 60), coming_back(opened * SECOND, 3_000, 10))
    assert not with_code(rows, "broker-outage")
    assert {"slow-exchange", "keepalive-lost"} <= {row.code for row in rows}


@pytest.mark.parametrize("short", [0, 1, 5])
def test_an_outage_begins_with_the_end_of_the_last_connection(tmp_path: Path, short: int) -> None:
    first = wait_until(working(ADVERTISED, 0, port=42001), 40 * SECOND).close("server")
    meanwhile = [working(ADVERTISED, (2 + 3 * number) * SECOND, port=42010 + number).close() for number in range(short)]
    rows = findings_of(tmp_path, first, *meanwhile, *attempts("refused", 3, SECOND, start=45 * SECOND), working(ADVERTISED, 61 * SECOND))
    text, evidence = only(rows, "broker-down")
    assert "for 21.0 s" in text
    assert evidence["count"] == 3


@pytest.mark.parametrize("connect", [3_000, 26_000])
def test_without_that_a_late_answer_is_the_broker_s(tmp_path: Path, connect: int) -> None:
    rows = findings_of(tmp_path, working(ADVERTISED, 0, port=41900).close(), coming_back(16 * SECOND, connect, 10))
    assert "slow-exchange" in {row.code for row in rows}
    assert not with_code(rows, "broker-outage")


@pytest.mark.parametrize("how", ["no outage", "of another broker", "long before"])
def test_late_answers_are_otherwise_those_of_a_slow_broker(tmp_path: Path, how: str) -> None:
    failed: list[Conversation] = []
    if how == "of another broker":
        failed = [*attempts("refused", 3, SECOND, ("10.0.9.8", 6650)), coming_back(0, 5, 5, port=41900)]
    rest = 61 if how == "long before" else 0
    if how == "long before":
        failed = attempts("refused", 3, SECOND)
    rows = findings_of(tmp_path, *failed, coming_back(7 * SECOND, 5, 12_000, rest=rest))
    assert "slow-exchange" in {row.code for row in rows}


BROKER = ("10.0.0.2", 6650)


def tries(how: str, times: int, every: int, server: Endpoint = BROKER, start: int = 0) -> list[Conversation]:
    """Connections to a broker that no other broker advertised; one that is not answered sends its SYN for seven seconds."""
    return [attempt(server, start + number * every, how, port=41000 + number, syns=4) for number in range(times)]


@pytest.mark.parametrize("server", [BROKER, ("10.0.0.2", 6651)])
@pytest.mark.parametrize(
    ("how", "times", "every"), [("refused", 2, SECOND), ("refused", 8, 3 * SECOND), ("unanswered", 1, 0), ("unanswered", 3, SECOND)]
)
def test_a_client_that_does_not_reach_the_broker_of_its_configuration(
    server: Endpoint, how: str, times: int, every: int, tmp_path: Path
) -> None:
    rows = findings_of(tmp_path, *tries(how, times, every, server))
    text, evidence = only(rows, "broker-unreachable")
    assert text.startswith(f"Client 10.0.0.1 does not reach broker 10.0.0.2:{server[1]}: ")
    assert (evidence["count"], evidence["failures"], evidence["worked_before"]) == (times, [how], False)
    assert problem_codes(rows) == ["broker-unreachable"]


@pytest.mark.parametrize("server", [BROKER, ("10.0.0.2", 7777)])
def test_a_broker_that_does_not_come_back(server: Endpoint, tmp_path: Path) -> None:
    """A connection of the capture shows that a broker listens at a port of its own."""
    rows = findings_of(tmp_path, working(server, 0).close("server"), *tries("refused", 5, 2 * SECOND, server, start=SECOND))
    text, evidence = only(rows, "broker-unreachable")
    assert text == "Client 10.0.0.1 does not reach broker {}:{}: 5 connections within 15.0 s were refused, after it had worked.".format(
        *server
    )
    assert evidence["worked_before"]


@pytest.mark.parametrize("how", ["refused", "unanswered"])
@pytest.mark.parametrize(
    "healthy", ["soon over", "back", "another of its list", "another of its list before", "no broker", "another client"]
)
def test_a_broker_of_the_configuration_that_is_missed_by_nobody(how: str, healthy: str, tmp_path: Path) -> None:
    talks = {
        "soon over": [attempt(BROKER, number * 300 * MILLISECOND, how, port=41000 + number) for number in range(4)],
        "back": [*tries(how, 4, SECOND), working(BROKER, 20 * SECOND)],
        "another of its list": [*tries(how, 4, SECOND), working(("10.0.0.3", 6650), 20 * SECOND)],
        "another of its list before": [wait_until(working(("10.0.0.3", 6650), 0), 30 * SECOND).client(PING), *tries(how, 4, SECOND)],
        "no broker": tries(how, 4, SECOND, ("10.0.0.2", 8080)),
        "another client": [connected(port=43000, host="10.0.0.9").client(producer()).server(created()).close()],
    }[healthy]
    assert "broker-unreachable" not in problem_codes(findings_of(tmp_path, *talks))


@pytest.mark.parametrize(("times", "every"), [(3, 12 * SECOND), (5, 6 * SECOND), (20, 3 * SECOND)])
@pytest.mark.parametrize("closed", [True, False])
def test_a_dead_broker_of_a_list_is_tried_again_and_again(times: int, every: int, closed: bool, tmp_path: Path) -> None:
    other = working(("10.0.0.3", 6650), SECOND)
    other = wait_until(other, (times + 1) * every).close() if closed else other
    rows = findings_of(tmp_path, *tries("unanswered", times, every), other)
    text, evidence = only(rows, "listed-broker-dead")
    assert (evidence["count"], evidence["others"]) == (times, ["10.0.0.3:6650"])
    assert "10.0.0.2:6650" in text
    assert problem_codes(rows) == ["listed-broker-dead"]


@pytest.mark.parametrize("how", ["refused", "few", "soon", "answered once", "of another port"])
def test_a_broker_of_a_list_that_may_be_back(how: str, tmp_path: Path) -> None:
    other = wait_until(working(("10.0.0.3", 6650), SECOND), 60 * SECOND).client(PING).server(PONG)
    talks = {
        "refused": tries("refused", 5, 10 * SECOND),
        "few": tries("unanswered", 2, 30 * SECOND),
        "soon": tries("unanswered", 6, 3 * SECOND),
        "answered once": [*tries("unanswered", 4, 10 * SECOND), working(BROKER, 50 * SECOND)],
        "of another port": tries("unanswered", 5, 10 * SECOND, ("10.0.0.2", 8080)),
    }[how]
    assert "listed-broker-dead" not in problem_codes(findings_of(tmp_path, *talks, other))


@pytest.mark.parametrize("until", [5 * SECOND, 90 * SECOND])
def test_another_broker_must_answer_meanwhile(until: int, tmp_path: Path) -> None:
    """A client may have another configuration now, or have found another broker in the end."""
    early = until < 30 * SECOND
    tried = tries("unanswered", 4, 10 * SECOND, start=20 * SECOND if early else SECOND)
    other = wait_until(working(("10.0.0.3", 6650), SECOND if early else 60 * SECOND), until).close()
    assert "listed-broker-dead" not in problem_codes(findings_of(tmp_path, *tried, other))


def test_a_broker_that_accepts_no_more_connections_is_not_reached(tmp_path: Path) -> None:
    """One that was opened before still works."""
    living = wait_until(working(BROKER, 0, port=43000), 20 * SECOND).client(PING).server(PONG)
    assert only(findings_of(tmp_path, living, *tries("unanswered", 3, SECOND, start=SECOND)), "broker-unreachable")[1]["count"] == 3


def test_connections_that_a_probe_closes_are_no_attempts(tmp_path: Path) -> None:
    """A load balancer looks whether the port is open."""
    probes = [Conversation(("10.0.0.1", 41000 + n), BROKER, start_ns=START_NS + n * SECOND).handshake().close("client") for n in range(5)]
    assert problem_codes(findings_of(tmp_path, *probes)) == []


@pytest.mark.parametrize("side", ["client", "server"])
@pytest.mark.parametrize(("times", "every"), [(2, 3 * SECOND), (8, 3 * SECOND)])
def test_a_capture_of_one_direction_lacks_the_answers_of_a_broker(side: str, times: int, every: int, tmp_path: Path) -> None:
    """Seen alone, each SYN of a client is unanswered."""
    talks = [working(BROKER, 0).close(), *tries("unanswered", times, every, start=SECOND)]
    sender = bytes([10, 0, 0, 1 if side == "client" else 2])
    for talk in talks:
        talk.packets[:] = [packet for packet in talk.packets if packet.data[26:30] == sender]
    assert "broker-unreachable" not in problem_codes(findings_of(tmp_path, *[talk for talk in talks if talk.packets]))


def heard(talks: list[Conversation], sender: int) -> list[Conversation]:
    """Conversations without the packets of one side; `sender`: last byte of the other's address."""
    for talk in talks:
        talk.packets[:] = [packet for packet in talk.packets if packet.data[26:30] == bytes([10, 0, 0, sender])]
    return [talk for talk in talks if talk.packets]


@pytest.mark.parametrize("worked", [False, True])
@pytest.mark.parametrize("server", [BROKER, ("10.0.0.2", 6651)])
@pytest.mark.parametrize(("times", "every"), [(3, 2 * SECOND), (8, 3 * SECOND)])
def test_a_capture_of_the_answers_only_shows_that_the_broker_refused(
    server: Endpoint, times: int, every: int, tmp_path: Path, *, worked: bool
) -> None:
    talks = [working(server, 0).close("server")] if worked else []
    rows = findings_of(tmp_path, *heard([*talks, *tries("refused", times, every, server, start=SECOND)], 2))
    text, evidence = only(rows, "broker-unreachable")
    assert text.startswith(f"Client 10.0.0.1 does not reach broker 10.0.0.2:{server[1]}: {times} connections ")
    assert (evidence["count"], evidence["failures"], evidence["worked_before"]) == (times, ["refused"], worked)


@pytest.mark.parametrize(("flags", "sequence"), [(RST, 0), (RST, 5_000), (RST | ACK, 5_000), (RST | ACK, 1)])
@pytest.mark.parametrize("times", [2, 8])
def test_other_resets_of_connections_that_the_capture_lacks_are_no_refusals(flags: int, sequence: int, times: int, tmp_path: Path) -> None:
    """Of idle ones that are no longer known, for example."""
    resets = [Conversation(("10.0.0.1", 41000 + n), BROKER, start_ns=START_NS + n * 3 * SECOND, acknowledge=False) for n in range(times)]
    for talk in resets:
        talk._add(1, flags=flags, sequence=sequence)
    assert problem_codes(findings_of(tmp_path, *resets)) == []


@pytest.mark.parametrize(("end", "code"), [("reset", "broker-down"), ("closed", "broker-outage"), ("reset between", "broker-outage")])
@pytest.mark.parametrize(("times", "every"), [(1, 0), (3, 2 * SECOND), (8, 3 * SECOND)])
def test_a_capture_of_the_answers_only_shows_that_a_broker_that_reset_a_connection_was_down(
    end: str, code: str, times: int, every: int, tmp_path: Path
) -> None:
    first = working(BROKER, 0)
    first = first.close("server") if end == "closed" else first.reset("server", foreign=end == "reset between")
    talks = [first, *tries("refused", times, every, start=SECOND), working(BROKER, 40 * SECOND, port=43000)]
    _, evidence = only(findings_of(tmp_path, *heard(talks, 2)), code)
    assert evidence["count"] == times
