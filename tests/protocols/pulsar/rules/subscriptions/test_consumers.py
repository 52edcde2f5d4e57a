"""State of consumers, and the times at which rules review it."""

from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.dissect.contract.rules import Where
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.rules.subscriptions import consumers as module
from pulsarscope.protocols.pulsar.rules.subscriptions.consumers import ConsumerRule, ConsumerState
from tests.scenarios.silent_context import SilentContext


class RecordingRule(ConsumerRule[ConsumerState]):
    """A rule that records its reviews: consumer id, time, and whether it is the last."""

    def __init__(self, *, lost: bool = False) -> None:
        super().__init__(SilentContext(lost=lost), ConsumerState)
        self.reviews: list[tuple[int, int, bool]] = []

    def review(self, consumer: ConsumerState, now: int, *, ending: bool) -> None:
        self.reviews.append((consumer.number, now, ending))

    def feed(self, command: str, packet: int, request: str | None = None, time: int | None = None, **fields: Any) -> RecordingRule:
        time = packet * 10 if time is None else time
        row = FrameRow(None, 0, packet, 1, time, "0:1", command=command, fields=fields, request=request)
        self.frames[command](self, row)
        return self


def subscribed(rule: RecordingRule, number: int, packet: int) -> RecordingRule:
    return rule.feed("SUBSCRIBE", packet, consumer_id=number, topic="t", subscription="s", subType="Shared", consumer_name="n")


def test_a_consumer_is_reviewed_on_pings_once_a_second_and_when_it_is_closed() -> None:
    rule = subscribed(RecordingRule(), 1, 2).feed("SUCCESS", 3, "0:2.1", request_id=1)
    ready = rule.consumers[1].ready
    assert ready is not None
    assert ready.name == "0:3.1"
    rule.feed("PING", 4).feed("PONG", 5).feed("CLOSE_CONSUMER", 6, consumer_id=1).feed("PING", 7)
    assert rule.reviews == [(1, 40, False), (1, 60, True)]


def test_the_end_of_the_connection_ends_its_consumers() -> None:
    rule = subscribed(subscribed(RecordingRule(), 1, 2), 2, 3)
    rule.end(ConnectionRow(end=99), Where(None, 0, 3, 1, 30, "0:1"))
    assert rule.reviews == [(1, 99, True), (2, 99, True)]


def test_a_refused_consumer_is_forgotten() -> None:
    rule = subscribed(RecordingRule(), 1, 2).feed("ERROR", 3, "0:2.1", request_id=1)
    assert rule.consumers == {}


def test_a_new_consumer_of_the_same_number_ends_the_one_before() -> None:
    assert subscribed(subscribed(RecordingRule(), 1, 2), 1, 5).reviews == [(1, 50, True)]


@pytest.mark.parametrize(("closed", "open_"), [(3, True), (5, False), (7, False)])
def test_a_close_read_late_is_one_of_the_consumer_before(closed: int, open_: bool) -> None:
    """After a hole, the broker's frames are read after what the client sent in the meantime."""
    rule = subscribed(subscribed(RecordingRule(), 1, 2), 1, 5).feed("CLOSE_CONSUMER", closed, consumer_id=1)
    assert (1 in rule.consumers) == open_


def test_consumers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONSUMERS_MAX", 2)
    rule = RecordingRule()
    for number in range(5):
        subscribed(rule, number, number + 1)
    assert list(rule.consumers) == [3, 4]
    assert [number for number, _, _ in rule.reviews] == [0, 1, 2]


def test_a_sentence_is_qualified_when_bytes_are_missing() -> None:
    assert RecordingRule().sentence("It waits") == "It waits."
    assert RecordingRule(lost=True).sentence("It waits").startswith("It waits; the capture lacks bytes")


def test_a_close_after_the_clock_was_set_back_closes() -> None:
    rule = subscribed(RecordingRule(), 1, 5).feed("CLOSE_CONSUMER", 7, time=10, consumer_id=1)
    assert rule.consumers == {}


def test_a_subscribe_after_the_clock_was_set_back_ends_a_consumer_whose_own_is_not_in_the_capture() -> None:
    rule = RecordingRule()
    rule.find_or_add(FrameRow(None, 0, 5, 1, 50, "0:1", command="FLOW", fields={"consumer_id": 1}))
    rule.feed("SUBSCRIBE", 7, time=10, consumer_id=1)
    assert rule.reviews == [(1, 10, True)]
