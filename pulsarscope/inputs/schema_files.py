"""Schemas that the user brings: a topic, or a pattern of topics, and a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import SCHEMA_MAX_BYTES

Schema = TypeVar("Schema")

ReadSchema = Callable[[str, str, "bytes | None", str], Schema]
"""Reader of one protocol's schemas: pattern of topics, name of the file, its content, name of a type in it → schema. Raises ValueError."""


def given_schemas(given: Iterable[tuple[str, str]], schema_readers: Callable[[], Sequence[ReadSchema[Schema]]]) -> tuple[Schema, ...]:
    """Read the user's schemas: pairs of a pattern of topics and a file. Raises UsageError when one cannot be read, or holds none.

    A file may be the name of a primitive type, or name a message behind a #.
    """
    pairs = tuple(given)
    readers = schema_readers() if pairs else ()
    return tuple([_given_schema(readers, topics, file) for topics, file in pairs])


def _given_schema(readers: Sequence[ReadSchema[Schema]], topics: str, file: str) -> Schema:
    name, _, message_name = file.partition("#")
    try:
        with Path(name).open("rb") as opened:
            data = opened.read(2 * SCHEMA_MAX_BYTES)
    except (OSError, ValueError) as error:
        try:
            return _first(readers, topics, name, None, "")
        except ValueError as problem:
            types = f"; {problem}" if name.isidentifier() else ""
        raise UsageError(f"the schema {name} of {topics} cannot be read: {getattr(error, 'strerror', None) or error}{types}") from None
    try:
        return _first(readers, topics, name, data, message_name)
    except ValueError as problem:
        raise UsageError(f"the schema {name} of {topics} is not valid: {problem}") from None


def _first(readers: Sequence[ReadSchema[Schema]], topics: str, name: str, data: bytes | None, message_name: str) -> Schema:
    """Read the schema for the first protocol that has such ones. Raises ValueError, the first protocol's, when none has."""
    read, *others = readers
    try:
        return read(topics, name, data, message_name)
    except ValueError:
        for other in others:
            with suppress(ValueError):
                return other(topics, name, data, message_name)
        raise
