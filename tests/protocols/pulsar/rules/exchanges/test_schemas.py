"""Refused schemas, and their differences from that of the topic."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pulsarscope.model.findings import ERROR
from pulsarscope.protocols.pulsar.rules.exchanges.schemas import FIELDS_MAX, TYPE_CHARACTERS_MAX, description_of, differences
from tests.scenarios.commands import TOPIC, created, error, producer, subscribe
from tests.scenarios.connections import connected
from tests.scenarios.conversation import SECOND
from tests.scenarios.evaluation import findings_in, findings_of, only, with_code
from tests.scenarios.frames import command_frame
from tests.scenarios.rules.schemas import ID, PRICE, record


def test_the_difference_to_what_another_client_registered() -> None:
    rows = findings_in("errors.pcap")
    text, evidence = only(rows, "schema-incompatible")
    assert "(10.9.0.11:44880) for persistent://public/default/errors-schema-19 was refused with IncompatibleSchema" in text
    assert "its schema is Avro Bad, that of PRODUCER of 10.9.0.11:44872 (0:57.1) is Avro Item" in text
    assert "field id is string instead of int" in evidence["difference"]
    assert "field other is new (int)" in evidence["difference"]
    assert evidence["frames"] == ["0:63.1", "0:64.1", "0:57.1"]
    assert [row.severity for row in with_code(rows, "schema-incompatible")] == [ERROR]
    assert "IncompatibleSchema" not in {(row.evidence or {}).get("error") for row in with_code(rows, "request-failed")}


def test_another_type_of_schema() -> None:
    text, evidence = only(findings_in("java-errors.pcap"), "schema-incompatible")
    assert "its schema is String, that of" in text
    assert evidence["difference"] == ["type String instead of Avro", "name String instead of Item"]


@pytest.mark.parametrize("capture", ["java-schemas.pcap", "schemas-py-zst.pcap.zst"])
def test_schemas_that_are_taken_are_none(capture: str) -> None:
    assert with_code(findings_in(capture), "schema-incompatible") == []


def test_a_schema_from_the_broker_shows_the_difference_too(tmp_path: Path) -> None:
    talk = connected().client(command_frame("GET_SCHEMA", topic=TOPIC, request_id=1))
    talk.server(command_frame("GET_SCHEMA_RESPONSE", request_id=1, schema=record("A", ID, PRICE)))
    for attempt in range(2):
        talk.client(subscribe(request=5 + attempt, schema=record("A", ID))).server(error(5 + attempt, "IncompatibleSchema", "no"))
    text, evidence = only(findings_of(tmp_path, talk), "schema-incompatible")
    assert "SUBSCRIBE of c (10.0.0.1:40000)" in text
    assert "was refused 2 times" in text
    assert "GET_SCHEMA_RESPONSE of 10.0.0.1:40000 (0:7.1) is Avro A: field price is missing" in text
    assert evidence["count"] == 2


def test_the_latest_schema_before_is_the_one_to_compare_with(tmp_path: Path) -> None:
    first = connected().client(producer(schema=record("A", ID))).server(created())
    second = connected(40001, start=SECOND).client(producer(name="q", schema=record("A", ID, PRICE))).server(created("q"))
    third = connected(40002, start=2 * SECOND).client(producer(name="r", schema=record("A", PRICE))).server(error(1, "IncompatibleSchema"))
    assert only(findings_of(tmp_path, first, second, third), "schema-incompatible")[1]["difference"] == ["field id is missing (int)"]


def test_nothing_known_is_said_so(tmp_path: Path) -> None:
    text, evidence = only(
        findings_of(tmp_path, connected().client(producer()).server(error(1, "IncompatibleSchema"))), "schema-incompatible"
    )
    assert text.endswith("it has no schema; the topic's own schema is not in the capture.")
    assert evidence["known"] is None


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff\xfe", b"{", b"[]", b"[" * 100_000, b'{"fields": 3}', b'{"fields": [3, {}]}', b'{"name": {}}', b" " * (300 << 10)],
)
def test_a_hostile_definition_is_only_its_size(data: bytes) -> None:
    rows = description_of({"type": "Avro", "schema_data": data, "name": "x"})
    assert (rows["name"], rows["bytes"]) == ("x", len(data))
    assert not rows["fields"]


def test_large_definitions_are_cut() -> None:
    wide = [{"name": f"f{number}", "type": "int"} for number in range(FIELDS_MAX + 5)]
    deep = {"name": "f0", "type": {"type": "enum", "symbols": ["x" * TYPE_CHARACTERS_MAX]}}
    fields = description_of(record("A", deep, *wide[1:]))["fields"]
    assert len(fields) == FIELDS_MAX
    assert len(fields["f0"]) == TYPE_CHARACTERS_MAX


def test_defaults_matter() -> None:
    plain = description_of(record("A", {"name": "id", "type": "int"}))
    with_default = description_of(record("A", {"name": "id", "type": "int", "default": 0}))
    assert differences(plain, with_default) == ["field id is int instead of int with default"]
    assert differences(plain, plain) == []


def test_text_that_is_no_text_is_spelled_out() -> None:
    """JSON can express a lone surrogate, which no output could encode."""
    schema = {"name": "s", "type": "Json", "schema_data": b'{"name": "\\ud800x", "fields": [{"name": "\\udfff", "type": "\\ud800"}]}'}
    rows = description_of(schema)
    assert json.dumps(rows, ensure_ascii=False).encode()
    assert "\\ud800x" in rows["name"]
