"""Dialogues of clients and brokers written as a capture and judged as any other; what is found in real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pulsarscope as ps
from pulsarscope.model.records import FindingRow
from tests.places import CAPTURES
from tests.scenarios.capturefile import write_pcap
from tests.scenarios.conversation import START_NS, Conversation
from tests.scenarios.frames import command_frame

SECOND = 1_000_000_000
TOPIC = "persistent://public/default/t"

CONNECT = command_frame("CONNECT", client_version="test", protocol_version=21)
CONNECTED = command_frame("CONNECTED", server_version="test", protocol_version=21, max_message_size=5 << 20)
PING, PONG = command_frame("PING"), command_frame("PONG")


def dial(
    port: int = 40000, *, host: str = "10.0.0.1", server: tuple[str, int] = ("10.0.0.2", 6650), start: int = 0, connected: bool = True
) -> Conversation:
    """A connection that begins so many ns after the capture: packets 1 to 5 are its handshake, CONNECT and CONNECTED."""
    told = Conversation((host, port), server, start_ns=START_NS + start, acknowledge=False).handshake().client(CONNECT)
    return told.server(CONNECTED) if connected else told


def until(told: Conversation, time: int) -> Conversation:
    """Silence until so many ns after the beginning of the capture."""
    assert START_NS + time >= told.time_ns
    return told.wait(START_NS + time - told.time_ns)


def judged(folder: Path, *told: Conversation) -> list[FindingRow]:
    """What is found in a capture of these connections."""
    packets = sorted((packet for one in told for packet in one.packets), key=lambda packet: packet.time_ns)
    return list(ps.open(str(write_pcap(folder / "told.pcap", packets))).findings())


def found_in(capture: str) -> list[FindingRow]:
    """What is found in one of the repository's captures."""
    return list(ps.open(str(CAPTURES / capture)).findings())


def of(rows: list[FindingRow], code: str) -> list[FindingRow]:
    """Those with this code."""
    return [row for row in rows if row.code == code]


def only(rows: list[FindingRow], code: str) -> tuple[str, dict[str, Any]]:
    """Text and evidence of the one with this code."""
    (row,) = of(rows, code)
    return row.text or "", row.evidence or {}


def troubles(rows: list[FindingRow]) -> list[str | None]:
    """Codes of the errors and warnings."""
    return [row.code for row in rows if row.severity != "note"]


def producer(number: int = 1, name: str = "p", request: int = 1, topic: str = TOPIC, **fields: Any) -> bytes:
    """A PRODUCER."""
    return command_frame("PRODUCER", topic=topic, producer_id=number, request_id=request, producer_name=name, **fields)


def created(name: str = "p", request: int = 1, **fields: Any) -> bytes:
    """Its PRODUCER_SUCCESS."""
    return command_frame("PRODUCER_SUCCESS", request_id=request, producer_name=name, **fields)


def subscribe(number: int = 1, name: str = "c", request: int = 2, kind: str = "Exclusive", topic: str = TOPIC, **fields: Any) -> bytes:
    """A SUBSCRIBE."""
    return command_frame(
        "SUBSCRIBE", topic=topic, subscription="s", subType=kind, consumer_id=number, request_id=request, consumer_name=name, **fields
    )


def error(request: int, name: str, message: str = "so it is") -> bytes:
    """An ERROR."""
    return command_frame("ERROR", request_id=request, error=name, message=message)


def success(request: int) -> bytes:
    """A SUCCESS."""
    return command_frame("SUCCESS", request_id=request)


def lookup(request: int = 1, *, authoritative: bool = False) -> bytes:
    """A LOOKUP."""
    return command_frame("LOOKUP", topic=TOPIC, request_id=request, authoritative=authoritative)


def looked_up(response: str, url: str = "", request: int = 1, **fields: Any) -> bytes:
    """A LOOKUP_RESPONSE."""
    return command_frame("LOOKUP_RESPONSE", request_id=request, response=response, brokerServiceUrl=url, **fields)
