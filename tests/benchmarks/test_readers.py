"""The comparison of the readers runs, and names what it reads."""

from __future__ import annotations

import pytest

from benchmarks import readers


def test_every_way_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    readers.main(["--count", "200", "--rounds", "1"])
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head == "| what | repeated layouts | generated | reference |"
    assert [row.split(" | ")[0] for row in rows] == [
        "| SEND",
        "| SEND_RECEIPT",
        "| MESSAGE",
        "| ACK",
        "| message of a batch, one shape",
        "| message of a batch, many lengths",
    ]
