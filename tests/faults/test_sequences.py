"""Sequence ids that go back without deduplication, and those that only seem to."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.commands import BY_BROKER, close_producer, created, producer, receipt, send, send_error, success
from tests.scenarios.connections import connected
from tests.scenarios.conversation import MILLISECOND, Conversation
from tests.scenarios.evaluation import diagnose

BACK, TWICE = "sequence-regression", "message-stored-twice"

Sent = tuple[int, bytes, dict[str, Any], dict[str, Any]]
"""Sequence id, payload, metadata, fields."""


def sending(*sent: Sent, midstream: bool = False, name: str = "p", pause: int = 10, end: str = "fin", port: int = 40000) -> Conversation:
    talk = Conversation(("10.0.0.1", port), ("10.0.0.2", 6650), acknowledge=False) if midstream else connected(port)
    if not midstream:
        talk.client(producer(name=name)).server(created(name))
    for entry, (number, payload, metadata, fields) in enumerate(sent):
        talk.wait(pause * MILLISECOND).client(send(1, number, payload, {"producer_name": name, **metadata}, **fields))
        talk.server(receipt(1, number, entry=entry))
    return talk.close() if end == "fin" else talk.reset("client") if end == "rst" else talk


def plain(*numbers: int) -> list[Sent]:
    """A different message for each id."""
    return [(number, f"message {index}".encode(), {}, {}) for index, number in enumerate(numbers)]


RUNS = ([0, 1, 2, 1, 2, 3], [*range(10), 5, 6], [*range(100), *range(30)], [100, 101, 50, 51], [9, 8, 7, 6], [*range(70), 3, 70, 71])


@pytest.mark.parametrize(("numbers", "midstream", "end"), [*product(RUNS, (False, True), ("fin", "rst", "open"))])
def test_ids_that_go_back_are_named(tmp_path: Path, numbers: list[int], midstream: bool, end: str) -> None:
    other = sending(*plain(*range(5)), name="q", port=40001)
    diagnosis = diagnose(tmp_path, sending(*plain(*numbers), midstream=midstream, end=end), other)
    row, evidence = diagnosis.only(BACK)
    assert set(diagnosis.commands(row)) == {"SEND"}
    assert evidence["count"] == sum(number <= max(numbers[:index], default=-1) for index, number in enumerate(numbers))
    assert not diagnosis.of(TWICE) or len(numbers) > 64


@pytest.mark.parametrize("batch", [2, 10])
def test_batches_whose_id_was_another_batchs_are_named(tmp_path: Path, batch: int) -> None:
    sent = [
        (number, b"%d" % index, {"num_messages_in_batch": batch}, {"num_messages": batch}) for index, number in enumerate((0, 10, 20, 10))
    ]
    row, _ = diagnose(tmp_path, sending(*sent)).only(BACK)
    assert row.severity == "warning"


@pytest.mark.parametrize("count", [2, 3, 9])
def test_an_id_of_several_messages_is_not_one_message_twice(tmp_path: Path, count: int) -> None:
    diagnosis = diagnose(tmp_path, sending(*plain(0, 1, *range(count))))
    assert (len(diagnosis.of(BACK)), diagnosis.of(TWICE)) == (1, [])


@pytest.mark.parametrize(("first", "again"), [*product((4, 10), (1, 2, 3))])
def test_the_same_bytes_again_are_stored_twice_and_go_not_back(tmp_path: Path, first: int, again: int) -> None:
    messages = plain(*range(first))
    diagnosis = diagnose(tmp_path, sending(*messages, *messages[:again]))
    assert (len(diagnosis.of(TWICE)), [*diagnosis.of(BACK)]) == (1, [])


@pytest.mark.parametrize(("keys", "batch", "flushes"), [*product((2, 3), (2, 5), (2, 4))])
def test_batches_by_key_interleave_their_ids(tmp_path: Path, keys: int, batch: int, flushes: int) -> None:
    """Each key has every n-th id of a flush."""
    sent: list[Sent] = []
    for flush, key in product(range(flushes), range(keys)):
        first = flush * keys * batch + key
        fields = {"num_messages": batch, "highest_sequence_id": first + (batch - 1) * keys}
        sent.append((first, b"%d %d" % (flush, key), {"num_messages_in_batch": batch}, fields))
    assert diagnose(tmp_path, sending(*sent)).of(BACK) == []


@pytest.mark.parametrize("chunks", [2, 5])
def test_chunks_of_two_messages_may_interleave(tmp_path: Path, chunks: int) -> None:
    sent: list[Sent] = []
    for chunk, number in product(range(chunks), (4, 5)):
        metadata = {"uuid": f"u{number}", "chunk_id": chunk, "num_chunks_from_msg": chunks, "total_chunk_msg_size": 9 * chunks}
        sent.append((number, b"%d of %d" % (chunk, number), metadata, {"is_chunk": True}))
    assert diagnose(tmp_path, sending(*sent)).of(BACK) == []


@pytest.mark.parametrize(("first", "again"), [*product((5, 80), ("reopened", "closed by the broker", "another connection", "refused"))])
def test_a_producer_that_begins_again_is_right(tmp_path: Path, first: int, again: str) -> None:
    talk = sending(*plain(*range(first)), end="open")
    if again == "another connection":
        assert diagnose(tmp_path, talk.close(), sending(*plain(*range(5)), port=40001)).of(BACK) == []
        return
    if again == "reopened":
        talk.client(close_producer(1, 8)).server(success(8))
    elif again == "closed by the broker":
        talk.server(close_producer(1, BY_BROKER))
    else:
        talk.client(send(1, first)).server(send_error("ChecksumError", "no", 1, first))
    if again != "refused":
        talk.client(producer(request=9)).server(created(request=9))
    for number in range(5):
        talk.client(send(1, number, b"another")).server(receipt(1, number, entry=first + number))
    assert diagnose(tmp_path, talk.close()).of(BACK) == []


@pytest.mark.parametrize("numbers", [[5, 3, 9, 1], [*range(80), 3, 4]])
def test_a_replicator_sends_the_ids_of_others(tmp_path: Path, numbers: list[int]) -> None:
    assert diagnose(tmp_path, sending(*plain(*numbers), name="pulsar.repl.west-->east")).of(BACK) == []


@pytest.mark.parametrize("size", [60, 300])
def test_behind_missing_bytes_it_may_have_begun_again(tmp_path: Path, size: int) -> None:
    talk = sending(*plain(*range(9)), end="open").lose("client", size).server(created(request=9))
    for number in range(3):
        talk.client(send(1, number, b"another")).server(receipt(1, number, entry=20 + number))
    assert diagnose(tmp_path, talk.close()).of(BACK) == []
