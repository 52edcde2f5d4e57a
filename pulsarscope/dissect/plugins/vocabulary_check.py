"""The check of a dissector's vocabulary of fields and commands, which filters rely on."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pulsarscope.dissect.contract.capabilities import FIELD_TYPES, FieldType, Vocabulary
from pulsarscope.model.records import ROWS, columns

_COMMAND = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
"""Names that a filter reads as one word."""


def check_vocabulary(vocabulary: Vocabulary) -> None:
    """Raise ValueError, with the name, for a command, field or column that no filter could name or compare."""
    for command, fields in vocabulary.commands.items():
        if not _COMMAND.fullmatch(command):
            message = f"the command {command!r} is not one word of A-Z, 0-9 and _, so that no filter can name its fields"
            raise ValueError(message)
        _check_fields(command, fields)
    for place, fields in vocabulary.objects.items():
        _check_fields(place, fields)
    known = {f"{kind}.{column.name}" for kind in ROWS for column in columns(kind)}
    if unknown := [place for place in (*vocabulary.objects, *vocabulary.values) if place not in known]:
        message = f"there is no column {unknown[0]!r}: write kind.column, as in 'frame.extra'"
        raise ValueError(message)


def _check_fields(place: str, fields: Iterable[FieldType]) -> None:
    for field in fields:
        if field.type not in FIELD_TYPES:
            message = f"the field {place}.{field.name} has the type {field.type!r}, which is none of {', '.join(FIELD_TYPES)}"
            raise ValueError(message)
        _check_fields(f"{place}.{field.name}", field.fields)
