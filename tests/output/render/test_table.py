from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.model.errors import UsageError
from pulsarscope.output.render.cell_text import cell_width
from tests.scenarios import rows
from tests.scenarios.rows import Run, text_of


def table(some: list[Any], *kinds: str, **values: Any) -> list[str]:
    lines = text_of("table", some, rows.options(*kinds, **values)).splitlines()
    return [line for line in lines if not line.lstrip().startswith("frame ")]  # the heading


def test_an_exchange_is_a_line_with_its_latency() -> None:
    lines = table([rows.exchange(), rows.exchange(status="error", error="TopicNotFound", error_message="no such topic")], "exchange")
    assert lines[1] == "   4.1  0.000000   #1 ↩    850 µs LOOKUP               LOOKUP_RESPONSE  orders  key 5"
    assert lines[2].endswith("TopicNotFound  no such topic  key 5  error")
    assert lines[-1] == "2 exchanges · 1 connection · no findings"


def test_an_unanswered_request_has_no_latency() -> None:
    line = table([rows.exchange(response=None, latency_ns=None, status="unanswered")], "exchange", width=100)[1]
    assert line.endswith("unanswered")
    assert cell_width(line) <= 100


def test_a_connection_says_who_what_how_long_and_what_is_missing() -> None:
    lines = table([rows.connection(client_version="Pulsar-CPP", protocol_version=20, retransmitted=3)], "connection")
    assert lines == [
        "connection #1  10.0.0.1:50886 → 10.0.0.2:6650",
        "    pulsar v20  Pulsar-CPP",
        "    opened syn  closed fin by client  lasted 5.00 s  20 packets  3 retransmitted",
        "    client          9 frames            3,000 B",
        "    server          8 frames              900 B  12 B missing",
        "",
        "1 connection · no findings",
    ]


def test_findings_include_notes_when_they_are_what_is_asked_for() -> None:
    assert any("note checksum-mismatch" in line for line in table([rows.finding(severity="note")], "finding", run=Run({"note": 1})))


def test_chosen_columns_are_aligned_under_their_names() -> None:
    lines = table([rows.send(), rows.receipt(packet=12, fields={})], columns=("packet", "command", "time", "checksum", "fields"))
    assert lines == [
        "packet  command       time                            checksum                fields",
        '     4  SEND          2026-05-01T10:00:00.127456789Z  good e3069283 e3069283  {"producer_id":0,"sequence_id":7}',
        "    12  SEND_RECEIPT  2026-05-01T10:00:00.135456789Z  -                       {}",
    ]


def test_all_types_of_column_have_a_text() -> None:
    shown = rows.message(encrypted=False, schema_version=b"\x00\x01", value={"a": "\x1b"})
    line = table([shown], "message", columns=("encrypted", "schema_version", "value", "properties"))[1]
    assert line.split() == ["false", "AAE=", '{"a":"\\u001b"}', '{"a":"1"}']
    assert table([rows.send(findings=["a", "b"])], columns=("findings",))[1] == "a b"


def test_rows_of_other_kinds_are_left_out() -> None:
    assert len(table([rows.send(), rows.connection()], columns=("packet",))) == 2


def test_an_unknown_column_is_refused_with_its_neighbours() -> None:
    with pytest.raises(UsageError, match="did you mean topic"):
        table([], columns=("topik",))


def test_lines_fit_the_terminal() -> None:
    wide = table([rows.send(topic="t" * 300)], columns=("topic", "command", "fields"), width=80)
    assert max(map(cell_width, wide)) <= 80
