"""Recognition of frames by content: the protocol has no magic and no greeting, so every field of a head must be plausible.

A frame of fixed size is proven by its length, head and ids, where more than sixty bits must match. A frame with an entry is proven by the
entry's digest, or else by the next frame.
"""

from __future__ import annotations

import re

from pulsarscope.dissect.contract.dissector import Candidate
from pulsarscope.model.limits import FRAME_HARD_MAX_BYTES
from pulsarscope.protocols.bookkeeper.binary import (
    ANSWER,
    BATCH,
    BATCH_ANSWER,
    IDS,
    MASTER_KEY_BYTES,
    head_of,
    is_response,
)
from pulsarscope.protocols.bookkeeper.commands import (
    ADD,
    AUTH,
    BATCH_READ,
    BINARY_OPERATIONS,
    BINARY_STATUSES,
    FENCING,
    FLAGS,
    LAST_ENTRY,
    OPERATIONS,
    READ,
    STATUSES,
)
from pulsarscope.protocols.bookkeeper.frame import PROTOBUF_TAG
from pulsarscope.protocols.bookkeeper.framing import BODY, LEAST_FRAME_BYTES, LENGTH_BYTES, LOOKAHEAD_BYTES
from pulsarscope.protocols.bookkeeper.ledger_entry import HEAD as ENTRY_HEAD
from pulsarscope.protocols.bookkeeper.ledger_entry import fitting, plausible
from pulsarscope.protocols.bookkeeper.protobuf import BODIES, STATUS, ProtobufError, read_message, varint

LARGEST_ID = 1 << 56
"""Bound on plausible ids and lengths of a ledger."""

DIGEST_FACTOR = 4
"""Cost of a digest for each covered byte: the kinds are tried one after another."""

DIGEST_MAX_BYTES = 1 << 20
"""Largest frame that is awaited and read to prove it by the digest of its entry."""

V3_MORE_BYTES = 5
"""Bytes after the header of version 3 that are examined: a status, and the tag of the body."""

_STATUS_TAG = bytes((STATUS << 3,))

_HEAD = re.compile(
    rb"(?=[\x00-\x03]...(?:"
    rb"[\x01\x02][\x01-\x03\x07]\x00[\x00-\x07]|"  # version, operation, flags
    rb"\x0a[\x06-\x14]\x08\x03\x10[\x01-\x0c]\x18))",  # the header of version 3: version, operation, transaction id
    re.DOTALL,
)


def find_candidate(data: bytes, position: int, end: int) -> int:
    """Return the next position at which a frame could begin, or −1."""
    match = _HEAD.search(data, position, end)
    return -1 if match is None else match.start()


def candidate(data: bytes, position: int, end: int, budget: int, *, checksums: bool = True) -> Candidate | None:
    """See `Dissector.recognise`. Version 0 is recognised only after another frame."""
    if position + LOOKAHEAD_BYTES > end:
        return Candidate(0, position + LOOKAHEAD_BYTES, "wait", 0)
    length = int.from_bytes(data[position : position + LENGTH_BYTES], "big")
    size = LENGTH_BYTES + length
    if not LEAST_FRAME_BYTES <= size <= FRAME_HARD_MAX_BYTES:
        return None
    if data[position + LENGTH_BYTES] == PROTOBUF_TAG:
        return _protobuf(data, position, end, size)
    version, number, flags = head_of(data, position)
    operation = BINARY_OPERATIONS.get(number)
    if version > 2 or (version == 0 and checksums) or flags >= 2 * max(FLAGS) or operation is None:
        return None
    if operation == AUTH:
        return _auth(data, position, end, size)
    return _binary(operation, flags, data, position, end, size, budget, checksums)


def _binary(operation: str, flags: int, data: bytes, position: int, end: int, size: int, budget: int, checksums: bool) -> Candidate | None:
    """Check a request or an answer of fixed fields, and the entry in it."""
    answers = is_response(operation, size)
    at = position + BODY
    if operation == ADD:
        entry_at = None if answers else at + MASTER_KEY_BYTES
        fixed = ANSWER.size if answers else MASTER_KEY_BYTES + ENTRY_HEAD.size
        ids_at = at + 4 if answers else at + MASTER_KEY_BYTES
    elif answers:
        entry_at = None
        fixed = (ANSWER if operation != BATCH_READ else BATCH_ANSWER).size
        ids_at = at + 4
        if operation != BATCH_READ and size > BODY + fixed:
            entry_at, fixed = at + fixed, fixed + ENTRY_HEAD.size
    else:
        entry_at = None
        fixed = (BATCH if operation == BATCH_READ else IDS).size
        if (size > BODY + fixed) != bool(flags & FENCING):
            return None
        ids_at = at
    if size < BODY + fixed:
        return None
    if at + fixed > end:
        return Candidate(size, at + fixed, "wait", 0)
    seen = at + fixed
    ledger, entry = IDS.unpack_from(data, ids_at)
    least = LAST_ENTRY if operation != ADD else 0
    believed = 0 <= ledger < LARGEST_ID and least <= entry < LARGEST_ID
    if answers:
        status = int.from_bytes(data[at : at + 4], "big")
        believed = believed and not flags and status in BINARY_STATUSES and (entry_at is None or status == 0)
        believed = believed and (operation != READ or entry_at is not None or status != 0)
    if not believed:
        return None
    if entry_at is None:
        return Candidate(size, seen, "sure" if size == BODY + fixed else "likely", 0)
    inner = ENTRY_HEAD.unpack_from(data, entry_at)
    if not plausible(*inner) or inner[0] != ledger or (inner[1] != entry and entry != LAST_ENTRY):
        return None
    return _proven(data, entry_at, position, end, size, seen, budget, checksums)


def _proven(data: bytes, entry_at: int, position: int, end: int, size: int, seen: int, budget: int, checksums: bool) -> Candidate:
    """Return the proof of a frame with plausible fields whose entry begins at `entry_at`: its digest, if it is available."""
    cost = DIGEST_FACTOR * size
    if not checksums or size > DIGEST_MAX_BYTES or cost > budget:
        return Candidate(size, seen, "likely", 0)
    stop = position + size
    if stop > end:
        return Candidate(size, stop, "wait", 0)
    proof = "likely" if fitting(data, entry_at, stop) is None else "sure"
    return Candidate(size, stop, proof, cost)


def _auth(data: bytes, position: int, end: int, size: int) -> Candidate | None:
    """Check an AuthMessage: a plug-in name made of letters, and the payload up to the end of the frame."""
    at, stop = position + BODY, position + size
    if at + 2 > stop or data[at] != PROTOBUF_TAG:
        return None
    named = at + 2 + data[at + 1]
    payload = named + 1 + 5
    if data[at + 1] > 127 or named > stop:
        return None
    if min(payload, stop) > end:
        return Candidate(size, min(payload, stop), "wait", 0)
    name = data[at + 2 : named]
    seen = min(payload, stop)
    if not (name.isascii() and name.decode("ascii").isidentifier()):
        return None
    if named == stop:
        return Candidate(size, seen, "likely", 0)
    try:
        length, behind = varint(data, named + 1, seen)
    except ProtobufError:
        return None
    return Candidate(size, seen, "likely", 0) if data[named] == 0x12 and behind + length == stop else None


def _protobuf(data: bytes, position: int, end: int, size: int) -> Candidate | None:
    """Check the header of version 3, and the tag after it."""
    if _HEAD.match(data[position : position + LOOKAHEAD_BYTES]) is None:
        return None
    at = position + LENGTH_BYTES
    stop = position + size
    behind = at + 2 + data[at + 1]
    if behind > stop:
        return None
    seen = min(behind + V3_MORE_BYTES, stop)
    if seen > end:
        return Candidate(size, seen, "wait", 0)
    body = BODIES.get(OPERATIONS[data[at + 5]])
    try:
        if "txn_id" not in read_message(data, at, behind).fields:
            return None
        if data[behind:seen][:1] == _STATUS_TAG:
            status, behind = varint(data, behind + 1, seen)
            if status not in STATUSES:
                return None
    except ProtobufError:
        return None
    if behind == stop or (body is not None and data[behind:seen].startswith(_tag(body))):
        return Candidate(size, seen, "sure", 0)
    return None


def _tag(number: int) -> bytes:
    """Return the tag of a message field."""
    value = number << 3 | 2
    return bytes((value & 127 | 128, value >> 7))
