"""Messages that leave a producer corrupted, and those that are sent over and over because the broker refuses their checksum."""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from pulsarscope.dissect.rules import ConnectionRule, Handlers, RuleContext, Where, where_of
from pulsarscope.model.findings import WARNING, Code, table
from pulsarscope.model.records import ConnectionRow, FrameRow
from pulsarscope.protocols.pulsar.rules.phrases import SHOWN_MAX, count

CODES = table(
    Code(
        "resend-loop",
        WARNING,
        "session",
        "A producer sends one message again and again, and the broker refuses its checksum each time.",
        "The bytes are damaged behind the producer's own check: replace the network path or proxy between them; "
        "no later message of this producer gets through.",
    ),
)

LOOP_REFUSALS = 3
"""Refusals of one message that make a loop: one resend after a ChecksumError is what clients do."""

SUSPECTS_MAX = 1_000
"""Messages with a bad or refused checksum that are followed at a time; a healthy connection has none."""


class Suspect(msgspec.Struct):
    """A message whose checksum was bad or refused: all its SENDs, and what answered them."""

    topic: str | None
    producer_name: str | None
    frames: list[str]
    first: Where
    sent: int = 1
    bad: int = 0
    refused: int = 0
    received: str | None = None
    """The SEND_RECEIPT, when the broker took it in the end."""


class Resends(ConnectionRule):
    """See `pulsarscope.dissect.rules.ConnectionRule`."""

    def __init__(self, context: RuleContext) -> None:
        self._context = context
        self._suspects: dict[tuple[int, int], Suspect] = {}
        """By producer and sequence id."""

    def _send(self, row: FrameRow) -> None:
        bad = row.checksum is not None and row.checksum.status == "bad"
        if not (bad or self._suspects):
            return
        key = _key(row)
        suspect = self._suspects.get(key)
        if suspect is not None:
            suspect.sent += 1
            suspect.bad += bad
            _add(suspect.frames, where_of(row).name)
        elif bad:
            self._suspect(key, Suspect(row.topic, row.producer_name, [where_of(row).name], where_of(row), bad=1))

    def _refused(self, row: FrameRow) -> None:
        if (row.fields or {}).get("error") != "ChecksumError":
            return
        where = where_of(row)
        suspect = self._suspects.get(_key(row))
        if suspect is None:
            frames = [] if row.request is None else [row.request]
            suspect = self._suspect(_key(row), Suspect(row.topic, row.producer_name, frames, where))
        suspect.refused += 1
        _add(suspect.frames, where.name)

    def _receipt(self, row: FrameRow) -> None:
        suspect = self._suspects.get(_key(row)) if self._suspects else None
        if suspect is not None and row.request in suspect.frames:  # chunks share their sequence id
            suspect.received = where_of(row).name
            self._evaluate(_key(row), self._suspects.pop(_key(row)))

    def _suspect(self, key: tuple[int, int], suspect: Suspect) -> Suspect:
        if len(self._suspects) >= SUSPECTS_MAX:
            oldest = next(iter(self._suspects))
            self._evaluate(oldest, self._suspects.pop(oldest))
        self._suspects[key] = suspect
        return suspect

    def end(self, row: ConnectionRow, last: Where) -> None:
        """See `ConnectionRule`."""
        del row, last
        for key, suspect in self._suspects.items():
            self._evaluate(key, suspect)
        self._suspects.clear()

    def _evaluate(self, key: tuple[int, int], suspect: Suspect) -> None:
        about = f"message {key[1]} of producer {suspect.producer_name or key[0]}{f' on {suspect.topic}' if suspect.topic else ''}"
        evidence: dict[str, Any] = {
            "frames": suspect.frames + ([] if suspect.received is None else [suspect.received]),
            "topic": suspect.topic,
            "producer_name": suspect.producer_name,
            "producer_id": key[0],
            "sequence_id": key[1],
            "sent": suspect.sent,
            "bad": suspect.bad,
            "refused": suspect.refused,
        }
        end = "the broker took it in the end" if suspect.received is not None else "the broker never took it"
        if suspect.bad:
            answer = f"refused {count(suspect.refused, 'time')} with ChecksumError; " if suspect.refused else ""
            where = "by the producer, or between it and the place of the capture"
            text = f"{about} was corrupted {where}: {suspect.bad} of {count(suspect.sent, 'SEND')} had a wrong checksum, {answer}{end}."
            self._context.report("message-corrupted", suspect.first, text[0].upper() + text[1:], evidence)
        elif suspect.refused:
            where = "between the place of the capture and the broker"
            text = f"{about} was corrupted {where}: its checksum is right here and was refused {count(suspect.refused, 'time')}; {end}."
            self._context.report("message-corrupted", suspect.first, text[0].upper() + text[1:], evidence)
        if suspect.refused >= LOOP_REFUSALS:
            text = f"{about} was sent {suspect.sent} times and refused {suspect.refused} times with ChecksumError; {end}."
            self._context.report("resend-loop", suspect.first, text[0].upper() + text[1:], dict(evidence))

    frames: ClassVar[Handlers] = {"SEND": _send, "SEND_RECEIPT": _receipt, "SEND_ERROR": _refused}


def _key(row: FrameRow) -> tuple[int, int]:
    fields = row.fields or {}
    return fields.get("producer_id", -1), fields.get("sequence_id", -1)


def _add(frames: list[str], name: str) -> None:
    if len(frames) < SHOWN_MAX:
        frames.append(name)
