"""A context for a rule that is fed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pulsarscope.dissect.contract.rules import Where
from pulsarscope.model.thresholds import Thresholds


class SilentContext:
    """A rule context that drops all findings and facts."""

    connection, client, server = "0:1", "10.0.0.1:1", "10.0.0.2:6650"

    thresholds = Thresholds()
    last = Where(None, 0, 0, 0, 0, "0:1")
    closing: tuple[str, int] | None = None

    def __init__(self, *, lost: bool = False) -> None:
        self.lost = lost

    def reported(self, code: str) -> tuple[()]:  # noqa: ARG002 - of any
        return ()

    def report(self, code: str, where: Where, text: str, evidence: dict[str, Any]) -> None: ...

    def emit_batch(self, rule: str, facts: Any) -> None: ...

    def emit_packed(self, rule: str, facts: Any) -> None: ...

    def emit_fact(self, rule: str, key: str, where: Where, what: str, values: dict[str, Any]) -> None: ...

    def emit_facts(self, rule: str, keys: Sequence[str], where: Where, what: str, values: dict[str, Any]) -> None: ...
