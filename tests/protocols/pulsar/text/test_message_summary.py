from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.model.records import MessageRow
from pulsarscope.protocols.pulsar.text.message_summary import message_summary


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"direction": "produce", "producer_id": 3}, "producer 3  no id"),
        ({"direction": "deliver"}, "consumer ?  id ?"),
        ({"topic": "persistent://public/default/orders", "ledger": 5, "entry": 1, "batch_index": 2}, "orders  5:1:2"),
        ({"topic": "t", "ordering_key": b"k", "payload_size": 1_000}, "t  id ?  ordering key k  1,000 B"),
        ({"topic": "t", "ordering_key": b"\xff"}, "t  id ?  ordering key 0xff"),
        ({"topic": "t", "properties": {"a": "1"}, "chunks": 2, "compression": "NONE"}, "t  id ?  2 chunks  {a=1}"),
        ({"topic": "t", "encrypted": True, "status": "ok"}, "t  id ?  decrypted"),
        ({"topic": "t", "encrypted": True, "status": "undecodable"}, "t  id ?  encrypted"),
        ({"topic": "t", "encrypted": True, "status": "encrypted"}, "t  id ?"),
    ],
)
def test_a_message_is_told_by_its_topic_its_id_and_what_sets_it_apart(values: dict[str, Any], words: str) -> None:
    assert message_summary(MessageRow(**values)) == words
