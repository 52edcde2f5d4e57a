"""Findings of the rules, in captures of the repository and in conversations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pulsarscope.capture import BlockReader
from pulsarscope.engine.local import run, run_blocks
from pulsarscope.model.findings import SEVERITIES, Code
from pulsarscope.model.records import FindingRow, FrameRow
from tests.places import CAPTURES
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.conversation import Conversation
from tests.scenarios.options import Options


class Diagnosis:
    """The findings of captures, and the frames that they name."""

    def __init__(self, *paths: Path) -> None:
        options = Options(frozenset({"frame", "finding"}), rules=True)
        rows = [row for batch in run([str(path) for path in paths], options) for row in batch.rows]
        self.findings = [row for row in rows if isinstance(row, FindingRow)]
        self.frames = {f"{row.file}:{row.packet}.{row.sub}": row for row in rows if isinstance(row, FrameRow)}

    @property
    def codes(self) -> list[str]:
        """Sorted codes of the findings of sessions."""
        return sorted(row.code or "" for row in self.findings if row.layer == "session")

    def of(self, code: str) -> list[FindingRow]:
        """The findings of a code."""
        return with_code(self.findings, code)

    def only(self, code: str) -> tuple[FindingRow, dict[str, Any]]:
        """The single finding of a code, and its evidence."""
        (row,) = self.of(code)
        return row, row.evidence or {}

    def commands(self, row: FindingRow) -> list[str | None]:
        """The commands of the frames named in the evidence of a finding."""
        return [self.frames[name].command for name in (row.evidence or {})["frames"]]


def diagnose(folder: Path, *conversations: Conversation) -> Diagnosis:
    """The diagnosis of conversations in one capture, in the order of time."""
    packets = sorted((packet for conversation in conversations for packet in conversation.packets), key=lambda packet: packet.time_ns)
    return Diagnosis(write_pcap(folder / "conversations.pcap", packets))


def findings_of(folder: Path, *conversations: Conversation) -> list[FindingRow]:
    """The findings of conversations in one capture."""
    return diagnose(folder, *conversations).findings


def live_findings_of(folder: Path, *conversations: Conversation) -> list[FindingRow]:
    """The findings of conversations fed live, a few packets at a time."""
    packets = sorted((packet for conversation in conversations for packet in conversation.packets), key=lambda packet: packet.time_ns)
    path = str(write_pcap(folder / "conversations.pcap", packets))
    batches = run_blocks(path, BlockReader(path, 0, read_bytes=500), Options(frozenset({"finding"}), rules=True, live=True))
    return [row for batch in batches for row in batch.rows if isinstance(row, FindingRow)]


def findings_in(capture: str) -> list[FindingRow]:
    """The findings of a capture of the repository."""
    return Diagnosis(CAPTURES / capture).findings


def with_code(rows: list[FindingRow], code: str) -> list[FindingRow]:
    """The findings of a code."""
    return [row for row in rows if row.code == code]


def only(rows: list[FindingRow], code: str) -> tuple[str, dict[str, Any]]:
    """Text and evidence of the single finding of a code."""
    (row,) = with_code(rows, code)
    return row.text or "", row.evidence or {}


def problem_codes(rows: list[FindingRow]) -> list[str | None]:
    """Codes of the errors and warnings."""
    return [row.code for row in rows if row.severity != "note"]


def assert_well_formed(code: Code) -> None:
    """Check the name, the severity and the sentences of a finding code."""
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code.code)
    assert code.severity in SEVERITIES
    for text in (code.meaning, code.hint):
        assert text[0].isupper()
        assert text.endswith(".")
