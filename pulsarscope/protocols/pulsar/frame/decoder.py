"""A frame: bytes → command, metadata, checksum verdict. Pure and total: any bytes give an answer, and the same bytes give the same answer.

Layout (binary protocol specification, "Framing"): totalSize u32, commandSize u32, BaseCommand. In SEND and MESSAGE, the head of the payload
(see `payload_head`) and the payload follow, up to the end of the frame.
"""

from __future__ import annotations

import struct
from typing import Any

from pulsarscope.dissect.contract.dissector import Layout
from pulsarscope.dissect.contract.frames import MALFORMED, OK, TRUNCATED, Decoded, Note
from pulsarscope.model.text import plural
from pulsarscope.protocols.pulsar.frame.commands import ANNOUNCING_COMMANDS, command_table
from pulsarscope.protocols.pulsar.frame.fast_path import FALLBACK_ERRORS, Reader
from pulsarscope.protocols.pulsar.frame.payload_head import PayloadHeadReader, read_payload_head
from pulsarscope.protocols.pulsar.frame.protobuf import INT32, Plan, Plans, WireError, shared_plans, varint, walk
from pulsarscope.protocols.pulsar.frame.templates import MAKERS, keep_template, learn

REPEATED_COMMANDS = frozenset(
    {
        "CONNECT",
        "CONNECTED",
        "PARTITIONED_METADATA",
        "PARTITIONED_METADATA_RESPONSE",
        "LOOKUP",
        "LOOKUP_RESPONSE",
        "SUBSCRIBE",
        "SUCCESS",
        "FLOW",
        "CLOSE_PRODUCER",
        "CLOSE_CONSUMER",
    }
)
"""Commands worth caching: those at the beginning and the end of a connection."""

REPEATED_MAX_BYTES = 256
"""Longest frame that is cached."""

REPEATED_MAX = 4096
"""Number of cached frames; beyond it, all are dropped."""


class RepeatedFrames:
    """A cache of the contents of frames without a payload, by their bytes."""

    __slots__ = ("_contents",)

    def __init__(self) -> None:
        self._contents: dict[bytes, tuple[str, dict[str, Any], tuple[str, ...]]] = {}
        """Command, fields, and names of the fields that are messages."""

    def read(self, data: bytes, start: int, end: int) -> Decoded | None:
        """Return a copy of the contents of the frame data[start:end] if it is cached: rows are passed on and may be changed."""
        if (contents := self._contents.get(data[start:end])) is None:
            return None
        command, fields, messages = contents
        fields = fields.copy()
        for name in messages:
            fields[name] = fields[name].copy()
        return command, fields, None, None, None, None, OK, None

    def keep(self, frame: bytes, command: str, fields: dict[str, Any]) -> None:
        """Cache a frame that was read without a finding, unless it is long or has fields that a shallow copy would share."""
        if len(frame) <= REPEATED_MAX_BYTES and all(map(_is_flat, fields.values())):
            if len(self._contents) >= REPEATED_MAX:
                self._contents.clear()
            messages = tuple(name for name, value in fields.items() if isinstance(value, dict))
            self._contents[frame] = command, {name: value.copy() if name in messages else value for name, value in fields.items()}, messages


def _is_flat(value: object) -> bool:
    """Return True if a copy of the value, if it is a dict, shares nothing that can be changed."""
    return not isinstance(value, list) and not (isinstance(value, dict) and any(isinstance(part, (dict, list)) for part in value.values()))


SIZES = struct.Struct(">II")
"""Total size and command size."""

_U32 = struct.Struct(">I")

COMMAND_MIN_BYTES, COMMAND_MAX_BYTES = 4, 127 + 4
"""Sizes of a command in the common form: its type, then a tag, a length, and a body of less than 128 bytes."""

HEAD_BYTES = 8
"""Bytes of the head of a command: its size; tag and value of its type; tag and length of its body, or a tag of two bytes."""

_KnownHead = tuple[str, int, int, Reader, bool, bool, bool]
"""Meaning of a head: name of the command, start and end of its body within the frame, reader of the body, presence of a payload, use of
templates, use of the cache of repeated frames."""


class FrameDecoder:
    """A decoder of frames, whose only state is tables."""

    def __init__(self, show_secrets: bool = False) -> None:
        plans = shared_plans(show_secrets)
        self.commands = command_table(plans)
        self.payload_heads = PayloadHeadReader(plans)
        self.base_plan = self._base_plan(plans)
        self.layouts: dict[bytes, Layout] = {}
        """Layouts of repeated frames, see the contract."""
        self._repeated = RepeatedFrames()
        self._heads: dict[bytes, _KnownHead] = {}  # filled on demand: most captures have few of the thousands of heads

    @staticmethod
    def _base_plan(plans: Plans) -> Plan:
        """Return the plan of BaseCommand with `type` as a number: a type without a name must not read as another one."""
        known = plans.named("BaseCommand")
        plan = Plan(known.name)
        plan.single = known.single
        plan.rows = {tag: row._replace(kind=INT32) if row.name == "type" else row for tag, row in known.rows.items()}
        return plan

    def decode(self, data: bytes, start: int, end: int) -> Decoded:
        """Decode the whole frame data[start:end], which must have at least the two size fields.

        This is the hot path. The fast reader reads the common form of a frame (type first, then a body of less than 128 bytes and nothing
        else, and a payload with a correct checksum). The reference reads anything else, with the same results.
        """
        head = data[start + 4 : start + 12]
        known = self._heads.get(head) or self._know(head)
        if known is None:
            return self._decode_long(data, start, end) or self.decode_by_reference(data[start:end])
        name, body, size, read, payload, has_template, repeats = known
        if repeats and (again := self._repeated.read(data, start, end)) is not None:
            return again
        after = start + size
        decoded: Decoded
        try:
            if payload:
                fields = read(data, start + body, after)
                entry, checksum, metadata, payload_at = read_payload_head(data, after, end)
                decoded = name, fields, entry, checksum, metadata, payload_at - start, OK, None
            elif after != end or data[start + body - 1] != size - body:  # the length after a tag of two bytes is not in the head
                return self.decode_by_reference(data[start:end])
            else:
                decoded = name, read(data, start + body, after), None, None, None, None, OK, None
        except FALLBACK_ERRORS:
            return self.decode_by_reference(data[start:end])
        if has_template:
            learn(self.layouts, data, start, end, decoded)
        elif repeats:
            self._repeated.keep(data[start:end], name, decoded[1] or {})
            if name not in ANNOUNCING_COMMANDS:
                keep_template(self.layouts, data, start, self._repeated.read)
        return decoded

    def _know(self, head: bytes) -> _KnownHead | None:
        """Interpret a new head; return None if it does not have the common form."""
        if len(head) < HEAD_BYTES or not COMMAND_MIN_BYTES <= (size := _U32.unpack_from(head)[0]) <= COMMAND_MAX_BYTES:
            return None
        if (command := self.commands.get(head[5])) is None or head[4] != 8:
            return None
        if head[6:8] != command.tag and (head[6:7] != command.tag or head[7] != size - 4):
            return None
        body = 11 + len(command.tag)
        name = command.name
        known = self._heads[head] = name, body, size + 8, command.read, command.payload, name in MAKERS, name in REPEATED_COMMANDS
        return known

    def _decode_long(self, data: bytes, start: int, end: int) -> Decoded | None:
        """Decode a command with a longer body than in the common form, such as an ACK of many messages; None if it needs the reference."""
        try:
            command = self.commands[data[start + 9]]
            length_at = start + 10 + len(command.tag)
            size, body = varint(data, length_at)
            if command.payload or data[start + 8] != 8 or data[start + 10 : length_at] != command.tag or body + size != end:
                return None
            if _U32.unpack_from(data, start + 4)[0] != end - start - 8:
                return None
            return command.name, command.read(data, body, end), None, None, None, None, OK, None
        except FALLBACK_ERRORS:
            return None

    def decode_by_reference(self, data: bytes) -> Decoded:
        """Decode any frame. `data` has only this frame, so that no bytes after it can be mistaken for a part of it."""
        notes: list[Note] = []
        end = len(data)
        command_end = 8 + _U32.unpack_from(data, 4)[0]
        if command_end > end:
            notes.append(("frame-malformed", f"commandSize {command_end - 8:,} is larger than the frame"))
            return None, None, None, None, None, None, MALFORMED, notes
        try:
            name, fields, payload, status = self._command(data, 8, command_end, notes)
        except WireError as error:
            return None, None, None, None, None, None, MALFORMED, [("frame-malformed", str(error))]
        if not payload:
            if command_end != end and name is not None:
                notes.append(("trailing-bytes", f"{plural(end - command_end, 'byte')} behind the command"))
            return name, fields, None, None, None, None, status, notes or None
        entry, checksum, metadata, payload_at = self.payload_heads.read(data, command_end, end, notes)
        if payload_at < 0:
            return name, fields, entry, checksum, metadata, None, MALFORMED, notes
        return name, fields, entry, checksum, metadata, payload_at, status, notes or None

    def decode_partial(self, data: bytes, start: int, end: int) -> Decoded:
        """Decode as much as possible of a frame whose end is lost, from the bytes data[start:end]."""
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
        entry, checksum, metadata, payload_at = self.payload_heads.read(data, command_end, len(data), [], complete=False)
        return name, fields, entry, checksum, metadata, None if payload_at < 0 else payload_at, TRUNCATED, notes or None

    def _command(self, data: bytes, position: int, end: int, notes: list[Note]) -> tuple[str | None, dict[str, Any] | None, bool, str]:
        """Read any BaseCommand. Return its name or None, its fields or None, whether a payload follows, and the status."""
        base = walk(data, position, end, self.base_plan, notes)
        if (number := base.pop("type", None)) is None:
            notes[:] = [("required-field-missing", "BaseCommand has no type")]
            return None, base or None, False, MALFORMED
        if (command := self.commands.get(number)) is None:
            notes.append(("unknown-command", f"command type {number}"))
            return f"UNKNOWN_{number}", base, False, OK
        fields: dict[str, Any] | None = base.pop(command.field, None)
        unknown = base.pop("unknown", {})
        status = OK if fields is not None else MALFORMED
        if fields is None or base:
            others = ", ".join(base) or "no body"
            notes.append(("body-mismatch", f"type says {command.name}, the command holds {others}"))
        for field, values in unknown.items():
            fields = fields or {}
            fields.setdefault("unknown", {}).setdefault(field, []).extend(values)
        return command.name, fields, command.payload, status
