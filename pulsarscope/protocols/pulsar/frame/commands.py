"""The command table: one row for each BaseCommand.Type, made from the protocol's schema and the few facts that it lacks.

The facts are from the binary protocol specification in the Pulsar documentation; `session/exchanges.py` says which command answers which.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from pulsarscope.dissect.contract.capabilities import ACKNOWLEDGE, CONSUME, KEEP_ALIVE, PUBLISH, TRANSACT
from pulsarscope.dissect.contract.frames import Note
from pulsarscope.model.flow import CLIENT, SERVER
from pulsarscope.protocols.pulsar.frame.fast_path import Reader, UncommonFormError
from pulsarscope.protocols.pulsar.frame.generated import READERS
from pulsarscope.protocols.pulsar.frame.protobuf import Plan, Plans, walk
from pulsarscope.protocols.pulsar.frame.schema import ENUMS, MESSAGES

PAYLOAD_COMMANDS = frozenset({"SEND", "MESSAGE"})
"""Commands that carry metadata and a payload after the command."""

OPENING_COMMANDS = frozenset({"CONNECT", "CONNECTED"})
"""Commands that open a connection: one of them at the very start of a stream proves the protocol."""

ANNOUNCING_COMMANDS = frozenset({"CONNECTED"})
"""Commands that may announce how large frames can be."""

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


_FAMILIES = {
    PUBLISH: ("SEND", "SEND_RECEIPT", "PRODUCER", "PRODUCER_SUCCESS", "CLOSE_PRODUCER"),
    CONSUME: ("MESSAGE", "FLOW", "SUBSCRIBE", "UNSUBSCRIBE", "CLOSE_CONSUMER", "ACTIVE_CONSUMER_CHANGE", "SEEK", "REACHED_END_OF_TOPIC"),
    ACKNOWLEDGE: ("ACK", "ACK_RESPONSE", "REDELIVER_UNACKNOWLEDGED_MESSAGES"),
    TRANSACT: tuple(name for name in ENUMS["BaseCommand.Type"].values() if "TXN" in name or name.startswith("TC_")),
    KEEP_ALIVE: ("PING", "PONG"),
}

FAMILIES = {command: family for family, commands in _FAMILIES.items() for command in commands}
"""Purposes of commands, including those that open connections and look up topics for every purpose."""


class Command(NamedTuple):
    """A command: its name in the protocol; name, plan and tag of its sub-message."""

    name: str
    field: str
    plan: Plan
    tag: bytes
    """Tag of the sub-message within BaseCommand: one byte, or two from field 16 on."""
    payload: bool
    """True if metadata and payload follow the command."""
    read: Reader
    """Reader of the sub-message, which leaves odd forms to the reference."""
    sender: str | None
    """The only side that sends it; None if both may."""


def _tag(number: int) -> bytes:
    tag = number << 3 | 2
    return bytes([tag]) if tag < 128 else bytes([tag & 127 | 128, tag >> 7])


def _sender(name: str) -> str | None:
    if name in _BOTH_WAYS:
        return None
    return SERVER if name in _FROM_SERVER or (name.endswith("_RESPONSE") and name != "AUTH_RESPONSE") else CLIENT


def _rare_reader(plan: Plan) -> Reader:
    """Return the reader of a command that is too rare for a generated one."""

    def read(data: bytes, at: int, end: int) -> dict[str, Any]:
        notes: list[Note] = []
        fields = walk(data, at, end, plan, notes, 1)  # within BaseCommand
        if notes:
            raise UncommonFormError
        return fields

    return read


@cache
def command_table(plans: Plans) -> dict[int, Command]:
    """Return the commands by type number; the sub-message of a type is the field of BaseCommand that has the type's number."""
    bodies = {number: (field, message) for number, field, _, _, message in MESSAGES["BaseCommand"]}
    table = {}
    for number, name in ENUMS["BaseCommand.Type"].items():
        field, message = bodies[number]
        plan = plans.named(message)
        read = READERS.get(message) or _rare_reader(plan)
        table[number] = Command(name, field, plan, _tag(number), name in PAYLOAD_COMMANDS, read, _sender(name))
    return table


def commands_with(*fields: str) -> frozenset[str]:
    """Return the names of the commands that have any of these fields."""
    bodies = {number: message for number, _, _, _, message in MESSAGES["BaseCommand"]}
    named = {message: {name for _, name, *_ in rows} for message, rows in MESSAGES.items()}
    return frozenset(name for number, name in ENUMS["BaseCommand.Type"].items() if not named[bodies[number]].isdisjoint(fields))
