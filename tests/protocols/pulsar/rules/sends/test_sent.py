"""SENDs of batches and compressed ones in columns have the effect of their rows, whether or not their payloads can be opened."""

from __future__ import annotations

from collections.abc import Iterator
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
from pulsarscope.protocols.pulsar.rules.connections import clock
from pulsarscope.protocols.pulsar.rules.sends import sent, sequences
from tests.scenarios.both_readers import blocks_of, dissectors_of, reader, rows_of
from tests.scenarios.capture_mutations import corpus_options
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import close_producer, created, flow, message, producer, receipt, send
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import MILLISECOND, SECOND, Conversation
from tests.scenarios.frames import Single, batch, compress

NEVER = 1 << 30
CODECS = ("NONE", "LZ4", "LZ4", "ZLIB", "ZSTD", "SNAPPY")
ODD: tuple[dict[str, Any], ...] = (
    {"uncompressed_size": 0},
    {"uncompressed_size": 3},
    {"num_messages_in_batch": 3},
    {"num_messages_in_batch": 0},
    {"schema_version": b"\x00" * 8},
    {"deliver_at_time": 1},
    {"replicated_from": "west"},
    {"partition_key": "k", "ordering_key": b"o"},
    {"compression": "ZSTD"},
    {"producer_name": "another"},
    {"encryption_keys": [{"key": "k", "value": b"v"}]},
)
"""Metadata that cause a note, or for which rules need a row."""


class Sender:
    """Producers of batches and single messages, which a consumer on the same connection receives."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._odd_share = random.choice((0, 0.03, 0.2))
        self._numbers = dict.fromkeys(range(1, random.choice((2, 3, 6))), 0)
        self._entries = 0

    def talk(self) -> Conversation:
        """Return all their traffic."""
        random, conversation = self._random, connected(40001)
        if random.random() < 0.8:
            for number in self._numbers:
                conversation.client(producer(number, f"p{number}", 10 + number)).server(created(f"p{number}", 10 + number))
        subscribed(conversation, 9).client(flow(1_000, 9))
        for _ in range(random.randint(2, 12)):
            sends, receipts, deliveries = [], [], []
            for _ in range(random.randint(1, 12)):
                number = random.choice([*self._numbers])
                first, last, payload, metadata = self._message(number)
                announced = metadata.get("num_messages_in_batch", 1) if random.random() > self._odd_share else random.choice((1, 2, 9))
                fields: dict[str, Any] = {} if announced == 1 and random.random() < 0.7 else {"num_messages": announced}
                if last > first or random.random() < 0.1:
                    fields["highest_sequence_id"] = last
                if random.random() < self._odd_share:
                    metadata |= random.choice(ODD)
                    payload = random.choice((payload, payload[1:], b"", payload * 2))
                sends.append(send(number, first, payload, metadata, **fields))
                receipts.append(receipt(number, first, entry=self._entries, ledger=7))
                deliveries.append(message(9, self._entries, payload, metadata={"sequence_id": first, **metadata}))
                self._entries += 1
            conversation.client(*sends).wait(random.choice((MILLISECOND, SECOND))).server(*receipts)
            if random.random() < 0.7:
                conversation.server(*deliveries)
        for number in self._numbers:
            conversation.client(close_producer(number, 50 + number))
        return conversation.close()

    def _message(self, number: int) -> tuple[int, int, bytes, dict[str, Any]]:
        """First and last sequence id, payload and metadata."""
        random, first = self._random, self._numbers[number]
        if random.random() < self._odd_share:
            first = max(first - random.randint(1, 3), 0)
        codec, count = random.choice(CODECS), random.choice((0, 1, 2, 5))
        messages = [Single(random.randbytes(9), {"partition_key": "k"})] * count
        plain = batch(messages) if count else random.randbytes(random.choice((0, 1, 30)))
        metadata: dict[str, Any] = {"producer_name": f"p{number}"}
        if codec != "NONE" or random.random() < 0.1:
            metadata |= {"compression": codec, "uncompressed_size": len(plain)}
        if count:
            metadata["num_messages_in_batch"] = count
        last = first + max(count - 1, 0)
        self._numbers[number] = max(last + 1, self._numbers[number])
        return first, last, compress(codec, plain), metadata


@pytest.fixture(autouse=True, scope="module")
def soon_too_many() -> Iterator[None]:
    """Lower the limits of what rules keep, so that they are soon exceeded."""
    with (
        patch.object(sequences, "KEPT_MAX", 3),
        patch.object(sent, "PRODUCERS_MAX", 4),
        patch.object(clock, "SAMPLES_MAX", 3),
    ):
        yield


_DISSECTORS = {choice: dissectors_of(choice) for choice in ("off", *(("require",) if load_native()[0] is not None else ()))}


def brought(path: Path, choice: str, least: int, block: int, *, payloads: bool) -> list[str]:
    """Rows and findings of a capture, if rules get columns from `least` frames on."""
    kinds = frozenset({"frame", "exchange", "connection", "finding"})
    options = msgspec.structs.replace(corpus_options(), records=kinds, rules=True, raw=False, columns=True, payloads=payloads)
    limits = {"compression-useless-entries": 2, "compression-useless-percent": 80, "batching-unused-messages": 5}
    options = msgspec.structs.replace(options, dissectors=_DISSECTORS[choice], thresholds=limits, schemas=(), private_keys=())
    with reader(choice), patch.object(rule_engine, "STRETCH_MIN", least), blocks_of(block):
        return [repr(row) for batch in run([str(path)], options, 1) for row in rows_of(batch.rows)]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_sends_bring_about_what_their_rows_do(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - repeatable
    block = random.choice((256, 4096, 1 << 16))
    with TemporaryDirectory() as folder:
        path = write_pcap(Path(folder) / "s.pcap", Sender(random).talk().packets)
        for payloads in (False, True):
            expected = brought(path, "off", NEVER, block, payloads=payloads)
            for choice in _DISSECTORS:
                for least in (1, 4):
                    assert brought(path, choice, least, block, payloads=payloads) == expected
