"""Tests whether frames are about a followed message, consumer or transaction, beyond the columns of their rows."""

from __future__ import annotations

import re
from typing import Any

from pulsarscope.dissect.contract.capabilities import FollowTest
from pulsarscope.model.errors import UsageError
from pulsarscope.model.records import FrameRow
from pulsarscope.protocols.pulsar.ack_sets import is_left

CONSUMERS_MAX = 10_000
"""Most consumers with an unacknowledged delivery of a followed message: each subscription has few."""


def message_test(name: str) -> FollowTest:
    """Return a test for frames about LEDGER:ENTRY, or about message LEDGER:ENTRY:BATCH; also cumulative ACKs and full redelivery."""
    found = re.fullmatch(r"(\d{1,19}):(\d{1,19})(?::(\d{1,9}))?", name, re.ASCII)
    if found is None:
        raise UsageError(f'"{name}" is not a message id: give LEDGER:ENTRY, or LEDGER:ENTRY:BATCH for one message of a batch, as in 5:12')
    ledger, entry = int(found[1]), int(found[2])
    return _MessageTest(ledger, entry, None if found[3] is None else int(found[3]))


class _MessageTest:
    """A test that remembers who has the message and has not acknowledged it: a cumulative ACK names a later message."""

    def __init__(self, ledger: int, entry: int, index: int | None) -> None:
        self._entry = ledger, entry
        self._index = index
        self._holders: dict[tuple[str | None, Any], None] = {}

    def __call__(self, row: FrameRow) -> bool:
        fields = row.fields or {}
        holder = row.connection, fields.get("consumer_id")
        if row.command == "ACK":
            covers = fields.get("ack_type") == "Cumulative" and holder in self._holders
            found = [one for one in _items(fields.get("message_id")) if self._is(one) or (covers and _place(one) > self._entry)]
            if not all(map(self._leaves_some, found)):
                self._holders.pop(holder, None)
            return bool(found)
        if row.command == "REDELIVER_UNACKNOWLEDGED_MESSAGES":
            ids = _items(fields.get("message_ids"))
            return any(map(self._is, ids)) if ids else holder in self._holders
        if not self._is(fields.get("message_id")):
            return False
        if row.command == "MESSAGE" and len(self._holders) < CONSUMERS_MAX:
            self._holders[holder] = None
        return True

    def _is(self, message_id: Any) -> bool:
        if type(message_id) is not dict or _place(message_id) != self._entry:
            return False
        if self._index is None:
            return True
        left = message_id.get("ack_set")  # bits of the messages that are not acknowledged
        if type(left) is list and left:
            return not is_left(left, self._index)
        return message_id.get("batch_index", -1) in (-1, self._index)

    def _leaves_some(self, message_id: dict[str, Any]) -> bool:
        """Return True if an ACK leaves messages of the entry unacknowledged, when all of them are followed."""
        left = message_id.get("ack_set")
        return self._index is None and _place(message_id) == self._entry and type(left) is list and any(left)


def _place(message_id: Any) -> tuple[int, int]:
    return (message_id.get("ledgerId", -1), message_id.get("entryId", -1)) if type(message_id) is dict else (-1, -1)


def _items(value: Any) -> list[Any]:
    return value if type(value) is list else []


def consumer_test(name: str) -> FollowTest:
    """Return a test for frames about the consumers with this id or name."""
    return _ConsumerTest(name)


class _ConsumerTest:
    """A test that remembers the ids of the consumers with a name: only their SUBSCRIBE has the name."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = int(name) if re.fullmatch(r"\d{1,19}", name, re.ASCII) else None
        self._named: dict[tuple[str | None, Any], None] = {}

    def __call__(self, row: FrameRow) -> bool:
        fields = row.fields or {}
        number = fields.get("consumer_id")
        if number is None:
            return False
        consumer = row.connection, number
        if row.command == "SUBSCRIBE":
            self._named.pop(consumer, None)
            if fields.get("consumer_name") == self._name and len(self._named) < CONSUMERS_MAX:
                self._named[consumer] = None
        return number == self._number or consumer in self._named


def txn_test(name: str) -> FollowTest:
    """Return a test for frames about the transaction (MOST,LEAST): its own commands, and SEND, MESSAGE and ACK within it."""
    found = re.fullmatch(r"\(?(-?\d{1,20})[,:](-?\d{1,20})\)?", name.replace(" ", ""), re.ASCII)
    if found is None:
        raise UsageError(f'"{name}" is not a transaction id: give MOST:LEAST, its two numbers, as in 0:7')
    wanted = int(found[1]), int(found[2])
    return lambda row: any(_txn(part) == wanted for part in (row.fields, row.metadata) if part)


def _txn(fields: dict[str, Any]) -> tuple[int, int] | None:
    most, least = fields.get("txnid_most_bits"), fields.get("txnid_least_bits")
    return None if most is None and least is None else (most or 0, least or 0)


FOLLOW_KINDS = {"message": message_test, "consumer": consumer_test, "txn": txn_test}
