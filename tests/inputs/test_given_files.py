"""--schema TOPIC=FILE, by the command line and by the library."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pulsarscope as ps
from pulsarscope.cli.arguments.application import app
from pulsarscope.dissect.contract.capabilities import GivenSchema
from pulsarscope.inputs import given_files
from pulsarscope.inputs.given_files import given_names, given_schemas
from pulsarscope.model.errors import UsageError
from pulsarscope.protocols import names_readers, schema_readers
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import message, receipt, send
from tests.scenarios.conversation import Conversation

ITEM = '{"type":"record","name":"R","fields":[{"name":"word","type":"string"}]}'
"""Misreads the records of schemas-avro-31: they begin with a number."""


def decoded(*arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(app, ["messages", "--format", "ndjson", "-q", *arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_file_or_the_name_of_a_type(tmp_path: Path) -> None:
    path = tmp_path / "item=1.avsc"
    path.write_text(ITEM)
    assert given_schemas([("a*", str(path)), ("b", "int32")], schema_readers) == (
        GivenSchema("a*", "AVRO", ITEM.encode()),
        GivenSchema("b", "INT32"),
    )


@pytest.mark.parametrize("file", ["nowhere.avsc", "avro", ".", "a\0b"])
def test_what_cannot_be_read_is_said_in_one_line(file: str) -> None:
    with pytest.raises(UsageError) as caught:
        given_schemas([("orders", file)], schema_readers)
    assert len(caught.value.lines) == 1
    assert f"the schema {file} of orders cannot be read" in caught.value.lines[0]


@pytest.mark.parametrize("name", ["strin", "avro"])
def test_a_name_that_is_no_type_brings_those_that_are(name: str) -> None:
    with pytest.raises(UsageError, match=r"types that need no file are bytes, string, .*, json$"):
        given_schemas([("orders", name)], schema_readers)


def test_what_is_no_schema_is_said_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.avsc"
    path.write_text("{")
    with pytest.raises(UsageError, match="is not valid: it is neither JSON nor protobuf descriptors"):
        given_schemas([("orders", str(path))], schema_readers)


def test_a_protocol_that_other_packages_bring_may_have_schemas_too() -> None:
    def read(topics: str, name: str, data: bytes | None, _: str) -> GivenSchema:
        if data is None and name == "postcard":
            return GivenSchema(topics, name)
        raise ValueError(name)

    assert given_schemas([("a", "postcard"), ("b", "int8")], lambda: [*schema_readers(), read]) == (
        GivenSchema("a", "postcard"),
        GivenSchema("b", "INT8"),
    )


@pytest.mark.parametrize("text", ["orders", "=x", "orders="])
def test_the_option_needs_a_topic_and_a_file(text: str, captures: Path) -> None:
    result = CliRunner().invoke(app, ["messages", str(captures / "java-schemas.pcap"), "--schema", text])
    assert isinstance(result.exception, UsageError)
    assert "as in --schema orders=order.avsc" in str(result.exception)


def test_given_schemas_reach_the_messages(captures: Path, tmp_path: Path) -> None:
    capture = str(captures / "java-schemas.pcap")
    path = tmp_path / "item.avsc"
    path.write_text(
        '{"type":"record","name":"R","fields":[{"name":"number","type":"int"},{"name":"rest","type":["null","string"]},{"name":"p","type":"double"}]}'
    )
    rows = decoded(capture, "--schema", f"schemas-avro-*={path}", "--schema", "persistent://public/default/schemas-int32-31=bytes")
    by_topic = {row["topic"].rpartition("/")[2]: row["value"] for row in rows if "value" in row and row["direction"] == "produce"}
    assert by_topic["schemas-avro-31"] == {"number": 3, "rest": "delta", "p": 1.5}
    assert by_topic["schemas-int32-31"] == "AAALsw=="
    assert by_topic["schemas-json-31"] == {"id": 3, "name": "delta", "price": 1.5}
    of_library = ps.open(capture, schemas={"schemas-avro-*": str(path), "schemas-int32-31": "bytes"}).messages()
    assert [row.value for row in of_library] == [row.get("value") for row in rows]


def test_the_library_says_what_is_wrong_at_once(captures: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        ps.open(str(captures / "java-schemas.pcap"), schemas={"orders": "nowhere"})


@pytest.mark.slow
@pytest.mark.parametrize("names", [("java-schemas.pcap", "java-keyvalue.pcap", "go-schemas.pcap")])
def test_several_processes_give_the_same_values(captures: Path, names: tuple[str, ...]) -> None:
    paths = [str(captures / name) for name in names]
    option = ("--schema", "schemas-int64-*=bytes")
    assert decoded(*paths, *option, "--jobs", "2") == decoded(*paths, *option)


def test_all_outputs_have_the_same_values(captures: Path, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    capture = str(captures / "java-keyvalue.pcap")
    expected = [row["value"] for row in decoded(capture)]
    text = CliRunner().invoke(app, ["messages", "--format", "csv", "--columns", "key,value", "-q", capture]).stdout
    assert [json.loads(row["value"]) for row in csv.DictReader(io.StringIO(text))] == expected
    out = tmp_path / "m.parquet"
    CliRunner().invoke(app, ["messages", "--format", "parquet", "--columns", "value", "-o", str(out), "-q", capture])
    assert [json.loads(value) for value in pq.read_table(out)["value"].to_pylist()] == expected


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ('value.name == "gamma"', {"schemas-avro-31", "schemas-json-31", "schemas-evo-31"}),
        ('value["price"] > 30', {"schemas-evo-31"}),
        ("value > 1000000", {"schemas-int64-31"}),
        ('value.tags == "beta"', {"schemas-evo-31"}),
        ('value contains "é"', {"schemas-string-31"}),
        ("value == true", {"schemas-bool-31"}),
    ],
)
def test_a_filter_asks_for_values(captures: Path, text: str, topics: set[str]) -> None:
    rows = decoded(str(captures / "java-schemas.pcap"), "-Y", text)
    assert {row["topic"].rpartition("/")[2] for row in rows} == topics


def test_people_see_values_and_no_control_character_of_theirs(captures: Path, tmp_path: Path) -> None:
    capture = str(captures / "java-schemas.pcap")
    shown = CliRunner().invoke(app, ["messages", capture]).stdout
    assert '       {"id":2,"name":"gamma","note":"n","price":1.0,"tags":["alpha","beta"]}\n' in shown
    assert '\n       "s0 é世"\n' in shown
    tree = CliRunner().invoke(app, ["decode", "-V", "--records", "frame,message", capture]).stdout
    assert "value id 2 name gamma" in " ".join(tree.split())
    schema = tmp_path / "x.avsc"
    schema.write_text(
        '{"type":"record","name":"R","fields":[{"name":"\\u001b[2Jid","type":"int"},{"name":"b","type":["null","string"]},{"name":"p","type":"double"}]}'
    )
    for arguments in (["messages"], ["decode", "-V", "--records", "frame,message"]):
        shown = CliRunner().invoke(app, [*arguments, capture, "--schema", f"schemas-avro-31={schema}"]).stdout
        assert "\x1b" not in shown
        assert "[2Jid" in shown


TOPIC = "persistent://public/default/orders"
OTHER = "persistent://shop/eu/stock-partition-1"


def internal(*ledgers: int) -> dict[str, Any]:
    """A shortened output of stats-internal."""
    return {
        "entriesAddedCounter": 5,
        "lastConfirmedEntry": f"{ledgers[-1]}:4",
        "state": "LedgerOpened",
        "ledgers": [{"ledgerId": ledger, "entries": 0, "size": 0, "offloaded": False} for ledger in ledgers],
        "cursors": {"s": {"markDeletePosition": f"{ledgers[0] - 1}:-1", "cursorLedger": 900, "state": "Open"}},
        "schemaLedgers": [{"ledgerId": 901, "entries": 1}],
        "compactedLedger": {"ledgerId": 902, "entries": -1},
    }


def names(topic: str, *ledgers: int) -> dict[str, str]:
    return {f"topic of ledger {ledger}": topic for ledger in ledgers}


FORMS = {
    "one topic, named as the file": (internal(7, 9), names(TOPIC, 6, 7, 9)),
    "by topic": ({TOPIC: internal(7), OTHER: internal(9)}, names(TOPIC, 6, 7) | names(OTHER, 8, 9)),
    "a partitioned topic": ({"metadata": {"partitions": 2}, "partitions": {OTHER: internal(9)}}, names(OTHER, 8, 9)),
    "a list": ([{"topic": OTHER, "stats": internal(9)}], names(OTHER, 8, 9)),
    "statistics": ({OTHER: {"subscriptions": {"s": {"consumers": [{"readPositionWhenJoining": "9:3"}]}}}}, names(OTHER, 9)),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_an_administrator_s_statistics_is_read(tmp_path: Path, form: str) -> None:
    value, expected = FORMS[form]
    path = tmp_path / "orders.json"
    path.write_text(json.dumps(value, indent=1))
    assert given_names([str(path)], names_readers) == expected


def test_lines_are_read_and_later_files_count(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    first.write_text(f"{json.dumps({TOPIC: internal(7)})}\n\n{json.dumps({OTHER: internal(9)})}\n")
    second.write_text(json.dumps({OTHER: internal(7)}))
    assert given_names([str(first), str(second)], names_readers) == names(OTHER, 6, 7, 8, 9)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"", "it has no ledgers"),
        (b"\xff\xfe{", "it is not JSON"),
        (b"{}", "it has no ledgers"),
        (b'{"ledgers": [{"ledgerId": "x"}, {"ledgerId": -1}, {"ledgerId": 99999999999999999999}]}', "it has no ledgers"),
        (b"[" * 100_000, "it is not JSON"),
        (b"hello", "it is not JSON: invalid character (byte 0)"),
        (b'{"a":' * 500 + b'{"ledgerId": 1}' + b"}" * 500, "it has no ledgers"),
    ],
)
def test_a_file_without_names_is_refused_in_one_line(tmp_path: Path, content: bytes | None, problem: str) -> None:
    path = tmp_path / "names.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError) as refusal:
        given_names([str(path)], names_readers)
    assert problem in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("bound", ["NAMES_MAX_BYTES", "NAMES_MAX"])
def test_names_are_bounded(tmp_path: Path, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "names.json"
    path.write_text(json.dumps(internal(7, 9)))
    monkeypatch.setattr(given_files, bound, 2)
    with pytest.raises(UsageError, match=r"too (large|many)"):
        given_names([str(path)], names_readers)


def test_they_name_the_topics_of_connections_that_began_before_the_capture(tmp_path: Path) -> None:
    talk = Conversation().client(send()).server(receipt()).client(send(1, 1)).server(message(2, 1), message(3, ledger=20))
    capture = str(write_pcap(tmp_path / "attached.pcap", talk.packets))
    path = tmp_path / "names.json"
    path.write_text(json.dumps({TOPIC: internal(7)}))
    expected = [None, TOPIC, TOPIC, TOPIC, "topic of ledger 20"]
    assert [frame.topic for frame in ps.open(capture, names=path).frames()] == expected
    result = CliRunner().invoke(app, ["decode", capture, "--names", str(path), "-f", "ndjson"])
    assert [json.loads(line).get("topic") for line in result.stdout.splitlines()] == expected
