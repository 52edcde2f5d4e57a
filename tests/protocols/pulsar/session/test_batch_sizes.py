"""Batches that the consumer has acknowledged in part: which messages are delivered, and which an ACK names."""

from __future__ import annotations

import json
from collections import Counter

import pytest

import pulsarscope as ps
from pulsarscope.protocols.pulsar.session.batch_sizes import BATCHES_MAX, BatchSizes
from pulsarscope.protocols.pulsar.text.summary import summary
from tests.places import CAPTURES
from tests.scenarios.rows import frame

CAPTURE = CAPTURES / "acks-batchindex.pcap"


def test_messages_acknowledged_before_their_batch_comes_again_are_marked_and_the_rest_is_what_the_client_got() -> None:
    wanted = Counter(row["sha256"] for row in json.loads(CAPTURE.with_suffix("").with_suffix(".truth.json").read_text())["consumed"])
    rows = [row for row in ps.open(str(CAPTURE)).messages() if row.direction == "deliver"]
    assert Counter(row.payload_sha256 for row in rows if not row.acknowledged) == wanted
    assert sum(bool(row.acknowledged) for row in rows) == 27
    frames = [row for row in ps.open(str(CAPTURE)).frames() if row.command == "MESSAGE"]
    assert sum(row.num_messages or 0 for row in frames) == wanted.total()


def test_an_ack_of_parts_names_them_up_to_the_end_of_the_batch() -> None:
    acks = [row for row in ps.open(str(CAPTURE)).frames() if row.command == "ACK" and row.extra]
    assert [(row.extra or {})["batch_sizes"] for row in acks] == [[8] * 27, [8] * 13]
    assert "34:0[1,4,7]" in summary(acks[1])


@pytest.mark.parametrize(
    ("ack_set", "more", "size", "text"),
    [
        ([0b0010], {}, 4, "5:12[0,2,3]"),
        ([0b0010], {"batch_size": 5}, None, "5:12[0,2,3,4]"),
        ([0b1101], {}, None, "5:12[1,…]"),
        ([-1, 0b1], {}, 66, "5:12[65]"),
        ([-1] * 15, {"batch_size": 1 << 30}, None, ",998,999,…]"),
        ([0], {}, 3, "5:12[0,1,2]"),
    ],
)
def test_indexes_of_a_batch_are_reported(ack_set: list[int], more: dict[str, int], size: int | None, text: str) -> None:
    sizes = BatchSizes()
    message_id = {"ledgerId": 5, "entryId": 12, "ack_set": ack_set, **more}
    if size is not None:
        sizes.delivered({"ledgerId": 5, "entryId": 12, "partition": -1}, size)
    fields = {"consumer_id": 1, "ack_type": "Individual", "message_id": [message_id]}
    row = frame(9, "ACK", fields=fields)
    row.extra = sizes.acknowledged(fields)
    assert text in summary(row)


def test_whole_entries_have_no_sizes_and_old_batches_are_forgotten() -> None:
    sizes = BatchSizes()
    for entry in range(BATCHES_MAX + 1):
        sizes.delivered({"ledgerId": 1, "entryId": entry}, 3)
    assert sizes.acknowledged({"message_id": [{"ledgerId": 1, "entryId": 1}]}) is None
    parts = [{"ledgerId": 1, "entryId": entry, "ack_set": [1]} for entry in (0, BATCHES_MAX)]
    assert sizes.acknowledged({"message_id": parts}) == {"batch_sizes": [None, 3]}
