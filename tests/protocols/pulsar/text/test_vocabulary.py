from __future__ import annotations

from collections.abc import Iterator

import pytest

from pulsarscope.dissect.contract.capabilities import FieldType
from pulsarscope.model.records import ROWS, columns
from pulsarscope.protocols.pulsar.text.vocabulary import vocabulary
from tests.scenarios import pulsar_pb2

WORDS = vocabulary()


def walk(fields: tuple[FieldType, ...]) -> Iterator[FieldType]:
    for field in fields:
        yield field
        yield from walk(field.fields)


def test_every_command_is_there_with_the_fields_of_its_message() -> None:
    assert list(WORDS.commands) == [value.name for value in pulsar_pb2.BaseCommand.Type.DESCRIPTOR.values]
    expected = [field.name for field in pulsar_pb2.DESCRIPTOR.message_types_by_name["CommandSubscribe"].fields]
    assert [field.name for field in WORDS.commands["SUBSCRIBE"]] == expected


@pytest.mark.parametrize("fields", [*WORDS.commands.values(), *WORDS.objects.values()])
def test_every_field_has_a_type_and_a_meaning(fields: tuple[FieldType, ...]) -> None:
    for field in walk(fields):
        assert field.type in {"int64", "double", "bool", "string", "bytes", "object"}
        assert field.text.endswith(".")
        assert not field.fields or field.type == "object"
        assert not field.values or field.type == "string"


def test_the_columns_that_it_speaks_of_exist() -> None:
    names = {f"{kind}.{column.name}" for kind in ROWS for column in columns(kind)}
    assert WORDS.objects.keys() | WORDS.values.keys() <= names
    assert all(WORDS.values.values())


def test_types_are_those_of_the_definition() -> None:
    types = {field.name: (field.type, field.repeated) for field in WORDS.objects["frame.metadata"]}
    assert types["producer_name"] == ("string", False)
    assert types["schema_version"] == ("bytes", False)
    assert types["replicate_to"] == ("string", True)
    assert types["compression"] == ("string", False)
    assert types["properties"] == ("object", True)
    assert types["null_value"] == ("bool", False)
