"""Tokens that expire, and those that are renewed in time."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from itertools import product
from json import dumps
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.commands import CONNECTED, PING, PONG, created, error, producer
from tests.scenarios.conversation import SECOND, START_NS, Conversation
from tests.scenarios.evaluation import findings_in, findings_of, only, problem_codes, with_code
from tests.scenarios.frames import command_frame

CHALLENGE = command_frame("AUTH_CHALLENGE", challenge={"auth_method_name": "token", "auth_data": b"PulsarAuthRefresh"})
HOUR = 3_600


def token(expires: int | None, **claims: Any) -> bytes:
    """A token that expires this many seconds after the start of the capture."""
    claims |= {} if expires is None else {"exp": START_NS // SECOND + expires}
    return b"eyJhbGciOiJIUzI1NiJ9." + urlsafe_b64encode(dumps(claims).encode()).rstrip(b"=") + b".c2lnbmF0dXJl"


def connect(expires: int | None, *, refresh: bool = True) -> bytes:
    flags = {"feature_flags": {"supports_auth_refresh": True}} if refresh else {}
    return command_frame("CONNECT", client_version="x", protocol_version=21, auth_method_name="token", auth_data=token(expires), **flags)


def response(expires: int | None) -> bytes:
    return command_frame("AUTH_RESPONSE", response={"auth_method_name": "token", "auth_data": token(expires)})


def begun(expires: int | None, *, refresh: bool = True, start: int = 0, port: int = 40000) -> Conversation:
    talk = Conversation(("10.0.0.1", port), start_ns=START_NS + start, acknowledge=False).handshake()
    return talk.client(connect(expires, refresh=refresh))


def open_to(expires: int | None, *, refresh: bool = True) -> Conversation:
    return begun(expires, refresh=refresh).server(CONNECTED).client(producer()).server(created())


@pytest.mark.parametrize("expires", [-1, -30, -HOUR, -30 * 24 * HOUR])
@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize("end", ["error", "fin", "rst"])
def test_a_client_that_comes_with_an_expired_token(expires: int, times: int, end: str, tmp_path: Path) -> None:
    talks = []
    for number in range(times):
        talk = begun(expires - number * 0, start=number * SECOND, port=40000 + number)
        talks.append(talk.server(error(-1 % 2**64, "AuthenticationError")).close() if end == "error" else talk)
        if end != "error":
            talk.close("server") if end == "fin" else talk.reset()
    rows = findings_of(tmp_path, *talks)
    text, evidence = only(rows, "token-expired")
    assert evidence["count"] == times
    assert "c2lnbmF0dXJl" not in text + str(evidence)


@pytest.mark.parametrize("expires", [3, 10])
@pytest.mark.parametrize("refresh", [True, False])
@pytest.mark.parametrize("end", ["fin", "rst"])
@pytest.mark.parametrize("later", [0, 45])
def test_a_broker_that_closes_when_the_token_expires(expires: int, end: str, later: int, *, refresh: bool, tmp_path: Path) -> None:
    talk = open_to(expires, refresh=refresh).wait((expires + later) * SECOND)
    rows = findings_of(tmp_path, talk.close("server") if end == "fin" else talk.reset())
    assert only(rows, "token-expired" if refresh else "auth-refresh-unsupported")[1]["frames"] == ["0:4.1"]


@pytest.mark.parametrize("refresh", [True, False])
@pytest.mark.parametrize("end", ["open", "fin", "rst"])
def test_a_challenge_that_the_client_does_not_answer(end: str, *, refresh: bool, tmp_path: Path) -> None:
    talk = open_to(5, refresh=refresh).wait(5 * SECOND).server(CHALLENGE).wait(4 * SECOND).client(PING).server(PONG)
    rows = findings_of(tmp_path, talk if end == "open" else talk.close("server") if end == "fin" else talk.reset())
    assert "asked for a new one" in only(rows, "auth-refresh-unsupported")[0]


def late(talk: Conversation, *numbers: int, by: int) -> Conversation:
    """Move packets this many places later in the file, together with their times."""
    for number in numbers:
        talk.packets.insert(number + by, talk.packets.pop(number))
    return talk


@pytest.mark.parametrize("before", [0, 5])
def test_a_challenge_that_was_captured_behind_its_answer(before: int, tmp_path: Path) -> None:
    talk = open_to(5).wait(before * SECOND).server(CHALLENGE).client(response(HOUR))
    talk = late(talk, len(talk.packets) - 2, by=1).wait(20 * SECOND).client(PING).server(PONG)
    assert with_code(findings_of(tmp_path, talk), "auth-refresh-unsupported") == []


@pytest.mark.parametrize("answered", ["before", "unseen"])
def test_a_second_challenge_without_an_answer_is_not_answered_by_the_first(answered: str, tmp_path: Path) -> None:
    talk = open_to(5).wait(5 * SECOND)
    if answered == "before":
        talk.server(CHALLENGE)
    talk.client(response(5)).wait(SECOND).server(CHALLENGE).wait(20 * SECOND).client(PING).server(PONG)
    assert only(findings_of(tmp_path, talk), "auth-refresh-unsupported")


def test_an_answer_of_the_handshake_answers_no_challenge_soon_after_it(tmp_path: Path) -> None:
    talk = begun(5).server(CHALLENGE).client(response(5)).server(CONNECTED).wait(SECOND // 10).server(CHALLENGE)
    assert only(findings_of(tmp_path, talk.wait(20 * SECOND).client(PING).server(PONG)), "auth-refresh-unsupported")


def test_a_renewed_token_that_has_expired(tmp_path: Path) -> None:
    talk = open_to(5).wait(6 * SECOND).server(CHALLENGE).client(response(5))
    rows = findings_of(tmp_path, talk.server(error(-1 % 2**64, "AuthenticationError")).close("server"))
    assert only(rows, "token-expired")[1]["frames"][0] == "0:9.1"


@pytest.mark.parametrize("expires", [1, 12, 60, 299])
@pytest.mark.parametrize("refresh", [True, False])
def test_a_token_that_expires_soon(expires: int, *, refresh: bool, tmp_path: Path) -> None:
    rows = findings_of(tmp_path, open_to(expires, refresh=refresh))
    assert only(rows, "token-expires-soon")[1]["supports_auth_refresh"] is refresh


@pytest.mark.parametrize(("lives", "apart", "times"), [*product((12, 60, 200), (1, 5), (2, 4))])
def test_a_client_that_comes_with_a_newer_token_each_time_has_a_supplier(lives: int, apart: int, times: int, tmp_path: Path) -> None:
    talks = [
        begun(number * apart + lives, start=number * apart * SECOND, port=40000 + number).server(CONNECTED).close()
        for number in range(times)
    ]
    assert with_code(findings_of(tmp_path, *talks), "token-expires-soon") == []


@pytest.mark.parametrize("expires", [12, 60])
@pytest.mark.parametrize("refresh", [True, False])
def test_a_token_that_may_be_renewed_in_time_is_only_noted(expires: int, *, refresh: bool, tmp_path: Path) -> None:
    assert problem_codes(findings_of(tmp_path, open_to(expires, refresh=refresh).close())) == []


@pytest.mark.parametrize("expires", [None, 400, HOUR, 24 * HOUR, 10**10])
@pytest.mark.parametrize("refresh", [True, False])
@pytest.mark.parametrize("end", ["client", "open"])
def test_a_token_that_lives_on(expires: int | None, end: str, *, refresh: bool, tmp_path: Path) -> None:
    talk = open_to(expires, refresh=refresh).wait(20 * SECOND).client(PING).server(PONG)
    assert problem_codes(findings_of(tmp_path, talk if end == "open" else talk.close())) == []


@pytest.mark.parametrize("every", [2, 10, 40])
@pytest.mark.parametrize("times", [1, 2, 4])
def test_a_token_that_is_renewed_again_and_again(every: int, times: int, tmp_path: Path) -> None:
    talk = open_to(every)
    for number in range(times):
        talk.wait(every * SECOND).server(CHALLENGE).client(response((number + 2) * every))
    assert problem_codes(findings_of(tmp_path, talk, open_beside(every).close())) == []


def open_beside(expires: int) -> Conversation:
    return begun(expires, port=40001).server(CONNECTED)


@pytest.mark.parametrize("data", [b"a.b.c", b"...", b"x" * 40_000, token(None, exp="soon"), token(None, exp=-5), token(None, exp=1e300)])
def test_what_is_no_token_says_nothing(data: bytes, tmp_path: Path) -> None:
    talk = (
        Conversation(acknowledge=False).handshake().client(command_frame("CONNECT", client_version="x", auth_data=data)).server(CONNECTED)
    )
    assert problem_codes(findings_of(tmp_path, talk.close())) == []


def test_real_tokens() -> None:
    rows = findings_in("token-auth-py.pcap")
    assert "2020-09-13" in only(rows, "token-expired")[0]
    assert with_code(findings_in("token-refresh-java.pcap"), "token-expires-soon") == []


@pytest.mark.parametrize(("size", "refresh", "end"), [*product((0, 90), (True, False), ("fin", "rst"))])
def test_a_token_that_may_have_been_renewed_by_bytes_that_the_capture_lacks(size: int, refresh: bool, end: str, tmp_path: Path) -> None:
    """The client's direction ends within the capture; the broker's acknowledgments continue."""
    talk = open_to(30, refresh=refresh).wait(20 * SECOND)
    if size:
        talk.lose("client", size)
    talk.server(PING).wait(40 * SECOND).server(PING)
    rows = findings_of(tmp_path, talk.close("server") if end == "fin" else talk.reset())
    code = "token-expired" if refresh else "auth-refresh-unsupported"
    assert (code in problem_codes(rows)) == (not size or not refresh)


@pytest.mark.parametrize(("lost", "times"), [*product((0, 1), (1, 3))])
def test_a_lost_answer_to_one_challenge_is_not_missed_at_another(lost: int, times: int, tmp_path: Path) -> None:
    """Answers have no number: the next one passes for the lost one."""
    talk = open_to(5 * HOUR)
    for number in range(times + 1):
        talk.wait(20 * SECOND).server(CHALLENGE)
        if number == 0 and lost:
            talk.lose("client", len(response(5 * HOUR)))
        else:
            talk.client(response(5 * HOUR))
    rows = findings_of(tmp_path, talk.wait(8 * SECOND).client(PING).server(PONG).close())
    assert with_code(rows, "request-unanswered") == []


@pytest.mark.parametrize("expires", [5, HOUR, None])
@pytest.mark.parametrize("refused", ["AuthenticationError", "AuthorizationError"])
def test_a_token_that_is_refused_when_it_is_renewed(expires: int | None, refused: str, tmp_path: Path) -> None:
    """The broker's ERROR has no request id: it answers AUTH_RESPONSE, not a request that the capture lacks."""
    talk = open_to(expires).wait(6 * SECOND).server(CHALLENGE).client(response(expires)).server(error(-1 % 2**64, refused))
    rows = findings_of(tmp_path, talk.close("server"))
    text, evidence = only(rows, "auth-failed")
    assert text.startswith(f"AUTH_RESPONSE of 10.0.0.1 was refused with {refused}")
    assert evidence["frames"] == ["0:9.1", "0:10.1"]
    assert with_code(rows, "response-unrequested") == []


def test_an_error_without_a_request_is_still_unrequested(tmp_path: Path) -> None:
    talk = open_to(HOUR).wait(SECOND).server(error(-1 % 2**64, "AuthenticationError"))
    rows = findings_of(tmp_path, talk.close("server"))
    assert only(rows, "response-unrequested")
    assert with_code(rows, "auth-failed") == []
