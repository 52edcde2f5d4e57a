"""Finding a frame by content, in bytes whose framing is unknown: after a gap, in the middle of a stream, on an unknown port.

The search is strict where the decoder is tolerant: a candidate needs consistent sizes, a known type with its own sub-message and nothing
else, all required fields, and no unknown field. Its checksum proves it; otherwise, a second such candidate must follow.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pulsarscope.dissect.contract.dissector import Candidate
from pulsarscope.dissect.contract.frames import OK, Note
from pulsarscope.model.limits import FRAME_HARD_MAX_BYTES
from pulsarscope.protocols.pulsar.frame.commands import OPENING_COMMANDS, Command
from pulsarscope.protocols.pulsar.frame.decoder import SIZES, FrameDecoder
from pulsarscope.protocols.pulsar.frame.payload_head import BROKER_ENTRY_METADATA_MAGIC, CHECKSUM_MAGIC
from pulsarscope.protocols.pulsar.frame.protobuf import WireError, walk
from pulsarscope.protocols.pulsar.frame.schema import ENUMS

HEADER_BYTES = 8
WALK_COST = 16
"""Reading a byte of a command costs as much as checksumming this many bytes."""

LOOKAHEAD_BYTES = 10
"""Bytes of two sizes, the tag of BaseCommand.type, and its value."""

_LAST_TYPE = re.escape(bytes([max(ENUMS["BaseCommand.Type"])]))
_HEAD = re.compile(rb"(?=[\x00-\x04]...\x00[\x00-\x4f]..\x08[\x02-" + _LAST_TYPE + rb"])", re.DOTALL)
"""totalSize below 80 MiB, commandSize below 5 MiB, BaseCommand.type first and within the known numbers."""

COMMAND_MAX_BYTES = 64 << 10
"""Larger commands (long topic lists) are not used to recover the framing; the next frame is."""

OPENING_MAX_BYTES = 1024
"""Longest command for which it is cached whether it opens a connection."""

OPENINGS_MAX = 256
"""Number of such cached commands."""


def find_candidate(data: bytes, position: int, end: int) -> int:
    """Return the next position at which ten bytes could begin a frame, or −1."""
    match = _HEAD.search(data, position, end)
    return -1 if match is None else match.start()


def _strict_command(decoder: FrameDecoder, data: bytes, position: int, end: int) -> tuple[Command | None, int]:
    """Return the command in data[position:end], or None if anything about it is odd; and the position up to which it was read."""
    notes: list[Note] = []
    size = end - position
    try:
        base = walk(data[position:end], 0, size, decoder.base_plan, notes)
    except WireError as error:
        return None, position + min(error.position or size, size)
    command = decoder.commands[data[position + 1]]
    if notes or len(base) != 2 or command.field not in base or _has_unknown(base[command.field]):
        return None, end
    return command, end


def _has_unknown(value: object) -> bool:
    if isinstance(value, dict):
        return "unknown" in value or any(_has_unknown(part) for part in value.values())
    return isinstance(value, list) and any(_has_unknown(part) for part in value)


def candidate(decoder: FrameDecoder, data: bytes, position: int, end: int, budget: int, *, checksums: bool = True) -> Candidate | None:
    """See `Dissector.candidate`: None if no frame begins here, else its size and a degree of certainty."""
    if end - position < LOOKAHEAD_BYTES:
        return Candidate(0, position + LOOKAHEAD_BYTES, "wait", 0)
    total, command_size = SIZES.unpack_from(data, position)
    size = total + 4
    command_end = position + HEADER_BYTES + command_size
    if total > FRAME_HARD_MAX_BYTES or command_end > position + size or not 4 <= command_size <= COMMAND_MAX_BYTES:
        return None
    if data[position + 8] != 8 or data[position + 9] not in decoder.commands or command_size * WALK_COST > budget:
        return None
    if command_end > end:
        return Candidate(size, command_end, "wait", 0)
    command, seen = _strict_command(decoder, data, position + HEADER_BYTES, command_end)
    cost = (seen - position) * WALK_COST
    if command is None or (not command.payload and command_end != position + size):
        return Candidate(size, command_end, "no", cost)
    if not command.payload or not checksums:
        return Candidate(size, command_end, "likely", cost)
    if command_end + 2 > end:
        return Candidate(size, command_end + 2, "wait", 0)
    if data[command_end : command_end + 2] not in (CHECKSUM_MAGIC, BROKER_ENTRY_METADATA_MAGIC):
        return Candidate(size, command_end + 2, "likely", cost)
    if size > budget:  # accept it without the proof of its checksum
        return Candidate(size, command_end + 2, "likely", cost)
    if position + size > end:
        return Candidate(size, position + size, "wait", 0)
    _, _, _, checksum, _, _, status, _ = decoder.decode(data, position, position + size)
    proven = checksum is not None and checksum.status == "good" and status == OK
    return Candidate(size, position + size, "sure" if proven else "no", cost + size)


def opens(decoder: FrameDecoder, data: bytes, position: int, end: int) -> str | None:
    """Return the sender of a complete and strict CONNECT or CONNECTED; None for other bytes."""
    if end - position < HEADER_BYTES + 2:
        return None
    total, command_size = SIZES.unpack_from(data, position)
    command_end = position + HEADER_BYTES + command_size
    if total != command_size + 4 or command_end > end:
        return None
    opening_sender = _known_opening_sender if command_size <= OPENING_MAX_BYTES else _opening_sender
    return opening_sender(decoder, data[position + HEADER_BYTES : command_end])


def _opening_sender(decoder: FrameDecoder, data: bytes) -> str | None:
    """Return the sender of a strict CONNECT or CONNECTED."""
    if len(data) < 2 or data[0] != 8 or data[1] not in decoder.commands:
        return None
    command, _ = _strict_command(decoder, data, 0, len(data))
    return None if command is None or command.name not in OPENING_COMMANDS else command.sender


_known_opening_sender = lru_cache(OPENINGS_MAX)(_opening_sender)
"""`_opening_sender` with a cache: all connections of a client begin with the same bytes."""
