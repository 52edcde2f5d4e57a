"""Clients that break the protocol, and those that only seem to."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import (
    BY_BROKER,
    CONNECT,
    CONNECTED,
    PING,
    PONG,
    TOPIC,
    ack,
    close_consumer,
    close_producer,
    created,
    delivery,
    error,
    flow,
    lookup,
    lookup_response,
    producer,
    receipt,
    send,
    send_error,
    subscribe,
    success,
)
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.frames import PUBLISH_TIME_MS, command_frame

REQUEST, PRODUCER, CONSUMER, RETRY = "request-id-reused", "producer-id-reused", "consumer-id-reused", "retry-without-close"
EARLY, NEW, HOMELESS = "command-before-connect", "command-too-new", "send-without-producer"
BREACHES = {REQUEST, PRODUCER, CONSUMER, RETRY, EARLY, NEW, HOMELESS}
ENDS = ("open", "fin", "rst", "broker")
OTHER = f"{TOPIC}-2"


def begun(*, midstream: bool = False, before: int = 0) -> Conversation:
    """A connection with some exchanges; midstream it has neither SYN nor CONNECT."""
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), acknowledge=False) if midstream else connected()
    for number in range(50, 50 + before + midstream):
        talk.client(lookup(number)).server(lookup_response("Connect", "pulsar://10.0.0.2:6650", number))
    return talk


def ended(folder: Path, talk: Conversation, end: str) -> Diagnosis:
    if end == "fin":
        talk.close()
    elif end == "rst":
        talk.reset("client")
    elif end == "broker":
        talk.close("server")
    return diagnose(folder, talk)


def found(diagnosis: Diagnosis) -> set[str]:
    return {row.code or "" for row in diagnosis.findings} & BREACHES


ASKS = {
    "LOOKUP": (lookup(7), lookup_response("Connect", "pulsar://10.0.0.2:6650", 7)),
    "PRODUCER": (producer(1, "p", 7), created("p", 7)),
    "SUBSCRIBE": (subscribe(1, request=7), success(7)),
    "GET_LAST_MESSAGE_ID": (command_frame("GET_LAST_MESSAGE_ID", consumer_id=1, request_id=7), error(7, "MetadataError")),
}


@pytest.mark.parametrize(
    ("name", "end", "pause", "midstream"), [*product(("LOOKUP", "GET_LAST_MESSAGE_ID"), ENDS, (0, 900), (False, True))]
)
def test_a_request_id_that_waits_and_comes_again_is_named(tmp_path: Path, name: str, end: str, pause: int, midstream: bool) -> None:
    ask, answer = ASKS[name]
    diagnosis = ended(tmp_path, begun(midstream=midstream).client(ask).wait(pause * MILLISECOND).client(ask).server(answer), end)
    row, evidence = diagnosis.only(REQUEST)
    assert (diagnosis.commands(row), evidence["request_id"]) == ([name, name], 7)
    assert f"0:{row.packet}.{row.sub}" == evidence["frames"][1]


KINDS = [pair for pair in product(ASKS, ASKS) if pair[0] != pair[1]]


@pytest.mark.parametrize(("kinds", "pause", "midstream"), [*product(KINDS, (0, 3000), (False, True))])
def test_one_id_for_two_kinds_of_requests_is_named(tmp_path: Path, kinds: tuple[str, str], pause: int, midstream: bool) -> None:
    """CONNECT was sent before the capture, so the client's library is unknown: some libraries number lookups separately."""
    if midstream and "LOOKUP" in kinds:
        return
    (first, answer), (second, another) = (ASKS[kind] for kind in kinds)
    talk = begun(midstream=midstream).client(first).wait(pause * MILLISECOND).client(second).server(answer, another)
    diagnosis = diagnose(tmp_path, talk)
    row, evidence = diagnosis.only(REQUEST)
    assert (diagnosis.commands(row), evidence["request_id"]) == ([*kinds], 7)


@pytest.mark.parametrize(("kinds", "client"), [*product(KINDS, ("2.7.1", "Pulsar-CPP-v3.7.0", "Pulsar proxy"))])
def test_ids_of_lookups_beside_those_of_others_are_right_for_some_clients(tmp_path: Path, kinds: tuple[str, str], client: str) -> None:
    connect = command_frame("CONNECT", client_version=client, protocol_version=21)
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), acknowledge=False).handshake().client(connect).server(CONNECTED)
    talk.client(*(ASKS[kind][0] for kind in kinds)).server(*(ASKS[kind][1] for kind in kinds))
    assert found(diagnose(tmp_path, talk)) == (set() if "LOOKUP" in kinds else {REQUEST})


@pytest.mark.parametrize(("name", "end", "between"), [*product(ASKS, ENDS, ("answered", "lost"))])
def test_request_ids_that_begin_again_are_right(tmp_path: Path, name: str, end: str, between: str) -> None:
    ask, answer = ASKS[name]
    talk = begun().client(ask)
    if between == "answered":
        talk.server(answer)
        close = close_producer(1, 8) if name == "PRODUCER" else close_consumer(1, 8)
        talk.client(close).server(success(8)).client(ask).server(answer)
    else:
        talk.lose("server", len(answer)).server(flow(1)[:0]).client(ask).server(answer, answer)
    other = connected(40001).client(ask).server(answer)
    assert REQUEST not in {row.code for row in diagnose(tmp_path, talk, other).findings} or between == "lost"
    assert found(ended(tmp_path, other, end)) == set()


@pytest.mark.parametrize(
    ("noun", "topic", "end", "midstream", "used"), [*product(("producer", "consumer"), (TOPIC, OTHER), ENDS, (False, True), (0, 3))]
)
def test_an_id_that_is_open_and_opened_again_is_named(tmp_path: Path, noun: str, topic: str, end: str, midstream: bool, used: int) -> None:
    talk = begun(midstream=midstream)
    if noun == "producer":
        talk.client(producer()).server(created())
        for number in range(used):
            talk.client(send(1, number)).server(receipt(1, number, entry=number))
        talk.client(producer(1, "q", 3, topic)).server(created("q", 3))
    else:
        talk.client(subscribe()).server(success(2)).client(flow(10)).client(subscribe(request=5, topic=topic)).server(success(5))
    diagnosis = ended(tmp_path, talk, end)
    code = PRODUCER if noun == "producer" else CONSUMER
    row, evidence = diagnosis.only(code)
    assert diagnosis.commands(row) == ["PRODUCER" if noun == "producer" else "SUBSCRIBE"] * 2
    assert (evidence["topic"], evidence["second_topic"]) == (TOPIC, topic)
    assert found(diagnosis) == {code}


@pytest.mark.parametrize(
    ("noun", "by", "end", "midstream"), [*product(("producer", "consumer"), ("client", "broker", "refused"), ENDS, (False, True))]
)
def test_an_id_that_was_given_up_may_be_used_again(tmp_path: Path, noun: str, by: str, end: str, midstream: bool) -> None:
    talk = begun(midstream=midstream)
    opening = producer() if noun == "producer" else subscribe(request=1)
    opened = created() if noun == "producer" else success(1)
    talk.client(opening)
    if by == "refused":
        talk.server(error(1, "ServiceNotReady"))
    elif by == "broker":
        talk.server(opened).server(close_producer() if noun == "producer" else close_consumer(1, BY_BROKER))
    else:  # a client that gives up waiting closes first
        talk.client(close_producer(1, 2) if noun == "producer" else close_consumer(1, 2)).server(opened, success(2))
    talk.client(producer(1, "p", 3) if noun == "producer" else subscribe(request=3))
    talk.server(created("p", 3) if noun == "producer" else success(3))
    assert found(ended(tmp_path, talk, end)) == set()


@pytest.mark.parametrize(("noun", "end", "pause", "midstream"), [*product(("producer", "consumer"), ENDS, (1, 3000), (False, True))])
def test_a_retry_without_a_close_is_named(tmp_path: Path, noun: str, end: str, pause: int, midstream: bool) -> None:
    first, second = (producer(), producer(1, "p", 2)) if noun == "producer" else (subscribe(request=1), subscribe(request=2))
    talk = begun(midstream=midstream).client(first).wait(pause * MILLISECOND).client(second)
    talk.server(error(2, "ServiceNotReady"))
    diagnosis = ended(tmp_path, talk, end)
    row, _ = diagnosis.only(RETRY)
    assert diagnosis.commands(row) == ["PRODUCER" if noun == "producer" else "SUBSCRIBE"] * 2
    assert found(diagnosis) == {RETRY}


@pytest.mark.parametrize("late", [False, True])
def test_no_retry_is_named_where_answers_stand_before_their_requests(tmp_path: Path, late: bool) -> None:
    """The clock of one direction is late: an earlier request shows it, and the answer or the close in between was captured before."""
    talk = begun()
    if late:
        talk.server(lookup_response("Connect", "pulsar://10.0.0.2:6650", 90)).wait(MILLISECOND).client(lookup(90))
    talk.client(subscribe(request=1)).wait(MILLISECOND).client(subscribe(request=2)).server(success(2))
    assert (RETRY in diagnose(tmp_path, talk.close()).codes) == (not late)


@pytest.mark.parametrize(("end", "times", "ready"), [*product(ENDS, (1, 3), (False, True))])
def test_a_retry_of_one_that_waits_for_exclusive_access_is_named(tmp_path: Path, end: str, times: int, ready: bool) -> None:
    talk = begun().client(producer(producer_access_mode="WaitForExclusive")).server(created(producer_ready=False))
    for number in range(times):
        again = producer(1, "p", 2 + number, producer_access_mode="WaitForExclusive")
        talk.wait(SECOND).client(again).server(error(2 + number, "ServiceNotReady"))
    if ready:
        talk.server(created())
    diagnosis = ended(tmp_path, talk, end)
    _, evidence = diagnosis.only(RETRY)
    assert evidence["count"] == times
    assert found(diagnosis) == {RETRY}


def test_one_that_waited_and_got_access_is_none(tmp_path: Path) -> None:
    talk = begun().client(producer(producer_access_mode="WaitForExclusive")).server(created(producer_ready=False))
    talk.wait(SECOND).server(created()).client(close_producer(1, 5)).server(success(5)).client(producer(request=6)).server(
        created(request=6)
    )
    assert found(diagnose(tmp_path, talk)) == set()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("topic", [TOPIC, OTHER])
def test_a_producer_that_was_refused_a_send_may_be_opened_again(tmp_path: Path, end: str, topic: str) -> None:
    """Java clients do so if the topic is fenced, with the next epoch: brokers take it for the same producer, but not on another topic."""
    talk = begun().client(producer(1, "p", 7)).server(created("p", 7)).client(send(sequence_id=0))
    talk.server(send_error("PersistenceError", "fenced")).client(producer(1, "p", 8, topic, epoch=1)).server(created("p", 8))
    assert (PRODUCER in ended(tmp_path, talk, end).codes) == (topic == OTHER)


@pytest.mark.parametrize(("first", "then", "end"), [*product(("PRODUCER", "LOOKUP", "SUBSCRIBE", "FLOW"), ("nothing", "connect"), ENDS)])
def test_commands_before_connect_are_named(tmp_path: Path, first: str, then: str, end: str) -> None:
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), acknowledge=False).handshake()
    talk.client(flow(5) if first == "FLOW" else ASKS[first][0]).client(lookup(9))
    if then == "connect":
        talk.client(CONNECT)
    diagnosis = ended(tmp_path, talk, end)
    row, evidence = diagnosis.only(EARLY)
    assert (diagnosis.commands(row)[0], evidence["count"]) == (first, 2)


@pytest.mark.parametrize(("first", "how", "end"), [*product(("PRODUCER", "LOOKUP", "SUBSCRIBE"), ("midstream", "gap", "pipelined"), ENDS)])
def test_a_connect_that_the_capture_lacks_is_none_that_the_client_left_out(tmp_path: Path, first: str, how: str, end: str) -> None:
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), acknowledge=False)
    ask, answer = ASKS[first]
    if how == "pipelined":
        talk.handshake().client(CONNECT, ask).server(answer)
    elif how == "gap":
        talk.handshake().lose("client", len(CONNECT)).client(ask).server(answer)
    else:
        talk.client(ask).server(answer)
    assert found(ended(tmp_path, talk, end)) == set()


def agreed(client: int, broker: int) -> Conversation:
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650), acknowledge=False).handshake()
    talk.client(command_frame("CONNECT", client_version="x", protocol_version=client))
    return talk.server(command_frame("CONNECTED", server_version="y", protocol_version=broker))


NEWER = {
    12: command_frame("GET_LAST_MESSAGE_ID", consumer_id=1, request_id=3),
    15: command_frame("GET_OR_CREATE_SCHEMA", topic=TOPIC, request_id=3, schema={"name": "s", "schema_data": b"", "type": 1}),
    19: command_frame("TC_CLIENT_CONNECT_REQUEST", request_id=3, tc_id=0),
    8: command_frame("CONSUMER_STATS", request_id=3, consumer_id=1),
    14: command_frame("NEW_TXN", request_id=3),
}


@pytest.mark.parametrize(("since", "behind", "both", "end"), [*product(NEWER, (1, 5), (True, False), ENDS)])
def test_a_command_newer_than_agreed_is_named(tmp_path: Path, since: int, behind: int, both: bool, end: str) -> None:
    talk = agreed(since - behind, since - behind) if both else agreed(21, since - behind)
    diagnosis = ended(tmp_path, talk.client(NEWER[since]).client(NEWER[since][:0]), end)
    row, evidence = diagnosis.only(NEW)
    assert (evidence["since"], evidence["version"]) == (since, since - behind)
    assert diagnosis.commands(row) == [evidence["command"]]


@pytest.mark.parametrize(("version", "command"), [*product((6, 18, 19, 21), ("WATCH_TOPIC_LIST", "WATCH_TOPIC_LIST_CLOSE"))])
def test_a_command_without_a_version_of_its_own_is_newer_than_what_has_a_lower_number(tmp_path: Path, version: int, command: str) -> None:
    """TC_CLIENT_CONNECT_REQUEST, of version 19, was there before."""
    pattern = {"namespace": "public/default", "topics_pattern": "a.*"} if command == "WATCH_TOPIC_LIST" else {}
    talk = agreed(version, 21).client(command_frame(command, request_id=3, watcher_id=1, **pattern))
    assert len(diagnose(tmp_path, talk).of(NEW)) == (version < 19)


@pytest.mark.parametrize(("since", "ahead", "end"), [*product(NEWER, (0, 2), ENDS)])
def test_a_command_of_the_agreed_version_or_of_an_unknown_one_is_right(tmp_path: Path, since: int, ahead: int, end: str) -> None:
    assert NEW not in found(ended(tmp_path, agreed(since + ahead, since + ahead).client(NEWER[since]), end))
    assert NEW not in found(ended(tmp_path, begun(midstream=True).client(NEWER[since]), end))


@pytest.mark.parametrize(("why", "sends", "end"), [*product(("never", "closed", "refused", "long"), (1, 5), ENDS)])
def test_sends_without_a_producer_are_named(tmp_path: Path, why: str, sends: int, end: str) -> None:
    talk = begun(before=1, midstream=why == "closed")
    if why != "never":
        talk.client(producer()).server(error(1, "ProducerBusy") if why == "refused" else created())
    if why == "closed":
        talk.client(close_producer(1, 2)).server(success(2))
    elif why == "long":
        talk.server(close_producer()).wait(2 * SECOND)
    for number in range(sends):
        talk.client(send(1, number))
    diagnosis = ended(tmp_path, talk, end)
    row, evidence = diagnosis.only(HOMELESS)
    assert (evidence["count"], diagnosis.commands(row)[-1]) == (sends, "SEND")
    assert found(diagnosis) == {HOMELESS}


def closed_at(before: int, pause: int, sends: int, lag: int, *, stamped: bool = True, step: int = 20, delay: int = 3) -> Conversation:
    """A producer that the broker closes, and SENDs: the first was published `pause` ms after the close, and all arrive `lag` ms late."""
    talk = begun().client(producer()).server(created())
    now = PUBLISH_TIME_MS  # the client's clock is wrong
    times = [now + step * number for number in range(before)]
    closed = times[-1] + step if times else now
    times += [closed + pause + step * number for number in range(sends)]
    start = talk.time_ns
    for number, published in enumerate(times):
        late = lag if number >= before else 0
        if number == before:
            talk.wait(max(start + (closed + delay - now) * MILLISECOND - talk.time_ns, 0)).server(close_producer())
        talk.wait(max(start + (published + delay + late - now) * MILLISECOND - talk.time_ns, 0))
        talk.client(send(1, number, metadata={"publish_time": published} if stamped else {}))
        if number < before:
            talk.server(receipt(1, number, entry=number))
    return talk


@pytest.mark.parametrize(
    ("before", "pause", "sends", "stamped", "end"), [*product((2, 70), (400, 500, 900), (1, 8), (False, True), ("open", "fin"))]
)
def test_sends_that_were_made_after_the_broker_closed_their_producer_are_named(
    tmp_path: Path, before: int, pause: int, sends: int, stamped: bool, end: str
) -> None:
    """The publish time shows it, or, if that never changes, the pause before them."""
    diagnosis = ended(tmp_path, closed_at(before, pause, sends, 0, stamped=stamped), end)
    row, evidence = diagnosis.only(HOMELESS)
    assert diagnosis.commands(row)[:2] == ["CLOSE_PRODUCER", "SEND"]
    assert evidence["count"] == sends if stamped else 1 <= evidence["count"] <= sends


@pytest.mark.parametrize(
    ("before", "pause", "lag", "stamped"),
    [
        *product((2, 70), (0, 50, 200), (0, 100), (False, True)),  # within a round trip
        *product((2, 70), (0, 50), (400, 800), (True,)),  # they waited behind others, as their publish time shows
    ],
)
def test_sends_that_were_on_their_way_are_right(tmp_path: Path, before: int, pause: int, lag: int, stamped: bool) -> None:
    assert found(ended(tmp_path, closed_at(before, pause, 5, lag, stamped=stamped), "fin")) == set()


@pytest.mark.parametrize(("why", "sends", "end"), [*product(("midstream", "gap", "on its way", "again"), (1, 5), ENDS)])
def test_sends_of_a_producer_that_the_capture_lacks_or_has_just_lost_are_right(tmp_path: Path, why: str, sends: int, end: str) -> None:
    talk = begun(midstream=why == "midstream")
    if why == "gap":
        talk.lose("client", 100).server(created())
    elif why != "midstream":
        talk.client(producer()).server(created()).client(send(1, 100)).server(close_producer()).wait(300 * MILLISECOND)
    if why == "again":
        talk.wait(SECOND).client(producer(1, "p", 4)).server(created("p", 4))
    for number in range(sends):
        talk.client(send(1, number))
    assert found(ended(tmp_path, talk, end)) == set()


def unaware(after: int, sends: int, looks: int, more: int = 0, *, elsewhere: bool = False) -> Conversation:
    """A client that sends for a time after the broker closed its producer, then looks up the topic, and sends `more`.

    `elsewhere`: it looks up on another connection.
    """
    talk = begun().client(producer()).server(created())
    for number in range(4):
        talk.client(send(1, number)).server(receipt(1, number, entry=number)).wait(100 * MILLISECOND)
    talk.server(close_producer()).wait(after * MILLISECOND)
    for number in range(sends):
        talk.client(send(1, 4 + number)).wait(50 * MILLISECOND)
    talk.wait(looks * MILLISECOND)
    if not elsewhere:
        talk.client(lookup(50)).server(lookup_response("Connect", "pulsar://10.0.0.2:6650", 50)).wait(20 * MILLISECOND)
    for number in range(more):
        talk.client(send(1, 50 + number))
    return talk.client(producer(request=51)).server(created(request=51)).wait(SECOND).close()


@pytest.mark.parametrize(("after", "sends", "looks", "elsewhere"), [*product((500, 1_500, 3_000), (1, 6), (0, 300), (False, True))])
def test_a_client_that_has_not_read_the_close_of_its_producer_yet_sends_on(
    tmp_path: Path, after: int, sends: int, looks: int, elsewhere: bool
) -> None:
    assert HOMELESS not in diagnose(tmp_path, unaware(after, sends, looks, elsewhere=elsewhere)).codes


@pytest.mark.parametrize(
    ("after", "sends", "looks", "more", "elsewhere"),
    [
        *[(*one, False) for one in ((1_500, 0, 0, 3), (1_500, 2, 0, 2), (6_000, 3, 0, 0), (1_000, 3, 9_000, 0))],
        *[(*one, True) for one in ((6_000, 3, 0, 0), (1_000, 3, 9_000, 0))],
    ],
)
def test_one_that_knows_it_must_not(tmp_path: Path, after: int, sends: int, looks: int, more: int, elsewhere: bool) -> None:
    _, evidence = diagnose(tmp_path, unaware(after, sends, looks, more, elsewhere=elsewhere)).only(HOMELESS)
    assert evidence["count"] == (more or sends)


@pytest.mark.parametrize(("pause", "sends"), [*product((6, 20), (1, 9))])
def test_nor_one_that_closes_the_producer_itself_afterwards(tmp_path: Path, pause: int, sends: int) -> None:
    talk = begun().client(producer()).server(created()).server(close_producer()).wait(pause * SECOND)
    for number in range(sends):
        talk.client(send(1, number)).wait(50 * MILLISECOND)
    talk.client(close_producer(1, 60)).server(success(60)).wait(60 * SECOND)
    _, evidence = diagnose(tmp_path, talk.close()).only(HOMELESS)
    assert evidence["count"] == sends


@pytest.mark.parametrize("again", [1, 2])
def test_each_producer_of_a_topic_may_read_its_close_late(tmp_path: Path, again: int) -> None:
    talk = begun()
    for number in range(1, 4):
        talk.client(producer(number, f"p{number}", number)).server(created(f"p{number}", number))
    talk.server(*[close_producer(number) for number in range(1, 4)]).wait(2 * SECOND)
    talk.client(*[send(number, 0) for number in range(1, 4)])
    for number in range(again):
        talk.client(lookup(50 + number)).server(lookup_response("Connect", "pulsar://10.0.0.2:6650", 50 + number))
    assert HOMELESS not in diagnose(tmp_path, talk.wait(SECOND).close()).codes


def stopping(for_ms: int, every: int, after: int, *, by: str = "server", closes: str = "broker") -> Conversation:
    """A client that sends for a time after its producer was closed; `after`: ms to the end of the connection, when it sends no more."""
    talk = begun().client(producer()).server(created())
    talk = talk.server(close_producer()) if closes == "broker" else talk.client(close_producer(1, 2)).server(success(2))
    talk.wait(SECOND)
    for number in range(for_ms // every):
        talk.client(send(1, number)).wait(every * MILLISECOND)
    return talk.wait(after * MILLISECOND).close(by)


@pytest.mark.parametrize(("for_ms", "every", "after"), [*product((1_000, 4_000, 25_000), (100, 400), (0, 2_000))])
def test_sends_that_a_broker_ignores_as_it_stops_are_not_the_cause(tmp_path: Path, for_ms: int, every: int, after: int) -> None:
    codes = diagnose(tmp_path, stopping(for_ms, every, after)).codes
    assert "connection-closed-by-broker" in codes
    assert HOMELESS not in codes


@pytest.mark.parametrize(
    ("for_ms", "every", "after", "by", "closes"),
    [
        *product((40_000, 100_000), (400,), (0, 2_000), ("server",), ("broker",)),  # for long
        *product((100,), (100,), (0, 200), ("server",), ("broker",)),  # the broker closes at the first
        *product((4_000,), (400,), (0, 2_000), ("client",), ("broker",)),
        *product((4_000,), (400,), (0, 2_000), ("server",), ("client",)),
    ],
)
def test_other_sends_after_the_close_of_a_producer_are(tmp_path: Path, for_ms: int, every: int, after: int, by: str, closes: str) -> None:
    assert HOMELESS in diagnose(tmp_path, stopping(for_ms, every, after, by=by, closes=closes)).codes


def from_before(*, flows: int, between: str, topic: str, lost: bool = False) -> Conversation:
    """A consumer from before the capture that grants permits, and a SUBSCRIBE with its id."""
    talk = Conversation(acknowledge=False).server(delivery(100))
    for entry in range(flows):
        talk.wait(100 * MILLISECOND).client(flow(10)).server(delivery(101 + entry))
    if lost:
        talk.lose("server", 100)
        talk.server(delivery(150)).client(ack(150))
    if between == "close":
        talk.client(close_consumer(1, 70)).server(success(70))
    elif between == "broker":
        talk.server(close_consumer(1, BY_BROKER)).client(flow(10))  # it crosses the close
    elif between == "unsubscribe":
        talk.client(command_frame("UNSUBSCRIBE", consumer_id=1, request_id=70)).server(success(70))
    elif between == "another":
        talk.client(close_consumer(2, 70)).server(success(70))
    talk.wait(100 * MILLISECOND).client(subscribe(1, "c", 71, topic=topic)).server(success(71))
    return talk.client(flow(10)).wait(SECOND).client(flow(10))


@pytest.mark.parametrize(("flows", "between", "topic", "end"), [*product((1, 5), ("", "another"), (TOPIC, OTHER), ENDS)])
def test_the_id_of_a_consumer_from_before_the_capture_is_taken(tmp_path: Path, flows: int, between: str, topic: str, end: str) -> None:
    row, _ = ended(tmp_path, from_before(flows=flows, between=between, topic=topic), end).only(CONSUMER)
    assert "from before the capture" in (row.text or "")


def test_permits_need_no_threshold_for_the_id_of_a_consumer(tmp_path: Path) -> None:
    talk = Conversation(acknowledge=False).server(delivery(100)).client(flow(10), ack(100)).wait(SECOND).client(ack(99))
    _, evidence = ended(tmp_path, talk.client(subscribe(1, "c", 71)).server(success(71)).wait(SECOND), "open").only(CONSUMER)
    assert "threshold" not in evidence


def producing_since_before(*, sends: int, receipts: int, between: str, topic: str, lost: bool = False) -> Conversation:
    """A producer from before the capture that sends, and a PRODUCER with its id."""
    talk = Conversation(acknowledge=False)
    for number in range(sends):
        talk.wait(50 * MILLISECOND).client(send(1, 40 + number))
        if number < receipts:
            talk.server(receipt(1, 40 + number, entry=40 + number))
    if lost:
        talk.lose("client", 200)
        talk.client(PING).server(PONG)
    if between == "close":
        talk.client(close_producer(1, 70)).server(success(70))
    elif between == "broker":
        talk.server(close_producer(1, BY_BROKER)).client(send(1, 99))  # it crosses the close
    elif between == "another":
        talk.client(close_producer(2, 70)).server(success(70))
    talk.wait(300 * MILLISECOND).client(producer(1, "q", 71, topic)).server(created("q", 71))
    return talk.client(send(1, 0)).server(receipt(1, 0, entry=90)).wait(SECOND)


@pytest.mark.parametrize(
    ("sends", "receipts", "between", "topic", "end"), [*product((1, 30), (1, 30), ("", "another"), (TOPIC, OTHER), ENDS)]
)
def test_the_id_of_a_producer_from_before_the_capture_is_taken(
    tmp_path: Path, sends: int, receipts: int, between: str, topic: str, end: str
) -> None:
    talk = producing_since_before(sends=sends, receipts=receipts, between=between, topic=topic)
    row, evidence = ended(tmp_path, talk, end).only(PRODUCER)
    assert "from before the capture" in (row.text or "")
    assert (evidence["second_topic"], len(evidence["frames"])) == (topic, 2)


@pytest.mark.parametrize(
    ("sends", "receipts", "between", "lost"),
    [*product((1, 30), (0, 1, 30), ("close", "broker"), (False,)), *product((1, 5), (0,), ("",), (False,)), (5, 5, "", True)],
)
def test_the_id_of_a_producer_that_left_or_may_have_left_is_free(
    tmp_path: Path, sends: int, receipts: int, between: str, lost: bool
) -> None:
    """SENDs without a receipt may have crossed a CLOSE_PRODUCER from before the capture."""
    talk = producing_since_before(sends=sends, receipts=receipts, between=between, topic=OTHER, lost=lost)
    assert ended(tmp_path, talk, "open").of(PRODUCER) == []


@pytest.mark.parametrize(("receipts", "between"), [(1, "migrated"), (30, "migrated"), (0, "late")])
def test_the_id_of_a_producer_that_was_sent_away_is_free(tmp_path: Path, receipts: int, between: str) -> None:
    """Sent to another cluster, or closed before the capture: the broker answers an earlier SEND, and none that crossed the close."""
    talk = Conversation(acknowledge=False)
    for number in range(receipts):
        talk.wait(50 * MILLISECOND).client(send(1, 40 + number)).server(receipt(1, 40 + number, entry=40 + number))
    if between == "late":
        talk.client(send(1, 41)).server(receipt(1, 40, entry=40))
    else:
        talk.server(command_frame("TOPIC_MIGRATED", resource_id=1, resource_type="Producer", brokerServiceUrl="pulsar://b:6650"))
    talk.wait(300 * MILLISECOND).client(producer(1, "q", 71)).server(created("q", 71))
    talk.client(send(1, 90)).server(receipt(1, 90, entry=90)).wait(SECOND)
    assert ended(tmp_path, talk, "open").of(PRODUCER) == []


def acknowledging(*, acks: int, every: int, between: str, topic: str) -> Conversation:
    """A consumer from before the capture that acknowledges but grants no permits, and a SUBSCRIBE with its id."""
    talk = Conversation(acknowledge=False)
    for entry in range(acks):
        talk.server(delivery(100 + entry)).wait(every * MILLISECOND).client(ack(100 + entry))
    if between == "close":
        talk.client(close_consumer(1, 70)).server(success(70))
    elif between == "broker":
        talk.server(close_consumer(1, BY_BROKER)).client(ack(90))  # it crosses the close
    return talk.wait(300 * MILLISECOND).client(subscribe(1, "c", 71, topic=topic)).server(success(71)).wait(SECOND).client(flow(10))


@pytest.mark.parametrize(("acks", "every", "topic", "end"), [*product((2, 9), (210, 500), (TOPIC, OTHER), ENDS)])
def test_the_id_of_one_that_acknowledges_without_new_permits_is_taken(tmp_path: Path, acks: int, every: int, topic: str, end: str) -> None:
    diagnosis = ended(tmp_path, acknowledging(acks=acks, every=every, between="", topic=topic), end)
    row, evidence = diagnosis.only(CONSUMER)
    assert "SUBSCRIBE" in diagnosis.commands(row)
    assert evidence["count"] == 1
    assert "consumer-id-reused-seconds" in evidence["threshold"]


@pytest.mark.parametrize(
    ("acks", "every", "between"), [*product((1, 2, 9), (1, 20, 300), ("close", "broker")), (1, 300, ""), (2, 50, ""), (4, 40, "")]
)
def test_acks_that_cross_a_close_from_before_the_capture_take_no_id(tmp_path: Path, acks: int, every: int, between: str) -> None:
    """ACKs of one moment may have been on their way when the broker closed the consumer."""
    assert ended(tmp_path, acknowledging(acks=acks, every=every, between=between, topic=OTHER), "open").of(CONSUMER) == []


@pytest.mark.parametrize(
    ("flows", "between", "lost"), [*product((0, 1, 5), ("close", "broker", "unsubscribe"), (False,)), (0, "", False), (3, "", True)]
)
def test_the_id_of_one_that_left_is_free(tmp_path: Path, flows: int, between: str, lost: bool) -> None:
    diagnosis = ended(tmp_path, from_before(flows=flows, between=between, topic=OTHER, lost=lost), "open")
    assert diagnosis.of(CONSUMER) == []


@pytest.mark.parametrize(("late", "kind", "answered"), [*product((1, 5, 40), ("producer", "consumer"), (True, False))])
def test_a_close_that_is_captured_behind_the_next_open_is_no_reuse(tmp_path: Path, late: int, kind: str, answered: bool) -> None:
    """A tap delays the broker's direction in an unload: its answer is captured after its close."""
    if kind == "producer":
        opens, close, answer = producer(request=70), close_producer(request=BY_BROKER), created(request=70)
        talk = connected().client(producer()).server(created())
    else:
        opens, close, answer = subscribe(request=70), close_consumer(request=BY_BROKER), success(70)
        talk = subscribed(connected())
    talk.wait(SECOND).client(opens)
    if answered:
        talk.server(answer)
    talk.wait(late * MILLISECOND).server(close)
    if not answered:
        talk.server(answer)
    codes = diagnose(tmp_path, talk.wait(SECOND).close()).codes
    assert (f"{kind}-id-reused" in codes) == answered


def sending_early(
    *, sends: int, others: int = 0, rtt: int = 1, answer: str = "none", after: int = 5, by: str = "server", midstream: bool = False
) -> Conversation:
    """A client that sends before PRODUCER_SUCCESS, `after` ms later the connection ends."""
    talk = begun(before=1, midstream=midstream)
    for number in range(others):
        talk.client(producer(20 + number, f"q{number}", 20 + number)).server(created(f"q{number}", 20 + number))
        talk.client(send(20 + number, 0)).server(receipt(20 + number, 0, entry=number))
    talk.client(producer(request=7))
    if answer == "first":
        talk.wait(rtt * MILLISECOND).server(created(request=7))
    for number in range(sends):
        talk.client(send(1, number))
    if answer in ("late", "receipts", "waits"):
        talk.wait(rtt * MILLISECOND).server(created(request=7, producer_ready=answer != "waits"))
    if answer == "receipts":
        talk.server(*(receipt(1, number, entry=number) for number in range(sends)))
    elif answer == "gap":
        talk.lose("server", 40)
    talk.wait(after * MILLISECOND)
    return talk if by == "open" else talk.reset("server") if by == "rst" else talk.close(by)


@pytest.mark.parametrize(
    ("sends", "others", "after", "answer", "by", "midstream"),
    [*product((1, 40), (0, 2), (1, 800), ("none", "waits"), ("server", "rst"), (False, True))],
)
def test_sends_before_the_answer_to_their_producer_are_the_cause_of_a_close(
    tmp_path: Path, sends: int, others: int, after: int, answer: str, by: str, *, midstream: bool
) -> None:
    talk = sending_early(sends=sends, others=others, after=after, answer=answer, by=by, midstream=midstream)
    diagnosis = diagnose(tmp_path, talk)
    row, evidence = diagnosis.only(HOMELESS)
    assert (evidence["count"], diagnosis.commands(row)[:2]) == (sends, ["PRODUCER", "SEND"])
    assert "before the answer to its PRODUCER" in (row.text or "")


@pytest.mark.parametrize(
    ("sends", "answer", "by", "after"),
    [
        # A tap may delay one direction.
        *product((1, 40), ("first", "late", "receipts"), ("server", "rst", "client", "open"), (1, 800)),
        *product((1, 40), ("gap",), ("server", "client", "open"), (1, 800)),
        *product((1,), ("none",), ("client", "open"), (1, 800)),  # nothing shows what the broker makes of it
        *product((0,), ("none",), ("server", "rst"), (1, 800)),  # the broker stops while it opens the topic
    ],
)
def test_other_sends_of_a_new_producer_are_not(tmp_path: Path, sends: int, answer: str, by: str, after: int) -> None:
    assert HOMELESS not in diagnose(tmp_path, sending_early(sends=sends, answer=answer, by=by, after=after)).codes


@pytest.mark.parametrize("by", ["server", "rst"])
def test_sends_of_a_producer_that_its_client_gave_up_are_named_once(tmp_path: Path, by: str) -> None:
    talk = begun(before=1).client(producer(request=7)).client(close_producer(1, 8)).client(send(1, 0)).wait(MILLISECOND)
    assert len(diagnose(tmp_path, talk.reset("server") if by == "rst" else talk.close(by)).of(HOMELESS)) == 1
