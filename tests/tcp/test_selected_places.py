"""Places of selected packets, with only the beginnings of streams known."""

from __future__ import annotations

import io
from array import array
from random import Random

import pytest

from pulsarscope.capture import BlockReader
from pulsarscope.model.byte_ranges import NO_RANGES, ByteRanges, Ranges
from pulsarscope.tcp import Assembler, PacketPlace, SelectedPlaces, StreamStarts
from tests.scenarios.both_readers import reader
from tests.scenarios.capturefile import Packet, pcap
from tests.scenarios.conversation import SECOND, Conversation
from tests.scenarios.recapture import segments_of, shuffled

CLIENT, SERVER = "10.0.0.1:40000", "10.0.0.2:6650"
BLOCK_SIZES = pytest.mark.parametrize("read_bytes", [100, 700, 1 << 20])


@pytest.fixture(params=["off", "require"])
def choice(request: pytest.FixtureRequest) -> str:
    """Return the choice of a reader."""
    chosen: str = request.param
    if chosen == "require":
        pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    return chosen


def ranges_of(starts: array[int], ends: array[int], choice: str) -> ByteRanges:
    """Make ranges in the form of this reader."""
    if choice == "off":
        return ByteRanges(starts, ends)
    compiled = pytest.importorskip("pulsarscope_native").PackedFrames(24)
    compiled.extend(starts.tobytes(), ends.tobytes(), *[array("q", bytes(8 * len(starts))).tobytes()] * 3)
    return ByteRanges((), (), compiled)


def selected(packets: list[Packet], read_bytes: int, ranges: Ranges, named: frozenset[int] = frozenset()) -> dict[int, PacketPlace]:
    """Place the selected packets."""
    assembler, starts = Assembler(), StreamStarts()
    for block in BlockReader(io.BytesIO(pcap(packets))):
        starts.note(assembler.feed(block))
    starts.note(assembler.finish())
    placed = SelectedPlaces(starts, ranges)
    result: dict[int, PacketPlace] = {}
    for block in BlockReader(io.BytesIO(pcap(packets)), read_bytes=read_bytes):
        result |= placed.feed(block, named)
    return dict(sorted(result.items()))


def places(packets: list[Packet], read_bytes: int = 1 << 20) -> dict[int, PacketPlace]:
    """Place all packets."""
    everything = NO_RANGES._replace(complete=True)
    return selected(packets, read_bytes, lambda _connection, _source: everything)


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


def test_bytes_before_the_first_one_seen_and_beyond_any_window_lie_outside_of_the_stream() -> None:
    conversation = Conversation().client(b"first").packets
    before = Conversation(client_isn=900).client(b"older").packets
    far = Conversation(client_isn=(1 << 31) - 5).client(b"jump").packets
    result = places([*conversation, before[0], far[0]])
    assert [place[3:] for place in result.values()] == [(0, 5), (0, 0), (-100, -95), (2147482643, 2147482647)]


@BLOCK_SIZES
def test_a_packet_that_waited_as_a_stray_is_of_the_connection_that_it_begins(read_bytes: int) -> None:
    first = Conversation().handshake().client(b"abc").packets
    second = Conversation(client_isn=1_258_000_000).client(b"def").server(b"ghi").close().packets
    result = places([*first, *second], read_bytes)
    data = [(number, place.connection, place.start, place.end) for number, place in result.items() if place.end]
    assert data == [(4, "0:1", 0, 3), (6, "0:6", 0, 3), (8, "0:6", 0, 3)]


@BLOCK_SIZES
def test_with_ranges_only_packets_with_bytes_in_them_have_a_place(read_bytes: int, choice: str) -> None:
    random = Random(3)  # noqa: S311 - for a test
    conversation = Conversation(client_isn=(1 << 32) - 2000).handshake()
    for _ in range(40):
        conversation.client(random.randbytes(random.randint(1, 400)), mss=90).server(random.randbytes(random.randint(1, 90)))
    late = conversation.packets[:3] + conversation.packets[4:] + conversation.packets[3:4]
    starts = array("q", sorted(random.sample(range(5000), 12)))
    ends = array("q", (min(start + random.randint(1, 500), after) for start, after in zip(starts, [*starts[1:], 9000], strict=True)))
    ranges = ranges_of(starts, ends, choice)
    of_client: Ranges = lambda connection, source: ranges if (connection, source) == ("0:1", CLIENT) else None  # noqa: E731
    for packets in (conversation.packets, late, conversation.close().packets):
        expected = {
            number: place for number, place in places(packets).items() if place.source == CLIENT and ranges.meet(place.start, place.end)
        }
        with reader(choice):
            assert selected(packets, read_bytes, of_client) == expected
        assert len(expected) > 10


@BLOCK_SIZES
def test_packets_are_looked_for_by_stream_or_number_too(read_bytes: int, choice: str) -> None:
    packets = Conversation().handshake().client(b"abcd").client(b"efgh", b"ijkl", mss=4).server(b"mnop").close().packets
    of_client = {number: place for number, place in places(packets).items() if place.source == CLIENT}
    starts, ends = array("q", [1]), array("q", [3])
    ranges = ranges_of(starts, ends, choice)

    def found(*named: int, complete: bool = False, apart: bool | None = False) -> dict[int, PacketPlace]:
        some = ranges._replace(complete=complete, apart=apart)
        return selected(packets, read_bytes, lambda _, source: some if source == CLIENT else None, frozenset(named))

    with reader(choice):
        assert [*found()] == [4]
        assert found(complete=True) == of_client
        assert [*found(2, 3, 4, 7)] == [number for number in (3, 4, 7) if number in of_client]
        assert [*found(apart=True)] == [4]
        opening_or_closing = {number for number, place in of_client.items() if place.flags & 3}
        assert opening_or_closing | {4} <= found(apart=None).keys() <= of_client.keys()


@BLOCK_SIZES
def test_each_connection_on_the_same_ports_has_its_own_packets(read_bytes: int, choice: str) -> None:
    """Covers connections with handshakes, and one whose first packets wait as strays until it is known that they begin it."""
    random = Random(5)  # noqa: S311 - for a test
    packets: list[Packet] = []
    for isn in (1000, 70_000_000, 2_000_000_000, 3_500_000_000):
        conversation = Conversation(client_isn=isn, server_isn=isn // 2)
        if isn != 2_000_000_000:
            conversation.handshake()
        for _ in range(8):
            conversation.client(random.randbytes(300), mss=90).server(random.randbytes(90))
        packets += conversation.close().packets
    expected = places(packets)
    names = sorted({place.connection for place in expected.values()})
    assert len(names) == 4
    for some in ({names[1]}, {names[0], names[2]}, set(names[2:])):
        of_some = {number: place for number, place in expected.items() if place.connection in some}
        with reader(choice):
            found = selected(packets, read_bytes, lambda name, _, some=some: NO_RANGES._replace(complete=True) if name in some else None)  # type: ignore[misc]
        assert found == dict(sorted(of_some.items()))


@BLOCK_SIZES
def test_a_stream_may_be_longer_than_its_sequence_numbers(read_bytes: int, choice: str) -> None:
    conversation = Conversation(client_isn=99).handshake().client(b"data")
    for _ in range(7):
        conversation.lose("client", (900 << 20) - 4).client(b"data").wait(60 * SECOND).server(b"x")
    packets = conversation.client(b"more").packets
    last = 7 * (900 << 20)
    ranges = ranges_of(array("q", [last]), array("q", [last + 2]), choice)
    with reader(choice):
        found = selected(packets, read_bytes, lambda _, source: ranges if source == CLIENT else None)
    assert [place[3:] for place in found.values()] == [(last, last + 4)]


@BLOCK_SIZES
def test_segments_of_other_connections_far_ahead_move_nothing(read_bytes: int, choice: str) -> None:
    """Covers three of them, each within 1 GiB of the one before."""
    conversation = Conversation(client_isn=99).handshake().client(b"abcd")
    far = [Conversation(client_isn=99 + (count * 900 << 20)).client(b"far").packets[0] for count in (1, 2, 3)]
    packets = [*conversation.packets, *far, *Conversation(client_isn=103, server_isn=5000).client(b"efgh").close().packets]
    ranges = ranges_of(array("q", [4]), array("q", [8]), choice)
    with reader(choice):
        found = selected(packets, read_bytes, lambda _, source: ranges if source == CLIENT else None)
    assert [place[3:] for place in found.values()] == [(4, 8)]
