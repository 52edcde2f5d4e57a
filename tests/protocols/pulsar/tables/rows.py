"""Handmade rows, in the form of the engine."""

from __future__ import annotations

from typing import Any

from pulsarscope.dissect.contract.capabilities import ReportTable
from pulsarscope.model.records import FrameRow, Row

TOPIC = "persistent://public/default/t"
MILLISECOND = 1_000_000
ENDPOINTS = {"0:1": ("10.0.0.1:5000", "10.0.0.9:6650"), "0:2": ("10.0.0.1:5001", "10.0.0.8:6650")}


class Frames:
    """A maker of frames, one per millisecond, each completed by a separate packet."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(
        self, command: str, fields: dict[str, Any], *, connection: str = "0:1", messages: int | None = None, **more: Any
    ) -> FrameRow:
        self.number += 1
        direction = more.pop(
            "direction", "server" if command.endswith(("_RESPONSE", "SUCCESS", "ERROR", "MESSAGE", "RECEIPT")) else "client"
        )
        return FrameRow(
            file=0,
            packet=self.number,
            sub=1,
            time=self.number * MILLISECOND,
            connection=connection,
            direction=direction,
            command=command,
            fields=fields,
            num_messages=messages,
            topic=more.pop("topic", TOPIC),
            **more,
        )


def records(table: ReportTable, *rows: Row) -> list[dict[str, Any]]:
    """Return the records of a table after some rows; all have the same keys, which the columns name."""
    fold = table.make()
    for row in rows:
        fold.feed([row], ENDPOINTS)
    found = fold.records()
    for record in found:
        assert list(record) == list(found[0])
        assert {column.key for column in table.columns} <= set(record)
    return found


def message_id(entry: int, **more: Any) -> dict[str, Any]:
    return {"ledgerId": 7, "entryId": entry, **more}
