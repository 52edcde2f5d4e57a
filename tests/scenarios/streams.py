"""One direction of a connection as passed on by `tcp`: pieces with their packets, and gaps; cut and grouped in any way."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from random import Random

import msgspec

from pulsarscope.dissect.contract.frames import Attachment, FrameBatch, Note
from pulsarscope.dissect.framing.splitter import StreamSplitter
from pulsarscope.model.records import FrameRow
from pulsarscope.tcp.pieces import HOLE, Data, Gap, Item, Piece
from tests.scenarios.chance import damaged
from tests.scenarios.commands import CONNECT, PING
from tests.scenarios.frames import Single, base_command, batch, command_frame, compress, message_metadata, payload_frame

STEP_NS = 1000
LARGE = 3000
"""Size of the larger payloads: a few segments."""


def frames_of(random: Random, count: int) -> list[bytes]:
    """Frames as clients and brokers send them."""
    return [_frame(random, number) for number in range(count)]


def _frame(random: Random, number: int) -> bytes:
    kind = random.randrange(10)
    if kind == 0:
        return PING
    if kind == 1:
        return command_frame("FLOW", consumer_id=1, messagePermits=1000)
    if kind == 2:
        return command_frame("SUCCESS", request_id=number)
    if kind == 3:
        return command_frame("SEND_RECEIPT", producer_id=1, sequence_id=number, message_id={"ledgerId": 5, "entryId": number})
    if kind == 4:
        return command_frame("LOOKUP", topic="persistent://public/default/t", request_id=number)
    metadata = message_metadata(sequence_id=number)
    payload = random.randbytes(random.choice((0, 10, 200, LARGE)))
    if kind == 5:
        payload = compress("ZSTD", batch([Single(b"a" * 50), Single(b"b")]))
    if kind == 6:
        payload = PING + CONNECT + payload_frame("SEND", metadata, b"inner", producer_id=1, sequence_id=1) + PING
    checksum = kind != 7
    if kind == 8:
        ident = {"ledgerId": 5, "entryId": number}
        return payload_frame("MESSAGE", metadata, payload, broker_entry={"index": number}, consumer_id=1, message_id=ident)
    return payload_frame("SEND", metadata, payload, checksum=checksum, producer_id=1, sequence_id=number)


def garbage(random: Random) -> bytes:
    """Bytes between frames, as after a fault."""
    kind = random.randrange(7)
    if kind == 0:
        return random.randbytes(random.randint(1, 60))
    if kind == 1:
        return bytes(random.randint(1, 40))
    if kind == 2:  # the head of a frame that does not exist
        return struct.pack(">II", random.randint(8, 500), random.randint(4, 60)) + b"\x08" + bytes([random.choice((2, 6, 9, 18))])
    if kind == 3:
        return damaged(_frame(random, 1)[:300], random)
    if kind == 4:  # a command that does not decode, but has the correct length
        return struct.pack(">II", 9, 5) + b"\x08\x12\x92\x01\x05"
    if kind == 5:
        return struct.pack(">I", random.choice((0, 3, 1 << 31, (1 << 32) - 1, 64 << 20)))
    base = base_command("SEND", producer_id=1, sequence_id=1)
    return struct.pack(">II", random.randint(40, 4000), len(base)) + base + b"\x0e\x01\x00\x00\x00\x01"


def cut(data: bytes, random: Random, largest: int = 60) -> list[bytes]:
    """The bytes in pieces of any size."""
    parts = []
    position = 0
    while position < len(data):
        size = random.choice((1, 2, 7, random.randint(1, largest), 1448))
        parts.append(data[position : position + size])
        position += size
    return parts


class Stream:
    """Pieces and gaps in order; with `packet`, packet numbers continue those of another stream."""

    def __init__(self, packet: int = 0) -> None:
        self.atoms: list[tuple[int, Piece | Gap]] = []
        """(offset, piece or gap)."""
        self.length = 0
        self.missing = 0
        self.packet = packet
        self.moment = 0

    def piece(self, data: bytes, *, packet: int | None = None, moment: int | None = None) -> Stream:
        """Add a segment in the next packet, or in the given one; it is readable at its own packet, or later."""
        if packet is None:
            self.packet += 1
            packet = self.packet
        self.moment = max(self.moment, packet if moment is None else moment)
        self.atoms.append((self.length, (data, packet, packet * STEP_NS, self.moment)))
        self.length += len(data)
        return self

    def pieces(self, parts: Sequence[bytes]) -> Stream:
        """Add segments, each in a packet."""
        for part in parts:
            self.piece(part)
        return self

    def gap(self, size: int, moment: int | None = None) -> Stream:
        """Add bytes that the capture lacks; they are given up at the next packet, or later."""
        self.moment = max(self.moment, self.packet + 1 if moment is None else moment)
        self.atoms.append((self.length, Gap(self.length, size, self.moment, HOLE)))
        self.length += size
        self.missing += size
        return self

    def items(self, begin: int = 0, end: int | None = None, file: int = 0) -> list[Item]:
        """The atoms as runs and gaps; neighbouring pieces are one run."""
        out: list[Item] = []
        for offset, atom in self.atoms[begin:end]:
            if isinstance(atom, Gap):
                out.append(atom)
            elif out and isinstance(out[-1], Data):
                out[-1].pieces.append(atom)
            else:
                out.append(Data(file, offset, [atom]))
        return out


def groups(count: int, random: Random, mean: int = 4) -> list[tuple[int, int]]:
    """A way to pass `count` items on in blocks: (begin, end) of each block."""
    out = []
    begin = 0
    while begin < count:
        end = min(count, begin + random.randint(1, 2 * mean))
        out.append((begin, end))
        begin = end
    return out


class SplitFrame(FrameRow, tag_field="record", tag="frame"):
    """A frame of a batch, with the values beside its row."""

    moment: int = 0
    stream: int = 0
    notes: list[Note] | None = None
    payload: bytes | None = None
    raw: bytes | None = None


def frames_in(batch: FrameBatch) -> list[SplitFrame]:
    """The frames of a batch one by one."""
    out = []
    for position, row in enumerate(batch.rows):
        stream = batch.streams[position] if batch.streams else 0
        beside = batch.attachments.get(position, Attachment())
        fields = msgspec.structs.asdict(row)
        out.append(SplitFrame(**fields, moment=batch.moments[position], stream=stream, **msgspec.structs.asdict(beside)))
    return out


def split(splitter: StreamSplitter, stream: Stream, blocks: Sequence[tuple[int, int]] | None = None) -> list[SplitFrame]:
    """Feed a stream to a splitter, in blocks or at once, and finish it."""
    out = FrameBatch()
    for begin, end in blocks if blocks is not None else [(0, len(stream.atoms))]:
        for item in stream.items(begin, end):
            if isinstance(item, Data):
                splitter.feed(item.file, item.offset, item.pieces, out)
            else:
                splitter.gap(item.offset, item.size, item.moment, out)
    splitter.finish(stream.moment, out)
    return frames_in(out)
