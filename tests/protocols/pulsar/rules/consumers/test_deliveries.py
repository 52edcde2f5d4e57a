"""Deliveries and ACKs in columns have the effect of their rows, taken one by one, with either reader."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsarscope.engine import rule_engine
from pulsarscope.engine.parallel import run
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.rules.connections import clock
from pulsarscope.protocols.pulsar.rules.consumers import acks, held, order, permits, redelivery, unacked
from pulsarscope.protocols.pulsar.rules.consumers.deliveries import PlainDeliveries, deliveries_of, is_quiet
from pulsarscope.protocols.pulsar.rules.sends import stored_twice
from pulsarscope.protocols.pulsar.rules.subscriptions import backlog, shares
from tests.scenarios.both_readers import blocks_of, dissectors_of, reader, rows_of
from tests.scenarios.capture_mutations import corpus_options
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import TOPIC, ack, close_consumer, created, flow, message, producer, receipt, redeliver, send
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.dialogue import Dialogue
from tests.scenarios.frames import command_frame

NEVER = 1 << 30
"""Number of frames that never come in columns."""

BLOCK_BYTES = 512
"""Size of a block: after the first one the protocol is known, and frames are read in columns."""

LARGE_BLOCK_BYTES = 8_192
"""Size of a block with more than 32 frames."""

KINDS = ("Exclusive", "Shared", "Failover", "Key_Shared")

METADATA: tuple[dict[str, Any], ...] = (
    {},
    {},
    {},
    {"num_messages_in_batch": 3},
    {"num_messages_in_batch": 0},
    {"partition_key": "k"},
    {"txnid_least_bits": 1, "txnid_most_bits": 2},
    {"deliver_at_time": 1_700_000_000_000},
    {"replicated_from": "west"},
    {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 20, "chunk_id": 0},
    {"compression": "LZ4", "uncompressed_size": 7},
    {"producer_name": "other", "publish_time": 5},
)

STAMP = {"broker_timestamp": 1_700_000_000_000, "index": 1}


def talk(seed: int) -> Conversation:
    """Anything that consumers of one connection may receive and send, some of it odd."""
    random = Random(seed)  # noqa: S311 - repeatable
    conversation = connected()
    known = random.randint(0, 3)
    for number in range(1, known + 1):
        subscribed(conversation, number, random.choice(KINDS), topic=random.choice((TOPIC, "persistent://public/default/other")))
        conversation.client(flow(random.choice((1, 20, 1_000)), number))
    following, latest = [random.randint(0, 5)], [0]
    stamped, usual = random.random() < 0.4, random.random() < 0.5

    def delivered() -> bytes:
        entry = following[0]
        following[0] += random.choice((1, 1, 1, 1, 2, -3)) if random.random() < 0.2 else 1
        latest[0] = max(entry, 0)
        odd = not usual and random.random() < 0.06
        fields = random.choice(({"redelivery_count": 1}, {"ack_set": [5]}, {"ledger": 8}, {"consumer_epoch": 1}, {})) if odd else {}
        metadata = random.choice(METADATA) if odd or (not usual and random.random() < 0.1) else {}
        number = random.randint(1, max(known, 1) + (random.random() < 0.05))
        metadata = {"publish_time": conversation.time_ns // MILLISECOND} | metadata
        return message(number, latest[0], b"x", metadata, STAMP if stamped else None, **fields)

    for _ in range(random.randint(3, 25)):
        number = random.randint(1, max(known, 1))
        earlier = [max(latest[0] - random.randint(0, 9), 0) for _ in range(random.randint(1, 6))]
        what = random.random()
        if what < 0.4:
            conversation.server(*(delivered() for _ in range(random.randint(1, 12))))
        elif what < 0.5:  # each message is acknowledged at once, or some together
            for _ in range(random.randint(1, 6)):
                conversation.server(delivered())
                conversation.client(ack(*{latest[0], max(latest[0] - random.choice((0, 0, 1, 4)), 0)}, number=number))
        elif what < 0.65:
            conversation.client(ack(*earlier, number=number, ack_set=[2] if random.random() < 0.1 else None))
        elif what < 0.7:
            conversation.client(ack(earlier[0], number=number, kind="Cumulative"))
        elif what < 0.75:
            conversation.client(redeliver(*(earlier if random.random() < 0.5 else ()), number=number))
            if random.random() < 0.5:  # another consumer of the subscription may get them
                others = [message(random.randint(1, max(known, 1)), entry, b"x") for entry in earlier]
                conversation.wait(random.choice((MILLISECOND, 2 * SECOND))).server(*others)
        elif what < 0.8:
            conversation.client(flow(random.choice((1, 30)), number))
        elif what < 0.84:
            conversation.client(send(1, latest[0]))
        elif what < 0.88:
            conversation.lose(random.choice(("client", "server")), 50)
        elif what < 0.9:
            conversation.client(close_consumer(number)) if random.random() < 0.5 else conversation.server(close_consumer(number))
        elif what < 0.92:
            subscribed(conversation, number, random.choice(KINDS))
        else:
            conversation.wait(random.choice((MILLISECOND, SECOND, 7 * SECOND, 90 * SECOND)))
    return random.choice((conversation.close, conversation.reset, lambda: conversation))()


@contextmanager
def soon_too_many() -> Iterator[None]:
    """Lower the limits of what rules keep, so that they are soon exceeded."""
    with (
        patch.object(unacked, "ENTRIES_MAX", 40),
        patch.object(held, "EMIT_STEP", 7),
        patch.object(unacked, "EMIT_STEP", 7),
        patch.object(shares, "CONNECTION_SPANS_MAX", 8),
        patch.object(shares, "SPANS_MAX", 6),
        patch.object(stored_twice, "ENTRIES_MAX", 24),
        patch.object(redelivery, "REPEATED_MAX", 9),
        patch.object(clock, "SAMPLES_MAX", 3),
        patch.object(permits, "EMIT_NS", 5 * MILLISECOND),
        patch.object(backlog, "EMIT_NS", 5 * MILLISECOND),
    ):
        yield


_DISSECTORS = {choice: dissectors_of(choice) for choice in ("off", *(("require",) if load_native()[0] is not None else ()))}


def brought(path: Path, choice: str, least: int, block_bytes: int = BLOCK_BYTES) -> list[str]:
    """Rows and findings of a capture, if rules get columns from `least` frames on, read in blocks of this size."""
    kinds = frozenset({"frame", "exchange", "connection", "finding"})
    options = msgspec.structs.replace(corpus_options(), records=kinds, rules=True, raw=False, columns=True, payloads=False)
    options = msgspec.structs.replace(options, dissectors=_DISSECTORS[choice])
    with reader(choice), patch.object(rule_engine, "STRETCH_MIN", least), blocks_of(block_bytes):
        return [repr(row) for batch in run([str(path)], options, 1) for row in rows_of(batch.rows)]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_deliveries_bring_about_what_their_rows_do(seed: int) -> None:
    with TemporaryDirectory() as folder, soon_too_many():
        path = write_pcap(Path(folder) / "d.pcap", talk(seed).packets)
        expected = brought(path, "off", NEVER)
        for choice in _DISSECTORS:
            for least in (1, 4):
                assert brought(path, choice, least) == expected


@contextmanager
def in_columns() -> Iterator[list[int]]:
    """Collect how many frames come in columns, each time."""
    taken: list[int] = []
    note = acks.AckRule.deliveries

    def noting(self: acks.AckRule, frames: Any, handle: Callable[[int], None]) -> bool:
        taken.append(len(frames))
        return note(self, frames, handle)

    with patch.object(acks.AckRule, "columns", {"MESSAGE": noting}):
        yield taken


def skipping(consumers: int, gaps: int) -> Conversation:
    """Connections of a producer, and of consumers with their own subscriptions, each of which misses two entries after each one."""
    publisher = connected(40001)
    publisher.client(producer(1, "p", 2)).server(created("p", 2))
    for entry in range(3 * gaps):
        publisher.client(send(1, entry)).server(receipt(1, entry, entry=entry))
    publisher.close()
    conversation = connected(40002, start=2 * SECOND)
    numbers = range(1, consumers + 1)
    for number in numbers:
        subscribed(conversation, number, "Exclusive", subscription=f"s{number}").client(flow(1_000, number))
    conversation.server(*(message(number, 3 * at, metadata={"producer_name": "p"}) for at in range(gaps) for number in numbers))
    for number in numbers:
        conversation.client(ack(*range(0, 3 * gaps, 3), number=number))
    conversation.close()
    conversation.packets[:0] = publisher.packets
    return conversation


@pytest.mark.parametrize("choice", _DISSECTORS)
def test_consumers_share_the_bound_on_what_is_passed_over(tmp_path: Path, choice: str) -> None:
    path = write_pcap(tmp_path / "d.pcap", skipping(2, order.HOLES_MAX + 30).packets)
    expected = brought(path, "off", NEVER, LARGE_BLOCK_BYTES)
    assert sum("messages-skipped" in row for row in expected) == 2
    assert brought(path, choice, 32, LARGE_BLOCK_BYTES) == expected


@pytest.mark.parametrize("choice", _DISSECTORS)
def test_a_rule_that_fails_in_columns_names_the_frame(tmp_path: Path, choice: str) -> None:
    path = write_pcap(tmp_path / "d.pcap", skipping(1, 8).packets)
    note = order.DeliveryOrder.add

    def fail(self: Any, consumer: Any, position: tuple[int, int], row: FrameRow) -> None:
        if position[1] == 12:
            raise ValueError("on purpose")
        note(self, consumer, position, row)

    with patch.object(order.DeliveryOrder, "add", fail):
        expected = brought(path, "off", NEVER)
        assert sum("rule-failed" in row for row in expected) == 1
        assert brought(path, choice, 1) == expected


def rows(*frames: bytes) -> list[FrameRow]:
    """Rows of a broker's frames to consumer 1."""
    dialogue = Dialogue()
    dialogue.server(*frames)
    return dialogue.frames


def ack_rows(*frames: bytes) -> list[FrameRow]:
    """Rows of the frames of a client with consumer 1."""
    dialogue = Dialogue()
    dialogue.client(*frames)
    return dialogue.frames


def test_columns_are_by_consumer() -> None:
    some = [message(1, 4), message(2, 9), message(1, 6, metadata={"num_messages_in_batch": 3}), message(2, 3)]
    made = PlainDeliveries(rows(*some), [0, 2, 4, 6])
    first, second = made.consumers
    assert (first.id, first.places, first.positions, first.messages, first.ascending) == (1, [0, 2], [(7, 4), (7, 6)], [1, 3], True)
    assert (second.places, second.positions, second.ascending) == ([1, 3], [(7, 9), (7, 3)], False)


def test_turns_are_deliveries_followed_by_acks() -> None:
    some = [*rows(message(1, 4), message(1, 5)), *ack_rows(ack(4), ack(5, 3)), *rows(message(1, 6)), *ack_rows(ack(1, number=2))]
    made = PlainDeliveries(some, range(len(some)))
    first, second = made.consumers
    assert (first.places, first.turns) == ([0, 1, 4], [(2, 2), (3, 2)])
    assert [(place, positions) for place, _, positions, _ in first.acks] == [(2, [(7, 4)]), (3, [(7, 5), (7, 3)])]
    assert (second.places, second.turns, [place for place, *_ in second.acks]) == ([], [(0, 1)], [5])
    assert sorted(made.commands()[0]) == ["ACK", "MESSAGE"]


ODD_ACKS = {
    "cumulative": ack(1, kind="Cumulative"),
    "in part": ack(1, ack_set=[1]),
    "with a response": ack(1, request_id=1),
    "of a transaction": ack(1, txnid_least_bits=1, txnid_most_bits=1),
    "of no ledger": command_frame("ACK", consumer_id=1, ack_type="Individual", message_id=[{"ledgerId": 0, "entryId": 0}]),
    "of one entry twice": ack(1, 1),
    "of nothing": ack(),
    "cut": ack(1)[:-1],
}


def test_acks_that_do_more_than_acknowledge_entries_stay_in_rows() -> None:
    assert is_quiet(ack_rows(ack(1, 2))[0])
    assert not any(map(is_quiet, rows(ack(1))))  # sent by the broker
    for name, frame in ODD_ACKS.items():
        assert not any(map(is_quiet, ack_rows(frame))), name


def acknowledging(take: Callable[[int], Sequence[int]], kind: str, span: int) -> Conversation:
    """A consumer that gets 200 messages, and acknowledges those that `take` names after each one; `span`: nanoseconds between two."""
    conversation = connected()
    subscribed(conversation, 1, kind).client(flow(1_000, 1))
    for entry in range(200):
        conversation.server(message(1, entry, metadata={"publish_time": conversation.time_ns // MILLISECOND})).wait(span)
        for other in take(entry):
            conversation.client(ack(other, number=1))
    return conversation.close()


TAKES: dict[str, Callable[[int], Sequence[int]]] = {
    "each at once": lambda entry: [entry],
    "two together": lambda entry: [entry - 1, entry] if entry % 2 else [],
    "all but one": lambda entry: [entry] if entry != 100 else [],
    "each twice": lambda entry: [entry, entry],
    "one ahead": lambda entry: [entry + 1],
    "every third": lambda entry: [entry // 3] if entry % 3 == 0 else [],
    "in bursts": lambda entry: range(entry - 39, entry + 1) if entry % 40 == 39 else [],
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
@pytest.mark.parametrize("span", [MILLISECOND, SECOND], ids=["fast", "slow"])
def test_acks_in_columns_bring_about_what_their_rows_do(tmp_path: Path, kind: str, take: Callable[[int], Sequence[int]], span: int) -> None:
    path = write_pcap(tmp_path / "d.pcap", acknowledging(take, kind, span).packets)
    expected = brought(path, "off", NEVER, LARGE_BLOCK_BYTES)
    for choice in _DISSECTORS:
        with in_columns() as taken:
            assert brought(path, choice, 32, LARGE_BLOCK_BYTES) == expected
        assert taken


def handed_over() -> Conversation:
    """Two consumers of a subscription: what the second one acknowledges comes to the first one, and not as a redelivery."""
    conversation = subscribed(subscribed(connected(), 1), 2).client(flow(1_000, 1), flow(1_000, 2))
    for entry in range(60):
        conversation.server(message(1 + entry % 2, entry)).client(ack(entry, number=1 + entry % 2))
    return conversation.wait(2 * SECOND).server(*(message(1, entry) for entry in range(1, 60, 2))).close()


def silent_beside(first: int, *, until: int) -> Conversation:
    """Two consumers that get 90 messages, one each 600 ms: consumer 1 acknowledges, consumer 2 only from its message `until` on."""
    conversation = subscribed(subscribed(connected(), 1), 2).client(flow(1_000, 1), flow(1_000, 2))
    for entry in range(90):
        for number in (first, 3 - first):
            conversation.server(message(number, 2 * entry + number))
            if number == 1 or entry >= until:
                conversation.client(ack(2 * entry + number, number=number))
        conversation.wait(600 * MILLISECOND)
    return conversation.close()


BESIDE_EACH_OTHER = {
    "handed over": (handed_over(), "acked-redelivered"),
    "second silent": (silent_beside(1, until=90), "consumer-not-acking"),
    "first silent": (silent_beside(2, until=90), "consumer-not-acking"),
    "second late": (silent_beside(1, until=32), None),
    "first late": (silent_beside(2, until=32), None),
}


@pytest.mark.parametrize("choice", _DISSECTORS)
@pytest.mark.parametrize(("conversation", "code"), BESIDE_EACH_OTHER.values(), ids=BESIDE_EACH_OTHER)
def test_consumers_are_compared_in_the_order_of_their_frames(
    tmp_path: Path, choice: str, conversation: Conversation, code: str | None
) -> None:
    path = write_pcap(tmp_path / "d.pcap", conversation.packets)
    expected = brought(path, "off", NEVER, LARGE_BLOCK_BYTES)
    found = [row for row in expected if "consumer-not-acking" in row or "acked-redelivered" in row]
    assert bool(found) == bool(code)
    assert all(code and code in row for row in found)
    with in_columns() as taken:
        assert brought(path, choice, 32, LARGE_BLOCK_BYTES) == expected
    assert taken


ODD = {
    "again": message(1, 1, redelivery_count=1),
    "in part": message(1, 1, ack_set=[1]),
    "a chunk": message(1, 1, metadata={"uuid": "u", "num_chunks_from_msg": 2, "chunk_id": 0}),
    "of a transaction": message(1, 1, metadata={"txnid_least_bits": 1}),
    "delayed": message(1, 1, metadata={"deliver_at_time": 1}),
    "replicated": message(1, 1, metadata={"replicated_from": "west"}),
    "of no ledger": message(1, 1, ledger=0),
    "cut": message(1, 1)[:-1],
    "of no command": b"\0\0\0\4\0\0\0\0",
}


def test_what_says_more_than_usual_stays_in_rows() -> None:
    assert is_quiet(rows(message(1, 1, metadata={"num_messages_in_batch": 3, "partition_key": "k"}))[0])
    for name, frame in ODD.items():
        assert not any(map(is_quiet, rows(frame))), name


@pytest.mark.parametrize(("least", "found"), [(1, [(0, 1), (2, 3)]), (2, [(2, 3)]), (3, [(2, 3)]), (4, [])])
def test_so_many_at_least_stand_together(least: int, found: list[tuple[int, int]]) -> None:
    some = rows(message(1, 1), message(1, 1, redelivery_count=2), *(message(1, number) for number in (2, 3, 4)))
    assert [(start, len(made)) for start, made in deliveries_of(some, range(len(some)), least)] == found


def test_a_consumer_with_two_topics_gets_rows() -> None:
    some = rows(message(1, 1), message(1, 2))
    assert [len(made) for _, made in deliveries_of(some, [0, 1], 1)] == [2]
    some[1].topic = "another"
    assert not [*deliveries_of(some, [0, 1], 1)]
