"""Message rows: requested columns, payload forms, and rows made later."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from pulsarscope.dissect.contract.events import LaterMessages, MessageEntry, SingleMessage
from pulsarscope.engine.message_rows import MessageRows
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import MessageRow
from pulsarscope.model.row_lists import RowList


def message(**values: Any) -> MessageRow:
    row = MessageRow(None, 0, 1, 1, 100, "0:1", "pulsar")
    for name, value in values.items():
        setattr(row, name, value)
    return row


def test_a_message_has_size_digest_and_payload() -> None:
    out: list[Any] = []
    MessageRows(None, "hex").add(SingleMessage(message(topic="t"), b"\x01\xff"), out)
    [row] = out
    assert (row.topic, row.payload_size, row.payload, row.payload_sha256) == ("t", 2, "01ff", sha256(b"\x01\xff").hexdigest())


def test_only_columns_that_are_asked_for_are_made() -> None:
    out: list[Any] = []
    MessageRows(("topic", "payload_size"), "hex").add(SingleMessage(message(topic="t"), b"ab"), out)
    assert [(type(row).__struct_fields__, row.topic, row.payload_size) for row in out] == [(("topic", "payload_size"), "t", 2)]


def test_an_entry_gives_a_row_for_each_message() -> None:
    out: list[Any] = []
    MessageRows(None, None).add_entry(MessageEntry(message(topic="t"), 2, {"key": ["a", "b"]}), out)
    assert [(row.topic, row.key) for row in out] == [("t", "a"), ("t", "b")]


def test_very_many_messages_are_made_later() -> None:
    out = RowList(later=True, together=False)
    MessageRows(None, None).add_several(LaterMessages(ROWS_MAX + 1, lambda: [SingleMessage(message())] * (ROWS_MAX + 1)), out)
    assert (len(out), len(out.later)) == (0, 1)
    assert sum(map(len, out.take(ROWS_MAX))) == ROWS_MAX + 1
