"""The schemas that a connection's own commands tell, by topic and version, and whose they are.

Another connection's are not used: each must read the same whoever decodes it, and in whatever order.
"""

from __future__ import annotations

from typing import Any

import msgspec

from pulsarscope.model.limits import SCHEMA_MAX_BYTES, SCHEMAS_MAX, SCHEMAS_MAX_BYTES
from pulsarscope.protocols.pulsar.topics import base_topic
from pulsarscope.protocols.pulsar.values.definition import Definition, definition_of
from pulsarscope.protocols.pulsar.values.reader import definition_bytes

USERS_MAX = 65_536
"""Producers and consumers with a schema that are remembered of one connection, as many as there are ids."""


VERSION_MAX_BYTES = 64
"""Longer versions are not remembered; a broker's have eight bytes."""


SchemaName = tuple[str, bytes]
"""Topic (that of a partition is the topic it is of), and version."""


def schema_name(topic: str, version: bytes) -> SchemaName:
    """The name of a version of a topic's schema."""
    return base_topic(topic), version


class User(msgspec.Struct):
    """A producer or consumer that said what its messages are."""

    definition: Definition | None
    """None: it takes whatever schema a message names, and asks the broker for it."""
    version: bytes | None = None
    """Of its schema, once the broker has told; a consumer's never is."""


class _Asked(msgspec.Struct):
    """What the answer to a request will tell the version of, or the definition."""

    topic: str
    definition: Definition | None = None
    version: bytes | None = None
    user: User | None = None


class Schemas:
    """Fed with all commands named in SCHEMA_COMMANDS."""

    def __init__(self) -> None:
        self._versions: dict[SchemaName, Definition] = {}
        self.users: dict[tuple[str, int], User] = {}
        """By their command and id."""
        self._asked: dict[tuple[str, int], _Asked] = {}
        self._kept: dict[Definition, Definition] = {}
        """Each once, however many say it."""
        self._bytes = 0

    def observe(self, command: str, fields: dict[str, Any]) -> SchemaName | None:
        """What a command tells: the schema that is known now."""
        number = fields.get("request_id", -1)
        if command in _ASKS:
            self._ask(command, number, fields)
            return None
        asked = self._asked.pop((_ANSWERS[command], number), None)
        if asked is None or (command == "PRODUCER_SUCCESS" and fields.get("producer_ready") is False):
            if asked is not None:
                self._asked[_ANSWERS[command], number] = asked  # it queues; the answer proper follows
            return None
        version = fields.get("schema_version") or asked.version
        definition = asked.definition or self._keep(fields.get("schema"))
        if asked.user is not None:
            asked.user.version = version
        if not version or len(version) > VERSION_MAX_BYTES or definition is None:
            return None
        name = asked.topic, version
        _put(self._versions, name, definition, SCHEMAS_MAX)
        return name

    def _ask(self, command: str, number: int, fields: dict[str, Any]) -> None:
        topic = base_topic(fields.get("topic") or "")
        definition = self._keep(fields.get("schema"))
        user = None
        if command in _USER_ID:
            owner = command, fields.get(_USER_ID[command], -1)
            self.users.pop(owner, None)
            if definition is not None or (fields.get("schema") or {}).get("type") == "AutoConsume":
                user = User(definition)
                _put(self.users, owner, user, USERS_MAX)
        if command != "SUBSCRIBE" and (definition is not None or command == "GET_SCHEMA"):
            _put(self._asked, (command, number), _Asked(topic, definition, fields.get("schema_version"), user), SCHEMAS_MAX)

    def _keep(self, schema: Any) -> Definition | None:
        definition = definition_of(schema)
        if definition is None or definition in self._kept:
            return definition and self._kept[definition]
        size = definition_bytes(definition)
        if size > SCHEMA_MAX_BYTES or self._bytes + size > SCHEMAS_MAX_BYTES or len(self._kept) >= SCHEMAS_MAX:
            return None
        self._bytes += size
        self._kept[definition] = definition
        return definition

    def named(self, name: SchemaName) -> Definition | None:
        """The schema of this name, if it has been told."""
        return self._versions.get(name)

    def producer(self, number: int) -> User | None:
        """What the producer of this id has."""
        return self.users.get(("PRODUCER", number))

    def consumer(self, number: int) -> User | None:
        """What the consumer of this id has."""
        return self.users.get(("SUBSCRIBE", number))


_USER_ID = {"PRODUCER": "producer_id", "SUBSCRIBE": "consumer_id"}
_ANSWERS = {
    "PRODUCER_SUCCESS": "PRODUCER",
    "GET_SCHEMA_RESPONSE": "GET_SCHEMA",
    "GET_OR_CREATE_SCHEMA_RESPONSE": "GET_OR_CREATE_SCHEMA",
}
_ASKS = frozenset({*_ANSWERS.values(), "SUBSCRIBE"})

SCHEMA_COMMANDS = _ASKS | _ANSWERS.keys()
"""Commands that may tell of schemas."""


def _put(table: dict[Any, Any], key: Any, value: Any, limit: int) -> None:
    table[key] = value
    if len(table) > limit:
        del table[next(iter(table))]
