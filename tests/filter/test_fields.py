from __future__ import annotations

import pytest

from pulsarscope.dissect.contract.capabilities import FieldType, Vocabulary
from pulsarscope.filter.fields import Catalogue
from pulsarscope.model.findings import Code
from pulsarscope.model.records import ROWS, columns
from tests.filter.samples import CATALOGUE


@pytest.mark.parametrize("kind", ROWS)
def test_every_column_is_a_field(kind: str) -> None:
    assert {column.name for column in columns(kind)} <= CATALOGUE.tables[kind].keys()


def test_names_are_found_once_with_a_meaning() -> None:
    for kind in ROWS:
        names = list(CATALOGUE.names(kind))
        assert len(dict(names)) == len(names)
        assert [name for name, known in names if not known.text.endswith(".")] == []


def test_enumerations_are_known() -> None:
    frame = CATALOGUE.tables["frame"]
    assert "SEND_RECEIPT" in frame["command"].values
    assert frame["status"].values == ("ok", "malformed", "truncated", "skipped")
    assert "stream-gap" in frame["finding"].values
    assert "TopicNotFound" in CATALOGUE.tables["exchange"]["error"].values
    assert CATALOGUE.commands["SUBSCRIBE"].fields["subType"].values == ("Exclusive", "Shared", "Failover", "Key_Shared")


def test_fields_of_all_commands_are_under_fields_with_what_any_of_them_allows() -> None:
    inner = CATALOGUE.tables["frame"]["fields"].fields
    assert inner["sequence_id"].types == ("int64",)
    assert inner["message_id"].repeated
    assert set(inner["message_id"].fields) >= {"ledgerId", "entryId", "partition"}


def field(name: str, type_: str, **values: object) -> FieldType:
    return FieldType(name, type_, f"Field {name}.", **values)  # type: ignore[arg-type]


def test_several_protocols_share_the_columns() -> None:
    item = Vocabulary({"PUT": (field("id", "int64"),)}, {"frame.metadata": (field("a", "string"),)}, {"frame.command": ("PUT",)})
    other = Vocabulary(
        {"GET": (field("id", "string"), field("at", "object", repeated=True, fields=(field("x", "bool"),)))},
        {"frame.metadata": (field("b", "bytes"),)},
        {"frame.command": ("GET",)},
    )
    made = Catalogue((item, other), {"odd": Code("odd", "note", "frame", "", "")})
    frame = made.tables["frame"]
    assert frame["command"].values == ("PUT", "GET")
    assert frame["fields"].fields["id"].types == ("int64", "string")
    assert frame["fields"].fields["at"].fields["x"].types == ("bool",)
    assert {"a", "b"} <= frame["metadata"].fields.keys()
    assert made.commands["PUT"].fields["id"].types == ("int64",)
    assert [*frame["finding"].values] == ["odd"]
