from __future__ import annotations

from typing import Any

import pytest

from pulsarscope.model.records import Checksum, FrameRow
from pulsarscope.protocols.bookkeeper.summary import summary
from tests.protocols.bookkeeper.cases import CURSOR, DISSECTOR
from tests.scenarios.bookkeeper import add, added, auth, ledger_entry, read, read_back


def line(data: bytes, **columns: Any) -> str:
    row = FrameRow(None, 0, 1, 1, 0, "0:1", "bookkeeper")
    row.command, row.fields, _, row.checksum, row.metadata, *_ = DISSECTOR.decode(data, 0, len(data))
    for name, value in columns.items():
        setattr(row, name, value)
    return summary(row)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (add(ledger_entry(9, 4, CURSOR), flags=2), "9:4  LAC 3  RECOVERY_ADD  cursor mark-delete 14:3  13 B"),
        (added(9, 4), "9:4"),
        (added(9, 4, status=104), "EFENCED  9:4"),
        (read(9, -1, fence=True), "9:-1  DO_FENCING"),
        (read_back(9, -1, ledger_entry(9, 4)), "9:-1  is entry 4  LAC 3  4 B"),
        (auth(b"x"), "plug-in sasl"),
    ],
)
def test_a_line_says_what_is_done_to_which_entry(data: bytes, text: str) -> None:
    assert line(data) == text


def test_a_wrong_digest_stands_out() -> None:
    assert line(add(ledger_entry(9, 4)), checksum=Checksum("bad")).endswith("CRC32C wrong")
