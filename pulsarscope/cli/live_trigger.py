"""Triggers, on which `live` saves packets: a finding of a code, any error, or a record that matches a display filter."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pulsarscope.model.errors import UsageError
from pulsarscope.model.findings import ERROR
from pulsarscope.model.records import ExchangeRow, FindingRow, FrameRow
from pulsarscope.model.text import hint_for

if TYPE_CHECKING:
    from pulsarscope.filter import Filter

ANY_ERROR = "any-error"

_CODE = re.compile(r"[a-z0-9-]+")
_FILTERED = (FrameRow.kind, ExchangeRow.kind, FindingRow.kind)


class Trigger:
    """The records that --trigger names."""

    def __init__(self, text: str, codes: Collection[str]) -> None:
        """Take the option's value; `codes` are those of all findings. Raises UsageError, or FilterError for an invalid filter."""
        self.kinds: frozenset[str] = frozenset({FindingRow.kind})
        """Kinds of the records that it looks at."""
        self._text = text
        self._filter: Filter | None = None
        if text == ANY_ERROR or text in codes:
            return
        if _CODE.fullmatch(text):
            hint = hint_for(text, (*codes, ANY_ERROR), "pulsarscope findings lists them; any-error stands for all errors")
            raise UsageError(f"--trigger: unknown finding {text}{hint}")
        from pulsarscope.cli.fields import catalogue  # noqa: PLC0415 - most triggers are no filters
        from pulsarscope.filter import Filter  # noqa: PLC0415 - as above

        self._filter = Filter(text, _FILTERED, catalogue())
        self.kinds = frozenset(_FILTERED)

    def select(self, rows: Sequence[Any], endpoints: Mapping[str, tuple[str, str]]) -> list[Any]:
        """Return the records among rows."""
        if self._filter is not None:
            return self._filter.select([row for row in rows if row.kind in self.kinds], endpoints)
        findings = [row for row in rows if type(row) is FindingRow]
        return [row for row in findings if row.code == self._text or (self._text == ANY_ERROR and row.severity == ERROR)]
