"""Values of the fields that a filter can name, for outputs: more than the columns of the records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

from pulsarscope.filter.check import Checker
from pulsarscope.filter.fields import PAYLOAD, Catalogue
from pulsarscope.filter.filter_error import FilterError, Mismatch, Place
from pulsarscope.filter.predicate import EvaluationContext, Reader, read_field
from pulsarscope.filter.syntax import ComparisonTest, parse


class FieldColumns:
    """Columns by the names of fields, as in `send.sequence_id`, `latency` or `len(payload)`, of rows of some kinds."""

    def __init__(self, names: Sequence[str], kinds: Sequence[str], catalogue: Catalogue, *, payload: str | None = None) -> None:
        """Resolve the names, with payloads of messages in this form. Raises FilterError for a name that no kind has."""
        self.names = tuple(names)
        self.kinds = tuple(kinds)
        self._context = EvaluationContext(catalogue.codes, payload)
        self.reads_payload = False
        """A field is made of the payload of messages."""
        self._readers: dict[str, list[Reader | None]] = {kind: [] for kind in kinds}
        self.types: dict[str, str] = {}
        """Type of each column, of the first kind that has it."""
        for name in names:
            self._add(name, catalogue)

    def _add(self, name: str, catalogue: Catalogue) -> None:
        text = f"{name} == 0"
        try:
            test = parse(text)
        except FilterError as error:
            raise FilterError(error.reason, name, _within(error.place, name)) from None
        if not isinstance(test, ComparisonTest):
            raise FilterError("a column is a field, as in send.sequence_id or len(topic)", name, (0, len(name)))
        checker = Checker(text, catalogue)
        found = False
        for kind in self.kinds:
            try:
                resolved = checker.field(test.field, kind)
            except Mismatch as error:
                raise FilterError(error.reason, name, _within(error.place, name)) from error
            reader = None
            if resolved is not None:
                known, path = resolved
                found = True
                self.types.setdefault(name, known.types[0] if len(known.types) == 1 else "any")
                self.reads_payload = self.reads_payload or (path.column == PAYLOAD and path.function is not None)
                reader = attrgetter(PAYLOAD) if path.column == PAYLOAD and path.function is None else read_field(path, self._context)
            self._readers[kind].append(reader)
        if not found:
            raise FilterError(checker.missing(test.field, self.kinds).reason, name, (0, len(name)))

    def values(self, row: Any, endpoints: Mapping[str, tuple[str, str]]) -> list[Any] | None:
        """Return the values of a row, None for absent ones and lists of several; None for a row of another kind."""
        if (readers := self._readers.get(row.kind)) is None:
            return None
        self._context.endpoints = endpoints
        return [None if reader is None else _single(reader(row)) for reader in readers]


def _within(place: Place, name: str) -> Place:
    start, end = place
    return min(start, len(name)), min(end, len(name))


def _single(value: Any) -> Any:
    """Return the only value of a list, None for an empty one."""
    if isinstance(value, list) and len(value) < 2:
        return value[0] if value else None
    return value
