from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.dissect.rules import Where
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.rules import consumers as module
from pulsarscope.protocols.pulsar.rules.consumers import Consumer, ConsumerRule, bitmap, indexes_of


class Deaf:
    """A voice that says nothing."""

    connection, client, server = "0:1", "10.0.0.1:1", "10.0.0.2:6650"

    def __init__(self, *, lost: bool = False) -> None:
        self.lost = lost

    def reported(self, code: str) -> tuple[()]:  # noqa: ARG002 - of any
        return ()

    def report(self, code: str, where: Where, text: str, evidence: dict[str, Any]) -> None: ...

    def emit_fact(self, rule: str, key: str, where: Where, what: str, values: dict[str, Any]) -> None: ...


class Watched(ConsumerRule[Consumer]):
    """Writes down what it is asked to look at."""

    def __init__(self, *, lost: bool = False) -> None:
        super().__init__(Deaf(lost=lost), Consumer)
        self.seen: list[tuple[int, int, bool]] = []

    def review(self, consumer: Consumer, now: int, *, ending: bool) -> None:
        self.seen.append((consumer.number, now, ending))

    def emit_fact(self, command: str, packet: int, request: str | None = None, **fields: Any) -> Watched:
        row = FrameRow(None, 0, packet, 1, packet * 10, "0:1", command=command, fields=fields, request=request)
        self.frames[command](self, row)
        return self


def subscribed(rule: Watched, number: int, packet: int) -> Watched:
    return rule.emit_fact("SUBSCRIBE", packet, consumer_id=number, topic="t", subscription="s", subType="Shared", consumer_name="n")


def test_a_consumer_is_looked_at_on_pings_once_a_second_and_when_it_is_closed() -> None:
    rule = subscribed(Watched(), 1, 2).emit_fact("SUCCESS", 3, "0:2.1", request_id=1)
    ready = rule.consumers[1].ready
    assert ready is not None
    assert ready.name == "0:3.1"
    rule.emit_fact("PING", 4).emit_fact("PONG", 5).emit_fact("CLOSE_CONSUMER", 6, consumer_id=1).emit_fact("PING", 7)
    assert rule.seen == [(1, 40, False), (1, 60, True)]


def test_the_end_of_the_connection_ends_its_consumers() -> None:
    rule = subscribed(subscribed(Watched(), 1, 2), 2, 3)
    rule.end(ConnectionRow(end=99), Where(None, 0, 3, 1, 30, "0:1"))
    assert rule.seen == [(1, 99, True), (2, 99, True)]


def test_a_refused_consumer_is_forgotten() -> None:
    rule = subscribed(Watched(), 1, 2).emit_fact("ERROR", 3, "0:2.1", request_id=1)
    assert rule.consumers == {}


def test_a_new_consumer_of_the_same_number_ends_the_one_before() -> None:
    assert subscribed(subscribed(Watched(), 1, 2), 1, 5).seen == [(1, 50, True)]


def test_there_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONSUMERS_MAX", 2)
    rule = Watched()
    for number in range(5):
        subscribed(rule, number, number + 1)
    assert list(rule.consumers) == [3, 4]
    assert [number for number, _, _ in rule.seen] == [0, 1, 2]


def test_a_verdict_is_qualified_when_bytes_are_missing() -> None:
    assert Watched().qualified("It waits") == "It waits."
    assert Watched(lost=True).qualified("It waits").startswith("It waits; the capture lacks bytes")


@pytest.mark.parametrize(
    ("words", "indexes"),
    [([0], []), ([0b1001], [0, 3]), ([0, 1], [64]), ([-(1 << 63)], [63]), ([-1], list(range(10)))],
)
def test_bits_of_an_ack_set(words: list[int], indexes: list[int]) -> None:
    assert indexes_of(bitmap(words), 10) == indexes
