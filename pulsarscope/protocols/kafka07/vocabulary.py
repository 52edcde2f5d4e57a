"""Names and types of all fields that rows of Kafka 0.7 can have."""

from __future__ import annotations

from pulsarscope.dissect.contract.capabilities import FieldType, Vocabulary
from pulsarscope.protocols.kafka07.commands import ANSWERED_BY, CODECS, ERRORS, REQUESTS, RESPONSES

_TOPIC = FieldType("topic", "string", "Name of the topic.")
_PARTITION = FieldType("partition", "int64", "Partition, -1 when the broker may pick one.")
_OFFSET = FieldType("offset", "int64", "Position in the log, in bytes.")
_SIZE = FieldType("messages_size", "int64", "Bytes of the message set.")
_ERROR = FieldType("error", "string", "What the broker says.", values=tuple(ERRORS.values()))
_CUT = FieldType("cut", "int64", "Bytes of a last message whose end did not fit.")
_NEXT = FieldType("next_offset", "int64", "Offset behind the last whole message, at which the next fetch continues.")

_PRODUCE = (_TOPIC, _PARTITION, _SIZE)
_FETCH = (_TOPIC, _PARTITION, _OFFSET, FieldType("max_size", "int64", "Most bytes that the response may bring."))
_FETCHED = (_ERROR, _SIZE, _CUT)
_PLACE = (_TOPIC, _PARTITION, _OFFSET, _NEXT)


def _parts(name: str, fields: tuple[FieldType, ...]) -> tuple[FieldType, ...]:
    return (FieldType(name, "object", "One for each topic and partition, in order.", repeated=True, fields=fields),)


VOCABULARY = Vocabulary(
    commands={
        "PRODUCE": _PRODUCE,
        "FETCH": _FETCH,
        "MULTIFETCH": _parts("fetches", _FETCH),
        "MULTIPRODUCE": _parts("produces", _PRODUCE),
        "OFFSETS": (
            _TOPIC,
            _PARTITION,
            FieldType("time", "int64", "Milliseconds since the epoch; -1 latest, -2 earliest."),
            FieldType("max_offsets", "int64", "Most offsets that are wanted."),
        ),
        "FETCH_RESPONSE": _FETCHED,
        "MULTIFETCH_RESPONSE": (_ERROR, *_parts("parts", _FETCHED)),
        "OFFSETS_RESPONSE": (_ERROR, FieldType("offsets", "int64", "Offsets at which segments begin, newest first.", repeated=True)),
        "RESPONSE": (_ERROR,),
    },
    objects={
        "frame.extra": (_PARTITION, _OFFSET, _NEXT, *_parts("parts", _PLACE)),
        "message.extra": (
            FieldType("magic", "int64", "Version of the message format, 0 or 1."),
            FieldType("offset", "int64", "Position in the log of the entry that the message stands in."),
            FieldType("next_offset", "int64", "Position at which a client continues: that of the entry, until its last message."),
            FieldType("codecs", "string", "Codecs of compressed sets in each other, the outermost first.", repeated=True),
        ),
    },
    values={
        "frame.command": (*REQUESTS, *RESPONSES),
        "exchange.request": tuple(ANSWERED_BY),
        "exchange.response": RESPONSES,
        "exchange.error": tuple(ERRORS.values()),
        "message.compression": tuple(CODECS.values()),
    },
)
