"""Messages that the compiled reader opens in columns of frames, compared with those of the Python reader."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from pulsarscope.engine import column_rows, timelines
from pulsarscope.engine.column_rows import have_many_messages
from pulsarscope.model.platform import NATIVE
from pulsarscope.protocols.pulsar.entry import reader as entry_reader
from pulsarscope.protocols.pulsar.session import sends
from pulsarscope.protocols.pulsar.session.session import PulsarSession
from tests.places import CAPTURES
from tests.scenarios.both_readers import BothReaders, blocks_of, reader
from tests.scenarios.capture_mutations import corpus_options
from tests.scenarios.capturefile import pcap
from tests.scenarios.chance import randoms
from tests.scenarios.command_line import execute_here
from tests.scenarios.commands import (
    TOPIC,
    ack,
    close_producer,
    created,
    flow,
    message,
    producer,
    receipt,
    send,
    send_error,
    subscribe,
    success,
)
from tests.scenarios.connections import connected
from tests.scenarios.conversation import Conversation
from tests.scenarios.frames import Single, batch, compress

MESSAGES, BESIDE, FRAMELESS = 4, 6, 8
"""The options of `BothReaders` with which messages alone are asked for, beside frames, and with exchanges."""

CODECS = ("NONE", "LZ4", "ZLIB", "ZSTD", "SNAPPY")

ODD_METADATA: tuple[dict[str, Any], ...] = (
    {"partition_key": "shared", "properties": [{"key": "a", "value": "b"}], "event_time": 1_700_000_000_000},
    {"deliver_at_time": 1_700_000_000_000},
    {"txnid_most_bits": 1, "txnid_least_bits": 2},
    {"schema_version": b"\0" * 8},
    {"marker_type": 20},
    {"null_value": True},
    {"encryption_keys": [{"key": "k", "value": b"v"}], "encryption_param": b"p" * 12},
    {"num_chunks_from_msg": 2, "chunk_id": 0, "uuid": "u", "total_chunk_msg_size": 9},
    {"publish_time": 1 << 62},
    {"producer_name": "another"},
    {"replicated_from": "west"},
)


@pytest.fixture(autouse=True)
def installed() -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")


def single(random: Random, *, odd: bool) -> Single:
    """One message of a batch; only the reference may be able to read an `odd` one."""
    fields: dict[str, Any] = {}
    if random.random() < 0.5:
        fields["partition_key"] = random.choice(("k", "schlüssel", ""))
    if random.random() < 0.5:
        names = random.choice((("a",), ("a", "b"), ("a", "a"), ("password",), ("traceparent",)) if odd else (("a",), ("a", "b")))
        fields["properties"] = [{"key": name, "value": random.choice(("", "v", "\x7f"))} for name in names]
    if random.random() < 0.2:
        fields |= random.choice(({"event_time": 5}, {"null_value": True}, {"partition_key_b64_encoded": True}))
    if odd and random.random() < 0.2:
        fields["compacted_out"] = True
    return Single(random.randbytes(random.randrange(70)), fields)


def entry(random: Random, odd_share: float) -> tuple[bytes, dict[str, Any]]:
    """The payload and the metadata of a batch, or of a single message."""
    codec = random.choice(CODECS)
    count = random.choice((1, 2, 30))
    metadata: dict[str, Any] = {}
    if random.random() < odd_share:
        data = random.randbytes(40)
    else:
        data = batch([single(random, odd=random.random() < odd_share / 9) for _ in range(count)])
        metadata = {"num_messages_in_batch": count}
    metadata |= {"compression": codec, "uncompressed_size": len(data)}
    if random.random() < odd_share:
        metadata |= random.choice(ODD_METADATA)
    if random.random() < odd_share:
        metadata |= random.choice(({"uncompressed_size": len(data) + 1}, {"num_messages_in_batch": count + 1}, {"uncompressed_size": 0}))
    payload = compress(codec, data)
    return (payload[:-1] if random.random() < odd_share / 2 else payload), metadata


def traffic(random: Random, port: int, count: int, odd_share: float) -> Conversation:
    """A connection that publishes and receives batches; `odd_share`: share of what is not plain."""
    talk = connected(port).client(producer(1, "p", 1), producer(2, "", 2, topic=f"{TOPIC}-2")).server(created("p", 1), created("q", 2))
    talk.client(subscribe(1, "c", 3), flow(1000)).server(success(3))
    waiting: list[tuple[int, int]] = []
    for number in range(count):
        payload, metadata = entry(random, odd_share)
        kind = random.randrange(4)
        if kind == 0:
            who = random.choice((1, 2, 7) if random.random() < odd_share else (1, 2))
            talk.client(send(who, number, payload, metadata))
            waiting.append((who, number))
        elif kind == 1 and waiting:
            who, sequence_id = waiting.pop(random.randrange(len(waiting)) if random.random() < odd_share else 0)
            refused = random.random() < odd_share / 3
            talk.server(send_error("UnknownError", "no", who, sequence_id) if refused else receipt(who, sequence_id, entry=number))
        elif kind == 2:
            broker = random.choice((None, {"broker_timestamp": 1_700_000_000_000, "index": 50}, {"index": 1}))
            fields: dict[str, Any] = {"redelivery_count": number % 2} if random.random() < 0.5 else {}
            if random.random() < odd_share:
                fields |= {"ack_set": [5]}
            talk.server(message(9 if random.random() < odd_share / 3 else 1, number, payload, metadata, broker, **fields))
        else:
            talk.client(ack(number, ack_set=[3] if random.random() < odd_share else None))
        if random.random() < odd_share / 5:
            talk.client(close_producer(1, 90), producer(1, "again", 91)).server(success(90), created("again", 91))
        if random.random() < odd_share / 5:
            talk.lose(random.choice(("client", "server")), 40)
    return talk


def check(folder: Path, *talks: Conversation, asked: tuple[int, ...] = (MESSAGES, BESIDE, FRAMELESS), block: int | None = None) -> None:
    """Require the messages of the Python reader of these connections, and the frames and all else beside them."""
    packets = sorted((packet for each in talks for packet in each.packets), key=lambda packet: packet.time_ns)
    for other in asked:
        BothReaders(folder, corpus_options()).check(pcap(packets), other=other, block=block)


@pytest.mark.parametrize("asked", [MESSAGES, BESIDE, FRAMELESS])
@pytest.mark.parametrize("connections", [1, 3])
def test_batches_are_opened_in_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connections: int, asked: int) -> None:
    opened: list[str] = []
    by_python = PulsarSession._open_send

    def open_send(self: PulsarSession, *arguments: Any) -> Any:
        opened.append(os.environ[NATIVE])
        return by_python(self, *arguments)

    monkeypatch.setattr(PulsarSession, "_open_send", open_send)
    check(tmp_path, *(traffic(Random(port), 40000 + port, 500, 0.0) for port in range(connections)), asked=(asked,), block=256)  # noqa: S311 - repeatable
    assert 2 * opened.count("require") < opened.count("off"), "those before the connection is known, and what is no batch"


@pytest.mark.parametrize("odd_share", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("number", range(4))
def test_whatever_is_not_plain_is_left_to_python(tmp_path: Path, odd_share: float, number: int) -> None:
    random = Random(f"{odd_share} {number}")  # noqa: S311 - repeatable
    check(tmp_path, *(traffic(random, 40000 + each, 150, odd_share) for each in range(1 + number)))


def lz4_delivery(random: Random) -> tuple[bytes, dict[str, Any]]:
    """Payload and metadata of a batch in LZ4 with matches of any length and distance, some of them damaged."""
    texts = (random.randbytes(1), random.randbytes(random.randrange(1, 40)), random.randbytes(200))
    singles = [Single(random.choice(texts) * random.randrange(30), {}) for _ in range(random.randrange(1, 6))]
    data = batch(singles)
    block, size = bytearray(compress("LZ4", data)), len(data)
    damage = random.randrange(20)
    if damage == 0:
        block[random.randrange(len(block))] = random.choice((random.randrange(256), 0, 0xF0, 0x1F))
    elif damage == 1:
        size += random.choice((-1, 1))
    elif damage == 2:
        del block[random.randrange(len(block)) :]
    return bytes(block), {"num_messages_in_batch": len(singles), "compression": "LZ4", "uncompressed_size": size}


@pytest.mark.parametrize("number", range(3))
def test_blocks_of_lz4_give_what_the_library_gives(tmp_path: Path, number: int) -> None:
    random = Random(number)  # noqa: S311 - repeatable
    talk = connected(40000).client(subscribe(1, "c", 3), flow(1000)).server(success(3))
    for entry_number in range(400):
        payload, metadata = lz4_delivery(random)
        talk.server(message(1, entry_number, payload, metadata))
    check(tmp_path, talk)


@pytest.mark.slow
@given(randoms)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_traffic_gives_the_messages_of_the_reference(tmp_path: Path, random: Random) -> None:
    odd_share = random.choice((0.0, 0.02, 0.1, 0.5))
    asked = random.choice((MESSAGES, BESIDE, FRAMELESS))
    talks = [traffic(random, 40000 + each, random.randrange(120), odd_share) for each in range(random.randrange(1, 4))]
    check(tmp_path, *talks, asked=(asked,))


@pytest.mark.parametrize("bound", ["messages", "bytes", "decompressed"])
def test_bounds_are_those_of_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    if bound == "messages":
        monkeypatch.setattr(sends, "PENDING_MESSAGES_MAX", 50)
    elif bound == "bytes":
        monkeypatch.setattr(sends, "PENDING_MESSAGES_MAX_BYTES", 20_000)
    else:
        monkeypatch.setattr(entry_reader, "DECOMPRESS_CONNECTION_FREE_BYTES", 1000)
        monkeypatch.setattr(entry_reader, "DECOMPRESS_RATIO_MAX", 1)
    check(tmp_path, traffic(Random(1), 40000, 300, 0.05))  # noqa: S311 - repeatable


@pytest.mark.parametrize("bound", ["MESSAGES_IN_COLUMNS_MAX", "OPENED_IN_COLUMNS_MAX_BYTES"])
def test_parts_of_very_many_messages_become_rows_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    parts: list[bool] = []

    def judged(steps: list[Any], *, payloads: bool) -> bool:
        parts.append(have_many_messages(steps, payloads=payloads))
        return parts[-1]

    monkeypatch.setattr(timelines, "have_many_messages", judged)
    monkeypatch.setattr(column_rows, bound, 600)
    monkeypatch.setattr(column_rows, "PAYLOADS_MAX_BYTES", 600)
    check(tmp_path, *(traffic(Random(port), 40000 + port, 300, 0.05) for port in range(2)), asked=(BESIDE, FRAMELESS))  # noqa: S311 - repeatable
    assert {*parts} == {False, True}


def long_waiting(random: Random, port: int, count: int, window: int) -> Conversation:
    """A connection whose receipts come `window` SENDs later, in other blocks: messages without a batch, and occasional batches.

    Some receipts are lost, some SENDs refused, and the producer's id is reused once.
    """
    talk = connected(port).client(producer(1, "p", 1), producer(2, "q", 2)).server(created("p", 1), created("q", 2))
    waiting: list[tuple[int, int]] = []
    for number in range(count):
        fields: dict[str, Any] = {"partition_key": f"k{number}"} if random.random() < 0.5 else {}
        payload = random.randbytes(random.randrange(90))
        if random.random() < 0.1:
            payload, fields = batch([Single(payload, fields)] * 3), {"num_messages_in_batch": 3}
        elif random.random() < 0.05:
            fields |= {"properties": [{"key": "long", "value": "x" * 300}]}
        talk.client(send(who := random.choice((1, 1, 2)), number, payload, {"compression": "NONE", **fields}))
        waiting.append((who, number))
        if len(waiting) > window:
            who, sequence_id = waiting.pop(0)
            chance = random.random()
            if chance < 0.02:
                talk.server(send_error("UnknownError", "no", who, sequence_id))
            elif chance < 0.98:
                talk.server(receipt(who, sequence_id, entry=number))
        if number == count // 2 and random.random() < 0.5:
            talk.client(close_producer(1, 90), producer(1, "again", 91)).server(success(90), created("again", 91))
            waiting = [(who, sequence_id) for who, sequence_id in waiting if who != 1]
    return talk


@pytest.mark.parametrize("bound", ["none", "messages", "bytes"])
@pytest.mark.parametrize("window", [3, 40, 150])
def test_messages_wait_for_the_receipts_of_later_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str, window: int) -> None:
    if bound == "messages":
        monkeypatch.setattr(sends, "PENDING_MESSAGES_MAX", 35)
    elif bound == "bytes":
        monkeypatch.setattr(sends, "PENDING_MESSAGES_MAX_BYTES", 20_000)
    check(tmp_path, *(long_waiting(Random(window + port), 40000 + port, 300, window) for port in range(2)), block=4096)  # noqa: S311 - repeatable


def test_messages_that_wait_need_no_object_of_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[str] = []
    by_python = sends.Sends.hold

    def hold(self: sends.Sends, *arguments: Any) -> None:
        held.append(os.environ[NATIVE])
        by_python(self, *arguments)

    monkeypatch.setattr(sends.Sends, "hold", hold)
    talk = connected(40000).client(producer(1, "p", 1)).server(created("p", 1))
    for number in range(400):
        talk.client(send(1, number, b"data"))
        if number >= 100:
            talk.server(receipt(1, number - 100, entry=number))
    check(tmp_path, talk, asked=(MESSAGES,), block=4096)
    assert held.count("off") == 400
    assert held.count("require") < 100, "those before the connection is known"


@pytest.mark.slow
@pytest.mark.parametrize("command", ["decode --records all -f ndjson", "diagnose -f json --fail-on never"])
@pytest.mark.parametrize("name", ["errors.pcap", "kafka07.pcap", "shared-nack-dlq.pcap", "token-auth-py.pcap"])
def test_the_compiled_reader_orders_rows_like_the_reference_in_captures_of_many_blocks(name: str, command: str) -> None:
    """Findings stand at the ends of blocks, whose sizes thus count."""
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    outputs = []
    for choice in ("off", "require"):
        with reader(choice), blocks_of(4000):
            outputs.append(execute_here(*command.split(), "-q", str(CAPTURES / name)))
    assert outputs[0].stdout == outputs[1].stdout
    assert (outputs[0].returncode, outputs[1].returncode) == (0, 0)
