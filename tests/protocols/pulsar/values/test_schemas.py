"""Schemas in the commands of a connection."""

from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.model import limits
from pulsarscope.protocols.pulsar.values import schemas as schemas_module
from pulsarscope.protocols.pulsar.values.definition import Definition
from pulsarscope.protocols.pulsar.values.schema_commands import SCHEMA_COMMANDS
from pulsarscope.protocols.pulsar.values.schemas import ConnectionSchemas, schema_name

TOPIC = "persistent://public/default/orders"
V0, V1 = bytes(8), bytes(7) + b"\x01"


def avro(data: bytes = b"a") -> dict[str, Any]:
    return {"name": "", "type": "Avro", "schema_data": data}


def learned(*commands: tuple[str, dict[str, Any]]) -> ConnectionSchemas:
    schemas = ConnectionSchemas()
    for command, fields in commands:
        assert command in SCHEMA_COMMANDS
        schemas.observe(command, fields)
    return schemas


def producer(number: int = 0, request: int = 1, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "PRODUCER", {"topic": TOPIC, "producer_id": number, "request_id": request} | fields


def success(request: int = 1, version: bytes = V0, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "PRODUCER_SUCCESS", {"request_id": request, "producer_name": "p", "schema_version": version} | fields


def test_a_producer_s_schema_gets_its_version_with_the_answer() -> None:
    schemas = learned(producer(schema=avro()))
    assert schemas.named(schema_name(TOPIC, V0)) is None
    user = schemas.producer(0)
    assert user is not None
    assert (user.definition, user.version) == (Definition("AVRO", b"a"), None)
    schemas.observe(*success())
    assert user.version == V0
    assert schemas.named(schema_name(TOPIC, V0)) == Definition("AVRO", b"a")
    assert schemas.named(schema_name(TOPIC, V1)) is schemas.named(schema_name("other", V0)) is None


def test_a_producer_that_queues_is_answered_later() -> None:
    schemas = learned(producer(schema=avro()), success(version=b"", producer_ready=False), success(version=V1, producer_ready=True))
    assert schemas.named(schema_name(TOPIC, V1)) == Definition("AVRO", b"a")


def test_an_id_used_again_means_its_new_producer() -> None:
    schemas = learned(producer(schema=avro()), success(), producer(request=2))
    assert schemas.producer(0) is None
    assert schemas.named(schema_name(TOPIC, V0)) is not None


def test_a_consumer_has_its_own_schema_of_unknown_version() -> None:
    fields = {"topic": TOPIC, "consumer_id": 3, "request_id": 1}
    schemas = learned(("SUBSCRIBE", fields | {"schema": avro()}))
    user = schemas.consumer(3)
    assert user is not None
    assert (user.definition, user.version) == (Definition("AVRO", b"a"), None)
    schemas.observe("SUBSCRIBE", fields | {"schema": {"type": "AutoConsume"}})
    user = schemas.consumer(3)
    assert user is not None
    assert user.definition is None
    schemas.observe("SUBSCRIBE", fields)
    assert schemas.consumer(3) is None


@pytest.mark.parametrize("asked", [V1, None])
@pytest.mark.parametrize("answered", [V1, None])
def test_a_schema_asked_for_has_the_version_that_either_side_names(asked: bytes | None, answered: bytes | None) -> None:
    ask = {"topic": TOPIC, "request_id": 5} | ({"schema_version": asked} if asked else {})
    answer = {"request_id": 5, "schema": avro()} | ({"schema_version": answered} if answered else {})
    schemas = learned(("GET_SCHEMA", ask), ("GET_SCHEMA_RESPONSE", answer))
    assert schemas.named(schema_name(TOPIC, V1)) == (Definition("AVRO", b"a") if asked or answered else None)


def test_a_schema_is_that_of_all_partitions() -> None:
    ask = {"topic": f"{TOPIC}-partition-3", "request_id": 5, "schema": avro()}
    schemas = learned(("GET_OR_CREATE_SCHEMA", ask), ("GET_OR_CREATE_SCHEMA_RESPONSE", {"request_id": 5, "schema_version": V0}))
    assert schemas.named(schema_name(TOPIC, V0)) == schemas.named(schema_name(f"{TOPIC}-partition-0", V0)) == Definition("AVRO", b"a")


def test_answers_to_nothing_and_without_a_schema_teach_nothing() -> None:
    schemas = learned(
        ("GET_SCHEMA_RESPONSE", {"request_id": 9, "schema": avro(), "schema_version": V0}),
        ("GET_SCHEMA", {"request_id": 9, "topic": TOPIC}),
        ("GET_SCHEMA_RESPONSE", {"request_id": 9, "error_code": "TopicNotFound", "schema_version": V0}),
        success(7),
        ("GET_SCHEMA", {}),
        ("GET_SCHEMA_RESPONSE", {"schema": {}}),
    )
    assert schemas.named(schema_name(TOPIC, V0)) is None


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("SCHEMAS_MAX", 10), ("SCHEMAS_MAX_BYTES", 100), ("SCHEMA_MAX_BYTES", 50), ("USERS_MAX", 20)):
        assert getattr(schemas_module, name) >= value
        monkeypatch.setattr(schemas_module, name, value)
    schemas = ConnectionSchemas()
    for number in range(1_000):
        schemas.observe(*producer(number, number, schema=avro(bytes(number % 60))))
        schemas.observe(*success(number, version=number.to_bytes(8, "big")))
        schemas.observe("GET_SCHEMA", {"request_id": number, "topic": TOPIC})
    assert schemas._bytes <= 100
    assert max(len(schemas._versions), len(schemas._definitions), len(schemas._requests)) <= 10
    assert len(schemas.users) <= 20
    assert limits.SCHEMA_MAX_BYTES <= limits.SCHEMAS_MAX_BYTES


def test_a_version_that_no_broker_gives_is_not_remembered() -> None:
    schemas = learned(producer(schema=avro()), success(version=bytes(100_000)))
    assert not schemas._versions
