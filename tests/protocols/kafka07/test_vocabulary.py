from __future__ import annotations

import pytest

from pulsarscope.dissect.contract.capabilities import FieldType
from pulsarscope.filter.fields import Catalogue
from pulsarscope.model.records import ROWS, columns
from pulsarscope.protocols.kafka07.commands import REQUESTS, RESPONSES
from pulsarscope.protocols.kafka07.vocabulary import VOCABULARY
from tests.protocols.kafka07.cases import look, talk
from tests.scenarios.kafka07 import (
    fetch,
    fetch_response,
    message_set,
    multifetch,
    multifetch_response,
    multiproduce,
    offsets,
    offsets_response,
    produce,
)

SET = message_set(b"hello")


def test_every_command_is_there() -> None:
    assert tuple(VOCABULARY.commands) == (*REQUESTS, *RESPONSES)


def test_the_columns_that_it_speaks_of_exist() -> None:
    names = {f"{kind}.{column.name}" for kind in ROWS for column in columns(kind)}
    assert VOCABULARY.objects.keys() | VOCABULARY.values.keys() <= names


def check(value: object, fields: tuple[FieldType, ...]) -> None:
    """Every field of a row is listed with its type."""
    assert isinstance(value, dict)
    by_name = {field.name: field for field in fields}
    assert value.keys() <= by_name.keys()
    for name, item in value.items():
        field = by_name[name]
        for one in item if field.repeated else [item]:
            if field.type == "object":
                check(one, field.fields)
            else:
                assert type(one) is {"int64": int, "string": str}[field.type]


def test_rows_hold_what_it_says_and_no_more() -> None:
    conversation = talk().client(produce("a", 0, SET), multiproduce(("a", 0, SET), ("b", 0, SET)))
    conversation.client(fetch("a", 0, 5)).server(fetch_response(SET + SET[:7])).client(offsets("a", 0, -1, 3))
    conversation.server(offsets_response([9, 0])).client(multifetch(("a", 0, 0, 9), ("b", 0, 0, 9)))
    conversation.server(multifetch_response(fetch_response(SET[:-1]), fetch_response(error=1)))
    seen = look(conversation.close())
    for frame in seen.frames:
        check(frame.fields, VOCABULARY.commands[frame.command or ""])
        check(frame.extra or {}, VOCABULARY.objects["frame.extra"])
    for message in seen.messages:
        check(message.extra, VOCABULARY.objects["message.extra"])


@pytest.mark.parametrize("kind", ["frame", "message"])
def test_filters_reach_the_offset(kind: str) -> None:
    made = Catalogue((VOCABULARY,), {})
    assert made.tables[kind]["extra"].fields["offset"].types == ("int64",)
