from __future__ import annotations

from typing import Any

from pulsarscope.output.render.cell_text import cell_width
from tests.scenarios import rows
from tests.scenarios.rows import text_of


def messages(some: list[Any], **values: Any) -> list[str]:
    lines = text_of("messages", some, rows.options("message", **values)).splitlines()
    return [line for line in lines if not line.lstrip().startswith("frame ")]  # the heading


def test_a_delivery_is_a_line_with_all_that_matters() -> None:
    lines = messages([rows.message()])
    assert lines[1:] == [
        "   9.1  0.000000   #1 ← deliver orders  26:14:3  key k1  seq 7  1,234 B  sub billing  LZ4  redelivery 2  {a=1}",
        "",
        "0 messages produced, 1 delivered · 1 connection · no findings",
    ]


def test_a_produced_message_without_receipt_says_so() -> None:
    line = messages([rows.message(direction="produce", topic=None, producer_id=3, subscription=None, ledger=None)])[1]
    assert " → produce producer 3  no id  key k1 " in line


def test_what_is_odd_about_a_message_is_said() -> None:
    odd = rows.message(status="encrypted", encrypted=True, null_value=True, marker="transaction commit", chunks=3, txn="(1,2)", key=None)
    line = messages([odd], width=200)[1]
    assert line.rstrip().endswith("encrypted")
    for words in ("marker transaction commit", "tombstone", "3 chunks", "txn (1,2)"):
        assert words in line


def test_a_payload_that_was_asked_for_has_a_line_of_its_own() -> None:
    shown = rows.message(payload="hello\x1b[31m" * 400)
    line = messages([shown])[2]
    assert line.startswith("       hello\\x1b[31mhello")
    assert line.endswith("… (4,000 characters)")
    assert cell_width(messages([shown], width=100)[2]) == 100
    assert len(messages([rows.message(payload="")], quiet=True)) == 1


def test_more_properties_than_anyone_reads_are_counted() -> None:
    many = rows.message(properties={f"k{number}": "v" for number in range(1_500)})
    assert "and 500 more}" in messages([many])[1]
