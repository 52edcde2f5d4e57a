"""Connections that a device between client and broker resets."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from tests.scenarios.commands import created, delivery, flow, producer, send
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.evaluation import findings_of, only, problem_codes, with_code

BETWEEN, CLOSED, LOOP = "reset-between", "connection-closed-by-broker", "reconnect-loop"


def publishing() -> Conversation:
    """A consumer and a producer with a SEND that is not answered."""
    return subscribed(connected()).client(flow(10), producer()).server(created(), delivery(0)).client(send())


@pytest.mark.parametrize(("by", "wait"), [*product(("client", "server"), (1, 400, 40_000))])
def test_neither_end_is_blamed_for_a_reset_that_it_did_not_send(tmp_path: Path, by: str, wait: int) -> None:
    rows = findings_of(tmp_path, publishing().wait(wait * MILLISECOND).reset(by, foreign=True))
    text, evidence = only(rows, BETWEEN)
    assert "in the name of" in text
    assert evidence["proof"] == "acknowledges nothing"
    for row in with_code(rows, CLOSED):
        assert (row.text or "").startswith("A RST in the name of the broker ended the connection ")
    assert bool(with_code(rows, CLOSED)) == (by == "server")


@pytest.mark.parametrize("by", ["client", "server"])
def test_an_end_that_resets_is_blamed_as_before(tmp_path: Path, by: str) -> None:
    rows = findings_of(tmp_path, publishing().wait(SECOND).reset(by))
    assert not with_code(rows, BETWEEN)
    assert (CLOSED in problem_codes(rows)) == (by == "server")
    for row in with_code(rows, CLOSED):
        assert (row.text or "").startswith("The broker closed the connection with a RST ")


@pytest.mark.parametrize(("times", "foreign"), [(6, True), (9, True), (6, False)])
def test_a_client_that_is_reset_again_and_again_fails_because_of_the_device(tmp_path: Path, times: int, foreign: bool) -> None:
    talks = []
    for number in range(times):
        talk = connected(40_000 + number)
        talk.client(producer()).server(created()).client(send()).reset(foreign=foreign)
        for index, packet in enumerate(talk.packets):
            talk.packets[index] = packet._replace(time_ns=packet.time_ns + number * SECOND)
        talks.append(talk)
    _, evidence = only(findings_of(tmp_path, *talks), LOOP)
    assert evidence["reasons"] == {"reset by a device between" if foreign else "reset by the broker": times}
