from __future__ import annotations

import pytest

from pulsarscope.filter.follow import FollowFilter
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import FrameRow
from tests.protocols.bookkeeper.cases import DISSECTOR, decoded
from tests.scenarios.bookkeeper import add, added, auth, ledger_entry, read, read_back

TALK = [
    add(ledger_entry(9, 3)),
    added(9, 3),
    add(ledger_entry(9, 4)),
    read(9, 3),
    read_back(9, 3, ledger_entry(9, 3)),
    read_back(9, -1, ledger_entry(9, 3)),
    read_back(8, 3, ledger_entry(8, 3)),
    auth(b""),
]


def followed(name: str) -> list[int]:
    rows = []
    for packet, data in enumerate(TALK):
        row = FrameRow(None, 0, packet, 1, 0, "0:1", "bookkeeper")
        row.command, row.fields = decoded(data)
        rows.append(row)
    return [row.packet for row in FollowFilter("message", name, [DISSECTOR]).select(rows, {})]


@pytest.mark.parametrize("name", ["9:3", "9:3:7"])
def test_a_message_is_followed_to_where_it_is_stored_and_back(name: str) -> None:
    assert followed(name) == [0, 1, 3, 4, 5]


def test_what_is_no_id_is_refused() -> None:
    with pytest.raises(UsageError, match="is no entry: give LEDGER:ENTRY"):
        followed("orders")
