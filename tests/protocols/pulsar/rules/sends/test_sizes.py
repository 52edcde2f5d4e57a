"""Frames above the broker's limit, and the first bytes of other protocols, which the broker takes for sizes."""

from __future__ import annotations

from pathlib import Path

import pytest

import pulsarscope as ps
from pulsarscope.model.findings import ERROR
from pulsarscope.model.text import duration, plural
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import CONNECT, created, producer, send
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import findings_in, findings_of, only, problem_codes, with_code
from tests.scenarios.frames import command_frame
from tests.scenarios.rules.sizes import LIMIT, sending


def test_a_send_beyond_the_broker_s_limit(tmp_path: Path) -> None:
    rows = findings_of(tmp_path, sending(10, LIMIT + 1, LIMIT + 100))
    text, evidence = only(rows, "message-too-large")
    assert "2 SENDs of 10.0.0.1:40000 (producer-1 to persistent://public/default/t) with up to 65,636 bytes of payload" in text
    assert text.endswith("the broker allows 65,536.")
    assert evidence == {"frames": ["0:10.1", "0:12.1"], "count": 2, "largest": LIMIT + 100, "max_message_size": LIMIT}
    assert [row.severity for row in with_code(rows, "message-too-large")] == [ERROR]


def test_a_send_of_just_the_limit_is_none(tmp_path: Path) -> None:
    assert problem_codes(findings_of(tmp_path, sending(LIMIT))) == []


@pytest.mark.parametrize("size", [LIMIT + 1, LIMIT + 20_000])
@pytest.mark.parametrize("end", ["fin", "rst"])
@pytest.mark.parametrize("times", [2, 6, 20])
def test_a_message_that_is_sent_again_on_each_connection_explains_why_the_broker_closes_them(
    size: int, end: str, times: int, tmp_path: Path
) -> None:
    talks = [sending(10, size, port=40_000 + number, start=2 * number * SECOND).wait(MILLISECOND) for number in range(times)]
    packets = [packet for talk in talks for packet in (talk.close("server") if end == "fin" else talk.reset()).packets]
    found = ps.open(write_pcap(tmp_path / "loop.pcap", packets)).diagnose()["findings"]
    cause = "message-too-large" if size == LIMIT + 1 else "frame-too-large"
    bad = {each["code"]: each["explained_by"] for each in found if each["severity"] != "note"}
    loop = {"reconnect-loop": cause} if times > 4 else {}
    assert bad == {cause: None, "connection-closed-by-broker": cause, **loop}
    if size == LIMIT + 1:
        again = f"sent it again on {plural(times - 1, 'later connection')}, until {duration(2 * (times - 1) * SECOND)} after the first time"
        assert f"{again}; the broker closed {times} of the {times} connections." in found[0]["samples"][0]["text"]


def test_other_messages_beyond_the_limit_are_not_the_same_again(tmp_path: Path) -> None:
    talks = [sending(*[10] * number, LIMIT + 1, port=40_000 + number, start=number * SECOND).close("server") for number in range(3)]
    assert len(with_code(findings_of(tmp_path, *talks), "message-too-large")) == 3


def test_a_frame_beyond_the_limit_and_its_padding_is_too_large(tmp_path: Path) -> None:
    rows = findings_of(tmp_path, sending(LIMIT + 20_000))
    assert "the limit is 75,776" in only(rows, "frame-too-large")[0]


def test_without_an_announced_limit_nothing_is_reported(tmp_path: Path) -> None:
    connected = command_frame("CONNECTED", server_version="test", protocol_version=12)
    talk = Conversation(acknowledge=False).handshake().client(CONNECT).server(connected).client(producer()).server(created())
    assert with_code(findings_of(tmp_path, talk.client(send(1, 0, b"x" * (LIMIT + 1)))), "message-too-large") == []


@pytest.mark.parametrize("later", [{}, {"max_message_size": 0}, {"max_message_size": -1}, {"max_message_size": LIMIT << 4}], ids=str)
@pytest.mark.parametrize("times", [1, 3])
def test_the_limit_named_is_the_one_that_was_exceeded_whatever_a_later_connected_says(
    tmp_path: Path, later: dict[str, int], times: int
) -> None:
    talk = sending(LIMIT + 1)
    for _ in range(times):
        talk.server(command_frame("CONNECTED", server_version="test", protocol_version=21, **later))
    text, evidence = only(findings_of(tmp_path, talk.client(send(1, 1, b"x" * (LIMIT + 2)))), "message-too-large")
    assert text.endswith("the broker allows 65,536.")
    assert (evidence["max_message_size"], evidence["count"]) == (LIMIT, 1)


@pytest.mark.parametrize(
    ("code", "first"), [("tls-on-plain-port", b"\x16\x03\x01\x00"), ("http-on-plain-port", b"GET ")], ids=["TLS", "HTTP"]
)
def test_other_protocols_on_the_plain_port_are_named_with_what_the_broker_logs(code: str, first: bytes) -> None:
    (row,) = with_code(findings_in("raw-not-pulsar.pcap"), code)
    assert str(int.from_bytes(first, "big") + 4) in (row.hint or "")
