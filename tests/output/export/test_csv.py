from __future__ import annotations

import copy
import csv
import io
import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsarscope.cli.encoded_rows import Encoding
from pulsarscope.engine.options import Options
from pulsarscope.engine.parallel import run
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import row_type
from pulsarscope.model.text import show_controls
from pulsarscope.output.registry import column_names
from pulsarscope.protocols import make_dissectors
from tests.scenarios import rows
from tests.scenarios.both_readers import reader
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import created, producer, receipt, send
from tests.scenarios.conversation import Conversation
from tests.scenarios.odd_values import DISPLAYED
from tests.scenarios.rows import put_out


def table(some: list[Any], *kinds: str, **values: Any) -> list[dict[str, str]]:
    text = put_out("csv", some, rows.options(*kinds, **values)).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_the_header_names_the_flat_columns_even_without_rows() -> None:
    assert put_out("csv", [], rows.options()).decode().rstrip("\r\n").split(",") == list(column_names("frame", flat=True))


def test_each_type_has_its_text() -> None:
    (frame,) = table([rows.send(findings=["a", "b"], latency_ns=-5)])
    assert frame["time"] == "2026-05-01T10:00:00.127456789Z"
    assert frame["fields"] == '{"producer_id":0,"sequence_id":7}'
    assert (frame["checksum_status"], frame["checksum_stored"]) == ("good", "e3069283")
    assert frame["findings"] == "a b"
    assert frame["latency_ns"] == "-5"
    assert frame["request"] == ""
    (message,) = table([rows.message(encrypted=True, schema_version=b"\xfb\xef\xbe", properties={"z": "1", "a": "2"})], "message")
    assert (message["encrypted"], message["schema_version"]) == ("true", "'++++")
    assert message["properties"] == '{"z":"1","a":"2"}'


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r"])
def test_text_that_a_spreadsheet_would_run_gets_an_apostrophe(start: str) -> None:
    (frame,) = table([rows.frame(topic=f"{start}cmd|' /C calc'!A0")])
    assert frame["topic"] == f"'{start}cmd|' /C calc'!A0"


@pytest.mark.parametrize("version", [b"\xf8", b"\xfb\xff", b"\xf8" * 40])
def test_base64_that_begins_like_a_formula_gets_an_apostrophe_and_other_base64_none(version: bytes) -> None:
    for value, apostrophe in ((version, "'"), (b"\x00" + version, "")):
        (message,) = table([rows.message(schema_version=value)], "message")
        assert message["schema_version"] == apostrophe + b64encode(value).decode()


@pytest.mark.parametrize("character", DISPLAYED)
def test_json_in_a_cell_shows_no_controls_and_loses_none(character: str) -> None:
    (message,) = table([rows.message(properties={character: f"a{character}"})], "message")
    assert character not in message["properties"]
    assert json.loads(message["properties"]) == {character: f"a{character}"}


def test_an_empty_text_gets_none() -> None:
    assert table([rows.frame(topic="")])[0]["topic"] == ""


def test_rows_made_with_only_the_columns_asked_for_are_all_there() -> None:
    some = row_type("message", ("topic", "payload_size"))
    written = table([some("a", 1), some("b", 2)], "message", columns=("topic", "payload_size"))
    assert written == [{"topic": "a", "payload_size": "1"}, {"topic": "b", "payload_size": "2"}]


def test_a_block_is_what_its_rows_are_alone() -> None:
    some = [
        rows.send(topic='a "b", {}', request="0:1.1"),
        rows.send(6, topic=None, findings=["a"], request="0:1.1"),
        rows.receipt(topic="=1", request=None, latency_ns=None),
    ]
    header = put_out("csv", [], rows.options())
    alone = [put_out("csv", [row], rows.options()).removeprefix(header) for row in copy.deepcopy(some)]
    assert put_out("csv", some, rows.options()) == header + b"".join(alone)


def test_an_empty_cell_alone_is_still_a_row() -> None:
    assert put_out("csv", [rows.frame(), rows.frame(topic="t")], rows.options(columns=("topic",))) == b'topic\r\n""\r\nt\r\n'


def test_several_kinds_are_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"one kind of record, not frame, message: choose one with --records"):
        table([], "frame", "message")


def test_chosen_columns_come_in_the_order_asked_for() -> None:
    assert (
        put_out("csv", [rows.send()], rows.options(columns=("topic", "packet")))
        == b"topic,packet\r\npersistent://public/default/orders,4\r\n"
    )


def test_control_characters_are_made_visible_and_no_others() -> None:
    text = "a\0b \x1b[2J \x9b31m \u202e \t\n 日本 \u200d"
    assert table([rows.frame(topic=text)])[0]["topic"] == "a\\x00b \\x1b[2J \\x9b31m \\u202e \t\n 日本 \u200d"


@pytest.mark.slow
@given(st.lists(st.text(), min_size=1))
def test_any_text_comes_back_from_a_reader(texts: list[str]) -> None:
    got = [frame["topic"] for frame in table([rows.frame(topic=text) for text in texts])]
    assert got == [f"'{text}" if text[:1] in set("=+-@\t\r") else text for text in map(show_controls, texts)]


@pytest.mark.parametrize("odd", ["orders", "=1+1", 'a"b,c', "\u202e é \x1b[31m", "-", "two\r\nlines", ""])
def test_frames_in_columns_are_written_as_rows_are(tmp_path: Path, odd: str) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    conversation = Conversation().handshake().client(producer(1, f"p{odd}", 10, odd)).server(created(f"p{odd}", 10))
    for number in range(20):
        metadata = {"producer_name": odd, "properties": [{"key": odd, "value": odd}]} if number % 2 else {}
        conversation.client(send(1, number, b"x", metadata)).server(receipt(1, number, 7, number))
    path = write_pcap(tmp_path / "in.pcap", conversation.close().packets)
    written = []
    for choice in ("off", "require"):
        with reader(choice):
            options = Options(records=frozenset({"frame"}), columns=True, dissectors=make_dissectors)
            encoding = Encoding("csv", ("frame",), None)
            written.append([encoding(batch.rows).rows for batch in run([str(path)], options, 1)])
    assert b"".join(written[0]) == b"".join(written[1])
    assert b"".join(written[0]).count(b",SEND_RECEIPT,") == 20
