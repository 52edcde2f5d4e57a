"""The values of one connection's messages: which schema is a message's, and what it makes of the bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import msgspec

from pulsarscope.dissect.capabilities import GivenSchema, PayloadContext, PayloadDecoder
from pulsarscope.dissect.frames import Note
from pulsarscope.model.limits import SCHEMAS_MAX, VALUES_FACTOR, VALUES_LEAST_BYTES, VALUES_MAX_BYTES
from pulsarscope.model.records import MessageRow
from pulsarscope.protocols.pulsar.topics import short_topic, topic_matches
from pulsarscope.protocols.pulsar.values.definition import Definition
from pulsarscope.protocols.pulsar.values.json_values import Budget, ValueProblem
from pulsarscope.protocols.pulsar.values.reader import needs_writer, reader_of
from pulsarscope.protocols.pulsar.values.schemas import VERSION_MAX_BYTES, SchemaName, Schemas, schema_name

PROBLEM_MAX_CHARACTERS = 300
"""What is wrong with a value is told so far: names and what decoders of other packages say may be long."""

_U32 = struct.Struct(">I")

_INTEGERS = frozenset({"INT16", "INT32", "INT64"})
"""The Go client, the only one whose messages do not name the version of their schema, writes these little-endian, against all others."""


class _Reading(NamedTuple):
    """How messages are read."""

    name: str
    """Of the type, or of the plug-in."""
    read: Callable[[bytes, PayloadContext, Budget], Any]
    code: str = "value-undecodable"
    """Finding for bytes that do not fit; "" when that is expected."""
    is_plugin: bool = False
    """Whether a value may be of any size, whatever the payload's."""
    needs_writer: bool = False
    """Whether values can be read only by the schema that they were written by."""


class Values:
    """Fed with the commands of the connection, it fills the column `value`."""

    def __init__(self, given: Sequence[GivenSchema], decoders: Sequence[tuple[str, PayloadDecoder]]) -> None:
        """`given`: schemas that the user brings. `decoders`: of other packages, with their names."""
        self._schemas = Schemas()
        self._given = [(one, Definition(one.type, one.definition, one.properties)) for one in given]
        self._decoders = decoders
        self._missing: dict[SchemaName, None] = {}
        """Schemas that were said to be missing."""
        self._gone: dict[SchemaName, None] = {}
        """Those that nobody waits for any more."""
        self._readings: dict[tuple[Definition, bool], _Reading] = {}
        """Those of each schema that was used: each is made once for the connection, however many there are and take turns."""
        self._ended = False
        self.observe = self._schemas.observe

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_readings": {}}  # functions, which are made anew

    @property
    def need_properties(self) -> bool:
        """Whether a batch must be read with the properties of its messages: decoders of other packages may look at them."""
        return bool(self._decoders)

    @property
    def are_known(self) -> bool:
        """Whether there may be any, as far as is known."""
        return bool(self._given or self._decoders or self._schemas.users)

    def fill(
        self, row: MessageRow, columns: dict[str, Any] | None, data: bytes, owner: tuple[str, int], topic: str, notes: list[Note]
    ) -> int | None:
        """Set the value of a message, or of each of a batch (`columns`: what its messages have for themselves).

        What they take, as the budget counts; 0 when they have none; None when the consumer may still ask the broker for their schema.
        """
        version = row.schema_version or None
        if row.marker is not None or (version is not None and len(version) > VERSION_MAX_BYTES):
            return 0
        reading = self._reading(owner, topic, version, notes)
        if not isinstance(reading, _Reading):
            return None if reading is None else 0
        problems: list[str] = []
        budget = Budget(VALUES_MAX_BYTES if reading.is_plugin else min(VALUES_LEAST_BYTES + VALUES_FACTOR * len(data), VALUES_MAX_BYTES))
        if columns is None:
            context = PayloadContext(topic, row.key, bool(row.key_is_bytes), row.properties or {}, row.schema_version)
            row.value = _value(reading, data, context, budget, problems) if not row.null_value else None
        else:
            if "properties" in columns:  # they can be taken once
                columns["properties"] = list(columns["properties"])
            values = columns["value"] = []
            for payload, context in _messages(data, columns, topic, row.schema_version):
                values.append(None if payload is None else _value(reading, payload, context, budget, problems))
        if problems and reading.code:
            many = "" if columns is None else f" {len(problems)} of {len(columns['payload_size'])} values:"
            notes.append((reading.code, f"{reading.name}:{many} {problems[0]}"))
        return budget.spent

    def end(self) -> None:
        """No command will come: nothing is waited for."""
        self._ended = True

    def wait_no_more(self, name: SchemaName) -> None:
        """Nobody asks for this schema."""
        _remember(self._gone, name)

    def _reading(self, owner: tuple[str, int], topic: str, version: bytes | None, notes: list[Note]) -> _Reading | bool | None:
        for one, brought in self._given:
            if topic_matches(one.topics, topic) and one.version in (None, version):
                return self._by_schema(brought)
        for plugin, decoder in self._decoders:
            if topic_matches(decoder.topics, topic):
                return _Reading(plugin, _by_plugin(decoder), "payload-decoder-failed", is_plugin=True)
        produced = owner[0] == "produce"
        user = self._schemas.producer(owner[1]) if produced else self._schemas.consumer(owner[1])
        definition = None if user is None else user.definition
        if version is None:
            return self._by_schema(definition, versioned=False) if definition is not None else False
        name = schema_name(topic, version)
        exact = self._schemas.named(name)
        if exact is not None:
            return self._by_schema(exact)
        if produced:
            if user is not None and definition is not None and user.version in (None, version):
                return self._by_schema(definition)
        elif user is not None:
            own = None if definition is None else self._by_schema(definition)
            if own is not None and not own.needs_writer:
                return own
            if not self._ended and name not in self._gone:
                return None
            self._miss(name, notes, assumed=own is not None)
            return False if own is None else own._replace(code="")
        self._miss(name, notes)
        return False

    def _by_schema(self, definition: Definition, *, versioned: bool = True) -> _Reading:
        reading = self._readings.get((definition, versioned))
        if reading is None:
            reading = self._readings[definition, versioned] = _by_schema(definition, versioned=versioned)
        return reading

    def _miss(self, name: SchemaName, notes: list[Note], *, assumed: bool = False) -> None:
        """Say once that this schema is not known."""
        if name in self._missing:
            return
        from pulsarscope.protocols.pulsar.text.formatting import schema_version_text  # noqa: PLC0415 - most captures tell all their schemas

        _remember(self._missing, name)
        topic, version = name
        text = f"the connection does not tell version {schema_version_text(version)} of the schema of {short_topic(topic) or 'its topic'}"
        notes.append(("schema-unknown", f"{text}; values are those that fit the consumer's own schema" if assumed else text))


def _remember(table: dict[SchemaName, None], one: SchemaName) -> None:
    table[one] = None
    if len(table) > SCHEMAS_MAX:
        del table[next(iter(table))]


def _by_schema(definition: Definition, *, versioned: bool) -> _Reading:
    reader = reader_of(definition)
    if isinstance(reader, ValueProblem):
        return _Reading(definition.type, _raising(str(reader)))
    reversed_bytes = not versioned and definition.type in _INTEGERS

    def read(payload: bytes, context: PayloadContext, budget: Budget) -> Any:
        budget.spend(len(payload))
        return reader(payload[::-1] if reversed_bytes else payload, context, budget)

    return _Reading(definition.type, read, needs_writer=needs_writer(definition))


def _raising(problem: str) -> Callable[[bytes, PayloadContext, Budget], Any]:
    def read(*_: object) -> Any:
        raise ValueProblem(problem)

    return read


def _by_plugin(decoder: PayloadDecoder) -> Callable[[bytes, PayloadContext, Budget], Any]:
    def read(payload: bytes, context: PayloadContext, budget: Budget) -> Any:
        try:
            encoded = msgspec.json.encode(decoder.decode(payload, context))
            value = msgspec.json.decode(encoded)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever someone else's code does with hostile bytes
            message = f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace").decode()
            raise ValueProblem(message) from None
        budget.spend(len(encoded))
        return value

    return read


def _value(reading: _Reading, payload: bytes, context: PayloadContext, budget: Budget, problems: list[str]) -> Any:
    try:
        return reading.read(payload, context, budget)
    except ValueProblem as problem:
        problems.append(str(problem)[:PROBLEM_MAX_CHARACTERS])
        return None


def _messages(data: bytes, columns: dict[str, Any], topic: str, version: bytes | None) -> Iterator[tuple[bytes | None, PayloadContext]]:
    """The payloads of a batch, None for those without a value, and what a decoder may want to know."""
    position = 0
    every = zip(
        columns["payload_size"],
        columns["key"],
        columns.get("key_is_bytes") or repeat(None),
        columns.get("null_value") or repeat(None),
        columns.get("marker") or repeat(None),
        columns.get("properties") or repeat(None),
        strict=False,
    )
    for size, key, key_is_bytes, null_value, marker, properties in every:
        start = position + _U32.size + int(_U32.unpack_from(data, position)[0])
        position = start + size
        payload = None if null_value or marker else data[start:position]
        yield payload, PayloadContext(topic, key, bool(key_is_bytes), properties or {}, version)
