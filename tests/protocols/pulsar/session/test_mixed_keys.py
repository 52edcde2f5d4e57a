"""Batches with messages of several keys in Key_Shared subscriptions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from pulsarscope.model.limits import NAME_MAX_CHARACTERS
from pulsarscope.protocols.pulsar.session import mixed_keys
from tests.scenarios import Conversation, Single, batch
from tests.scenarios.both_readers import reader
from tests.scenarios.commands import close_consumer, flow, message
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND, START_NS
from tests.scenarios.evaluation import Diagnosis, diagnose
from tests.scenarios.frames import partial_frame

KEYS = ("a", "b", "c")
PUBLISHED_MS = START_NS // 1_000_000 + 500
"""Publish time of a batch: its consumer has subscribed before."""


def inside(keys: Iterable[str | None]) -> bytes:
    """The payload of a batch with a message for each key."""
    return batch([Single(b"x" * 20, {} if key is None else {"partition_key": key}) for key in keys])


def entry(number: int, keys: Iterable[str | None] = KEYS, consumer: int = 1, *, payload: bytes | None = None, **metadata: Any) -> bytes:
    """A batch that is delivered."""
    keys = [*keys]
    head = {"num_messages_in_batch": len(keys), "producer_name": "p", "sequence_id": number * len(keys), "publish_time": PUBLISHED_MS}
    head |= {"partition_key": keys[0]} if keys and keys[0] else {}
    return message(consumer, number, payload or inside(keys), {**head, **metadata})


def consuming(kind: str = "Key_Shared", *, number: int = 1, host: int = 1, **meta: Any) -> Conversation:
    fields: dict[str, Any] = {"keySharedMeta": {"keySharedMode": "AUTO_SPLIT", **meta}} if kind == "Key_Shared" else {}
    return subscribed(connected(40000 + host), number, kind, **fields).client(flow(1000, number)).wait(SECOND)


def found(folder: Path, talk: Conversation) -> Diagnosis:
    """The findings with one reader, which the other one gives, too."""
    results = []
    for choice in ("off", "auto"):
        with reader(choice):
            results.append(diagnose(folder, talk))
    assert [*map(repr, results[0].findings)] == [*map(repr, results[1].findings)]
    return results[0]


@pytest.mark.parametrize("places", [(0, 2, 4, 6), (3, 7, 8, 10, 20), (1, 5, 9, 13, 14, 15)])
@pytest.mark.parametrize("keys", [("a", "b"), ("a", "a", "b", "a"), ("k1", None, "k2"), tuple(f"k{number}" for number in range(40))])
def test_a_batch_of_several_keys_in_a_shared_subscription_is_named_once(tmp_path: Path, places: tuple[int, ...], keys: Any) -> None:
    diagnosis = found(tmp_path, consuming().server(*[entry(place, keys) for place in places]).close())
    row, evidence = diagnosis.only("batch-mixes-keys")
    assert (row.severity, evidence["message_id"]) == ("warning", [7, places[0]])
    assert (evidence["messages"], evidence["keys"]) == (len(keys), len({*keys} - {None}))
    assert evidence["producer_name"] in (row.text or "")
    assert evidence["subscription"] == "s"


def test_a_compressed_one_too(tmp_path: Path) -> None:
    payload = inside(KEYS)
    packed: dict[str, Any] = {"compression": "ZSTD", "uncompressed_size": len(payload)}
    entries = [entry(place, payload=zstandard.compress(payload), **packed) for place in (0, 2, 4, 6)]
    assert found(tmp_path, consuming().server(*entries).close()).of("batch-mixes-keys")


def test_ordering_keys_come_first(tmp_path: Path) -> None:
    payload = batch([Single(b"x", {"partition_key": key, "ordering_key": b"o"}) for key in KEYS])
    entries = [entry(place, payload=payload) for place in (0, 2, 4, 6)]
    assert not found(tmp_path, consuming().server(*entries).close()).of("batch-mixes-keys")


@pytest.mark.parametrize("producers", [2, 3, 7])
def test_producers_may_take_turns(tmp_path: Path, producers: int) -> None:
    keys = tuple(f"k{number}" for number in range(10))
    entries = [
        entry(place, keys, producer_name=f"p{place % producers}", sequence_id=place // producers * len(keys))
        for place in range(90)
        if place % 5 < 3
    ]
    assert found(tmp_path, consuming().server(*entries).close()).only("batch-mixes-keys")


@pytest.mark.parametrize("producers", [2, 3, 7])
def test_a_consumer_that_gets_those_of_all_producers_keeps_their_order(tmp_path: Path, producers: int) -> None:
    """A marker is behind every third entry."""
    numbers = [(place, place + place // 3) for place in range(60)]
    entries = [entry(at, producer_name=f"p{place % producers}", sequence_id=place // producers * 3) for place, at in numbers]
    assert not found(tmp_path, consuming().server(*entries).close()).of("batch-mixes-keys")


@pytest.mark.parametrize(
    "keys", [("a", "a", "a"), (None, None, None), ("a",), ("a", None)], ids=["key-based", "without keys", "one message", "one key"]
)
def test_other_batches_are_as_they_should_be(tmp_path: Path, keys: tuple[str | None, ...]) -> None:
    talk = consuming().server(*[entry(place, keys) for place in (0, 2, 4, 6, 8)]).close()
    assert not found(tmp_path, talk).of("batch-mixes-keys")


@pytest.mark.parametrize(
    ("kind", "meta"), [("Shared", {}), ("Failover", {}), ("Exclusive", {}), ("Key_Shared", {"allowOutOfOrderDelivery": True})]
)
def test_nor_is_an_order_of_keys_promised_elsewhere(tmp_path: Path, kind: str, meta: dict[str, Any]) -> None:
    talk = consuming(kind, **meta).server(*[entry(place) for place in (0, 2, 4, 6, 8)]).close()
    assert not found(tmp_path, talk).of("batch-mixes-keys")


@pytest.mark.parametrize("places", [range(12), (0, 1, 2, 5, 6, 7, 8), (0, 1, 5, 6, 3, 4, 7, 8)], ids=["all", "one hole", "again"])
def test_a_consumer_that_gets_all_entries_keeps_their_order(tmp_path: Path, places: Iterable[int]) -> None:
    talk = consuming().server(*[entry(place) for place in places]).close()
    assert not found(tmp_path, talk).of("batch-mixes-keys")


@pytest.mark.parametrize("every", [1, 2])
def test_ends_of_transactions_are_entries_between(tmp_path: Path, every: int) -> None:
    """Messages of aborted ones have sequence ids, but are never delivered."""
    parts: list[dict[str, Any]] = [
        {"txnid_most_bits": 0, "txnid_least_bits": place} if place // 2 % every == 0 else {} for place in range(0, 20, 2)
    ]
    entries = [entry(place, **part) for place, part in zip(range(0, 20, 2), parts, strict=True)]
    assert not found(tmp_path, consuming().server(*entries).close()).of("batch-mixes-keys")


@pytest.mark.parametrize("others", [1, 3])
def test_so_are_markers_without_messages(tmp_path: Path, others: int) -> None:
    """Snapshots of a replicated subscription: the sequence ids of its producer have no holes."""
    entries = [entry(number * (1 + others), sequence_id=number * len(KEYS)) for number in range(10)]
    assert not found(tmp_path, consuming().server(*entries).close()).of("batch-mixes-keys")


def test_so_are_single_messages_for_a_later_time(tmp_path: Path) -> None:
    entries = [entry(place, sequence_id=place // 2 * (len(KEYS) + 1)) for place in range(0, 20, 2)]
    later = [message(1, place, b"x", {"producer_name": "p", "deliver_at_time": PUBLISHED_MS}) for place in range(1, 20, 2)]
    assert not found(tmp_path, consuming().server(*entries, *later).close()).of("batch-mixes-keys")


def test_an_earlier_consumer_may_have_acknowledged_what_was_published_before(tmp_path: Path) -> None:
    before = [entry(place, publish_time=PUBLISHED_MS - 60_000) for place in range(0, 20, 2)]
    after = [entry(place) for place in range(19, 30)]
    assert not found(tmp_path, consuming().server(*before, *after).close()).of("batch-mixes-keys")


def test_encrypted_batches_cannot_be_judged(tmp_path: Path) -> None:
    keys = [{"key": "k", "value": b"v" * 256}]
    entries = [entry(place, payload=b"secret" * 20, encryption_keys=keys) for place in (0, 2, 4, 6)]
    assert not found(tmp_path, consuming().server(*entries).close()).of("batch-mixes-keys")


def test_the_names_and_acks_of_other_consumers_are_not_affected(tmp_path: Path) -> None:
    talk = subscribed(consuming(), 2, "Shared").client(flow(10, 2))
    for place in (0, 2, 4, 6, 8):
        talk.server(entry(place), entry(place + 1, consumer=2))
    diagnosis = found(tmp_path, talk.close())
    assert diagnosis.only("batch-mixes-keys")[1]["consumer_id"] == 1
    assert {frame.subscription for frame in diagnosis.frames.values() if frame.command == "MESSAGE"} == {"s"}


def test_a_new_consumer_under_the_id_begins_anew(tmp_path: Path) -> None:
    talk = consuming().server(entry(0), entry(2), entry(4)).client(close_consumer(1))
    talk = subscribed(talk, 1, "Key_Shared").client(flow(10)).server(entry(6), entry(8), entry(10))
    assert not found(tmp_path, talk.close()).of("batch-mixes-keys")


def test_only_the_first_entries_are_examined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_keys, "ENTRIES_MAX", 10)
    first = [entry(place, ("a", "a")) for place in range(0, 20, 2)]
    talk = consuming().server(*first, *[entry(place) for place in range(20, 40, 2)]).close()
    assert not found(tmp_path, talk).of("batch-mixes-keys")


def test_and_those_of_so_many_consumers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_keys, "EXAMINED_MAX", 1)
    talk = subscribed(consuming(), 2, "Key_Shared").client(flow(100, 2))
    talk.server(*[entry(place, consumer=consumer) for place in range(0, 20, 2) for consumer in (1, 2)])
    assert [row.evidence["consumer_id"] for row in found(tmp_path, talk.close()).of("batch-mixes-keys") if row.evidence] == [1]


def test_a_consumer_without_a_topic_is_not_examined_and_named_after_its_ledger(tmp_path: Path) -> None:
    fields = {"consumer_id": 1, "request_id": 1, "subscription": "s", "subType": "Key_Shared"}
    talk = connected().client(partial_frame("SUBSCRIBE", **fields)).client(flow(1000)).wait(SECOND)
    diagnosis = found(tmp_path, talk.server(*[entry(place) for place in (0, 2, 4, 6, 8)]).close())
    assert not diagnosis.of("batch-mixes-keys")
    assert len({frame.topic for frame in diagnosis.frames.values() if frame.command == "MESSAGE"} - {None}) == 1


def test_a_long_name_of_a_producer_is_cut(tmp_path: Path) -> None:
    talk = consuming().server(*[entry(place, producer_name="p" * 10_000) for place in (0, 2, 4, 6)])
    _, evidence = found(tmp_path, talk.close()).only("batch-mixes-keys")
    assert len(evidence["producer_name"]) == NAME_MAX_CHARACTERS
