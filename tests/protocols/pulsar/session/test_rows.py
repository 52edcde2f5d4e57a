from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.dissect.exchange import Request, Response
from pulsarscope.dissect.frames import Origin
from pulsarscope.protocols.pulsar.session.rows import SessionRows


def request(packet: int, time: int) -> Request:
    return Request(0, packet, 1, time, "LOOKUP", "7", "t", None, None)


def response(packet: int, time: int, **fields: Any) -> Response:
    return Response(0, packet, 1, time, "LOOKUP_RESPONSE", fields)


def test_a_response_that_nobody_asked_for_has_its_own_key() -> None:
    rows: list[Any] = []
    SessionRows(Origin("s", "0:1", "pulsar"), want_exchanges=True).exchange(None, response(4, 9, request_id=7), None, rows)
    SessionRows(Origin("s", "0:1", "pulsar"), want_exchanges=True).exchange(None, response(4, 9, producer_id=2, sequence_id=0), None, rows)
    assert [(row.source, row.packet, row.status, row.key) for row in rows] == [("s", 4, "unrequested", "7"), ("s", 4, "unrequested", "2:0")]


def test_exchanges_that_nobody_wants_are_not_made() -> None:
    rows: list[Any] = []
    SessionRows(Origin(None, "0:1", "pulsar"), want_exchanges=False).exchange(request(1, 1), None, None, rows)
    assert rows == []


@pytest.mark.parametrize(("packet", "time", "latency"), [(2, 15, 5), (2, 10, 0), (2, 9, None), (0, 15, None)])
def test_no_latency_is_negative(packet: int, time: int, latency: int | None) -> None:
    rows: list[Any] = []
    assert SessionRows(Origin(None, "0:1", "pulsar"), want_exchanges=True).latency(request(1, 10), response(packet, time), rows) == latency
    assert [row.code for row in rows] == (["capture-order"] if latency is None else [])
