"""Frames of each kind, and runs over them."""

from __future__ import annotations

import json
from typing import Any

from pulsarscope.protocols import make_dissectors
from pulsarscope.protocols.bookkeeper.dissector import BookkeeperDissector
from pulsarscope.testing import ScriptedConnection
from tests.places import CAPTURES
from tests.scenarios.bookkeeper import add, added, auth, frame, ledger_entry, read, read_back, v3_add, v3_added

DISSECTOR = next(made for made in make_dissectors() if isinstance(made, BookkeeperDissector))

ENTRY = ledger_entry(9, 3)

CURSOR = bytes.fromhex("080e10033207080e1080111000")

FRAMES = [
    add(ENTRY),
    add(ledger_entry(9, 4, CURSOR, digest="HMAC"), flags=2),
    added(9, 3),
    read(9, 3),
    read(9, -1, fence=True),
    read_back(9, 3, ENTRY),
    read_back(9, 77, status=2),
    auth(b"response=secret"),
    v3_add(7, ENTRY, 9, 3),
    v3_added(7, 9, 3, status=504),
]

ANSWERS = [
    frame(bytes.fromhex(row["response"]))
    for row in map(json.loads, (CAPTURES / "bookkeeper" / "raw.truth.jsonl").read_text().splitlines())
    if "response" in row and "pipelined" not in row["name"]
]
"""Responses of a bookie to all operations; in the list, those to pipelined reads are cut off."""


def decoded(data: bytes) -> tuple[str | None, dict[str, Any]]:
    """Return the command and the fields of one frame."""
    command, fields = DISSECTOR.decode(data, 0, len(data))[:2]
    return command, fields or {}


def connection() -> ScriptedConnection:
    """A connection to a bookie on its port."""
    return ScriptedConnection(3181)
