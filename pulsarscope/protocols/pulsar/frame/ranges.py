"""Named byte ranges of one frame, for the hex view."""

from __future__ import annotations

from pulsarscope.dissect.contract.capabilities import SECRET_RANGE
from pulsarscope.protocols.pulsar.frame.decoder import FrameDecoder
from pulsarscope.protocols.pulsar.frame.field_spans import spans
from pulsarscope.protocols.pulsar.frame.payload_head import BROKER_ENTRY_METADATA_MAGIC, CHECKSUM_MAGIC
from pulsarscope.protocols.pulsar.frame.protobuf import BOOL, ENUM, SECRET_URL, STRING, Field, Plan, WireError, varint

Range = tuple[int, int, str, int]
"""(start, end, name, depth) in bytes from the start of the frame."""

MASK = b"*"

VALUE_BYTES = 64
"""Bytes of a text shown beside the name of its field; the full text is beside its bytes."""


def ranges(decoder: FrameDecoder, data: bytes) -> tuple[bytes, list[Range]]:
    """Return the frame with its secrets masked, and all ranges that can be read, outer before inner. It accepts any bytes."""
    out = _ranges(decoder, data)
    masked = bytearray(data)
    for start, end, name, _ in out:
        if name == SECRET_RANGE:
            masked[start:end] = MASK * (end - start)
    return bytes(masked), out


def _ranges(decoder: FrameDecoder, data: bytes) -> list[Range]:
    out: list[Range] = []
    _named(data, 0, 4, "totalSize", out)
    if len(data) < 8:
        return out
    _named(data, 4, 4, "commandSize", out)
    end = min(8 + int.from_bytes(data[4:8], "big"), len(data))
    out.append((8, end, "BaseCommand", 0))
    payload = _command(decoder, data, 8, end, out)
    position = end
    if not payload:
        if position < len(data):
            out.append((position, len(data), "trailing bytes", 0))
        return out
    if data[position : position + 2] == BROKER_ENTRY_METADATA_MAGIC:
        _named(data, position, 2, "broker entry metadata magic", out)
        position = _sized(
            data, position + 2, "broker entry metadata", "BrokerEntryMetadata", decoder.payload_heads.entry_metadata_plan, out
        )
    if data[position : position + 2] == CHECKSUM_MAGIC:
        _named(data, position, 2, "checksum magic", out)
        _named(data, position + 2, 4, "CRC32-C", out)
        position += 6
    position = _sized(data, position, "metadata", "MessageMetadata", decoder.payload_heads.metadata_plan, out)
    if position < len(data):
        out.append((position, len(data), "payload", 0))
    return out


def _named(data: bytes, start: int, size: int, name: str, out: list[Range]) -> None:
    if start < len(data):
        end = min(start + size, len(data))
        number = int.from_bytes(data[start:end], "big")
        value = f"  {number:,}" if name.endswith(("Size", "size")) else f"  {number:#010x}" if size == 4 else ""
        out.append((start, end, f"{name}{value if end - start == size else ''}", 0))


def _value(row: Field, data: bytes, start: int, end: int) -> str:
    """Return the value of a field as text; "" for objects, and for bytes, whose value is shown beside them."""
    if row.kind in {STRING, SECRET_URL}:
        text = data[start : min(end, start + VALUE_BYTES)].decode("utf-8", "replace")
        return f"{text}…" if end - start > VALUE_BYTES else text
    if row.kind > ENUM:
        return ""
    try:
        number, _ = varint(data, start)
    except (IndexError, WireError):
        return ""
    if row.kind == BOOL:
        return "true" if number else "false"
    if isinstance(row.extra, dict):
        return str(row.extra.get(number, number))
    return str(number - (1 << 64) if number >> 63 else number)


def _sized(data: bytes, position: int, what: str, message: str, plan: Plan, out: list[Range]) -> int:
    """Add a u32 size and the message of that size; return the position after the message."""
    _named(data, position, 4, f"{what} size", out)
    size = int.from_bytes(data[position : position + 4], "big")
    end = min(position + 4 + size, len(data))
    if position + 4 <= end:
        out.append((position + 4, end, message, 0))
        _walk(data, position + 4, end, plan, out)
    return end


def _command(decoder: FrameDecoder, data: bytes, position: int, end: int, out: list[Range]) -> bool:
    """Add the ranges within BaseCommand; return True when metadata and payload follow."""
    _walk(data, position, end, decoder.base_plan, out)
    if end - position > 1 and data[position] == 8:
        command = decoder.commands.get(data[position + 1])
        return command is not None and command.payload
    return False


def _walk(data: bytes, position: int, end: int, plan: Plan, out: list[Range]) -> None:
    for start, value, stop, name, depth, row, secret in spans(data, position, end, plan):
        text = "" if row is None or secret is not None else _value(row, data, value, stop)
        out.append((start, stop, f"{name}  {text}" if text else name, depth + 1))
        if secret is not None and secret[0] < secret[1]:
            out.append((*secret, SECRET_RANGE, depth + 2))
