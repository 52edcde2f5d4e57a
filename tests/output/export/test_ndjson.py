from __future__ import annotations

import json
import math
from random import Random
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import MessageRow, row_type
from pulsarscope.model.row_lists import EntryMessages
from pulsarscope.output.export import ndjson
from pulsarscope.output.registry import output
from pulsarscope.protocols.pulsar.entry.batch import BatchReader
from pulsarscope.protocols.pulsar.frame.protobuf import Plans
from tests.scenarios import Single, batch, rows
from tests.scenarios.both_readers import reader
from tests.scenarios.chance import randoms
from tests.scenarios.odd_values import DISPLAYED
from tests.scenarios.rows import Memory, put_out


def records(some: list[Any], *kinds: str, **values: Any) -> list[dict[str, Any]]:
    data = put_out("ndjson", some, rows.options(*kinds, **values))
    assert data == b"" or data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def test_a_row_is_a_line_and_absent_values_are_left_out() -> None:
    (record,) = records([rows.receipt()])
    assert record["record"] == "frame"
    assert record["time"] == "2026-05-01T10:00:00.129456789Z"
    assert record["fields"]["message_id"] == {"ledgerId": 26, "entryId": 14}
    assert "metadata" not in record


@pytest.mark.parametrize("character", DISPLAYED)
@pytest.mark.parametrize("output", ["ndjson", "json"])
def test_controls_that_a_terminal_obeys_are_escaped_without_loss(output: str, character: str) -> None:
    texts = [character, f"größe — “{character}”", f"\\{character}", "§\u00a0…", "\u2028"]
    data = put_out(output, [rows.send(topic=text, fields={text: text}) for text in texts], rows.options())
    assert character not in data.decode()
    read = [json.loads(line) for line in data.splitlines()] if output == "ndjson" else json.loads(data)
    assert [(frame["topic"], frame["fields"]) for frame in read] == [(text, {text: text}) for text in texts]


def test_letters_of_all_languages_are_not_escaped() -> None:
    text = "größe § … “日本” €"
    assert text in put_out("ndjson", [rows.send(topic=text)], rows.options()).decode()


def test_checksums_are_objects_and_bytes_base64() -> None:
    (frame,) = records([rows.send(fields={"auth_data": b"\x00\xff"})])
    assert frame["checksum"] == {"status": "good", "stored": "e3069283", "computed": "e3069283"}
    assert frame["fields"]["auth_data"] == "AP8="


def test_all_time_columns_of_all_kinds_are_text() -> None:
    message, connection = records(
        [rows.message(event_time=0, deliver_at=rows.START, broker_time=1), rows.connection()], "message", "connection"
    )
    assert message["publish_time"] == "2026-05-01T10:00:00.123456788Z"
    assert message["event_time"] == "1970-01-01T00:00:00.000000000Z"
    assert message["deliver_at"] == "2026-05-01T10:00:00.123456789Z"
    assert message["broker_time"] == "1970-01-01T00:00:00.000000001Z"
    assert (connection["start"], connection["end"]) == ("2026-05-01T10:00:00.123456789Z", "2026-05-01T10:00:05.123456789Z")


def test_times_may_repeat_go_back_or_be_absent() -> None:
    times = [rows.START, rows.START, None, rows.START - 1, rows.START + 10**9, None, 0]
    got = records([rows.frame(time=time) for time in times])
    assert [record.get("time") for record in got] == [
        "2026-05-01T10:00:00.123456789Z",
        "2026-05-01T10:00:00.123456789Z",
        None,
        "2026-05-01T10:00:00.123456788Z",
        "2026-05-01T10:00:01.123456789Z",
        None,
        "1970-01-01T00:00:00.000000000Z",
    ]


@given(st.lists(st.none() | st.integers(-(2**63), 2**63 - 1)))
def test_any_times_are_written_as_each_would_be_alone(times: list[int | None]) -> None:
    together = records([rows.frame(time=time) for time in times])
    alone = [records([rows.frame(time=time)])[0] for time in times]
    assert together == alone


def test_chosen_columns_come_in_the_order_asked_for_with_the_kind() -> None:
    data = put_out("ndjson", [rows.send(), rows.message()], rows.options("frame", "message", columns=("topic", "packet", "metadata")))
    assert [list(json.loads(line)) for line in data.splitlines()] == [
        ["record", "topic", "packet", "metadata"],
        ["record", "topic", "packet"],
    ]


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(UsageError, match="topic"):
        records([], columns=("topik",))


@given(st.text(), st.floats(), st.integers(-(2**63), 2**64 - 1))
def test_whatever_the_wire_says_is_valid_json_on_one_line(text: str, number: float, whole: int) -> None:
    (record,) = records([rows.frame(fields={"text": text, "number": number, "whole": whole})])
    assert record["fields"]["text"] == text
    assert record["fields"]["whole"] == whole
    assert record["fields"]["number"] == (None if math.isnan(number) or math.isinf(number) else number)


def test_no_rows_are_no_lines() -> None:
    assert records([]) == []


def test_rows_that_have_only_the_chosen_columns_are_written_as_whole_ones_are() -> None:
    names = ("publish_time", "topic", "properties")
    whole = [rows.message(), rows.message(topic=None, publish_time=None)]
    some = [row_type("message", names)(*[getattr(row, name) for name in names]) for row in whole]
    options = rows.options("message", "connection", columns=(*names, "opened", "start"))
    assert records([*some, rows.connection()], "message", "connection", columns=options.columns) == records(
        [*whole, rows.connection()], "message", "connection", columns=options.columns
    )


def test_remembered_times_do_not_grow_without_end() -> None:
    texts = ndjson._TimeTexts()
    for time in range(3 * ndjson.TEXTS_MAX):
        assert texts[time] == f"1970-01-01T00:00:00.{time:09d}Z"
    assert len(texts) <= ndjson.TEXTS_MAX


@pytest.mark.parametrize("blocks", [[], [0], [1], [0, 2, 0, 1], [3]])
def test_the_array_holds_what_ndjson_has_line_by_line(blocks: list[int]) -> None:
    sinks = {name: Memory() for name in ("json", "ndjson")}
    for name, sink in sinks.items():
        made = output(name)(sink, rows.options())
        for count in blocks:
            made.write([rows.send(number, topic="a\nb") for number in range(count)])
        made.close()
    array = json.loads(sinks["json"].data)
    assert array == [json.loads(line) for line in sinks["ndjson"].data.splitlines()]
    assert sinks["json"].data.endswith(b"]\n")


OWN: dict[str, tuple[Any, ...]] = {
    "key": (None, "k", 'é"', *DISPLAYED),
    "sequence_id": (None, 0, -1, (1 << 63) - 1),
    "properties": (None, {}, {"a": "1", "\n\x7f": "\u202e"}),
    "event_time": (None, 0, rows.START),
    "null_value": (None, True, False),
    "ordering_key": (None, b"", b"\xff\x01"),
    "value": (None, {"a": [1, None]}, "text\x85", 1.5, True),
    "payload_size": (0, 20_000),
}


def lines_of_rows(entry: EntryMessages) -> bytes:
    columns = {name: [*values] for name, values in entry.columns.items()}
    own = [{name: values[index] for name, values in columns.items()} for index in range(entry.count)]
    return put_out("ndjson", [msgspec.structs.replace(entry.shared, **values) for values in own], rows.options("message"))


@given(random=randoms)
def test_messages_of_an_entry_are_written_as_their_rows_are(random: Random) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    count = random.randrange(1, 5)
    names = [name for name in OWN if random.random() < 0.5]
    columns = {"batch_index": range(count), **{name: [random.choice(OWN[name]) for _ in range(count)] for name in names}}
    entry = EntryMessages(rows.message(topic="t,\x7f", status="ok"), count, columns)
    expected = lines_of_rows(entry)
    with reader("require"):
        assert put_out("ndjson", [entry], rows.options("message")) == expected


def test_entries_of_the_compiled_reader_stand_among_rows_in_order() -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    fields: dict[str, Any] = {"properties": [{"key": "a", "value": "é\x7f"}], "partition_key": "k,", "sequence_id": (1 << 64) - 1}
    java = {"event_time": 1_777_630_000_000, "partition_key_b64_encoded": True, "null_value": True}
    data = batch([Single(b"one", fields), Single(b"", java), Single(b"three", {})])
    notes: list[Any] = []
    plan = Plans(show_secrets=False).named("SingleMessageMetadata")
    with reader("require"):
        count, columns = BatchReader(plan, MessageRow.__struct_fields__, None).read(data, 3, MessageRow(sequence_id=7), notes)
        assert (count, notes) == (3, [])
        entry = EntryMessages(rows.message(), count, cast("dict[str, Any]", columns))
        expected = put_out("ndjson", [rows.message()], rows.options("message")) + lines_of_rows(entry)
        assert put_out("ndjson", [rows.message(), entry], rows.options("message")) == expected
