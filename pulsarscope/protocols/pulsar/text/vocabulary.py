"""Names and types of all fields that rows of Pulsar can have, from the table of the protocol."""

from __future__ import annotations

from pulsarscope.dissect.contract.capabilities import FieldType, Vocabulary
from pulsarscope.protocols.pulsar.frame.schema import ENUMS, MESSAGES, FieldRow

_TYPES = {
    "int32": "int64",
    "uint32": "int64",
    "int64": "int64",
    "uint64": "int64",
    "double": "double",
    "bool": "bool",
    "enum": "string",
    "string": "string",
    "bytes": "bytes",
    "message": "object",
}


def vocabulary() -> Vocabulary:
    """Return the fields of all commands and of the metadata, and the enumerations whose names occur in other columns."""
    bodies = {number: inner for number, _, _, _, inner in MESSAGES["BaseCommand"]}
    commands = {name: _fields(bodies[number]) for number, name in ENUMS["BaseCommand.Type"].items()}
    names = tuple(commands)
    return Vocabulary(
        commands=commands,
        objects={
            "frame.metadata": _fields("MessageMetadata"),
            "frame.extra": (FieldType("batch_sizes", "int64", "Of an ACK, sizes of its message ids' batches.", repeated=True),),
            "frame.broker_entry_metadata": _fields("BrokerEntryMetadata"),
        },
        values={
            "frame.command": names,
            "exchange.request": names,
            "exchange.response": names,
            "exchange.error": _names("ServerError"),
            "message.compression": _names("CompressionType"),
        },
    )


def _fields(message: str, within: tuple[str, ...] = ()) -> tuple[FieldType, ...]:
    """Return the fields of a message and of the messages in it, except recursive ones."""
    if message in within:
        return ()
    return tuple(_field(message, field, (*within, message)) for field in MESSAGES[message])


def _field(message: str, field: FieldRow, within: tuple[str, ...]) -> FieldType:
    number, name, kind, label, inner = field
    repeated = label == "repeated"
    return FieldType(
        name,
        _TYPES[kind],
        f"{message.rpartition('.')[2]}.{name}, {'repeated ' if repeated else ''}field {number}.",
        repeated,
        _names(inner) if kind == "enum" else (),
        _fields(inner, within) if kind == "message" else (),
    )


def _names(enum: str) -> tuple[str, ...]:
    return tuple(ENUMS[enum].values())
