"""The command table: one row for each BaseCommand.Type, made from the generated descriptors and the few facts they lack.

Facts are from the binary protocol specification of the Pulsar documentation; see `pairs` in `session.py` for requests and responses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pulsarscope.flow import CLIENT, SERVER
from pulsarscope.protocols.pulsar.messages import Plan, Plans, walk
from pulsarscope.protocols.pulsar.pulsar_pb2 import BaseCommand
from pulsarscope.protocols.pulsar.usual import USUAL
from pulsarscope.wire.contract import Note

PAYLOAD_COMMANDS = frozenset({"SEND", "MESSAGE"})
"""Commands that carry metadata and a payload after the command."""

OPENING_COMMANDS = frozenset({"CONNECT", "CONNECTED"})
"""Commands that open a connection: one of them at the very start of a stream proves the protocol."""

_BOTH_WAYS = frozenset({"PING", "PONG", "CLOSE_PRODUCER", "CLOSE_CONSUMER", "SCALABLE_TOPIC_CLOSE"})
_FROM_SERVER = frozenset(
    {
        "CONNECTED",
        "SEND_RECEIPT",
        "SEND_ERROR",
        "MESSAGE",
        "SUCCESS",
        "ERROR",
        "PRODUCER_SUCCESS",
        "REACHED_END_OF_TOPIC",
        "ACTIVE_CONSUMER_CHANGE",
        "AUTH_CHALLENGE",
        "WATCH_TOPIC_LIST_SUCCESS",
        "WATCH_TOPIC_UPDATE",
        "TOPIC_MIGRATED",
        "SCALABLE_TOPIC_UPDATE",
        "SCALABLE_TOPIC_ASSIGNMENT_UPDATE",
        "WATCH_SCALABLE_TOPICS_UPDATE",
        "WATCH_TC_ASSIGNMENTS_UPDATE",
    }
)


Reader = Callable[[bytes, int, int, Plan, list[Note]], dict[str, Any]]


class Command(NamedTuple):
    """A command: its name in the protocol, the name and the plan of its sub-message, the bytes before that message."""

    name: str
    field: str
    plan: Plan
    tag: bytes
    """The bytes of the sub-message's tag within BaseCommand: one, or two from field 16 on."""
    payload: bool
    """Metadata and payload follow the command."""
    read: Reader
    """Reads the sub-message: `walk`, or the faster reader of its usual form."""
    sender: str | None
    """The only side that sends it; None when both may."""


def _tag(number: int) -> bytes:
    tag = number << 3 | 2
    return bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])


def _sender(name: str) -> str | None:
    if name in _BOTH_WAYS:
        return None
    return SERVER if name in _FROM_SERVER or (name.endswith("_RESPONSE") and name != "AUTH_RESPONSE") else CLIENT


def command_table(plans: Plans) -> dict[int, Command]:
    """The rows by type number. The sub-message of a type is the field of BaseCommand that has the type's number."""
    table = {}
    for value in BaseCommand.Type.DESCRIPTOR.values:
        field = BaseCommand.DESCRIPTOR.fields_by_number[value.number]
        table[value.number] = Command(
            value.name,
            field.name,
            plans.of(field.message_type),
            _tag(value.number),
            value.name in PAYLOAD_COMMANDS,
            USUAL.get(value.name, walk),
            _sender(value.name),
        )
    return table
