"""Runs over conversations that are built step by step."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pulsarscope as ps
from pulsarscope.model.records import ALL, ConnectionRow, ExchangeRow, FindingRow, FrameRow, MessageRow
from tests.scenarios.capturefile import pcap
from tests.scenarios.conversation import Conversation

SERVER = ("10.0.0.9", 9092)


def talk(*, opened: bool = True, **values: Any) -> Conversation:
    """A connection to a broker, seen from its start unless `opened` is false."""
    conversation = Conversation(server=SERVER, **values)
    return conversation.handshake() if opened else conversation


class Seen(NamedTuple):
    """The rows of a run, by kind."""

    frames: list[FrameRow]
    messages: list[MessageRow]
    exchanges: list[ExchangeRow]
    connections: list[ConnectionRow]
    findings: list[FindingRow]

    @property
    def codes(self) -> set[str | None]:
        """Codes of the findings."""
        return {row.code for row in self.findings}

    @property
    def commands(self) -> list[str | None]:
        """Commands of the frames, in order."""
        return [row.command for row in self.frames]


def look(*conversations: Conversation, payload: str | None = None) -> Seen:
    """Decode and diagnose a capture of these conversations, one after the other."""
    packets = [packet for conversation in conversations for packet in conversation.packets]
    with TemporaryDirectory() as folder:
        path = Path(folder) / "kafka.pcap"
        path.write_bytes(pcap(packets))
        rows = list(ps.open(str(path), payload=payload).records(*ALL))
        findings = list(ps.open(str(path)).findings())
    kinds: dict[type, list[Any]] = {FrameRow: [], MessageRow: [], ExchangeRow: [], ConnectionRow: [], FindingRow: []}
    for row in rows:
        kinds[next(kind for kind in kinds if isinstance(row, kind))].append(row)
    return Seen(kinds[FrameRow], kinds[MessageRow], kinds[ExchangeRow], kinds[ConnectionRow], findings)
