"""Schemas that the user brings: a topic, or a pattern of topics, and a file."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from pulsarscope.errors import UsageError
from pulsarscope.limits import SCHEMA_MAX_BYTES
from pulsarscope.protocols.pulsar.values.plain import ValueProblem
from pulsarscope.wire.contract import GivenSchema


def given_schemas(given: Iterable[tuple[str, str]]) -> tuple[GivenSchema, ...]:
    """The schemas of (pattern of topics, file): a file may be the name of a primitive type, or name a message behind a #.

    Raises:
        UsageError: a file cannot be read, or holds no schema.
    """
    return tuple([_given_schema(topics, file) for topics, file in given])


def _given_schema(topics: str, file: str) -> GivenSchema:
    from pulsarscope.protocols.pulsar.values.files import UNDEFINED, schema_in  # noqa: PLC0415 - brings protobuf, which most runs do without

    name, _, message_name = file.partition("#")
    try:
        with Path(name).open("rb") as opened:
            data = opened.read(2 * SCHEMA_MAX_BYTES)
    except (OSError, ValueError) as error:
        with suppress(ValueProblem):
            return schema_in(topics, name, None)
        types = f"; types that need no file are {', '.join(map(str.lower, UNDEFINED))}" if name.isidentifier() else ""
        message = f"the schema {name} of {topics} cannot be read: {getattr(error, 'strerror', None) or error}{types}"
        raise UsageError(message) from None
    try:
        return schema_in(topics, name, data, message_name)
    except ValueProblem as problem:
        message = f"the schema {name} of {topics} is none: {problem}"
        raise UsageError(message) from None
