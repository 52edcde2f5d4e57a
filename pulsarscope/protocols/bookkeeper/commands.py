"""Operations, flags and statuses of BookKeeper by number (BookieProtocol.java, BookkeeperProtocol.proto)."""

from __future__ import annotations

from typing import Any

ADD, READ, AUTH, BATCH_READ, READ_LAC, WRITE_LAC, GET_BOOKIE_INFO, START_TLS, FORCE_LEDGER, LIST_ENTRIES, RANGE_READ, RANGE_ADD = NAMES = (
    "ADD",
    "READ",
    "AUTH",
    "BATCH_READ",
    "READ_LAC",
    "WRITE_LAC",
    "GET_BOOKIE_INFO",
    "START_TLS",
    "FORCE_LEDGER",
    "LIST_ENTRIES",
    "RANGE_READ",
    "RANGE_ADD",
)

BINARY_OPERATIONS = {1: ADD, 2: READ, 3: AUTH, 4: READ_LAC, 5: WRITE_LAC, 6: GET_BOOKIE_INFO, 7: BATCH_READ}
"""Operations of versions 0 to 2. A bookie closes the connection on 4, 5 and 6."""

OPERATIONS = {
    1: READ,
    2: ADD,
    3: RANGE_READ,
    4: RANGE_ADD,
    5: AUTH,
    6: WRITE_LAC,
    7: READ_LAC,
    8: GET_BOOKIE_INFO,
    9: START_TLS,
    10: FORCE_LEDGER,
    11: LIST_ENTRIES,
    12: BATCH_READ,
}
"""Operations of version 3."""

FENCING = 1
"""Flag of a binary READ or BATCH_READ that carries the master key and ends all writing to the ledger."""

FLAGS = {FENCING: "DO_FENCING", 2: "RECOVERY_ADD", 4: "HIGH_PRIORITY"}
"""Flags of versions 0 to 2 by bit."""

EOK = "EOK"

_REFUSALS = ("EBADREQ", "EIO", "EUA", "EBADVERSION", "EFENCED", "EREADONLY", "ETOOMANYREQUESTS", "EUNKNOWNLEDGERSTATE")

BINARY_STATUSES = {0: EOK, 1: "ENOLEDGER", 2: "ENOENTRY", **dict(enumerate(_REFUSALS, 100))}
"""Statuses of versions 0 to 2."""

STATUSES = {0: EOK, 402: "ENOLEDGER", 403: "ENOENTRY", 404: _REFUSALS[0], **dict(enumerate(_REFUSALS[1:], 501))}
"""Statuses of version 3."""

STATUS_NAMES = tuple(BINARY_STATUSES.values())

DUMMY = "DUMMY"
"""Kind of a ledger without digests."""

RESPONSE = "_RESPONSE"

LAST_ENTRY = -1
"""Entry id in a READ of the last entry."""


def response(operation: str) -> str:
    """Return the name of the command that answers an operation."""
    return operation + RESPONSE


def named(names: dict[int, str], number: int) -> str:
    """Return the name of a number; a number without one gets the form that all protocols share."""
    return names.get(number) or f"Unknown({number})"


def flag_names(flags: int) -> list[str]:
    """Return the names of the set flags."""
    return [FLAGS.get(bit) or f"Unknown({bit})" for bit in (1 << place for place in range(flags.bit_length())) if flags & bit]


def pairing_key(command: str, fields: dict[str, Any]) -> str | None:
    """Return the pairing key, which a request and its answer share; None if they cannot be paired."""
    operation = command.removesuffix(RESPONSE)
    if "txn_id" in fields:
        return f"txn {fields['txn_id']}"
    if operation == BATCH_READ:
        return f"{operation} {fields.get('request_id')}"
    if operation in (ADD, READ):
        return f"{operation} {fields.get('ledger')}:{fields.get('entry')}"
    return operation if operation == AUTH else None
