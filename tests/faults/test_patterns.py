"""Subscriptions by pattern: patterns that match no topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pulsarscope.model.limits import NAME_MAX_CHARACTERS
from tests.scenarios import Conversation
from tests.scenarios.commands import PING, PONG, success
from tests.scenarios.connections import connected
from tests.scenarios.conversation import SECOND
from tests.scenarios.evaluation import diagnose
from tests.scenarios.frames import command_frame

CODE, PATTERN, NONE = "pattern-without-topics", "persistent://public/default/orders-.*", "00000000"


def asking(answers: list[dict[str, Any]], every: int, *, watch: bool = True, pattern: str | None = PATTERN) -> Conversation:
    """A client that asks for the topics that match a pattern again and again."""
    talk = connected()
    for number, answer in enumerate(answers):
        fields = {"request_id": number, "namespace": "public/default", **({} if pattern is None else {"topics_pattern": pattern})}
        if watch:
            talk.client(command_frame("WATCH_TOPIC_LIST", watcher_id=0, **fields))
            talk.server(command_frame("WATCH_TOPIC_LIST_SUCCESS", request_id=number, watcher_id=0, **answer))
        else:
            named = {"topics" if name == "topic" else name: value for name, value in answer.items()}
            talk.client(command_frame("GET_TOPICS_OF_NAMESPACE", **fields))
            talk.server(command_frame("GET_TOPICS_OF_NAMESPACE_RESPONSE", request_id=number, filtered=True, **named))
        talk.wait(every * SECOND)
    return talk.close()


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize(("answers", "every"), [(2, 30), (5, 6), (40, 1)])
def test_a_pattern_that_matches_no_topic_is_noted(tmp_path: Path, answers: int, every: int, watch: bool) -> None:
    row, evidence = diagnose(tmp_path, asking([{"topics_hash": NONE}] * answers, every, watch=watch)).only(CODE)
    assert (row.severity, evidence["pattern"], evidence["answers"]) == ("note", PATTERN, answers)
    assert PATTERN in (row.text or "")


TOPICS = {"topic": ["persistent://public/default/orders-1"], "topics_hash": "1a2b3c4d"}


@pytest.mark.parametrize("watch", [True, False])
@pytest.mark.parametrize(
    ("answers", "every"),
    [
        ([TOPICS], 30),
        ([{"topics_hash": NONE}, TOPICS], 20),
        ([TOPICS, {"topics_hash": "1a2b3c4d"}], 20),
        ([{"topics_hash": "1a2b3c4d"}] * 3, 20),
        ([{"topics_hash": NONE}] * 3, 5),
    ],
    ids=["some", "later", "unchanged", "known before", "soon over"],
)
def test_other_answers_are_not(tmp_path: Path, answers: list[dict[str, Any]], every: int, watch: bool) -> None:
    assert CODE not in diagnose(tmp_path, asking(answers, every, watch=watch)).codes


def test_a_namespace_may_be_empty_for_a_client_that_lists_all_its_topics(tmp_path: Path) -> None:
    assert CODE not in diagnose(tmp_path, asking([{"topics_hash": NONE}] * 3, 20, watch=False, pattern=None)).codes


def watching(number: int = 0) -> Conversation:
    """A client with a watcher that was told of no topic."""
    request = {"request_id": 1, "namespace": "public/default", "topics_pattern": PATTERN}
    talk = connected().client(command_frame("WATCH_TOPIC_LIST", watcher_id=number, **request))
    return talk.server(command_frame("WATCH_TOPIC_LIST_SUCCESS", request_id=1, watcher_id=number, topics_hash=NONE))


@pytest.mark.parametrize("number", [0, 7])
def test_one_answer_is_enough_for_a_watcher_while_it_is_open(tmp_path: Path, number: int) -> None:
    talk = watching(number).wait(30 * SECOND)
    assert CODE in diagnose(tmp_path, talk.close()).codes


@pytest.mark.parametrize(("number", "open_for"), [(0, 5), (7, 15)])
def test_a_watcher_that_is_closed_soon_says_nothing(tmp_path: Path, number: int, open_for: int) -> None:
    talk = watching(number).wait(open_for * SECOND).client(command_frame("WATCH_TOPIC_LIST_CLOSE", watcher_id=number, request_id=2))
    assert CODE not in diagnose(tmp_path, talk.server(success(2)).wait(60 * SECOND).close()).codes


def test_nor_does_a_list_that_is_requested_only_once(tmp_path: Path) -> None:
    """The client may ask for the next one on another connection."""
    assert CODE not in diagnose(tmp_path, asking([{"topics_hash": NONE}], 60, watch=False)).codes


@pytest.mark.parametrize("number", [0, 7])
def test_a_topic_that_appears_matches(tmp_path: Path, number: int) -> None:
    talk = watching(number).wait(30 * SECOND)
    talk.server(command_frame("WATCH_TOPIC_UPDATE", watcher_id=number, new_topics=TOPICS["topic"], topics_hash="1a2b3c4d"))
    assert CODE not in diagnose(tmp_path, talk.wait(10 * SECOND).close()).codes


def test_it_may_be_among_lost_bytes(tmp_path: Path) -> None:
    talk = watching().wait(10 * SECOND).lose("server", 90).server(PING).client(PONG)
    assert CODE not in diagnose(tmp_path, talk.wait(30 * SECOND).close()).codes


def test_a_request_without_an_answer_says_nothing(tmp_path: Path) -> None:
    talk = connected().client(command_frame("WATCH_TOPIC_LIST", request_id=1, watcher_id=0, namespace="n/s", topics_pattern=PATTERN))
    assert CODE not in diagnose(tmp_path, talk.wait(60 * SECOND).close()).codes


def in_namespaces(answers: dict[str, dict[str, Any]]) -> Conversation:
    """A client that asks for the same pattern in several namespaces."""
    talk = connected()
    for number, (namespace, answer) in enumerate(answers.items()):
        talk.client(command_frame("WATCH_TOPIC_LIST", request_id=number, watcher_id=number, namespace=namespace, topics_pattern=PATTERN))
        talk.server(command_frame("WATCH_TOPIC_LIST_SUCCESS", request_id=number, watcher_id=number, **answer))
    return talk.wait(30 * SECOND).close()


def test_a_pattern_may_match_in_one_namespace_and_not_in_another(tmp_path: Path) -> None:
    _, evidence = diagnose(tmp_path, in_namespaces({"public/some": TOPICS, "public/none": {"topics_hash": NONE}})).only(CODE)
    assert evidence["namespace"] == "public/none"


def test_a_long_namespace_is_cut(tmp_path: Path) -> None:
    _, evidence = diagnose(tmp_path, in_namespaces({"n" * 10_000: {"topics_hash": NONE}})).only(CODE)
    assert len(evidence["namespace"]) == NAME_MAX_CHARACTERS
