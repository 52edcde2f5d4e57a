"""Files from the user with information that is not on the wire: schemas, and names where the wire has only numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from pulsarscope.model.errors import UsageError, system_reason
from pulsarscope.model.limits import NAMES_MAX, NAMES_MAX_BYTES, SCHEMA_MAX_BYTES

Schema = TypeVar("Schema")
Given = TypeVar("Given")

ReadSchema = Callable[[str, str, "bytes | None", str], Schema]
"""Reader of one protocol's schemas: topic pattern, file name, content, name of a type in it → schema. Raises ValueError."""


def given_schemas(given: Iterable[tuple[str, str]], schema_readers: Callable[[], Sequence[ReadSchema[Schema]]]) -> tuple[Schema, ...]:
    """Read the user's schemas: pairs of a topic pattern and a file. Raises UsageError when a file cannot be read, or holds no schema.

    Instead of a file, the name of a primitive type may be given; a message in the file may be named after a #.
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
            return first_of(readers, topics, name, None, "")
        except ValueError as problem:
            types = f"; {problem}" if name.isidentifier() else ""
        raise UsageError(f"the schema {name} of {topics} cannot be read: {system_reason(error)}{types}") from None
    try:
        return first_of(readers, topics, name, data, message_name)
    except ValueError as problem:
        raise UsageError(f"the schema {name} of {topics} is not valid: {problem}") from None


ReadNames = Callable[[bytes, str], Mapping[str, str]]
"""Reader of one protocol's names: content of a file, name to use where the file has none → names. Raises ValueError."""


def given_names(files: Iterable[str], names_readers: Callable[[], Sequence[ReadNames]]) -> dict[str, str]:
    """Read the user's files; later ones take precedence. Raises UsageError when one cannot be read, or has no names."""
    paths = tuple(files)
    readers = names_readers() if paths else ()
    names: dict[str, str] = {}
    for path in paths:
        content = read_start(path, f"the names {path}", NAMES_MAX_BYTES + 1)
        if len(content) > NAMES_MAX_BYTES:
            raise UsageError(f"the names {path} are too large: more than {NAMES_MAX_BYTES:,} bytes")
        try:
            names |= first_of(readers, content, Path(path).name.partition(".")[0])
        except ValueError as problem:
            raise UsageError(f"the names {path} cannot be used: {problem}") from None
        if len(names) > NAMES_MAX:
            raise UsageError(f"the names {path} are too many: more than {NAMES_MAX:,}")
    return names


def first_of(readers: Sequence[Callable[..., Given]], *arguments: Any) -> Given:
    """Return the result of the first reader that accepts the arguments. Raises the ValueError of the first reader if none does."""
    read, *others = readers
    try:
        return read(*arguments)
    except ValueError:
        for other in others:
            with suppress(ValueError):
                return other(*arguments)
        raise


def read_start(path: str, description: str, size: int) -> bytes:
    """Return up to `size` bytes of a file, which may be a pipe. Raises UsageError, with the description, when it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(size)
    except (OSError, ValueError) as error:
        raise UsageError(f"{description} cannot be read: {system_reason(error)}") from None
