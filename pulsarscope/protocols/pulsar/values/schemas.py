"""Schemas in the commands of one connection, by topic and version, with the producers and consumers that use them.

Schemas of other connections are not used: a connection must decode the same in every way of running.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pulsarscope.model.bounded_tables import remember
from pulsarscope.model.limits import SCHEMA_MAX_BYTES, SCHEMAS_MAX, SCHEMAS_MAX_BYTES
from pulsarscope.protocols.pulsar.topics import base_topic, bounded_name
from pulsarscope.protocols.pulsar.values.definition import Definition, definition_of
from pulsarscope.protocols.pulsar.values.reader import definition_bytes
from pulsarscope.protocols.pulsar.values.schema_commands import REQUEST_OF, REQUESTS

USERS_MAX = 65_536
"""Most producers and consumers of one connection whose schema is remembered."""

VERSION_MAX_BYTES = 64
"""Longest version that is remembered; a broker's has eight bytes."""

SchemaName = tuple[str, bytes]
"""Topic (without the partition) and version."""


def schema_name(topic: str, version: bytes) -> SchemaName:
    """Return the name of a version of a topic's schema."""
    return base_topic(topic), version


class SchemaUser(msgspec.Struct):
    """A producer or consumer that declared a schema."""

    definition: Definition | None
    """Definition; None for AUTO_CONSUME, which requests from the broker the schema that a message names."""
    version: bytes | None = None
    """Version of its schema, from the broker's answer; consumers are given none."""


class _SchemaRequest(msgspec.Struct):
    """A request whose answer has the version or the definition of a schema."""

    topic: str
    definition: Definition | None = None
    version: bytes | None = None
    user: SchemaUser | None = None


class ConnectionSchemas:
    """The schemas of one connection, from the commands in SCHEMA_COMMANDS."""

    def __init__(self) -> None:
        self._versions: dict[SchemaName, Definition] = {}
        self.users: dict[tuple[str, int], SchemaUser] = {}
        """Producers and consumers by command and id."""
        self._requests: dict[tuple[str, int], _SchemaRequest] = {}
        """Pending requests by command and request id."""
        self._definitions: dict[Definition, Definition] = {}
        """One object for each definition, however many commands have it."""
        self._bytes = 0

    def observe(self, command: str, fields: dict[str, Any]) -> SchemaName | None:
        """Learn from a command; return the name of the schema that it makes known."""
        number = fields.get("request_id", -1)
        if command in REQUESTS:
            self._add_request(command, number, fields)
            return None
        if command == "PRODUCER_SUCCESS" and fields.get("producer_ready") is False:
            return None  # the producer waits in a queue; the final answer follows
        if (request := self._requests.pop((REQUEST_OF[command], number), None)) is None:
            return None
        version = fields.get("schema_version") or request.version
        definition = request.definition or self._intern(fields.get("schema"))
        if request.user is not None:
            request.user.version = version
        if not version or len(version) > VERSION_MAX_BYTES or definition is None:
            return None
        name = request.topic, version
        remember(self._versions, name, definition, SCHEMAS_MAX)
        return name

    def _add_request(self, command: str, number: int, fields: dict[str, Any]) -> None:
        topic = base_topic(bounded_name(fields.get("topic")) or "")
        definition = self._intern(fields.get("schema"))
        user = None
        if command in _USER_ID:
            owner = command, fields.get(_USER_ID[command], -1)
            self.users.pop(owner, None)
            if definition is not None or (fields.get("schema") or {}).get("type") == "AutoConsume":
                user = SchemaUser(definition)
                remember(self.users, owner, user, USERS_MAX)
        if command != "SUBSCRIBE" and (definition is not None or command == "GET_SCHEMA"):
            remember(self._requests, (command, number), _SchemaRequest(topic, definition, fields.get("schema_version"), user), SCHEMAS_MAX)

    def _intern(self, schema: Any) -> Definition | None:
        if (definition := definition_of(schema)) is None or definition in self._definitions:
            return definition and self._definitions[definition]
        size = definition_bytes(definition)
        if size > SCHEMA_MAX_BYTES or self._bytes + size > SCHEMAS_MAX_BYTES or len(self._definitions) >= SCHEMAS_MAX:
            return None
        self._bytes += size
        self._definitions[definition] = definition
        return definition

    def named(self, name: SchemaName) -> Definition | None:
        """Return the schema of this name; None when it is unknown."""
        return self._versions.get(name)

    def producer(self, number: int) -> SchemaUser | None:
        """Return the producer of this id."""
        return self.users.get(("PRODUCER", number))

    def consumer(self, number: int) -> SchemaUser | None:
        """Return the consumer of this id."""
        return self.users.get(("SUBSCRIBE", number))


_USER_ID = {"PRODUCER": "producer_id", "SUBSCRIBE": "consumer_id"}
