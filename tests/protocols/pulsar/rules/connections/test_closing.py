"""Closed connections, what they left open, and silent sides."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsarscope.model.findings import NOTE, WARNING
from tests.scenarios.commands import PING, close_producer, created, lookup, lookup_response, producer, receipt, send, success
from tests.scenarios.connections import connected, wait_until
from tests.scenarios.conversation import SECOND, Conversation
from tests.scenarios.evaluation import findings_in, findings_of, only, problem_codes, with_code
from tests.scenarios.rules.closing import half_dead

CLOSE = close_producer(1, 9)


def test_a_broker_that_drops_a_fenced_producer() -> None:
    rows = findings_in("java-errors.pcap")
    text, evidence = only(rows, "connection-closed-by-broker")
    assert "with a FIN 1.01 ms after the last frame, leaving 1 SEND unanswered and producer am-wait open" in text
    assert "the client's last command was SEND (0:111.1), the broker's SEND_RECEIPT (0:102.1)" in text
    assert evidence["unanswered"] == {"SEND": 1}
    assert with_code(rows, "connection-closed-by-broker")[0].severity == WARNING


def test_a_broker_that_drops_who_asks_what_it_cannot_answer() -> None:
    text, evidence = only(findings_in("raw-stats.pcap"), "connection-closed-by-broker")
    assert "with a FIN" in text
    assert evidence["unanswered"] == {"CONSUMER_STATS": 1}


def test_a_broker_that_drops_who_sends_what_it_cannot_read() -> None:
    rows = with_code(findings_in("raw-strange.pcap"), "connection-closed-by-broker")
    assert [row.packet for row in rows] == [19, 30, 41, 53, 60]
    assert "after the frame 0:19.1 that it could not read" in (rows[0].text or "")


def test_a_client_that_goes_while_it_waits_is_a_note(tmp_path: Path) -> None:
    rows = findings_of(tmp_path, connected().client(producer()).server(created()).client(send()).close("client"))
    assert [row.severity for row in with_code(rows, "connection-closed-by-client")] == [NOTE]
    assert only(rows, "connection-closed-by-client")[1]["unanswered"] == {"SEND": 1}


def test_a_producer_that_waits_for_its_turn_is_answered(tmp_path: Path) -> None:
    talk = connected().client(producer(producer_access_mode="WaitForExclusive")).server(created(producer_ready=False))
    assert with_code(findings_of(tmp_path, talk.close("client")), "connection-closed-by-client") == []


def departed() -> Conversation:
    """A SEND that crosses the broker's CLOSE_PRODUCER gets no answer; its producer starts over."""
    talk = connected().client(producer()).server(created()).client(send(1, 0), send(1, 1))
    talk.server(close_producer(1))
    return talk.client(producer(request=2, epoch=1)).server(created(request=2))


def test_what_is_sent_again_is_answered(tmp_path: Path) -> None:
    talk = departed().client(send(1, 0), send(1, 1)).server(receipt(1, 0), receipt(1, 1)).close("client")
    assert with_code(findings_of(tmp_path, talk), "connection-closed-by-client") == []


@pytest.mark.parametrize("again", [True, False])
def test_of_what_is_sent_again_only_the_last_is_unanswered(again: bool, tmp_path: Path) -> None:
    talk = departed().client(send(1, 0)).server(receipt(1, 0))
    talk = talk.client(send(1, 1)) if again else talk
    assert only(findings_of(tmp_path, talk.close("client")), "connection-closed-by-client")[1]["unanswered"] == {"SEND": 1}


def test_a_topic_that_is_not_ready_takes_the_others_along(tmp_path: Path) -> None:
    talk = (
        connected().client(producer()).server(created()).client(lookup(5)).server(lookup_response("Failed", "", 5, error="ServiceNotReady"))
    )
    text, evidence = only(findings_of(tmp_path, talk.close("client")), "connection-closed-by-client")
    assert "leaving producer p open, after ServiceNotReady (0:9.1)" in text
    assert (evidence["after_error"], evidence["open"], evidence["frames"][0]) == ("ServiceNotReady", 1, "0:9.1")


def test_other_errors_do_not(tmp_path: Path) -> None:
    talk = (
        connected().client(producer()).server(created()).client(lookup(5)).server(lookup_response("Failed", "", 5, error="TopicNotFound"))
    )
    assert with_code(findings_of(tmp_path, talk.close("client")), "connection-closed-by-client") == []


@pytest.mark.parametrize("by", ["client", "server"])
def test_an_end_that_leaves_nothing_open_is_none(by: str, tmp_path: Path) -> None:
    talk = connected().client(producer()).server(created()).client(send()).server(receipt()).client(CLOSE).server(success(9))
    assert findings_of(tmp_path, talk.close(by)) == []


def test_a_broker_that_says_goodbye_first_leaves_nothing_open(tmp_path: Path) -> None:
    goodbye = close_producer(1)
    rows = findings_of(tmp_path, connected().client(producer()).server(created(), goodbye).close("server"))
    assert problem_codes(rows) == []


def test_a_client_that_answers_no_ping_is_silent(tmp_path: Path) -> None:
    rows = findings_of(tmp_path, *half_dead())
    text, evidence = only(rows, "keepalive-lost")
    assert text.startswith(
        "The client 10.0.0.1:40000 has not answered 2 PINGs for 30.0 s; its last command was PONG, 60.0 s before the end"
    )
    assert text.endswith("; its last command was PONG, 60.0 s before the end; the broker closed the connection.")
    assert evidence["frames"] == ["0:7.1", "0:8.1", "0:9.1"]
    assert (evidence["silent"], evidence["pongs_before"], evidence["closed_by"]) == ("client", 1, "server")
    assert with_code(rows, "connection-closed-by-broker") == []


def test_a_broker_that_answers_no_ping_is_silent(tmp_path: Path) -> None:
    talk = wait_until(wait_until(connected(), 30 * SECOND).client(PING), 60 * SECOND).client(PING)
    assert only(findings_of(tmp_path, talk), "keepalive-lost")[1]["silent"] == "server"


def test_one_that_speaks_without_a_pong_is_alive(tmp_path: Path) -> None:
    talk = wait_until(connected().client(producer()).server(created(), PING).client(send()).server(receipt()), 30 * SECOND).client(CLOSE)
    assert problem_codes(findings_of(tmp_path, talk.server(success(9)).close())) == []


def test_a_ping_at_the_end_of_the_capture_may_still_be_answered(tmp_path: Path) -> None:
    assert problem_codes(findings_of(tmp_path, wait_until(connected(), 30 * SECOND).server(PING))) == []


def test_real_keep_alives_are_answered() -> None:
    assert with_code(findings_in("token-refresh-java.pcap"), "keepalive-lost") == []
