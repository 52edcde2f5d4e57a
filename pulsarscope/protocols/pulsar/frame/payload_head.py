"""The head of a payload: the bytes between the command of SEND or MESSAGE and the payload itself.

Two optional parts: 0x0e02, size u32 and BrokerEntryMetadata; 0x0e01 and CRC32-C u32. Then metadata size u32 and MessageMetadata. The
checksum covers everything after it, including the payload.
"""

from __future__ import annotations

import struct
from typing import Any

from pulsarscope.dissect.contract.frames import Note
from pulsarscope.model.platform import load_crc32c
from pulsarscope.model.records import Checksum
from pulsarscope.protocols.pulsar.frame.fast_path import UncommonFormError
from pulsarscope.protocols.pulsar.frame.generated import broker_entry_metadata, message_metadata
from pulsarscope.protocols.pulsar.frame.protobuf import Plan, Plans, WireError, walk

crc32c = load_crc32c()
"""Checksum of bytes; takes 0.1 µs, plus 0.04 µs for each KiB."""


BROKER_ENTRY_METADATA_MAGIC = b"\x0e\x02"
CHECKSUM_MAGIC = b"\x0e\x01"
BROKER_ENTRY_METADATA_NUMBER, CHECKSUM_NUMBER = 0x0E02, 0x0E01

CHECKED = struct.Struct(">HII")
"""Checksum magic, checksum, metadata size."""

COPY_MAX_BYTES = 4096
"""Size up to which the checksum of a copied slice is faster than that of a memoryview."""

PayloadHead = tuple[dict[str, Any] | None, Checksum | None, dict[str, Any] | None, int]
"""Broker entry metadata, checksum, message metadata, position of the payload (−1 if the head is damaged)."""

_U32 = struct.Struct(">I")
_ABSENT, _UNVERIFIED = Checksum("absent"), Checksum("unverified")


def read_payload_head(data: bytes, at: int, end: int) -> PayloadHead:
    """Read a head in the common form with a correct checksum. Raises one of FALLBACK_ERRORS otherwise: the reference reads it."""
    if at + 10 > end:
        raise UncommonFormError
    entry = None
    magic, stored, size = CHECKED.unpack_from(data, at)
    if magic == BROKER_ENTRY_METADATA_NUMBER:
        # The broker's metadata precede the checksum, so their size is where the checksum is without them.
        entry_at, at = at + 6, at + 6 + stored
        if at + 10 > end:
            raise UncommonFormError
        entry = broker_entry_metadata(data, entry_at, at)
        magic, stored, size = CHECKED.unpack_from(data, at)
    payload_at = at + 10 + size
    if magic != CHECKSUM_NUMBER or payload_at > end:
        raise UncommonFormError
    metadata = message_metadata(data, at + 10, payload_at)
    covered = data[at + 6 : end] if end - at < COPY_MAX_BYTES else memoryview(data)[at + 6 : end]
    if crc32c(covered) != stored:
        raise UncommonFormError
    text = data[at + 2 : at + 6].hex()
    return entry, Checksum("good", text, text), metadata, payload_at


class PayloadHeadReader:
    """The reference reader of payload heads."""

    def __init__(self, plans: Plans) -> None:
        self.metadata_plan = plans.named("MessageMetadata")
        self.entry_metadata_plan = plans.named("BrokerEntryMetadata")

    def read(self, data: bytes, position: int, end: int, notes: list[Note], *, complete: bool = True) -> PayloadHead:
        """Read any head that follows the command. The checksum is verified if the frame is `complete`; `notes` receives oddities."""
        entry: dict[str, Any] | None = None
        checksum: Checksum | None = None
        try:
            magic = data[position : position + 2]
            if magic == BROKER_ENTRY_METADATA_MAGIC:
                entry, position = _read_sized(data, position + 2, end, "broker entry metadata", self.entry_metadata_plan, notes)
                magic = data[position : position + 2]
            if magic == CHECKSUM_MAGIC and position + 10 <= end:
                stored = data[position + 2 : position + 6].hex()
                position += 6
                checksum = _verified(data, position, end, stored, notes) if complete else Checksum("unverified", stored)
            else:
                checksum = _ABSENT if complete else _UNVERIFIED
            metadata, position = _read_sized(data, position, end, "metadata", self.metadata_plan, notes)
        except WireError as error:
            notes.append(("frame-malformed", str(error)))
            return entry, checksum, None, -1
        if checksum is _ABSENT:
            notes.append(("checksum-absent", "the frame carries no CRC32-C"))
        return entry, checksum, metadata, position


def _verified(data: bytes, position: int, end: int, stored: str, notes: list[Note]) -> Checksum:
    """Compare the checksum of data[position:end] with the stored one."""
    covered = data[position:end] if end - position <= COPY_MAX_BYTES else memoryview(data)[position:end]
    computed = f"{crc32c(covered):08x}"
    if computed == stored:
        return Checksum("good", stored, stored)
    notes.append(("checksum-mismatch", f"CRC32-C stored {stored}, computed {computed}"))
    return Checksum("bad", stored, computed)


def _read_sized(data: bytes, position: int, end: int, what: str, plan: Plan, notes: list[Note]) -> tuple[dict[str, Any], int]:
    """Read a u32 size and the message of that size; return the message and the position after it. Raises WireError if there is none."""
    if position + 4 > end:
        raise WireError(f"the frame ends before the size of its {what}")
    size: int = _U32.unpack_from(data, position)[0]
    position += 4
    if size > end - position:
        raise WireError(f"{what} size {size:,} is larger than the {end - position:,} bytes left")
    return walk(data, position, position + size, plan, notes), position + size
