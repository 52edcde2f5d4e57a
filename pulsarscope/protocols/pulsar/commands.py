"""The command table: one row for each BaseCommand.Type, made from the protocol's schema and the few facts they lack.

Facts are from the binary protocol specification of the Pulsar documentation; see `pairs` in `session.py` for requests and responses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from pulsarscope.flow import CLIENT, SERVER
from pulsarscope.protocols.pulsar.messages import Plan, Plans, walk
from pulsarscope.protocols.pulsar.schema import ENUMS, MESSAGES
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
    """Reads the sub-message: `walk`, the faster reader of its usual form, or one that remembers."""
    sender: str | None
    """The only side that sends it; None when both may."""


REPEATED_COMMANDS = frozenset(
    {
        "CONNECT",
        "CONNECTED",
        "PARTITIONED_METADATA",
        "PARTITIONED_METADATA_RESPONSE",
        "LOOKUP",
        "LOOKUP_RESPONSE",
        "PRODUCER",
        "SUBSCRIBE",
        "SUCCESS",
        "FLOW",
        "CLOSE_PRODUCER",
        "CLOSE_CONSUMER",
    }
)
"""What clients and brokers say when a connection begins and ends: on many short connections the same bytes again and again."""

REPEATED_MAX_BYTES = 256
"""Longest sub-message that is remembered."""

REPEATED_MAX = 512
"""Sub-messages of one command that are remembered; all are forgotten when there are more."""


def repeated() -> Reader:
    """A reader like `walk`, but of bytes that it has read before, without anything odd, it gives a copy of what they say."""
    known: dict[bytes, tuple[dict[str, Any], tuple[str, ...]]] = {}  # with the names of the messages in it

    def read(data: bytes, position: int, end: int, plan: Plan, notes: list[Note]) -> dict[str, Any]:
        raw = data[position:end]
        found = known.get(raw)
        if found is not None:
            fields, inner = found
            fields = fields.copy()  # rows are handed over, whoever has them may change them
            for name in inner:
                fields[name] = fields[name].copy()
            return fields
        fields = walk(data, position, end, plan, notes)
        if not notes and len(raw) <= REPEATED_MAX_BYTES:
            inner = tuple(name for name, value in fields.items() if isinstance(value, dict))
            if all(map(_is_plain, fields.values())):
                if len(known) >= REPEATED_MAX:
                    known.clear()
                known[raw] = {name: value.copy() if name in inner else value for name, value in fields.items()}, inner
        return fields

    return read


def _is_plain(value: object) -> bool:
    """Whether copying a dict with this value, and the value if that is a dict, copies all that can be changed."""
    return not isinstance(value, list) and not (isinstance(value, dict) and any(isinstance(part, (dict, list)) for part in value.values()))


def _tag(number: int) -> bytes:
    tag = number << 3 | 2
    return bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])


def _sender(name: str) -> str | None:
    if name in _BOTH_WAYS:
        return None
    return SERVER if name in _FROM_SERVER or (name.endswith("_RESPONSE") and name != "AUTH_RESPONSE") else CLIENT


def command_table(plans: Plans) -> dict[int, Command]:
    """The rows by type number. The sub-message of a type is the field of BaseCommand that has the type's number."""
    bodies = {number: (field, message) for number, field, _, _, message in MESSAGES["BaseCommand"]}
    table = {}
    for number, name in ENUMS["BaseCommand.Type"].items():
        field, message = bodies[number]
        table[number] = Command(
            name,
            field,
            plans.named(message),
            _tag(number),
            name in PAYLOAD_COMMANDS,
            repeated() if name in REPEATED_COMMANDS else USUAL.get(name, walk),
            _sender(name),
        )
    return table
