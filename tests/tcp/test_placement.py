"""Places of packets, by the connection open at their time and by their sequence number."""

from __future__ import annotations

import io
from random import Random

import pytest

from pulsarscope.capture import BlockReader
from pulsarscope.tcp import Assembler, PacketPlace, Placement
from tests.scenarios.capturefile import Packet, pcap
from tests.scenarios.conversation import Conversation
from tests.scenarios.recapture import segments_of, shuffled

CLIENT, SERVER = "10.0.0.1:40000", "10.0.0.2:6650"
BLOCK_SIZES = pytest.mark.parametrize("read_bytes", [100, 700, 1 << 20])


def places(packets: list[Packet], read_bytes: int = 1 << 20) -> dict[int, PacketPlace]:
    assembler, placement = Assembler(), Placement()
    result: dict[int, PacketPlace] = {}
    for block in BlockReader(io.BytesIO(pcap(packets)), read_bytes=read_bytes):
        result |= placement.feed(block, assembler.feed(block))
    return dict(sorted(result.items()))


@BLOCK_SIZES
def test_a_packet_has_its_connection_its_sender_and_its_bytes(read_bytes: int) -> None:
    packets = Conversation().handshake().client(b"abcdef", mss=4).server(b"xyz").close().packets
    result = places(packets, read_bytes)
    assert {place.connection for place in result.values()} == {"0:1"}
    assert [(place.source, place.start, place.end) for place in result.values() if place.end > place.start] == [
        (CLIENT, 0, 4),
        (CLIENT, 4, 6),
        (SERVER, 0, 3),
    ]
    assert [place.flags & 0x17 for place in result.values()] == [0x02, 0x12, 0x10, 0x10, 0x10, 0x10, 0x10, 0x10, 0x11, 0x11, 0x10]


@BLOCK_SIZES
def test_copies_and_late_packets_have_their_place_and_connections_do_not_mix(read_bytes: int) -> None:
    first = Conversation().handshake().client(b"abc").client(b"def").packets
    second = Conversation(client_isn=50_000_000).handshake().client(b"ghi").packets
    result = places([*first, first[5], *first[3:4], *second], read_bytes)
    data = [(number, place.connection, place.start, place.end) for number, place in sorted(result.items()) if place.end]
    assert data == [(4, "0:1", 0, 3), (6, "0:1", 3, 6), (8, "0:1", 3, 6), (9, "0:1", 0, 3), (13, "0:10", 0, 3)]


@BLOCK_SIZES
def test_numbers_wrap(read_bytes: int) -> None:
    packets = Conversation(client_isn=(1 << 32) - 4).handshake().client(b"abcdefgh", mss=2).packets
    assert [place[3:] for place in places(packets, read_bytes).values() if place.end] == [(0, 2), (2, 4), (4, 6), (6, 8)]


@BLOCK_SIZES
def test_disorder_changes_no_place(read_bytes: int) -> None:
    random = Random(1)  # noqa: S311 - for a test
    conversation = Conversation().handshake().client(random.randbytes(3000), mss=50).server(random.randbytes(3000), mss=70).close()
    segments = shuffled(segments_of(conversation.packets), random)
    result = places([segment.packet() for segment in segments], read_bytes)
    for number, segment in enumerate(segments, 1):
        first = 1001 if segment.source_port == 40000 else 5001
        expected = (segment.sequence - first, segment.sequence - first + len(segment.payload)) if segment.payload else (0, 0)
        assert result[number][3:] == expected


def test_what_the_stream_never_had_lies_outside_of_it() -> None:
    """Place bytes before the first one seen, and beyond any window."""
    conversation = Conversation().client(b"first").packets
    before = Conversation(client_isn=900).client(b"older").packets
    far = Conversation(client_isn=(1 << 31) - 5).client(b"jump").packets
    result = places([*conversation, before[0], far[0]])
    assert [place[3:] for place in result.values()] == [(0, 5), (0, 0), (-100, -95), (0, 0)]


def test_a_finished_connection_is_forgotten() -> None:
    assembler, placement = Assembler(), Placement()
    for block in BlockReader(io.BytesIO(pcap(Conversation().handshake().client(b"abc").packets))):
        placement.feed(block, assembler.feed(block))
    assert placement._connections
    placement.forget(assembler.finish())
    assert not placement._connections
