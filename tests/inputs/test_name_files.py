"""--names FILE, by the command line and by the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pulsarscope as ps
from pulsarscope.cli import app
from pulsarscope.inputs import name_files
from pulsarscope.inputs.name_files import given_names
from pulsarscope.model.errors import UsageError
from pulsarscope.protocols import names_readers
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.commands import message, receipt, send
from tests.scenarios.conversation import Conversation

TOPIC = "persistent://public/default/orders"
OTHER = "persistent://shop/eu/stock-partition-1"


def internal(*ledgers: int) -> dict[str, Any]:
    """What stats-internal prints, in short."""
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
    monkeypatch.setattr(name_files, bound, 2)
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
