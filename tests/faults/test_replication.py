"""Replicators that wait for their receipts, or fall behind, and those that keep up."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.engine.local import run
from pulsarscope.model.records import ExchangeRow, FindingRow, FrameRow
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import close_producer, copied, copied_receipt, created, producer, receipt, send
from tests.scenarios.connections import connected
from tests.scenarios.conversation import MILLISECOND, Conversation
from tests.scenarios.evaluation import diagnose, problem_codes
from tests.scenarios.options import Options

CODE = "replication-stalled"
NAME = "pulsar.repl.west-->east"


def replicating(
    ages: list[int],
    *,
    answered: int | None = None,
    every: int = 200,
    midstream: bool = False,
    end: str = "open",
    source: str | None = "west",
) -> Conversation:
    """A replicator that sends a message of each age (ms) every `every` ms; the first `answered` are answered, all by default."""
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650)) if midstream else connected()
    if not midstream:
        talk.client(producer(name=NAME)).server(created(name=NAME))
    for number, age in enumerate(ages):
        metadata: dict[str, Any] = {"publish_time": talk.time_ns // MILLISECOND - age}
        if source is not None:
            metadata["replicated_from"] = source
        talk.client(send(1, number, b"x", metadata))
        if answered is None or number < answered:
            talk.server(receipt(1, number, entry=number))
        talk.wait(every * MILLISECOND)
    if end == "closed":
        talk.client(close_producer(1, 9))
    return talk.reset("client") if end == "rst" else talk if end == "open" else talk.close()


@pytest.mark.parametrize(
    ("count", "answered", "every", "midstream", "end"), [*product((8, 30), (0, 2), (300, 1000), (False, True), ("open", "fin", "rst"))]
)
def test_a_replicator_without_receipts_is_named(tmp_path: Path, count: int, answered: int, every: int, midstream: bool, end: str) -> None:
    diagnosis = diagnose(tmp_path, replicating([50] * count, answered=answered, every=every, midstream=midstream, end=end))
    row, evidence = diagnosis.only(CODE)
    assert diagnosis.frames[evidence["frames"][0]].fields["sequence_id"] == answered  # type: ignore[index]
    assert evidence["count"] >= count - answered - 4
    assert diagnosis.of("send-unanswered") == []
    assert row.severity == "warning"


@pytest.mark.parametrize(
    ("count", "growth", "every", "midstream", "end"),
    [*product((15, 60), (0.6, 0.95), (300, 1000), (False, True), ("open", "fin", "closed"))],
)
def test_a_replicator_that_falls_behind_is_named(tmp_path: Path, count: int, growth: float, every: int, midstream: bool, end: str) -> None:
    ages = [40 + int(number * every * growth) for number in range(count)]
    diagnosis = diagnose(tmp_path, replicating(ages, every=every, midstream=midstream, end=end))
    row, evidence = diagnosis.only(CODE)
    assert diagnosis.commands(row) == ["SEND", "SEND"]
    assert evidence["sends"] == count
    assert abs(evidence["growth_ns"] / MILLISECOND - (ages[-1] - ages[0])) < 20


KEEPS_UP = {
    "keeps up": [50] * 40,
    "is far away, by a clock that is wrong": [3_600_000] * 40,
    "works off a backlog": [60_000 - number * 900 for number in range(40)],
    "had one slow moment": [50] * 20 + [1_900] * 5 + [50] * 15,
    "has a little jitter": [50 + number % 7 * 30 for number in range(40)],
    "falls behind by less than matters": [50 + number * 40 for number in range(40)],
    "is seen for too short": [50 + number * 400 for number in range(9)],
    "has one message": [50],
}


@pytest.mark.parametrize(("ages", "midstream", "end"), [*product(KEEPS_UP.values(), (False, True), ("open", "fin"))])
def test_a_replicator_that_keeps_up_is_healthy(tmp_path: Path, ages: list[int], midstream: bool, end: str) -> None:
    assert diagnose(tmp_path, replicating(ages, every=1000, midstream=midstream, end=end)).of(CODE) == []


@pytest.mark.parametrize("ages", [[number * 900 for number in range(40)], [50] * 30])
def test_a_client_that_sends_old_messages_is_no_replicator(tmp_path: Path, ages: list[int]) -> None:
    assert diagnose(tmp_path, replicating(ages, every=1000, source=None)).of(CODE) == []


def test_a_receipt_may_be_on_its_way_at_the_end(tmp_path: Path) -> None:
    assert diagnose(tmp_path, replicating([50] * 30, answered=29, every=500)).of(CODE) == []


@pytest.mark.parametrize(("answered", "source", "end"), [*product((0, 2), (None, "west"), ("open", "fin", "rst"))])
def test_a_replicator_is_known_by_its_name_too(tmp_path: Path, answered: int, source: str | None, end: str) -> None:
    diagnosis = diagnose(tmp_path, replicating([50] * 12, answered=answered, every=500, source=source, end=end))
    assert diagnosis.only(CODE)[1]["producer_name"] == NAME
    assert diagnosis.of("send-unanswered") == []


@pytest.mark.parametrize(("pause", "count"), [*product((2, 4, 9), (12, 30))])
def test_a_replicator_whose_receipts_came_late_is_named(tmp_path: Path, pause: int, count: int) -> None:
    talk = connected().client(producer(name=NAME)).server(created(name=NAME))
    for number in range(count):
        talk.client(send(1, number)).wait(20 * MILLISECOND)
    talk.wait(pause * 1000 * MILLISECOND).server(*[receipt(1, number, entry=number) for number in range(count)])
    diagnosis = diagnose(tmp_path, talk.close())
    assert diagnosis.only(CODE)[1]["sends"] == count
    assert diagnosis.of("slow-publish") == []


def copying(places: int, *, answered: int | None = None, every: int = 50, midstream: bool = False, early: bool = False) -> Conversation:
    """A replicator of a topic with markers to which two producers publish, each with its own ids from 0 on.

    `early`: each receipt but the first is captured before its SEND.
    """
    talk = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 6650)) if midstream else connected()
    if not midstream:
        talk.client(producer(name=NAME)).server(created(name=NAME))
    for place in range(places):
        is_marker = place % 7 == 6
        sent = copied(place, 0 if is_marker else place // 2, marker=is_marker, publish_time=talk.time_ns // MILLISECOND - 20)
        answer = receipt(1, 0, entry=place) if is_marker else copied_receipt(place, place)
        is_answered = answered is None or place < answered
        if early and place and is_answered and not is_marker:
            talk.server(answer).client(sent)
        else:
            talk.client(sent)
            if is_answered:
                talk.server(answer)
        talk.wait(every * MILLISECOND)
    return talk.close() if answered is None else talk


@pytest.mark.parametrize(("places", "every", "midstream", "early"), [*product((1, 5, 30, 200), (5, 50, 400), (False, True), (False, True))])
def test_receipts_that_name_places_in_the_other_cluster_are_paired(
    tmp_path: Path, places: int, every: int, midstream: bool, early: bool
) -> None:
    capture = write_pcap(tmp_path / "conversations.pcap", copying(places, every=every, midstream=midstream, early=early).packets)
    rows = [row for batch in run([str(capture)], Options(frozenset({"frame", "exchange", "finding"}), rules=True)) for row in batch.rows]
    assert not problem_codes([row for row in rows if isinstance(row, FindingRow)])
    frames = {f"0:{row.packet}.{row.sub}": row.fields or {} for row in rows if isinstance(row, FrameRow)}
    sent = [name for name, fields in frames.items() if "message_id" not in fields and "sequence_id" in fields]
    pairs = {}
    for row in rows:
        if isinstance(row, ExchangeRow) and row.request == "SEND":
            assert row.status == "ok"
            receipt_fields = frames[f"0:{row.response_packet}.{row.response_sub}"]
            pairs[receipt_fields["message_id"]["entryId"]] = f"0:{row.packet}.{row.sub}"
    assert pairs == dict(enumerate(sent))


@pytest.mark.parametrize(("places", "answered", "every", "midstream"), [*product((40, 90), (1, 20), (100, 400), (False, True))])
def test_those_that_do_not_come_are_missed(tmp_path: Path, places: int, answered: int, every: int, midstream: bool) -> None:
    diagnosis = diagnose(tmp_path, copying(places, answered=answered, every=every, midstream=midstream))
    assert problem_codes(diagnosis.findings) == [CODE]
