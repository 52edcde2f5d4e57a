"""Messages that leave a producer corrupted, or that are resent repeatedly because the broker refuses their checksum."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.contract.rules import ColumnsHandlers, ConnectionRule, Handlers, RuleContext, Where, name_of, where_of
from pulsarscope.model.findings import SESSION, table
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.model.text import plural
from pulsarscope.model.thresholds import counted
from pulsarscope.protocols.pulsar.rules.evidence import add_sample, capitalized

CODES = table(
    SESSION.warning(
        "resend-loop",
        "A producer sends one message again and again, and the broker refuses its checksum each time.",
        "The bytes are damaged after the producer's own check: replace the network path or proxy in between; no later message of this "
        "producer gets through.",
        to_act="the network's operators",
    ),
)

THRESHOLDS = (
    counted(
        "resend-loop-refusals", 3, "refusals", "Refusals of one message; after a ChecksumError clients send it again once.", "resend-loop"
    ),
)

SUSPECTS_MAX = 1_000
"""Most messages with a bad or refused checksum that are followed at a time; a healthy connection has none."""


class SuspectMessage(msgspec.Struct):
    """A message whose checksum was bad or refused, with its SENDs and their answers."""

    topic: str | None
    producer_name: str | None
    frames: list[str]
    first: Where
    sent: int = 1
    bad: int = 0
    """Number of SENDs with a bad checksum."""
    refused: int = 0
    receipt: str | None = None
    """Name of the SEND_RECEIPT, if the broker finally accepted the message."""


class ResendRule(ConnectionRule):
    """A rule about corrupted and refused messages of one connection's producers."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._suspects: dict[tuple[int, int], SuspectMessage] = {}
        """Suspects by producer and sequence id."""

    def _send(self, row: FrameRow) -> None:
        bad = row.checksum is not None and row.checksum.status == "bad"
        if not (bad or self._suspects):
            return
        key, where = _key(row), where_of(row)
        if (suspect := self._suspects.get(key)) is not None:
            suspect.sent += 1
            suspect.bad += bad
            add_sample(suspect.frames, where.name)
        elif bad:
            self._add(key, SuspectMessage(row.topic, row.producer_name, [where.name], where, bad=1))

    def _send_error(self, row: FrameRow) -> None:
        if (row.fields or {}).get("error") != "ChecksumError":
            return
        where = where_of(row)
        if (suspect := self._suspects.get(_key(row))) is None:
            names = [] if row.request is None else [row.request]
            suspect = self._add(_key(row), SuspectMessage(row.topic, row.producer_name, names, where))
        suspect.refused += 1
        add_sample(suspect.frames, where.name)

    def _receipt(self, row: FrameRow) -> None:
        suspect = self._suspects.get(_key(row)) if self._suspects else None
        if suspect is not None and row.request in suspect.frames:  # chunks share their sequence id
            suspect.receipt = name_of(row)
            self._evaluate(_key(row), self._suspects.pop(_key(row)))

    def _add(self, key: tuple[int, int], suspect: SuspectMessage) -> SuspectMessage:
        if len(self._suspects) >= SUSPECTS_MAX:
            oldest = next(iter(self._suspects))
            self._evaluate(oldest, self._suspects.pop(oldest))
        self._suspects[key] = suspect
        return suspect

    def end(self, row: ConnectionRow, last: Where) -> None:  # noqa: ARG002 - the contract's
        """Report the messages without a final answer."""
        for key, suspect in self._suspects.items():
            self._evaluate(key, suspect)
        self._suspects.clear()

    def _evaluate(self, key: tuple[int, int], suspect: SuspectMessage) -> None:
        producer_id, sequence_id = key
        topic = f" on {suspect.topic}" if suspect.topic else ""
        message = f"message {sequence_id} of producer {suspect.producer_name or producer_id}{topic}"
        evidence: dict[str, Any] = {
            "frames": suspect.frames + ([] if suspect.receipt is None else [suspect.receipt]),
            "topic": suspect.topic,
            "producer_name": suspect.producer_name,
            "producer_id": producer_id,
            "sequence_id": sequence_id,
            "sent": suspect.sent,
            "bad": suspect.bad,
            "refused": suspect.refused,
        }
        outcome = "the broker took it in the end" if suspect.receipt is not None else "the broker never took it"
        refusals = f"refused {plural(suspect.refused, 'time')}"
        if suspect.bad:
            hop = "by the producer, or between it and the place of the capture"
            answer = f"{refusals} with ChecksumError; " if suspect.refused else ""
            text = (
                f"{message} was corrupted {hop}: {suspect.bad} of {plural(suspect.sent, 'SEND')} had a wrong checksum, {answer}{outcome}."
            )
            self._context.report("message-corrupted", suspect.first, capitalized(text), evidence)
        elif suspect.refused:
            hop = "between the place of the capture and the broker"
            text = f"{message} was corrupted {hop}: its checksum is correct here and was {refusals}; {outcome}."
            self._context.report("message-corrupted", suspect.first, capitalized(text), evidence)
        if suspect.refused >= self._context.thresholds["resend-loop-refusals"]:
            text = f"{message} was sent {suspect.sent} times and refused {suspect.refused} times with ChecksumError; {outcome}."
            self._context.report("resend-loop", suspect.first, capitalized(text), dict(evidence))

    def batch(self, rows: Sequence[Any], handle: Callable[[int], None]) -> None:
        """Skip SENDs with a good checksum, and receipts while no message is suspect; see `ConnectionRule.batch`."""
        for index, row in enumerate(rows):
            checksum = row.checksum
            if self._suspects or row.command == "SEND_ERROR" or (checksum is not None and checksum.status == "bad"):
                handle(index)

    def sends(self, _frames: Any, _handle: Callable[[int], None]) -> bool:
        """Skip SENDs and receipts while no message is suspect; see `ConnectionRule.columns`."""
        return not self._suspects

    columns: ClassVar[ColumnsHandlers] = {"SEND": sends}
    frames: ClassVar[Handlers] = {"SEND": _send, "SEND_RECEIPT": _receipt, "SEND_ERROR": _send_error}


def _key(row: FrameRow) -> tuple[int, int]:
    fields = row.fields or {}
    return fields.get("producer_id", -1), fields.get("sequence_id", -1)
