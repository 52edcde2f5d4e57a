from __future__ import annotations

from random import Random

import pytest

from pulsarscope.dissect.contract.capabilities import Stored
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from tests.scenarios import message_metadata, payload_frame

read = PulsarDissector().stored_reader


def whole(data: bytes) -> Stored | None:
    return read(data, 0, len(data))


def message(payload: bytes = b"hello") -> bytes:
    """The bytes of a SEND after its command."""
    frame = payload_frame("SEND", message_metadata(), payload, producer_id=1, sequence_id=1)
    return frame[frame.index(b"\x0e\x01") :]


def test_a_message_is_read_as_its_metadata_and_the_place_of_its_payload() -> None:
    data = message()
    stored = read(b"before" + data + b"behind", 6, 6 + len(data))
    assert stored is not None
    assert (stored.kind, stored.fields) == ("message", {"checksum": "good", "crc32c": data[2:6].hex()})
    assert stored.metadata is not None
    assert (b"before" + data)[stored.payload_at :] == b"hello"


def test_a_damaged_message_is_one_all_the_same() -> None:
    data = message()
    stored = whole(data[:-1] + b"!")
    assert stored is not None
    assert stored.fields == {"checksum": "bad", "crc32c": data[2:6].hex()}


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("080810ffffffffffffffffff01", {"ledger": 8, "entry": -1}),
        ("080e10033207080e1080111000", {"ledger": 14, "entry": 3, "individual_acks": [{"ledger": 14, "entries": [7, 11]}]}),
        (
            "080810002218" + "0a14" + b"CompactedTopicLedger".hex() + "1012",
            {"ledger": 8, "entry": 0, "properties": {"CompactedTopicLedger": 18}},
        ),
    ],
    ids=["nothing", "individual", "compacted"],
)
def test_a_position_of_a_cursor_is_read(text: str, fields: dict[str, object]) -> None:
    assert whole(bytes.fromhex(text)) == Stored("cursor", fields)


def test_acknowledged_entries_are_listed_up_to_a_bound() -> None:
    words = (b"\x10" + b"\xff" * 9 + b"\x01") * 100
    acks = b"\x08\x01" + words
    stored = whole(b"\x08\x01\x10\x00\x32" + bytes((len(acks) & 127 | 128, len(acks) >> 7)) + acks)
    assert stored is not None
    assert stored.fields["individual_acks"] == [{"ledger": 1, "entries": [*range(1000)]}]


def test_a_schema_is_read_with_its_topic() -> None:
    info = b"\x0a\x11public/default/t1" + b"\x18\x02" + b"\x22\x02{}" + b"\x28\x07\x30\x00"
    stored = whole(b"\x12" + bytes((len(info),)) + info + b"\x2a\x02\x08\x00")
    fields = {"topic": "public/default/t1", "type": 2, "timestamp": 7, "deleted": False, "definition": b"{}"}
    assert stored == Stored("schema", fields)


@pytest.mark.parametrize("data", [b"", b"\x0e\x01", b"raw v2 0..", b"\x08\x01", b"\x12\x00", b"\x08\x01\x10\x02\x78\x01", bytes(32)])
def test_what_pulsar_does_not_store_is_left(data: bytes) -> None:
    assert whole(data) is None


def test_any_bytes_are_taken() -> None:
    random = Random(1)  # noqa: S311
    for data in (message(), bytes.fromhex("080e10033207080e1080111000")):
        for _ in range(2000):
            damaged = bytearray(data)
            damaged[random.randrange(len(data))] = random.randrange(256)
            whole(bytes(damaged[: random.randrange(len(data) + 1)]))
