"""A recorder of packets that can be cut into any blocks, and the assembled connections in a form that does not depend on the cuts."""

from __future__ import annotations

from collections.abc import Container, Sequence
from itertools import accumulate, cycle, takewhile
from typing import Any

from pulsarscope.capture import Block, Segment
from pulsarscope.model.flow import reverse_key
from pulsarscope.tcp import Assembler, Connection, ConnectionEvents
from pulsarscope.tcp.pieces import Data

FIN, SYN, RST, ACK = 0x01, 0x02, 0x04, 0x10
CLIENT, SERVER = 0, 1
SECOND = 1_000_000_000
BASES = (1_000, 5_000)
"""Sequence number of offset 0 of each side."""
APART = 400
"""Packets of a tape that get a block of their own: each block keeps recent data anew, so that very many take long."""


def flow_key(side: int, connection: int = 0) -> bytes:
    """Return the flow key of one side of a connection from 10.0.0.1:40000+n to 10.0.0.2:6650."""
    key = bytes([10, 0, 0, 1, 10, 0, 0, 2]) + (40_000 + connection).to_bytes(2, "big") + (6650).to_bytes(2, "big")
    return key if side == CLIENT else reverse_key(key)


class Tape:
    """Packets in capture order; `send` appends one and returns its number."""

    def __init__(self, bases: tuple[int, int] = BASES) -> None:
        self.bases = bases
        self.packets: list[tuple[int, bytes, Segment]] = []
        self.file = 0
        self.number = 0
        self.time = SECOND

    def next_file(self) -> None:
        """Begin the next file."""
        self.file += 1
        self.number = 0

    def send(
        self,
        side: int,
        offset: int,
        payload: bytes = b"",
        flags: int = ACK,
        *,
        window: int = 1_000,
        missing: int = 0,
        ack: int | None = None,
        connection: int = 0,
        after: int = 10 * 1_000_000,
        identification: int = 0,
        options: bytes = b"",
    ) -> int:
        """Append a segment at a stream offset, `after` nanoseconds after the last packet; by default it acknowledges no byte."""
        self.number += 1
        self.time += after
        seq = (self.bases[side] + offset) & 0xFFFF_FFFF
        ack = self.bases[1 - side] if ack is None else ack
        segment = (self.number, self.time, seq, ack & 0xFFFF_FFFF, flags, window, payload, missing, identification, options)
        self.packets.append((self.file, flow_key(side, connection), segment))
        return self.number

    def open(self, connection: int = 0) -> None:
        """Append the three packets of a handshake."""
        self.send(CLIENT, -1, flags=SYN, connection=connection)
        self.send(SERVER, -1, flags=SYN | ACK, ack=self.bases[CLIENT], connection=connection)
        self.send(CLIENT, 0, connection=connection)

    def blocks(self, cuts: Container[int] = ()) -> list[Block]:
        """Return blocks that end before these positions and at the ends of files."""
        blocks: list[Block] = []
        for position, (file, key, segment) in enumerate(self.packets):
            if not blocks or position in cuts or blocks[-1].file != file:
                blocks.append(Block(file, {}, set(), [], 0, segment[0], segment[0], segment[1], 0))
            block = blocks[-1]
            block.flows.setdefault(key, []).append(segment)
            if segment[4] & (SYN | FIN | RST):
                block.control.add(key)
            block.packets += 1
            block.last_packet, block.last_time = segment[0], segment[1]
        return blocks

    def run(self, cuts: Container[int] = ()) -> list[Outcome]:
        """Return all connections in order of their first packets."""
        return outcomes(self.blocks(cuts))

    def run_apart(self) -> list[Outcome]:
        """Return all connections, assembled with one block per packet, and after many packets with one to seven in turn."""
        count = len(self.packets)
        return self.run({*range(min(count, APART)), *takewhile(lambda cut: cut < count, accumulate(cycle(range(1, 8)), initial=APART))})

    def only(self) -> Outcome:
        """Return the only connection, after checking that cuts make no difference."""
        (outcome,) = self.run()
        for (other,) in (self.run_apart(), self.run([3])):  # after a handshake, the second takes the tight loop
            assert other.facts() == outcome.facts()
        return outcome


class Outcome:
    """Assembled items, findings and life cycle of one connection."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.items: tuple[list[Any], list[Any]] = ([], [])
        """By stream: ("bytes", file, offset, payload, packet, time, moment) and ("gap", offset, size, moment, reason)."""
        self.findings: list[Any] = []
        self.counted: list[Any] = []
        """Findings for rules alone."""
        self.life: list[str] = []

    def add(self, events: ConnectionEvents) -> None:
        """Add the events of the next block."""
        self.connection = events.connection
        for items, flat in zip(events.items, self.items, strict=True):
            for item in items:
                if isinstance(item, Data):
                    offset = item.offset
                    assert item.pieces
                    for payload, packet, time, moment in item.pieces:
                        flat.append(("bytes", item.file, offset, payload, packet, time, (events.file, moment)))
                        offset += len(payload)
                else:
                    flat.append(("gap", item.offset, item.size, (events.file, item.moment), item.reason))
        assert not (self.life and self.life[-1] == "finished")
        assert not (any(events.items) and "ended" in self.life)
        self.life += [name for name in ("opened", "ended", "finished") if getattr(events, name)]
        self.findings += [finding for finding in events.findings if not finding.counted]
        self.counted += [finding for finding in events.findings if finding.counted]

    def pieces(self, side: int) -> list[tuple[bytes, int]]:
        """Return (payload, packet) for each piece of a stream."""
        return [(item[3], item[4]) for item in self.items[side] if item[0] == "bytes"]

    def shape(self, side: int) -> list[bytes | int]:
        """Return a stream as joined bytes and sizes of gaps."""
        shape: list[bytes | int] = []
        for item in self.items[side]:
            if item[0] == "gap":
                shape.append(item[2])
            elif shape and isinstance(last := shape[-1], bytes):
                shape[-1] = last + item[3]
            else:
                shape.append(item[3])
        return shape

    def codes(self) -> list[str]:
        """Return the codes of the findings."""
        return [finding.code for finding in self.findings]

    def evidence(self, code: str) -> dict[str, Any]:
        """Return the evidence of the only finding of a code."""
        (evidence,) = [finding.evidence for finding in self.findings if finding.code == code]
        return evidence  # type: ignore[no-any-return]

    def facts(self) -> tuple[Any, ...]:
        """Return everything that must not depend on the cuts."""
        connection = self.connection
        return (
            (connection.name, connection.key, connection.start, connection.end, connection.packets, connection.last),
            (connection.opened, connection.closed, connection.closed_by, connection.client),
            [
                (stream.length, stream.missing, stream.segments, stream.retransmitted, stream.out_of_order, stream.duplicates)
                for stream in connection.streams
            ],
            self.life,
            self.items,
            [(f.code, f.text, f.evidence, f.file, f.packet, f.time, f.connection) for f in (*self.findings, *self.counted)],
        )


def outcomes(blocks: Sequence[Block]) -> list[Outcome]:
    """Assemble the blocks, and check that each stream conserves its bytes."""
    assembler = Assembler()
    by_name: dict[str, Outcome] = {}
    for block in [*blocks, None]:
        events_list = assembler.finish() if block is None else assembler.feed(block)
        for events in events_list:
            assert events.connection.events is None
            by_name.setdefault(events.name, Outcome(events.connection)).add(events)
    for outcome in by_name.values():
        assert outcome.life == ["opened", "ended", "finished"]
        for stream, items in zip(outcome.connection.streams, outcome.items, strict=True):
            at = 0
            moments = []
            for item in items:
                offset, size, moment = (item[2], len(item[3]), item[6]) if item[0] == "bytes" else (item[1], item[2], item[3])
                assert offset == at
                assert size
                at += size
                moments.append(moment)
            assert at == stream.length
            assert moments == sorted(moments)
            assert stream.missing == sum(item[2] for item in items if item[0] == "gap")
            assert stream.buffer is None
            assert not stream.items
            assert not stream.delivered
    return sorted(by_name.values(), key=lambda outcome: (outcome.connection.file, outcome.connection.packet))
