"""Messages without a batch, of SENDs that wait for their receipts and of deliveries: compiled and Python reader agree."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

import pytest

from pulsarscope.engine.options import Options
from pulsarscope.engine.parallel import run as run_files
from pulsarscope.model.limits import READ_BLOCK_BYTES, ROWS_MAX
from pulsarscope.model.row_lists import EntryMessages
from pulsarscope.protocols.pulsar.session import sends
from tests.scenarios.both_readers import BothReaders, dissectors_of, reader, rows_of
from tests.scenarios.capture_mutations import corpus_options
from tests.scenarios.capturefile import pcap, write_pcap
from tests.scenarios.command_line import run
from tests.scenarios.commands import close_producer, copied, created, message, producer, receipt, send, send_error
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import SECOND, Conversation
from tests.scenarios.frames import Single, batch, compress

MESSAGES = 4
"""The options of `BothReaders` with which messages are opened in columns."""

PROPERTIES = [{"key": "a", "value": "1"}, {"key": "b", "value": "é\x1b"}]

ODD: dict[str, dict[str, Any]] = {
    "a key": {"partition_key": "k"},
    "an empty key": {"partition_key": ""},
    "a key of bytes": {"partition_key": "AAE=", "partition_key_b64_encoded": True},
    "a key that is not of bytes": {"partition_key": "k", "partition_key_b64_encoded": False},
    "an ordering key": {"ordering_key": b"o"},
    "no value": {"null_value": True},
    "a value": {"null_value": False},
    "no key": {"null_partition_key": True},
    "a time": {"event_time": 1_700_000_000_123},
    "the time 0": {"event_time": 0},
    "a time of years to come": {"event_time": 1 << 62, "publish_time": (1 << 63) // 1_000_000},
    "properties": {"properties": PROPERTIES},
    "a property twice": {"properties": [*PROPERTIES, {"key": "a", "value": "2"}]},
    "very many properties": {"properties": [{"key": str(number), "value": ""} for number in range(40)]},
    "a secret": {"properties": [{"key": "password", "value": "x"}]},
    "a trace": {"properties": [{"key": "traceparent", "value": "00-" + "a" * 32 + "-" + "b" * 16 + "-01"}]},
    "long metadata": {"properties": [{"key": "a", "value": "x" * 5_000}]},
    "a schema": {"schema_version": b"\0\0\0\1"},
    "keys of encryption": {"encryption_keys": [{"key": "k", "value": b"x"}]},
    "chunks": {"uuid": "u", "num_chunks_from_msg": 2, "total_chunk_msg_size": 20, "chunk_id": 0},
    "a marker": {"marker_type": 10},
    "a transaction": {"txnid_least_bits": 1, "txnid_most_bits": 2},
    "a delay": {"deliver_at_time": 1_700_000_000_000},
    "a name of another cluster": {"replicated_from": "west"},
    "another cluster to go to": {"replicate_to": ["east"]},
    "a last sequence id": {"highest_sequence_id": 9},
    "a size": {"uncompressed_size": 7},
    "no compression": {"compression": "NONE"},
    "a codec that does not fit": {"compression": "LZ4", "uncompressed_size": 7},
    "another codec": {"compression": "ZSTD", "uncompressed_size": 7},
    "another producer": {"producer_name": "other"},
    "a batch of one": {"num_messages_in_batch": 1},
    "a batch that is none": {"num_messages_in_batch": 3},
}
"""Metadata of a message among plain ones."""


@pytest.fixture(autouse=True)
def installed() -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")


def begun(conversation: Conversation) -> Conversation:
    """Fill a block: the protocol is known only after it, and frames are then read in columns."""
    return conversation.client(send(1, 1 << 20, b"x" * READ_BLOCK_BYTES), mss=60_000).server(receipt(1, 1 << 20))


def talk() -> Conversation:
    return begun(subscribed(connected().client(producer(1, "p")).server(created("p"))))


def exchanged(conversation: Conversation, frames: dict[int, bytes], count: int = 6) -> Conversation:
    """Send and deliver plain messages, with these exceptions; `frames` are by their positions among the first sent ones."""
    sent = [frames.get(number, send(1, number, b"x" * number)) for number in range(count)]
    conversation.client(*sent).server(*(receipt(1, number, entry=number) for number in range(count)))
    return conversation.server(*(message(1, number, b"x" * number) for number in range(count)))


def check(conversation: Conversation, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Require equal rows, and equal lines."""
    BothReaders(folder, corpus_options()).check(pcap(conversation.packets), other=MESSAGES)
    path, lines = write_pcap(folder / "m.pcap", conversation.packets), []
    for choice in ("off", "require"):
        with reader(choice):
            run(monkeypatch, "messages", "-f", "ndjson", str(path), "-o", str(folder / choice))
        lines.append((folder / choice).read_bytes())
    assert lines[0] == lines[1]
    assert lines[0].count(b"\n") > 3


@pytest.mark.parametrize("case", ODD)
def test_a_message_with_more_than_usual_reads_as_by_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    metadata = ODD[case]
    conversation = exchanged(talk(), {2: send(1, 2, b"payload", metadata)})
    conversation.server(message(1, 7, b"payload", metadata), message(1, 8), message(1, 9, b"", metadata))
    check(conversation, tmp_path, monkeypatch)


SENT: dict[str, Callable[[], Conversation]] = {
    "a wrong checksum": lambda: exchanged(talk(), {2: send(1, 2, b"x", checksum=7), 4: send(1, 4, b"x", checksum=False)}),
    "a batch": lambda: exchanged(talk(), {2: batched(2), 3: batched(3, "LZ4")}),
    "a batch that is not delivered": lambda: talk().client(send(1, 0), batched(1), send(1, 2)).server(receipt(1, 0), receipt(1, 1)),
    "a replicator": lambda: exchanged(talk(), {2: copied(9, 2)}),
    "a receipt that is missing": lambda: talk().client(*sent(5)).server(receipt(1, 0), receipt(1, 1), receipt(1, 3), receipt(1, 4)),
    "a receipt of nothing": lambda: talk().client(*sent(3)).server(receipt(1, 9), receipt(1, 0), receipt(1, 1)),
    "a receipt before its SEND": lambda: talk().server(receipt(1, 0)).client(*sent(4)).server(receipt(1, 1), receipt(1, 2)),
    "an error": lambda: talk().client(*sent(4)).server(receipt(1, 0), send_error("MetadataError", "no", 1, 1), receipt(1, 2)),
    "an error before earlier receipts": lambda: (
        talk().client(*sent(6)).server(receipt(1, 0), send_error("NotAllowedError", "closed", 1, 4), *(receipt(1, n) for n in (1, 2, 3, 5)))
    ),
    "an error of the latest before receipts": lambda: (
        talk().client(*sent(4), batched(4)).server(send_error("NotAllowedError", "closed", 1, 4), *(receipt(1, n) for n in range(4)))
    ),
    "a producer that is closed": lambda: talk().client(*sent(4)).server(receipt(1, 0)).client(close_producer(1, 5)).close(),
    "no answer": lambda: talk().client(*sent(4)),
    "two producers": lambda: (
        talk().client(producer(2, "q", 7)).server(created("q", 7)).client(*sent(3), *sent(3, 2)).server(receipt(2, 0), receipt(1, 0))
    ),
    "a producer without a name": lambda: (
        begun(subscribed(connected())).client(*sent(4)).server(*(receipt(1, number) for number in range(4)))
    ),
    "partitions": lambda: talk().client(*sent(4)).server(*(receipt(1, number, partition=number % 2) for number in range(4))),
    "no message id": lambda: talk().client(*sent(4)).server(*(receipt(1, number) for number in range(3))).server(message(1, 4)),
    "deliveries again": lambda: talk().server(*(message(1, number, redelivery_count=number // 2) for number in range(6))),
    "deliveries in part": lambda: talk().server(*(message(1, number, ack_set=[number]) for number in range(6))),
    "what brokers add": lambda: talk().server(
        *(message(1, number, broker_entry={"broker_timestamp": 1_700_000_000_000, "index": number}) for number in range(4)),
        message(1, 5),
        message(1, 6, broker_entry={"index": 1 << 63}),
    ),
    "a consumer that is not known": lambda: talk().server(message(1, 0), message(9, 1), message(1, 2), message(9, 3), message(1, 4)),
    "midnight": lambda: (
        talk().wait(86_400 * SECOND).server(message(1, 0), message(1, 1)).wait(86_400 * SECOND).server(message(1, 2), message(1, 3))
    ),
    "deliveries between receipts": lambda: (
        talk().client(*sent(3)).server(receipt(1, 0), message(1, 0), receipt(1, 1), message(1, 1), message(1, 2), receipt(1, 2))
    ),
}
"""Exceptions among plain messages."""


def sent(count: int, number: int = 1) -> list[bytes]:
    return [send(number, sequence) for sequence in range(count)]


def batched(sequence: int, codec: str = "NONE") -> bytes:
    data = batch([Single(b"a"), Single(b"bc", {"partition_key": "k"})])
    metadata = {"num_messages_in_batch": 2, "compression": codec, "uncompressed_size": len(data)}
    return send(1, sequence, compress(codec, data), metadata)


@pytest.mark.parametrize("case", SENT)
def test_what_stands_between_plain_messages_reads_as_by_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    check(exchanged(SENT[case](), {}), tmp_path, monkeypatch)


def test_messages_that_are_cut_read_as_by_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = exchanged(talk(), {}).client(send(1, 6, b"x" * 900)[:-400])
    check(conversation, tmp_path, monkeypatch)


@pytest.mark.parametrize("most", [1, 3, 5])
def test_of_too_many_that_wait_the_oldest_are_given_without_an_id(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(sends, "PENDING_MESSAGES_MAX", most)
    conversation = exchanged(talk(), {3: batched(3), 4: send(1, 4, b"x", ODD["a schema"])}, 9)
    check(conversation, tmp_path, monkeypatch)
    monkeypatch.setattr(sends, "PENDING_MESSAGES_MAX", 1 << 20)
    monkeypatch.setattr(sends, "PENDING_MESSAGES_MAX_BYTES", 256 * most + 100)
    check(conversation, tmp_path, monkeypatch)


@pytest.mark.parametrize("seed", range(8))
def test_any_order_of_messages_and_receipts_reads_as_by_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    random = Random(seed)  # noqa: S311 - repeatable
    conversation = subscribed(talk().client(producer(2, "q", 7)).server(created("q", 7)), 2)
    waiting: dict[int, list[int]] = {1: [], 2: []}
    odd = [{}, {}, {}, *ODD.values()]
    for number in range(120):
        side = random.choice((1, 2))
        kind = random.random()
        if kind < 0.4:
            metadata = random.choice(odd) if random.random() < 0.3 else {}
            conversation.client(*(send(side, number, b"x", metadata) for _ in range(1)))
            waiting[side].append(number)
        elif kind < 0.7 and waiting[side]:
            count = random.randint(1, len(waiting[side]))
            conversation.server(*(receipt(side, waiting[side].pop(0), entry=number) for _ in range(count)))
        else:
            conversation.server(*(message(side, number, b"y", random.choice(odd)) for _ in range(random.randint(1, 3))))
    check(conversation, tmp_path, monkeypatch)


@pytest.mark.slow
def test_refused_sends_among_very_many_that_wait_take_no_longer_than_by_the_reference(tmp_path: Path) -> None:
    """The compiled reader gives the waiting SENDs to Python for a refused one; it would take long to do so for each."""
    conversation = talk().client(*(send(1, number) for number in range(8_000)))
    for number in range(8_000, 9_000, 2):
        conversation.client(send(1, number), send(1, number + 1)).server(send_error("NotAllowedError", "closed", 1, number))
    path = str(write_pcap(tmp_path / "m.pcap", conversation.packets))
    taken = []
    for choice in ("off", "require"):
        options = Options(frozenset({"exchange"}), columns=True, dissectors=dissectors_of(choice))
        with reader(choice):
            begun = process_time()
            rows = [row for part in run_files([path], options, 1) for row in rows_of(part.rows)]
            taken.append(process_time() - begun)
        assert sum(row.status == "error" for row in rows) == 500
    assert taken[1] < 2 * taken[0]


def test_messages_one_behind_the_other_stay_together(tmp_path: Path) -> None:
    conversation = exchanged(talk(), {}, 40)
    path = write_pcap(tmp_path / "m.pcap", conversation.packets)
    options = Options(frozenset({"message"}), rows_max=ROWS_MAX, together=True, dissectors=dissectors_of("require"))
    with reader("require"):
        rows = [row for part in run_files([str(path)], options, 1) for row in part.rows]
    assert [(type(row), row.count, row.is_run) for row in rows] == [(EntryMessages, 41, True), (EntryMessages, 40, True)]
    singles = [single for row in rows for single in row.rows()]
    assert [(row.direction, row.sequence_id, row.entry) for row in singles] == [
        ("produce", 1 << 20, 0),
        *(("produce", number, number) for number in range(40)),
        *(("deliver", number, number) for number in range(40)),
    ]
