"""One frame: bytes → command, metadata, checksum verdict. Pure and total: any bytes give an answer, the same bytes the same one.

Layout (binary protocol specification, "Framing"): totalSize u32, commandSize u32, BaseCommand; in SEND and MESSAGE then, each optional,
0x0e02 + size u32 + BrokerEntryMetadata, 0x0e01 + CRC32-C u32; then metadataSize u32, MessageMetadata, payload to the end of the frame.
The checksum covers all that follows it.
"""

from __future__ import annotations

import struct
from typing import Any

from crc32c import crc32c

from pulsarscope.protocols.pulsar.commands import command_table
from pulsarscope.protocols.pulsar.messages import INT32, Plan, Plans, WireError, walk
from pulsarscope.protocols.pulsar.usual import COMMAND_MIN_BYTES
from pulsarscope.protocols.pulsar.usual import metadata as read_metadata
from pulsarscope.records import Checksum
from pulsarscope.wire.contract import MALFORMED, OK, TRUNCATED, Decoded, Note

SIZES = struct.Struct(">II")
_U32 = struct.Struct(">I")
_CHECKED = struct.Struct(">HII")
"""Checksum magic, checksum, metadata size."""

BROKER_ENTRY_METADATA_MAGIC = b"\x0e\x02"
CHECKSUM_MAGIC = b"\x0e\x01"
_CHECKSUM_MAGIC = 0x0E01

ABSENT = Checksum("absent")
UNVERIFIED = Checksum("unverified")

SHORTEST = COMMAND_MIN_BYTES + 4
COPY_MAX_BYTES = 4096
"""Up to here the checksum of a copied slice is faster than that of a memoryview."""


class FrameDecoder:
    """Decodes frames; holds nothing but tables."""

    def __init__(self, show_secrets: bool = False) -> None:
        plans = Plans(show_secrets)
        self.commands = command_table(plans)
        self.metadata_plan = plans.named("MessageMetadata")
        self.entry_metadata_plan = plans.named("BrokerEntryMetadata")
        self.base_plan = self._base_plan(plans)
        # By the first three bytes of BaseCommand: tag and value of its type, tag of the sub-message (those of one byte).
        self._usual = {
            bytes((8, number)) + command.tag: (command.name, command.plan, command.read, command.payload)
            for number, command in self.commands.items()
            if len(command.tag) == 1
        }

    @staticmethod
    def _base_plan(plans: Plans) -> Plan:
        """BaseCommand with `type` as a number: a type without a name must not read as another one."""
        known = plans.named("BaseCommand")
        plan = Plan(known.name)
        plan.rows = {tag: row._replace(kind=INT32) if row.name == "type" else row for tag, row in known.rows.items()}
        return plan

    def decode(self, data: bytes, start: int, end: int) -> Decoded:
        """The whole frame data[start:end]; at least the two size fields must be there.

        This is the hot path: the usual form of a frame (type first, then its sub-message of less than 128 bytes and nothing else; a
        payload with a right checksum and no broker entry metadata) is read here, anything else by `_decode_unusual`, to the same end.
        """
        position = start + 8
        (command_size,) = _U32.unpack_from(data, start + 4)
        command_end = position + command_size
        usual = self._usual.get(data[position : position + 3])
        if usual is None or command_end > end or command_size < SHORTEST or data[position + 3] != command_size - 4:
            return self._decode_unusual(data, start, end)
        name, plan, read, payload = usual
        notes: list[Note] = []
        try:
            fields = read(data, position + 4, command_end, plan, notes)
            if not payload:
                if command_end != end:
                    return self._decode_unusual(data, start, end)
                return name, fields, None, None, None, None, OK, notes or None
            if command_end + 10 > end:
                return self._decode_unusual(data, start, end)
            magic, stored, metadata_size = _CHECKED.unpack_from(data, command_end)
            covered = data[command_end + 6 : end] if end - command_end < COPY_MAX_BYTES else memoryview(data)[command_end + 6 : end]
            metadata_at = command_end + 10
            metadata_end = metadata_at + metadata_size
            if magic != _CHECKSUM_MAGIC or metadata_end > end or crc32c(covered) != stored:
                return self._decode_unusual(data, start, end)
            metadata = read_metadata(data, metadata_at, metadata_end, self.metadata_plan, notes)
        except (WireError, IndexError):
            return self._decode_unusual(data, start, end)
        text = "%08x" % stored  # noqa: UP031 - twice as fast as an f-string
        return name, fields, None, Checksum("good", text, text), metadata, metadata_end - start, OK, notes or None

    def _decode_unusual(self, data: bytes, start: int, end: int) -> Decoded:
        """Any frame."""
        notes: list[Note] = []
        position = start + 8
        command_end = position + _U32.unpack_from(data, start + 4)[0]
        if command_end > end:
            notes.append(("frame-malformed", f"commandSize {command_end - position} is larger than the frame"))
            return None, None, None, None, None, None, MALFORMED, notes
        try:
            name, fields, payload = self._command(data, position, command_end, notes)
        except WireError as error:
            notes.append(("frame-malformed", str(error)))
            return None, None, None, None, None, None, MALFORMED, notes
        if not payload:
            if command_end != end and name is not None:
                notes.append(("trailing-bytes", f"{end - command_end} bytes follow the command"))
            status = OK if name is not None and fields is not None else MALFORMED
            return name, fields, None, None, None, None, status, notes or None
        entry, checksum, metadata, payload_at, status = self._payload(data, command_end, end, notes)
        if fields is None:
            status = MALFORMED
        return name, fields, entry, checksum, metadata, None if payload_at < 0 else payload_at - start, status, notes or None

    def decode_partial(self, data: bytes, start: int, end: int) -> Decoded:
        """As much as the head data[start:end] of a frame says."""
        nothing: Decoded = (None, None, None, None, None, None, TRUNCATED, None)
        if end - start < 8:
            return nothing
        command_end = start + 8 + _U32.unpack_from(data, start + 4)[0]
        if command_end > end:
            return nothing
        notes: list[Note] = []
        try:
            name, fields, payload = self._command(data, start + 8, command_end, notes)
        except WireError:
            return nothing
        if not payload:
            return name, fields, None, None, None, None, TRUNCATED, notes or None
        entry, checksum, metadata, payload_at, _ = self._payload(data, command_end, end, [], whole=False)
        offset = None if payload_at < 0 else payload_at - start
        return name, fields, entry, checksum, metadata, offset, TRUNCATED, notes or None

    def _command(self, data: bytes, position: int, end: int, notes: list[Note]) -> tuple[str | None, dict[str, Any] | None, bool]:
        """(name or None, fields or None, whether metadata and payload follow) of any BaseCommand."""
        base = walk(data, position, end, self.base_plan, notes)
        number = base.pop("type", None)
        if number is None:
            notes.append(("required-field-missing", "BaseCommand.type"))
            return None, base or None, False
        command = self.commands.get(number)
        if command is None:
            notes.append(("unknown-command", f"command type {number}"))
            return f"UNKNOWN_{number}", base, False
        fields: dict[str, Any] | None = base.pop(command.field, None)
        unknown = base.pop("unknown", None)
        if fields is None or base:
            found = ", ".join(base) or "no body"
            notes.append(("body-mismatch", f"type says {command.name}, the command holds {found}"))
        if unknown is not None:
            fields = {**(fields or {}), "unknown": unknown}
        return command.name, fields, command.payload

    def _payload(
        self, data: bytes, position: int, end: int, notes: list[Note], *, whole: bool = True
    ) -> tuple[dict[str, Any] | None, Checksum | None, dict[str, Any] | None, int, str]:
        """(broker entry metadata, checksum, metadata, payload position or −1, status) of what follows the command."""
        entry: dict[str, Any] | None = None
        checksum: Checksum | None = None
        try:
            magic = data[position : position + 2]
            if magic == BROKER_ENTRY_METADATA_MAGIC:
                size = self._size(data, position + 2, end, "broker entry metadata")
                position += 6
                entry = walk(data, position, position + size, self.entry_metadata_plan, notes)
                position += size
                magic = data[position : position + 2]
            if magic == CHECKSUM_MAGIC and position + 10 <= end:
                stored = data[position + 2 : position + 6].hex()
                position += 6
                if not whole:
                    checksum = Checksum("unverified", stored)
                else:
                    covered = data[position:end] if end - position <= COPY_MAX_BYTES else memoryview(data)[position:end]
                    computed = f"{crc32c(covered):08x}"
                    if computed == stored:
                        checksum = Checksum("good", stored, stored)
                    else:
                        notes.append(("checksum-mismatch", f"CRC32-C stored {stored}, computed {computed}"))
                        checksum = Checksum("bad", stored, computed)
            else:
                checksum = ABSENT if whole else UNVERIFIED
            size = self._size(data, position, end, "metadata")
            position += 4
            metadata = read_metadata(data, position, position + size, self.metadata_plan, notes)
        except (WireError, IndexError) as error:
            notes.append(("frame-malformed", str(error) or "the metadata is cut off"))
            return entry, checksum, None, -1, MALFORMED
        if checksum is ABSENT:
            notes.append(("checksum-absent", "the frame carries no CRC32-C"))
        return entry, checksum, metadata, position + size, OK

    @staticmethod
    def _size(data: bytes, position: int, end: int, what: str) -> int:
        if position + 4 > end:
            message = f"the frame ends before the size of its {what}"
            raise WireError(message)
        size: int = _U32.unpack_from(data, position)[0]
        if size > end - position - 4:
            message = f"{what} size {size} is larger than the {end - position - 4} bytes left"
            raise WireError(message)
        return size
