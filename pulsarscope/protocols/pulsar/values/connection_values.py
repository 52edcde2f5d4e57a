"""Values of one connection's messages: the schema of each message, and its decoded value."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import msgspec

from pulsarscope.dissect.contract.capabilities import GivenSchema, PayloadContext, PayloadDecoder
from pulsarscope.dissect.contract.frames import Note
from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.limits import SCHEMAS_MAX, VALUES_FACTOR, VALUES_MAX_BYTES, VALUES_MIN_BYTES
from pulsarscope.model.records import MessageRow
from pulsarscope.protocols.pulsar.topics import short_topic, topic_matches
from pulsarscope.protocols.pulsar.values.definition import Definition
from pulsarscope.protocols.pulsar.values.json_values import Budget, UndecodableError
from pulsarscope.protocols.pulsar.values.reader import needs_writer, reader_of
from pulsarscope.protocols.pulsar.values.schemas import VERSION_MAX_BYTES, ConnectionSchemas, SchemaName, schema_name

PROBLEM_CHARACTERS_MAX = 300
"""Characters of an error quoted in a finding: names, and errors of other packages' decoders, may be long."""

_U32 = struct.Struct(">I")

_INTEGERS = frozenset({"INT16", "INT32", "INT64"})
"""Types that only the Go client writes little-endian. Only its messages do not name the version of their schema."""


class _Decoder(NamedTuple):
    """A decoder of the messages with one schema."""

    name: str
    """Name of the schema type, or of the plug-in."""
    read: Callable[[bytes, PayloadContext, Budget], Any]
    code: str = "value-undecodable"
    """Finding code for bytes that do not match; "" if that is expected."""
    is_plugin: bool = False
    """True when the size of the payload does not bound the size of a value."""
    needs_writer: bool = False
    """True when only the schema that wrote a value can read it."""


class Values:
    """The values of one connection: this learns schemas from its commands, and fills the column `value` of its messages."""

    def __init__(self, given: Sequence[GivenSchema], decoders: Sequence[tuple[str, PayloadDecoder]]) -> None:
        """Create the values with the user's schemas, and with the payload decoders of other packages by name."""
        self._schemas = ConnectionSchemas()
        self._given = [(schema, Definition(schema.type, schema.definition, schema.properties)) for schema in given]
        self._plugins = decoders
        self._missing: dict[SchemaName, None] = {}
        """Schemas that were reported as unknown."""
        self._abandoned: dict[SchemaName, None] = {}
        """Schemas for which messages no longer wait."""
        self._by_definition: dict[tuple[Definition, bool], _Decoder] = {}
        """Decoders by schema and by whether messages name its version; each is made once for the connection."""
        self._ended = False
        self.observe = self._schemas.observe

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_by_definition": {}}  # functions cannot be pickled

    @property
    def need_properties(self) -> bool:
        """True when batches must be read with the properties of their messages, for decoders of other packages."""
        return bool(self._plugins)

    @property
    def are_known(self) -> bool:
        """True when, as far as known, a message may have a value."""
        return bool(self._given or self._plugins or self._schemas.users)

    def fill(
        self, row: MessageRow, columns: dict[str, Any] | None, data: bytes, owner: tuple[str, int], topic: str, notes: list[Note]
    ) -> int | None:
        """Set the value of a message, or of each message of a batch; `columns` are the messages' own columns.

        `owner` is ("produce", producer id) or ("deliver", consumer id); problems are added to `notes`. Return the cost of the values in the
        budget, 0 if there are none; None if the consumer may still request their schema from the broker.
        """
        version = row.schema_version or None
        if row.marker is not None or (version is not None and len(version) > VERSION_MAX_BYTES):
            return 0
        decoder = self._decoder(owner, topic, version, notes)
        if not isinstance(decoder, _Decoder):
            return None if decoder is None else 0
        problems: list[str] = []
        budget = Budget(VALUES_MAX_BYTES if decoder.is_plugin else min(VALUES_MIN_BYTES + VALUES_FACTOR * len(data), VALUES_MAX_BYTES))
        if columns is None:
            context = PayloadContext(topic, row.key, bool(row.key_is_bytes), row.properties or {}, row.schema_version)
            row.value = _value(decoder, data, context, budget, problems) if not row.null_value else None
        else:
            if "properties" in columns:  # they can be taken only once
                columns["properties"] = list(columns["properties"])
            values = columns["value"] = []
            for payload, context in _messages(data, columns, topic, row.schema_version):
                values.append(None if payload is None else _value(decoder, payload, context, budget, problems))
        if problems and decoder.code:
            many = "" if columns is None else f" {len(problems)} of {len(columns['payload_size'])} values:"
            notes.append((decoder.code, f"{decoder.name}:{many} {problems[0]}"))
        return budget.spent

    def end(self) -> None:
        """Note that no command will follow, so that no message waits for a schema any longer."""
        self._ended = True

    def wait_no_more(self, name: SchemaName) -> None:
        """Note that the client does not request this schema."""
        remember(self._abandoned, name, None, SCHEMAS_MAX)

    def _decoder(self, owner: tuple[str, int], topic: str, version: bytes | None, notes: list[Note]) -> _Decoder | bool | None:
        for schema, given in self._given:
            if topic_matches(schema.topics, topic) and schema.version in (None, version):
                return self._by_schema(given)
        for plugin, plugin_decoder in self._plugins:
            if topic_matches(plugin_decoder.topics, topic):
                return _Decoder(plugin, _by_plugin(plugin_decoder), "payload-decoder-failed", is_plugin=True)
        produced = owner[0] == "produce"
        user = self._schemas.producer(owner[1]) if produced else self._schemas.consumer(owner[1])
        definition = None if user is None else user.definition
        if version is None:
            return self._by_schema(definition, versioned=False) if definition is not None else False
        name = schema_name(topic, version)
        if (exact := self._schemas.named(name)) is not None:
            return self._by_schema(exact)
        if produced:
            if user is not None and definition is not None and user.version in (None, version):
                return self._by_schema(definition)
        elif user is not None:
            reader = None if definition is None else self._by_schema(definition)
            if reader is not None and not reader.needs_writer:
                return reader
            if not self._ended and name not in self._abandoned:
                return None
            self._report_unknown(name, notes, assumed=reader is not None)
            return False if reader is None else reader._replace(code="")
        self._report_unknown(name, notes)
        return False

    def _by_schema(self, definition: Definition, *, versioned: bool = True) -> _Decoder:
        if (decoder := self._by_definition.get((definition, versioned))) is None:
            decoder = self._by_definition[definition, versioned] = _by_schema(definition, versioned=versioned)
        return decoder

    def _report_unknown(self, name: SchemaName, notes: list[Note], *, assumed: bool = False) -> None:
        if name in self._missing:
            return
        from pulsarscope.protocols.pulsar.text.formatting import schema_version_text  # noqa: PLC0415 - most captures have all their schemas

        remember(self._missing, name, None, SCHEMAS_MAX)
        topic, version = name
        text = f"unknown on this connection: version {schema_version_text(version)} of the schema of {short_topic(topic) or 'its topic'}"
        notes.append(("schema-unknown", f"{text}; values are those that fit the consumer's own schema" if assumed else text))


def _by_schema(definition: Definition, *, versioned: bool) -> _Decoder:
    reader = reader_of(definition)
    if isinstance(reader, UndecodableError):
        return _Decoder(definition.type, _raising(str(reader)))
    reversed_bytes = not versioned and definition.type in _INTEGERS

    def read(payload: bytes, context: PayloadContext, budget: Budget) -> Any:
        budget.spend(len(payload))
        return reader(payload[::-1] if reversed_bytes else payload, context, budget)

    return _Decoder(definition.type, read, needs_writer=needs_writer(definition))


def _raising(problem: str) -> Callable[[bytes, PayloadContext, Budget], Any]:
    def read(*_: object) -> Any:
        raise UndecodableError(problem)

    return read


def _by_plugin(decoder: PayloadDecoder) -> Callable[[bytes, PayloadContext, Budget], Any]:
    def read(payload: bytes, context: PayloadContext, budget: Budget) -> Any:
        try:
            encoded = msgspec.json.encode(decoder.decode(payload, context))
            value = msgspec.json.decode(encoded)
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:  # noqa: BLE001 - other packages' code meets hostile bytes
            raise UndecodableError(f"{type(error).__name__}: {error}".encode("utf-8", "backslashreplace").decode()) from None
        budget.spend(len(encoded))
        return value

    return read


def _value(decoder: _Decoder, payload: bytes, context: PayloadContext, budget: Budget, problems: list[str]) -> Any:
    try:
        return decoder.read(payload, context, budget)
    except UndecodableError as problem:
        problems.append(str(problem)[:PROBLEM_CHARACTERS_MAX])
        return None


def _messages(data: bytes, columns: dict[str, Any], topic: str, version: bytes | None) -> Iterator[tuple[bytes | None, PayloadContext]]:
    """Yield the payload of each message of a batch (None if it has no value), and its context for a decoder."""
    position = 0
    rows = zip(
        columns["payload_size"],
        columns["key"],
        columns.get("key_is_bytes") or repeat(None),
        columns.get("null_value") or repeat(None),
        columns.get("marker") or repeat(None),
        columns.get("properties") or repeat(None),
        strict=False,
    )
    for size, key, key_is_bytes, null_value, marker, properties in rows:
        start = position + _U32.size + int(_U32.unpack_from(data, position)[0])
        position = start + size
        payload = None if null_value or marker else data[start:position]
        yield payload, PayloadContext(topic, key, bool(key_is_bytes), properties or {}, version)
