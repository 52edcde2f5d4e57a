"""The frames that carried one message of a log: responses that delivered it, and the PRODUCE that sent it to the broker.

A PRODUCE has no offset and no answer. The broker stores a set unchanged, so the message at the offset has the size, codec and payload of
the produced one. If several produced messages match, all are shown.
"""

from __future__ import annotations

import re
from typing import Any

from pulsarscope.dissect.contract.capabilities import FollowKinds
from pulsarscope.dissect.contract.events import DELIVER
from pulsarscope.model.errors import UsageError
from pulsarscope.model.limits import FOLLOW_NAMES_MAX
from pulsarscope.model.records import MessageRow

_Content = tuple[str | None, int | None, str | None, int | None, int | None]
"""Codec, size and digest of a payload, and its place in a compressed entry."""

SHOWN_PARTITIONS_MAX = 10


def _message(name: str) -> _FollowedMessage:
    """Return the test for TOPIC-PARTITION@OFFSET. Raises UsageError for a malformed name."""
    found = re.fullmatch(r"(.+)-(\d{1,10})@(\d{1,19})", name, re.ASCII | re.DOTALL)
    if found is None:
        raise UsageError(f'"{name}" is not a place in a log: give TOPIC-PARTITION@OFFSET, as in orders-0@1024')
    return _FollowedMessage(found[1], int(found[2]), int(found[3]))


class _FollowedMessage:
    """A message, or the messages of one compressed entry, which share its offset."""

    def __init__(self, topic: str, partition: int, offset: int) -> None:
        self._log = topic, partition
        self._offset = offset
        self._contents: set[_Content] = set()
        self._delivered: dict[str | None, int] = {}
        """Time of the first delivery by vantage point."""
        self._partitions: dict[tuple[Any, Any], None] = {}
        self._before: int | None = None
        self._behind: int | None = None

    def learn(self, row: MessageRow) -> bool:
        """Learn the message delivered at the offset."""
        if row.direction != DELIVER:
            return False
        log = row.topic, row.partition
        if len(self._partitions) < FOLLOW_NAMES_MAX:
            self._partitions[log] = None
        if log != self._log or (offset := _offset(row)) is None:
            return False
        if offset < self._offset:
            self._before = offset if self._before is None else max(self._before, offset)
        elif offset > self._offset:
            self._behind = offset if self._behind is None else min(self._behind, offset)
        else:
            if row.payload_sha256 is not None:
                self._contents.add(_content(row))
            self._delivered.setdefault(row.source, row.time)
        return offset == self._offset

    def carries(self, row: MessageRow) -> bool:
        """Return True for a delivery from the offset, and for a PRODUCE of equal content before the first delivery."""
        if (row.topic, row.partition) != self._log:
            return False
        if row.direction == DELIVER:
            return _offset(row) == self._offset
        first = self._delivered.get(row.source)  # clocks of other vantage points may differ
        return _content(row) in self._contents and (first is None or row.time <= first)

    def others(self) -> str:
        """Return what can be followed instead: the neighbouring offsets, or the partitions."""
        near = [f"{offset:,}" for offset in (self._before, self._behind) if offset is not None]
        if near:
            return (
                f": the nearest offsets delivered are {' and '.join(near)}"
                if len(near) == 2
                else f": the nearest offset delivered is {near[0]}"
            )
        names = [f"{topic}-{partition}" for topic, partition in self._partitions]
        more = f" and {len(names) - SHOWN_PARTITIONS_MAX:,} more" if len(names) > SHOWN_PARTITIONS_MAX else ""
        return (
            f": messages were delivered of {', '.join(sorted(names)[:SHOWN_PARTITIONS_MAX])}{more}"
            if names
            else ": no message of Kafka 0.7 was delivered"
        )


def _offset(row: MessageRow) -> int | None:
    return (row.extra or {}).get("offset")


def _content(row: MessageRow) -> _Content:
    return row.compression, row.payload_size, row.payload_sha256, row.batch_index, row.batch_size


FOLLOW_KINDS: FollowKinds = {"message": _message}
