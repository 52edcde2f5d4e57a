from __future__ import annotations

import re

import pytest

from pulsarscope.cli.commands.follow import FollowRequest, follow
from pulsarscope.filter.follow import FollowFilter
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import FrameRow
from tests.places import CAPTURES
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
    with pytest.raises(UsageError, match="is not an entry: give LEDGER:ENTRY"):
        followed("orders")


def test_the_broker_stands_between_its_clients_and_the_bookies(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "180")
    assert follow(FollowRequest(files=[str(CAPTURES / "bookkeeper" / "e3.pcap.zst")], message="8:3")) == 0
    lines = capsys.readouterr().out.splitlines()
    (title,) = [line.split() for line in lines if line.split()[:1] == ["client"]]
    assert title == ["client", "broker", "bookie", "1", "bookie", "2"]
    drawn = [re.sub(r".*?[├│]", "|", line, count=1) for line in lines if re.match(r" +\d+\.\d+ ", line)]
    hops = [
        "SEND ",
        "ADD ",
        "ADD ",
        "ADD_RESPONSE",
        "ADD_RESPONSE",
        "SEND_RECEIPT",
        "MESSAGE",
        "ACK",
        "READ ",
        "READ_RESPONSE",
        "MESSAGE",
        "ACK",
    ]
    assert [hop for line, hop in zip(drawn, hops, strict=True) if hop in line] == hops
    rows = [line for line in lines if re.match(r" +\d+\.\d+ ", line)]
    first, *_, last_bookie = (at for at, mark in enumerate(rows[0]) if mark in "│├┤")
    broker = rows[0].index("│", first + 1)
    for line, hop in zip(rows, hops, strict=True):
        is_stored = hop.startswith(("ADD", "READ"))
        assert (set(line[first:broker]) == {"│", " "}) == is_stored, line
        assert ("▶" in line) == (hop in ("SEND ", "ADD ", "READ ", "ACK")), line
    of_second = [hop for line, hop in zip(rows, hops, strict=True) if hop.startswith("ADD") and line[last_bookie - 1] in "▶─"]
    assert of_second == ["ADD ", "ADD_RESPONSE"]


def test_the_bytes_of_a_message_are_compared_on_all_its_way(capsys: pytest.CaptureFixture[str]) -> None:
    assert follow(FollowRequest(files=[str(CAPTURES / "bookkeeper" / "e3.pcap.zst")], message="8:3")) == 0
    assert "the same bytes at each of 6 hops: SEND, 2 ADD, 2 MESSAGE, READ_RESPONSE (CRC32-C 91329659)" in capsys.readouterr().out
