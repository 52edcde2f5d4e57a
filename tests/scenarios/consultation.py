"""Conversations brought to the doctor: what the rules say of them, and the frames that they name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pulsarscope.engine.local import run
from pulsarscope.model.records import FindingRow, FrameRow
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.conversation import START_NS, Conversation
from tests.scenarios.frames import command_frame, message_metadata, payload_frame
from tests.scenarios.options import Options
from tests.scenarios.streams import CONNECT, CONNECTED

SECOND = 1_000_000_000
TOPIC = "persistent://public/default/t"


class Diagnosis:
    """The findings of a capture."""

    def __init__(self, *paths: Path) -> None:
        options = Options(frozenset({"frame", "finding"}), rules=True)
        rows = [row for batch in run([str(path) for path in paths], options) for row in batch.rows]
        self.findings = [row for row in rows if isinstance(row, FindingRow)]
        self.frames = {f"{row.file}:{row.packet}.{row.sub}": row for row in rows if isinstance(row, FrameRow)}

    @property
    def codes(self) -> list[str]:
        """Of the findings about what was said, in order of their names."""
        return sorted(row.code or "" for row in self.findings if row.layer == "session")

    def of(self, code: str) -> list[FindingRow]:
        """The findings of a code."""
        return [row for row in self.findings if row.code == code]

    def only(self, code: str) -> tuple[FindingRow, dict[str, Any]]:
        """The one finding of a code, and its evidence."""
        (row,) = self.of(code)
        return row, row.evidence or {}

    def commands(self, row: FindingRow) -> list[str | None]:
        """The commands of the frames that its evidence names."""
        return [self.frames[name].command for name in (row.evidence or {})["frames"]]


def diagnose(folder: Path, *conversations: Conversation) -> Diagnosis:
    """Those conversations in one capture, in the order of time."""
    packets = sorted((packet for talk in conversations for packet in talk.packets), key=lambda packet: packet.time_ns)
    return Diagnosis(write_pcap(folder / "talk.pcap", packets))


def connected(number: int = 0, *, after: int = 0, server: tuple[str, int] = ("10.0.0.2", 6650)) -> Conversation:
    """A connection of a client of this number, opened so many nanoseconds after the first."""
    start = START_NS + after + number * 1_000_000
    return Conversation(("10.0.0.1", 40_000 + number), server, start_ns=start).handshake().client(CONNECT).server(CONNECTED)


def subscribed(
    talk: Conversation, number: int = 1, kind: str = "Shared", *, subscription: str = "s", topic: str = TOPIC, **fields: Any
) -> Conversation:
    """The client subscribes, and the broker agrees."""
    names = {"topic": topic, "subscription": subscription, "subType": kind, "consumer_name": f"c{number}"}
    talk.client(command_frame("SUBSCRIBE", consumer_id=number, request_id=100 + number, **names, **fields))
    return talk.server(command_frame("SUCCESS", request_id=100 + number))


def flow(permits: int, number: int = 1) -> bytes:
    """A FLOW."""
    return command_frame("FLOW", consumer_id=number, messagePermits=permits)


def delivery(entry: int, number: int = 1, *, ack_set: list[int] | None = None, again: int = 0, batch: int = 0, **metadata: Any) -> bytes:
    """A MESSAGE of ledger 7; of a batch when it has several messages."""
    if batch:
        metadata["num_messages_in_batch"] = batch
    fields: dict[str, Any] = {"message_id": {"ledgerId": 7, "entryId": entry}, "ack_set": ack_set or [], "redelivery_count": again}
    return payload_frame("MESSAGE", message_metadata(**metadata), b"payload", consumer_id=number, **fields)


def ack(*entries: int, number: int = 1, kind: str = "Individual", ack_set: list[int] | None = None, **fields: Any) -> bytes:
    """An ACK of entries of ledger 7."""
    ids = [{"ledgerId": 7, "entryId": entry, "ack_set": ack_set or []} for entry in entries]
    return command_frame("ACK", consumer_id=number, ack_type=kind, message_id=ids, **fields)


def redeliver(*entries: int, number: int = 1) -> bytes:
    """A REDELIVER_UNACKNOWLEDGED_MESSAGES, of all when no entry is named."""
    ids = [{"ledgerId": 7, "entryId": entry} for entry in entries]
    return command_frame("REDELIVER_UNACKNOWLEDGED_MESSAGES", consumer_id=number, message_ids=ids)


def closing(number: int = 1, request_id: int = 900) -> bytes:
    """A CLOSE_CONSUMER."""
    return command_frame("CLOSE_CONSUMER", consumer_id=number, request_id=request_id)
