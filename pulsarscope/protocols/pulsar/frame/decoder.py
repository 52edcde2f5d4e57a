"""One frame: bytes → command, metadata, checksum verdict. Pure and total: any bytes give an answer, the same bytes the same one.

Layout (binary protocol specification, "Framing"): totalSize u32, commandSize u32, BaseCommand; in SEND and MESSAGE then, each optional,
0x0e02 + size u32 + BrokerEntryMetadata, 0x0e01 + CRC32-C u32; then metadataSize u32, MessageMetadata, payload to the end of the frame.
The checksum covers all that follows it.
"""

from __future__ import annotations

import struct
from typing import Any

from pulsarscope.dissect.contract import Layout
from pulsarscope.dissect.frames import MALFORMED, OK, TRUNCATED, Decoded, Note
from pulsarscope.model.records import Checksum
from pulsarscope.protocols.pulsar.frame.checksum import crc32c
from pulsarscope.protocols.pulsar.frame.commands import ANNOUNCING_COMMANDS, REPEATED_COMMANDS, Reader, command_table
from pulsarscope.protocols.pulsar.frame.fast_path import COMMAND_MIN_BYTES
from pulsarscope.protocols.pulsar.frame.fast_path import broker_entry_metadata as read_entry_metadata
from pulsarscope.protocols.pulsar.frame.fast_path import metadata as read_metadata
from pulsarscope.protocols.pulsar.frame.protobuf import INT32, Plan, Plans, WireError, walk
from pulsarscope.protocols.pulsar.frame.templates import CHECKED, COPY_MAX_BYTES, Repeated, keep, learn

SIZES = struct.Struct(">II")
_U32 = struct.Struct(">I")

BROKER_ENTRY_METADATA_MAGIC = b"\x0e\x02"
CHECKSUM_MAGIC = b"\x0e\x01"
_BROKER_ENTRY_METADATA, _CHECKSUM = 0x0E02, 0x0E01

ABSENT = Checksum("absent")
UNVERIFIED = Checksum("unverified")

EMPTY, SHORTEST, LONGEST = 4, COMMAND_MIN_BYTES + 4, 127 + 4
"""Sizes of a command in the usual form: type, tag and length of its sub-message take four bytes. Other readers than `walk` need more."""

HEAD_BYTES = 8
"""Size of the command; tag and value of its type; tag and length of its sub-message, or a tag of two bytes."""

_Usual = tuple[str, int, int, Plan, Reader, bool, bool]
"""What such a head stands for: the command's name, where its sub-message begins and ends within its frame, plan and reader of that,
whether a payload follows, whether the same frame may come again and again."""


class FrameDecoder:
    """Decodes frames; holds nothing but tables."""

    def __init__(self, show_secrets: bool = False) -> None:
        plans = Plans(show_secrets)
        self.commands = command_table(plans)
        self.metadata_plan = plans.named("MessageMetadata")
        self.entry_metadata_plan = plans.named("BrokerEntryMetadata")
        self.base_plan = self._base_plan(plans)
        self.layouts: dict[bytes, Layout] = {}
        """See the contract."""
        self._repeated = Repeated()
        self._usual: dict[bytes, _Usual] = {}  # by head; filled as heads are met, for most captures hold few of the thousands

    @staticmethod
    def _base_plan(plans: Plans) -> Plan:
        """BaseCommand with `type` as a number: a type without a name must not read as another one."""
        known = plans.named("BaseCommand")
        plan = Plan(known.name)
        plan.single = known.single
        plan.rows = {tag: row._replace(kind=INT32) if row.name == "type" else row for tag, row in known.rows.items()}
        return plan

    def decode(self, data: bytes, start: int, end: int) -> Decoded:
        """The whole frame data[start:end]; at least the two size fields must be there.

        This is the hot path: the usual form of a frame (type first, then its sub-message of less than 128 bytes and nothing else; a
        payload with a right checksum) is read here, anything else by `_decode_unusual`, to the same end.
        """
        head = data[start + 4 : start + 12]
        usual = self._usual.get(head) or self._meet(head)
        if usual is None:
            return self._decode_unusual(data[start:end])
        name, body, size, plan, read, payload, repeated = usual
        if repeated and (known := self._repeated.read(data, start, end)) is not None:
            return known
        at = start + size
        notes: list[Note] = []
        entry = None
        try:
            if not payload:
                if at != end or data[start + body - 1] != size - body:  # the length behind a tag of two bytes is not in the head
                    return self._decode_unusual(data[start:end])
                fields = read(data, start + body, at, plan, notes)
                decoded: Decoded = (name, fields, None, None, None, None, OK, notes or None)
                if repeated and not notes:
                    self._repeated.put(data[start:end], name, fields)
                    if name not in ANNOUNCING_COMMANDS:
                        keep(self.layouts, data, start, self._repeated.read)
                elif not notes:
                    learn(self.layouts, data, start, end, decoded, self.metadata_plan)
                return decoded
            if at + 10 > end:
                return self._decode_unusual(data[start:end])
            fields = read(data, start + body, at, plan, notes)
            magic, stored, size = CHECKED.unpack_from(data, at)
            if magic == _BROKER_ENTRY_METADATA and at + stored + 16 <= end:
                # What was unpacked as the checksum is the size of the entry's metadata, which stand before the checksum.
                entry = read_entry_metadata(data, at + 6, at + 6 + stored, self.entry_metadata_plan, notes)
                at += 6 + stored
                magic, stored, size = CHECKED.unpack_from(data, at)
            covered = data[at + 6 : end] if end - at < COPY_MAX_BYTES else memoryview(data)[at + 6 : end]
            text = data[at + 2 : at + 6].hex()
            at += 10
            metadata_end = at + size
            if magic != _CHECKSUM or metadata_end > end or crc32c(covered) != stored:
                return self._decode_unusual(data[start:end])
            metadata = read_metadata(data, at, metadata_end, self.metadata_plan, notes)
        except (WireError, IndexError):
            return self._decode_unusual(data[start:end])
        decoded = (name, fields, entry, Checksum("good", text, text), metadata, metadata_end - start, OK, notes or None)
        if not notes:
            learn(self.layouts, data, start, end, decoded, self.metadata_plan)
        return decoded

    def _meet(self, head: bytes) -> _Usual | None:
        """What a head that was not met before stands for; None when it is not of the usual form."""
        if len(head) < HEAD_BYTES or not EMPTY <= (size := _U32.unpack_from(head)[0]) <= LONGEST:
            return None
        command = self.commands.get(head[5])
        if command is None or head[4] != 8 or (size < SHORTEST and command.read is not walk):
            return None
        if head[6:8] != command.tag and (head[6:7] != command.tag or head[7] != size - 4):
            return None
        body = 11 + len(command.tag)
        usual = self._usual[head] = (
            command.name,
            body,
            size + 8,
            command.plan,
            command.read,
            command.payload,
            command.name in REPEATED_COMMANDS,
        )
        return usual

    def _decode_unusual(self, data: bytes) -> Decoded:
        """Any frame, alone in `data`: what stands behind it cannot be mistaken for a part of it."""
        notes: list[Note] = []
        end = len(data)
        command_end = 8 + _U32.unpack_from(data, 4)[0]
        if command_end > end:
            notes.append(("frame-malformed", f"commandSize {command_end - 8} is larger than the frame"))
            return None, None, None, None, None, None, MALFORMED, notes
        try:
            name, fields, payload, status = self._command(data, 8, command_end, notes)
        except WireError as error:
            return None, None, None, None, None, None, MALFORMED, [("frame-malformed", str(error))]
        if not payload:
            if command_end != end and name is not None:
                notes.append(("trailing-bytes", f"{end - command_end} bytes follow the command"))
            return name, fields, None, None, None, None, status, notes or None
        entry, checksum, metadata, payload_at = self._payload(data, command_end, end, notes)
        if payload_at < 0:
            return name, fields, entry, checksum, metadata, None, MALFORMED, notes
        return name, fields, entry, checksum, metadata, payload_at, status, notes or None

    def decode_partial(self, data: bytes, start: int, end: int) -> Decoded:
        """As much as the head data[start:end] of a frame says."""
        nothing: Decoded = (None, None, None, None, None, None, TRUNCATED, None)
        if end - start < 8:
            return nothing
        data = data[start:end]
        command_end = 8 + _U32.unpack_from(data, 4)[0]
        if command_end > len(data):
            return nothing
        notes: list[Note] = []
        try:
            name, fields, payload, _ = self._command(data, 8, command_end, notes)
        except WireError:
            return nothing
        if not payload:
            return name, fields, None, None, None, None, TRUNCATED, notes or None
        entry, checksum, metadata, payload_at = self._payload(data, command_end, len(data), [], whole=False)
        return name, fields, entry, checksum, metadata, None if payload_at < 0 else payload_at, TRUNCATED, notes or None

    def _command(self, data: bytes, position: int, end: int, notes: list[Note]) -> tuple[str | None, dict[str, Any] | None, bool, str]:
        """(name or None, fields or None, whether metadata and payload follow, status) of any BaseCommand."""
        base = walk(data, position, end, self.base_plan, notes)
        number = base.pop("type", None)
        if number is None:
            notes[:] = [("required-field-missing", "BaseCommand has no type")]
            return None, base or None, False, MALFORMED
        command = self.commands.get(number)
        if command is None:
            notes.append(("unknown-command", f"command type {number}"))
            return f"UNKNOWN_{number}", base, False, OK
        fields: dict[str, Any] | None = base.pop(command.field, None)
        unknown = base.pop("unknown", {})
        status = OK if fields is not None else MALFORMED
        if fields is None or base:
            found = ", ".join(base) or "no body"
            notes.append(("body-mismatch", f"type says {command.name}, the command holds {found}"))
        for field, values in unknown.items():
            fields = fields or {}
            fields.setdefault("unknown", {}).setdefault(field, []).extend(values)
        return command.name, fields, command.payload, status

    def _payload(
        self, data: bytes, position: int, end: int, notes: list[Note], *, whole: bool = True
    ) -> tuple[dict[str, Any] | None, Checksum | None, dict[str, Any] | None, int]:
        """(broker entry metadata, checksum, metadata, position of the payload) of what follows the command; −1 when that is damaged."""
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
            return entry, checksum, None, -1
        if checksum is ABSENT:
            notes.append(("checksum-absent", "the frame carries no CRC32-C"))
        return entry, checksum, metadata, position + size

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
