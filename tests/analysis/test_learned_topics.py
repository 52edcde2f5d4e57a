"""Names of topics that are unknown on connections from before the capture."""

from __future__ import annotations

from pulsarscope.analysis.learned_topics import LearnedTopics
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.topics import stood_in
from tests.scenarios import rows

STAND_IN, NAME = "topic of ledger 7", "persistent://public/default/t"


def delivered(topic: str | None, ledger: int = 7) -> FrameRow:
    return rows.frame(command="MESSAGE", topic=topic, fields={"message_id": {"ledgerId": ledger, "entryId": 0}})


def topics_of(*given: FrameRow, learned: LearnedTopics | None = None) -> list[str | None]:
    return [row.topic for row in (learned or LearnedTopics(stood_in)).named(given)]


def test_what_stands_for_a_topic_becomes_its_name_once_a_connection_names_it() -> None:
    send = rows.frame(command="SEND", topic=STAND_IN)
    assert topics_of(send, delivered(STAND_IN), delivered(NAME), send, delivered(STAND_IN)) == [STAND_IN, STAND_IN, NAME, NAME, NAME]
    assert send.topic == STAND_IN


def test_other_ledgers_and_topics_stay() -> None:
    other = rows.frame(command="SEND", topic="topic of ledger 8")
    assert topics_of(delivered(NAME), other, delivered(None), delivered("b", 9)) == [NAME, "topic of ledger 8", None, "b"]


def test_a_ledger_of_two_clusters_names_neither() -> None:
    learned = LearnedTopics(stood_in)
    assert topics_of(delivered(NAME), delivered("other"), delivered(STAND_IN), learned=learned)[-1] == STAND_IN
    assert topics_of(delivered(NAME), delivered(STAND_IN), learned=learned)[-1] == STAND_IN
    assert learned.name_of(STAND_IN) == STAND_IN
