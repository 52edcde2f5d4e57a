"""Deliveries wait for the schema that their consumer requests, but not forever."""

from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.model.limits import UNREAD_ENTRIES_MAX, UNREAD_MAX_BYTES, UNREAD_MAX_NANOSECONDS
from pulsarscope.protocols.pulsar.session import awaiting_schema as unread
from tests.scenarios import Single, batch, command_frame, commands
from tests.scenarios.commands import PING, message
from tests.scenarios.dialogue import Dialogue

TOPIC = "persistent://public/default/orders-partition-1"
V0, V1 = bytes(8), bytes(7) + b"\x01"
OLD = b'{"type":"record","name":"R","fields":[{"name":"id","type":"int"}]}'
NEW = b'{"type":"record","name":"R","fields":[{"name":"id","type":"int"},{"name":"note","type":"string"}]}'
LATER = 1_000


def subscribe(data: bytes | None, consumer_id: int = 1) -> bytes:
    schema = {"name": "", "type": "AutoConsume" if data is None else "Avro", "schema_data": data or b""}
    return commands.subscribe(consumer_id, request=90 + consumer_id, topic=TOPIC, schema=schema)


def asked(version: bytes, number: int = 5) -> bytes:
    return command_frame("GET_SCHEMA", request_id=number, topic=TOPIC.removesuffix("-partition-1"), schema_version=version)


def answered(data: bytes, version: bytes, number: int = 5) -> bytes:
    schema = {"name": "", "type": "Avro", "schema_data": data}
    return command_frame("GET_SCHEMA_RESPONSE", request_id=number, schema=schema, schema_version=version)


def delivered(payload: bytes = b"\x06", version: bytes = V0, entry: int = 0, **metadata: Any) -> bytes:
    return message(entry=entry, payload=payload, metadata={"schema_version": version} | metadata)


def values_of(dialogue: Dialogue) -> list[tuple[int | None, Any]]:
    return [(row.entry, row.value) for row in dialogue.messages]


@pytest.mark.parametrize("own", [NEW, None], ids=["avro", "auto-consume"])
def test_messages_that_came_before_the_schema_have_their_values(own: bytes | None) -> None:
    dialogue = Dialogue().client(subscribe(own)).server(delivered(entry=1), delivered(entry=2))
    assert dialogue.messages == []
    assert [frame.command for frame in dialogue.frames] == ["SUBSCRIBE", "MESSAGE", "MESSAGE"]
    dialogue.client(asked(V0)).server(answered(OLD, V0), delivered(entry=3))
    assert values_of(dialogue) == [(1, {"id": 3}), (2, {"id": 3}), (3, {"id": 3})]
    assert dialogue.codes == []
    assert dialogue.end().messages[2:] == dialogue.messages[2:]


def test_only_those_wait_whose_version_is_missing() -> None:
    dialogue = Dialogue().client(subscribe(NEW), asked(V1)).server(answered(NEW, V1))
    dialogue.server(delivered(entry=1), delivered(b"\x06\x02x", V1, entry=2))
    assert values_of(dialogue) == [(2, {"id": 3, "note": "x"})]
    assert values_of(dialogue.end()) == [(2, {"id": 3, "note": "x"}), (1, None)]
    assert dialogue.codes == ["schema-unknown"]


def test_without_an_answer_the_consumer_s_own_schema_is_believed_where_it_fits_and_that_is_said() -> None:
    dialogue = Dialogue().client(subscribe(NEW)).server(delivered(entry=1), delivered(b"\x06\x02x", entry=2)).end()
    assert values_of(dialogue) == [(1, None), (2, {"id": 3, "note": "x"})]
    (finding,) = [row for row in dialogue.rows if row.kind == "finding"]
    assert finding.code == "schema-unknown"
    assert (finding.packet, finding.evidence["size"] > 0) == (2, True)
    assert finding.text == (
        "MESSAGE 0:2.1: unknown on this connection: version 0 of the schema of orders; values are those that fit the consumer's own schema."
    )


def test_a_batch_waits_as_a_whole() -> None:
    dialogue = Dialogue(payload="hex").client(subscribe(NEW))
    dialogue.server(delivered(batch([Single(b"\x06"), Single(b"\x08"), Single(b"")]), entry=1, num_messages_in_batch=3))
    dialogue.client(asked(V0)).server(answered(OLD, V0))
    assert [(row.batch_index, row.payload, row.value) for row in dialogue.messages] == [
        (0, "06", {"id": 3}),
        (1, "08", {"id": 4}),
        (2, "", None),
    ]
    assert dialogue.codes == ["value-undecodable"]


def test_what_waits_for_too_long_waits_no_more_and_nor_do_those_that_follow() -> None:
    dialogue = Dialogue().client(subscribe(OLD)).server(delivered(entry=1), time=LATER)
    dialogue.server(delivered(entry=2), time=LATER + UNREAD_MAX_NANOSECONDS)
    assert values_of(dialogue) == []
    dialogue.server(delivered(entry=3), time=LATER + UNREAD_MAX_NANOSECONDS + 1)
    assert [entry for entry, _ in values_of(dialogue)] == [1, 2, 3]
    dialogue.server(delivered(entry=4), time=LATER + UNREAD_MAX_NANOSECONDS + 2)
    assert [entry for entry, _ in values_of(dialogue)] == [1, 2, 3, 4]
    assert dialogue.codes == ["schema-unknown"]


def test_any_other_command_shows_that_the_time_is_over() -> None:
    ping = PING
    dialogue = Dialogue().client(subscribe(OLD)).server(delivered(entry=1), time=LATER)
    dialogue.server(ping, time=LATER + UNREAD_MAX_NANOSECONDS)
    assert values_of(dialogue) == []
    dialogue.server(ping, time=LATER + UNREAD_MAX_NANOSECONDS + 1)
    assert values_of(dialogue) == [(1, {"id": 3})]
    assert dialogue.codes == ["schema-unknown"]
    dialogue.server(ping, time=LATER + 3 * UNREAD_MAX_NANOSECONDS)
    assert len(dialogue.messages) == 1


def test_the_time_of_each_version_is_its_own() -> None:
    dialogue = Dialogue().client(subscribe(OLD), asked(V0))
    dialogue.server(delivered(entry=1), time=LATER).server(delivered(version=V1, entry=2), time=LATER + 100)
    dialogue.server(answered(OLD, V0), time=LATER + 200)
    assert [entry for entry, _ in values_of(dialogue)] == [1]
    dialogue.server(PING, time=LATER + 100 + UNREAD_MAX_NANOSECONDS)
    assert [entry for entry, _ in values_of(dialogue)] == [1]
    dialogue.server(PING, time=LATER + 101 + UNREAD_MAX_NANOSECONDS)
    assert [entry for entry, _ in values_of(dialogue)] == [1, 2]


@pytest.mark.parametrize(("name", "bound", "waiting"), [("UNREAD_ENTRIES_MAX", 3, 3), ("UNREAD_MAX_BYTES", 40, 4)])
def test_too_many_or_too_large_ones_wait_no_more(monkeypatch: pytest.MonkeyPatch, name: str, bound: int, waiting: int) -> None:
    assert UNREAD_ENTRIES_MAX >= 1_000
    assert UNREAD_MAX_BYTES >= 1 << 20
    monkeypatch.setattr(unread, name, bound)
    dialogue = Dialogue().client(subscribe(OLD))
    for entry in range(waiting):
        dialogue.server(delivered(bytes(10), entry=entry))
    assert values_of(dialogue) == []
    dialogue.server(delivered(bytes(10), entry=waiting))
    assert len(values_of(dialogue)) == waiting + 1


@pytest.mark.slow
def test_none_is_lost_however_many_versions_there_are() -> None:
    dialogue = Dialogue("message").client(subscribe(OLD))
    for entry in range(3 * UNREAD_ENTRIES_MAX):
        dialogue.server(delivered(version=entry.to_bytes(8, "big"), entry=entry))
    assert sorted(entry or 0 for entry, _ in values_of(dialogue.end())) == list(range(3 * UNREAD_ENTRIES_MAX))


def test_findings_alone_wait_too() -> None:
    dialogue = Dialogue("finding", payloads=True).client(subscribe(NEW)).server(delivered(b"\x06\x02x"))
    dialogue.client(asked(V0)).server(answered(OLD, V0)).end()
    assert dialogue.codes == ["value-undecodable"]
    assert dialogue.messages == []
