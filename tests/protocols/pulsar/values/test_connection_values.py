"""Schemas of messages, and the findings if there are none."""

from __future__ import annotations

import base64
from typing import Any

import msgspec
import pytest

from pulsarscope.dissect.contract.capabilities import GivenSchema, PayloadContext
from pulsarscope.engine.message_rows import VALUES_TOGETHER_MAX_BYTES
from pulsarscope.model.limits import VALUES_MAX_BYTES
from pulsarscope.model.row_lists import RowList
from pulsarscope.protocols.pulsar.session import sends
from pulsarscope.protocols.pulsar.values import connection_values as connection
from pulsarscope.protocols.pulsar.values.definition import Definition
from pulsarscope.protocols.pulsar.values.reader import reader_of
from tests.scenarios import Single, batch, command_frame, commands
from tests.scenarios.commands import message, receipt, send
from tests.scenarios.dialogue import Dialogue

TOPIC = "persistent://public/default/orders"
V0, V1 = bytes(8), bytes(7) + b"\x01"
ID = b'{"type":"record","name":"R","fields":[{"name":"id","type":"int"}]}'
NUMBER = b'{"type":"record","name":"R","fields":[{"name":"number","type":"int"}]}'


def schema(kind: str, data: bytes = b"") -> dict[str, Any]:
    return {"name": "", "type": kind, "schema_data": data}


def producer(kind: str, data: bytes = b"", number: int = 1, version: bytes = V0) -> tuple[bytes, bytes]:
    fields: dict[str, Any] = {"schema": schema(kind, data)} if kind else {}
    return commands.producer(number, request=number, topic=TOPIC, **fields), commands.created(request=number, schema_version=version)


def subscribe(kind: str, data: bytes = b"") -> bytes:
    fields: dict[str, Any] = {"schema": schema(kind, data)} if kind else {}
    return commands.subscribe(request=9, topic=TOPIC, **fields)


def produced(kind: str, payload: bytes, data: bytes = b"", **metadata: Any) -> Dialogue:
    """One SEND of a producer with this schema, and its receipt."""
    dialogue = Dialogue()
    ask, answer = producer(kind, data)
    dialogue.client(ask).server(answer)
    return dialogue.client(send(payload=payload, metadata={"schema_version": V0} | metadata)).server(receipt()).end()


def values(dialogue: Dialogue) -> list[Any]:
    return [row.value for row in dialogue.messages]


class TestProduced:
    def test_a_message_is_read_by_the_producer_s_schema(self) -> None:
        dialogue = produced("Avro", b"\x06", ID)
        assert values(dialogue) == [{"id": 3}]
        assert dialogue.codes == []
        assert dialogue.messages[0].ledger == 7

    def test_before_the_broker_has_named_its_version_too(self) -> None:
        dialogue = Dialogue().client(producer("Avro", ID)[0], send(payload=b"\x06", metadata={"schema_version": V1})).end()
        assert values(dialogue) == [{"id": 3}]

    def test_another_version_is_read_by_its_own_schema_or_not_at_all(self) -> None:
        ask = command_frame("GET_OR_CREATE_SCHEMA", request_id=5, topic=TOPIC, schema=schema("Avro", NUMBER))
        answer = command_frame("GET_OR_CREATE_SCHEMA_RESPONSE", request_id=5, schema_version=V1)
        other = send(payload=b"\x06", metadata={"schema_version": V1})
        dialogue = Dialogue()
        first, success = producer("Avro", ID)
        dialogue.client(first).server(success).client(other, ask).server(answer).client(other, send(payload=b"\x06")).end()
        assert values(dialogue) == [None, {"number": 3}, {"id": 3}]
        assert dialogue.codes == ["schema-unknown"]

    def test_a_producer_without_a_schema_sends_bytes(self) -> None:
        dialogue = Dialogue().client(producer("")[0], send(payload=b"\x06")).end()
        assert (values(dialogue), dialogue.codes) == ([None], [])

    def test_every_message_of_a_batch_has_its_value(self) -> None:
        singles = [Single(b"1"), Single(b"x"), Single(b"", {"null_value": True}), Single(b"", {"compacted_out": True}), Single(b"[2]")]
        dialogue = produced("Json", batch(singles), num_messages_in_batch=5)
        assert values(dialogue) == [1, None, None, None, [2]]
        (finding,) = [row for row in dialogue.rows if row.kind == "finding"]
        assert finding.code == "value-undecodable"
        assert "JSON: 1 of 5 values: no JSON" in finding.text
        assert {row.status for row in dialogue.messages} == {"ok"}

    def test_a_batch_of_a_thousand_alike_is_read_as_well(self) -> None:
        singles = [Single(b"%04d" % number, {"sequence_id": 200 + number % 900}) for number in range(1000)]
        dialogue = produced("String", batch(singles), num_messages_in_batch=1000)
        assert values(dialogue) == [f"{number:04}" for number in range(1000)]

    def test_tombstones_and_markers_have_no_value(self) -> None:
        for metadata in ({"null_value": True}, {"marker_type": 20}):
            assert values(produced("Json", b"7", **metadata)) == [None]

    @pytest.mark.parametrize(("kind", "payload"), [("Int16", b"\x29\x01"), ("Int32", b"\x29\x01\0\0"), ("Int64", b"\x29\x01" + bytes(6))])
    def test_integers_of_messages_that_name_no_version_are_little_endian(self, kind: str, payload: bytes) -> None:
        dialogue = Dialogue().client(producer(kind)[0], send(payload=payload)).end()
        assert values(dialogue) == [297]

    def test_floats_are_big_endian_even_then(self) -> None:
        assert values(Dialogue().client(producer("Float")[0], send(payload=b"\x3f\x80\0\0")).end()) == [1.0]

    def test_a_key_apart_is_part_of_the_value(self) -> None:
        properties = [("key.schema.type", "STRING"), ("value.schema.type", "INT32"), ("kv.encoding.type", "SEPARATED")]
        pairs = [{"key": key, "value": value} for key, value in properties]
        ask = command_frame(
            "PRODUCER", topic=TOPIC, producer_id=1, request_id=1, schema=schema("KeyValue", bytes(8)) | {"properties": pairs}
        )
        key = base64.b64encode(b"k").decode()
        singles = [
            Single(b"\0\0\0\x07", {"partition_key": key, "partition_key_b64_encoded": True}),
            Single(b"\0\0\0\x08", {"partition_key": "l"}),
        ]
        metadata = {"schema_version": V0, "num_messages_in_batch": 2}
        dialogue = Dialogue().client(ask, send(payload=batch(singles), metadata=metadata)).end()
        assert values(dialogue) == [{"key": "k", "value": 7}, {"key": "l", "value": 8}]

    def test_an_entry_that_would_take_too_much_has_no_more_values(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert VALUES_MAX_BYTES > 5 << 20
        monkeypatch.setattr(connection, "VALUES_MAX_BYTES", 1000)
        half = b'"' + b"x" * 500 + b'"'
        dialogue = produced("Json", batch([Single(half), Single(half), Single(b"1")]), num_messages_in_batch=3)
        assert [value is None for value in values(dialogue)] == [False, True, True]
        assert dialogue.codes == ["value-undecodable"]

    def test_a_small_entry_has_no_large_value(self) -> None:
        nulls = b'{"type":"array","items":"null"}'
        million = b"\x80\x89\x7a\x00"
        dialogue = produced("Avro", million, nulls)
        assert (values(dialogue), dialogue.codes) == ([None], ["value-undecodable"])
        assert values(produced("Avro", b"\xd0\x0f\x00", nulls)) == [[None] * 1000]

    def test_each_schema_of_a_connection_is_made_once_however_they_take_turns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        made: list[str] = []

        def counted(definition: Definition) -> Any:
            made.append(definition.type)
            return reader_of(definition)

        monkeypatch.setattr(connection, "reader_of", counted)
        dialogue = Dialogue().client(producer("Json", number=1)[0], producer("String", number=2)[0])
        for sequence_id in range(4):
            dialogue.client(send(producer_id=1 + sequence_id % 2, sequence_id=sequence_id, payload=b"7"))
        assert values(dialogue.end()) == [7, 7, "7", "7"]
        assert sorted(made) == ["JSON", "STRING"]

    def test_a_schema_that_is_none_is_reported(self) -> None:
        dialogue = produced("Avro", b"\x06", b"{")
        assert (values(dialogue), dialogue.codes) == ([None], ["value-undecodable"])


class TestDelivered:
    def test_what_reads_without_its_writer_is_read_by_the_consumer_s_schema(self) -> None:
        for kind, payload, value in (("String", b"x", "x"), ("Json", b"7", 7), ("Int32", b"\0\0\0\x07", 7)):
            dialogue = Dialogue().client(subscribe(kind)).server(message(payload=payload, metadata={"schema_version": V1}))
            assert values(dialogue) == [value]
            assert dialogue.codes == []

    def test_a_schema_version_seen_on_the_connection_is_used(self) -> None:
        ask = command_frame("GET_SCHEMA", request_id=5, topic=TOPIC, schema_version=V0)
        answer = command_frame("GET_SCHEMA_RESPONSE", request_id=5, schema=schema("Avro", ID), schema_version=V0)
        dialogue = (
            Dialogue().client(subscribe("Avro", NUMBER), ask).server(answer, message(payload=b"\x06", metadata={"schema_version": V0}))
        )
        assert values(dialogue) == [{"id": 3}]

    def test_a_message_without_a_version_is_read_as_its_consumer_reads_it(self) -> None:
        assert values(Dialogue().client(subscribe("Avro", ID)).server(message(payload=b"\x06"))) == [{"id": 3}]

    @pytest.mark.parametrize("kind", ["", "String"])
    def test_an_unknown_version_is_reported_once_where_a_value_is_missing(self, kind: str) -> None:
        dialogue = Dialogue().client(subscribe(kind))
        for version in (V0, V0, V1):
            dialogue.server(message(payload=b"x", metadata={"schema_version": version}))
        assert dialogue.codes == ([] if kind else ["schema-unknown"] * 2)
        if not kind:
            finding = next(row for row in dialogue.rows if row.kind == "finding")
            assert finding.text == "MESSAGE 0:2.1: unknown on this connection: version 0 of the schema of orders."
            assert "--schema" in finding.hint

    def test_hostile_versions_and_topics_are_no_trouble(self) -> None:
        dialogue = Dialogue().server(message(payload=b"x", metadata={"schema_version": bytes(100_000)}))
        assert (values(dialogue), dialogue.codes) == ([None], [])


class TestGiven:
    ORDERS = GivenSchema("orders", "AVRO", ID)

    def test_what_is_given_counts_before_what_is_reported(self) -> None:
        dialogue = Dialogue(schemas=(self.ORDERS,))
        ask, _ = producer("Avro", NUMBER)
        assert values(dialogue.client(ask, send(payload=b"\x06")).end()) == [{"id": 3}]

    def test_the_first_that_fits_counts(self) -> None:
        given = (GivenSchema("other", "STRING"), self.ORDERS, GivenSchema("*", "STRING"))
        dialogue = Dialogue(schemas=given).client(producer("")[0], send(payload=b"\x06")).end()
        assert values(dialogue) == [{"id": 3}]

    def test_one_of_a_version_counts_for_that_version(self) -> None:
        given = (GivenSchema("orders", "AVRO", ID, version=V0), GivenSchema("orders", "AVRO", NUMBER, version=V1))
        dialogue = Dialogue(schemas=given).client(subscribe(""))
        for version in (V0, V1):
            dialogue.server(message(payload=b"\x06", metadata={"schema_version": version}))
        assert values(dialogue) == [{"id": 3}, {"number": 3}]

    def test_bytes_that_do_not_fit_are_reported_and_the_message_stays(self) -> None:
        dialogue = Dialogue(schemas=(self.ORDERS,)).client(producer("")[0], send(payload=b"no")).end()
        assert (values(dialogue), dialogue.codes, dialogue.messages[0].status) == ([None], ["value-undecodable"], "ok")


class TestDecoders:
    """Payload decoders of other packages."""

    class Decoder:
        topics = "ord*"
        seen: PayloadContext | None = None

        def decode(self, payload: bytes, context: PayloadContext) -> Any:
            type(self).seen = context
            if payload == b"?":
                raise KeyError(payload)
            return {"upper": payload.upper(), "at": {1}} if payload else None

    def of(self, *frames: bytes) -> Dialogue:
        return Dialogue(decoders=(("orders-plugin", self.Decoder()),)).client(producer("Json")[0], *frames).end()

    def test_what_they_return_becomes_json(self) -> None:
        assert values(self.of(send(payload=b"a"))) == [{"upper": "QQ==", "at": [1]}]
        assert values(self.of(send(payload=b""))) == [None]

    def test_they_know_topic_key_properties_and_version(self) -> None:
        singles = [Single(b"a", {"partition_key": "k", "properties": [{"key": "p", "value": "1"}]})]
        self.of(send(payload=batch(singles), metadata={"num_messages_in_batch": 1, "schema_version": V0}))
        assert self.Decoder.seen == PayloadContext(TOPIC, "k", False, {"p": "1"}, V0)
        self.of(send(payload=b"a", metadata={"partition_key": "k", "properties": [{"key": "p", "value": "1"}]}))
        assert self.Decoder.seen == PayloadContext(TOPIC, "k", False, {"p": "1"}, None)

    def test_what_they_raise_is_a_finding(self) -> None:
        dialogue = self.of(send(payload=batch([Single(b"?"), Single(b"a")]), metadata={"num_messages_in_batch": 2}))
        assert [value is None for value in values(dialogue)] == [True, False]
        (finding,) = [row for row in dialogue.rows if row.kind == "finding"]
        assert finding.code == "payload-decoder-failed"
        assert "orders-plugin: 1 of 2 values: KeyError: b'?'" in finding.text

    def test_whatever_they_raise_and_say_can_be_written(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for error in (ValueError("\ud800" * 1000), SystemExit(3), RecursionError()):

            def fail(*_: object, error: BaseException = error) -> None:
                raise error

            monkeypatch.setattr(self.Decoder, "decode", fail)
            dialogue = self.of(send(payload=b"a"))
            assert dialogue.codes == ["payload-decoder-failed"]
            assert len(msgspec.json.encode(dialogue.rows)) < 5_000

    @pytest.mark.parametrize("result", [object(), "\ud800", 1j])
    def test_what_is_no_json_is_a_finding(self, result: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(self.Decoder, "decode", lambda *_: result)
        dialogue = self.of(send(payload=b"a"))
        assert (values(dialogue), dialogue.codes) == ([None], ["payload-decoder-failed"])

    def test_other_topics_are_not_theirs_and_what_is_given_counts_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        given = (GivenSchema("orders", "STRING"),)
        decoders = (("p", self.Decoder()),)
        dialogue = Dialogue(decoders=decoders, schemas=given).client(producer("Json")[0], send(payload=b"a")).end()
        assert values(dialogue) == ["a"]
        monkeypatch.setattr(self.Decoder, "topics", "else")
        assert values(self.of(send(payload=b"7"))) == [7]


def test_values_of_much_payload_are_handed_on_at_once() -> None:
    rows = RowList(later=True)
    dialogue = Dialogue("message")
    dialogue.rows = rows
    dialogue.client(subscribe("Json"))
    text = b'"' + b"x" * (VALUES_TOGETHER_MAX_BYTES // 4) + b'"'
    for _ in range(3):
        dialogue.server(message(payload=text))
    assert not rows.later
    dialogue.server(message(payload=text))
    assert rows.later
    assert [len(some) for some in rows.take(100)] == [4]
    dialogue.server(message(payload=text))
    assert not rows.later


def test_large_values_of_little_payload_are_handed_on_at_once() -> None:
    rows = RowList(later=True)
    dialogue = Dialogue("message")
    dialogue.rows = rows
    dialogue.client(subscribe("Avro", b'{"type":"array","items":"null"}'))
    for _ in range(VALUES_TOGETHER_MAX_BYTES // 8_000):
        assert not rows.later
        dialogue.server(message(payload=b"\xd0\x0f\x00"))
    dialogue.server(message(payload=b"\xd0\x0f\x00"))
    assert rows.later


def test_values_that_wait_for_a_receipt_weigh_more_than_their_payload(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sends, "PENDING_MESSAGES_MAX_BYTES", 10_000)
    for kind, waiting in (("", 3), ("Json", 1)):
        dialogue = Dialogue("message").client(producer(kind)[0])
        for _ in range(3):
            dialogue.client(send(payload=b'"' + b"x" * 700 + b'"'))
        assert len(dialogue.messages) == 3 - waiting


def test_nothing_is_read_when_nobody_asks_for_values() -> None:
    ask, _ = producer("Json")
    dialogue = Dialogue("message", columns=("topic", "payload_size")).client(ask, send(payload=b"{")).end()
    assert dialogue.state._values is None
    dialogue = Dialogue("frame").client(ask, send(payload=b"{")).end()
    assert dialogue.state._values is None


def test_findings_alone_are_the_same_as_with_messages() -> None:
    ask, _ = producer("Json")
    for metadata in ({}, {"schema_version": V0}):
        dialogue = Dialogue("finding", payloads=True).client(ask, send(payload=b"{", metadata=metadata)).end()
        assert dialogue.codes == ["value-undecodable"]
        assert dialogue.messages == []
