from __future__ import annotations

import pytest

from pulsarscope.filter import Filter
from pulsarscope.filter.reference import field_entries
from pulsarscope.model.records import ROWS
from tests.filter.samples import CATALOGUE

LISTED = list(field_entries(CATALOGUE))


def test_every_field_of_every_kind_is_listed() -> None:
    listed = {(entry.name, kind) for entry in LISTED for kind in entry.records}
    assert listed == {(name, kind) for kind in ROWS for name, _ in CATALOGUE.names(kind)}


def test_every_example_is_a_filter_for_the_records_that_have_the_field() -> None:
    for entry in LISTED:
        for kind in entry.records:
            made = Filter(entry.example, (kind,), CATALOGUE)
            assert entry.name in made.text


@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        ("send_e", {"SEND_ERROR", "SEND_ERROR.producer_id", "SEND_ERROR.sequence_id", "SEND_ERROR.error", "SEND_ERROR.message"}),
        ("SEND_ERROR.e", {"SEND_ERROR.error"}),
        ("send_error.m", {"SEND_ERROR.message"}),
        ("latency", {"latency", "latency_ns"}),
        ("metadata.prod", {"metadata.producer_name"}),
        ("nothing", set()),
    ],
)
def test_a_prefix_chooses(prefix: str, names: set[str]) -> None:
    assert {entry.name for entry in field_entries(CATALOGUE, prefix)} == names


def test_a_command_comes_before_those_that_begin_with_its_name() -> None:
    names = [entry.name for entry in field_entries(CATALOGUE, "send")]
    own = [name for name in names if name.partition(".")[0] == "SEND"]
    assert names[: len(own)] == own
    assert "SEND_ERROR.error" in names[len(own) :]


def test_types_are_said() -> None:
    types = {entry.name: entry.type for entry in LISTED if "frame" in entry.records}
    assert types["size"] == "int64"
    assert types["latency"] == "duration"
    assert types["metadata.replicate_to"] == "list of string"
    assert types["metadata"] == "object"
    assert types["frame"] == "kind of records"
    assert types["fields.metadata.key"] == "string"
