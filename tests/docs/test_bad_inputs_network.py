"""Rows 34 to 66 of docs/bad_inputs.tsv: links, IP and TCP with faults, and with the usual effects of networks."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from pulsarscope.tcp import connection_table
from tests.scenarios import ACK, FIN, PSH, RST, SYN, Conversation, Packet, ethernet, ip_packet, ipv4, tcp_segment
from tests.scenarios.bad_inputs.cases import (
    CONNECT,
    CONNECTED,
    HEALTHY,
    OPENING,
    PRODUCER,
    PRODUCER_SUCCESS,
    Seen,
    assert_promised,
    capture,
    chance,
    exchange,
    healthy,
    look,
    opened,
    row,
    send,
    sent,
)
from tests.scenarios.capture_bytes import ipv6 as ipv6_packet
from tests.scenarios.commands import receipt
from tests.scenarios.conversation import START_NS, STEP_NS
from tests.scenarios.wrapping import FRAME_WRAPPERS, fragments, labels, ppp, pppoe

PACKETS = healthy()
LINK_BYTES = 14
IP_BYTES = 20
MILLISECOND = 1_000_000
HOUR = 3600 * 10**9
CLIENT, SERVER = ("10.0.0.1", 40000), ("10.0.0.2", 6650)

SENDS = [index for index, packet in enumerate(PACKETS) if b"hello" in packet.data]
"""The packets of the three SENDs."""


def changed(change: Callable[[bytes], bytes], indexes: Sequence[int] | None = None) -> list[Packet]:
    """The healthy packets, with all or some of them changed."""
    return [
        packet._replace(data=change(packet.data)) if indexes is None or index in indexes else packet for index, packet in enumerate(PACKETS)
    ]


def patched(offset: int, new: bytes) -> Callable[[bytes], bytes]:
    """A function that overwrites bytes of an Ethernet frame."""
    return lambda data: data[:offset] + new + data[offset + len(new) :]


def segment(
    payload: bytes = b"", *, sequence: int, flags: int = ACK, ack: int = 0, window: int = 0xFFFF, at: int = 0, reverse: bool = False
) -> Packet:
    """A packet of the conversation's client (or server), `at` steps after its start."""
    source, destination = (SERVER, CLIENT) if reverse else (CLIENT, SERVER)
    packet = tcp_segment(source[1], destination[1], sequence, ack, payload, flags=flags, window=window)
    return Packet(START_NS + at * STEP_NS, ethernet(ip_packet(source[0], destination[0], packet)))


def tags(*values: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:12] + b"".join(struct.pack(">HH", value, 7) for value in values) + data[12:]


def relinked(header: bytes) -> Callable[[bytes], bytes]:
    """A packet with another link header instead of Ethernet."""
    return lambda data: header + data[LINK_BYTES:]


def tunnelled(protocol: int, header: bytes = b"", *, times: int = 1) -> Callable[[bytes], bytes]:
    """An IP packet in another one."""

    def change(data: bytes) -> bytes:
        for _ in range(times):
            data = ethernet(ipv4("1.1.1.1", "2.2.2.2", header + data[LINK_BYTES:], protocol=protocol))
        return data

    return change


def in_mpls(number: int) -> Callable[[bytes], bytes]:
    """An IP packet after a stack of `count` MPLS labels."""
    return lambda data: data[:12] + b"\x88\x47" + labels(number, data[LINK_BYTES:])


def fragmented(order: Callable[[list[bytes]], list[bytes]]) -> list[Packet]:
    """The healthy packets, with the third SEND in fragments of 48 bytes."""
    packet = PACKETS[SENDS[2]]
    parts = order(fragments(packet.data[LINK_BYTES:], 48))
    return [*PACKETS[: SENDS[2]], *(packet._replace(data=packet.data[:LINK_BYTES] + part) for part in parts), *PACKETS[SENDS[2] + 1 :]]


def other(data: bytes) -> bytes:
    """A fragment with another last byte."""
    return data[:-1] + bytes([data[-1] ^ 0xFF])


def six(headers: bytes = b"", first: int = 6) -> list[Packet]:
    """The healthy segments over IPv6, after these extension headers."""
    found = []
    for packet in PACKETS:
        tcp = packet.data[LINK_BYTES + IP_BYTES :]
        client = tcp[:2] == struct.pack(">H", CLIENT[1])
        whole = ipv6_packet(headers + tcp, next_header=first)
        if not client:
            whole = whole[:8] + whole[24:40] + whole[8:24] + whole[40:]
        found.append(packet._replace(data=packet.data[:12] + b"\x86\xdd" + whole))
    return found


def options(number: int) -> bytes:
    """IPv6 destination options, `number` times, then TCP."""
    return b"".join(bytes([60 if left > 1 else 6, 0]) + b"\x01\x04" + bytes(4) for left in range(number, 0, -1))


class Case(NamedTuple):
    row: int
    name: str
    packets: list[Packet]
    codes: set[str] = set()  # noqa: RUF012 - never written to
    commands: list[str] | None = HEALTHY
    link: int = 1


LINKS = [
    Case(34, "802.15.4", PACKETS, {"unknown-link-type"}, [], 195),
    Case(35, "Linux cooked", changed(relinked(bytes(14) + b"\x08\x00")), link=113),
    Case(35, "Linux cooked v2", changed(relinked(b"\x08\x00" + bytes(18))), link=276),
    Case(35, "BSD loopback, little-endian", changed(relinked(b"\2\0\0\0")), link=0),
    Case(35, "BSD loopback, big-endian", changed(relinked(b"\0\0\0\2")), link=0),
    Case(35, "OpenBSD loopback", changed(relinked(b"\0\0\0\2")), link=108),
    Case(35, "raw IP 12", changed(relinked(b"")), link=12),
    Case(35, "raw IP 101", changed(relinked(b"")), link=101),
    Case(35, "IPv4", changed(relinked(b"")), link=228),
    Case(35, "PPP", changed(relinked(b"\xff\x03\0\x21")), link=9),
    Case(35, "Cisco HDLC", changed(relinked(b"\x0f\0\x08\0")), link=104),
    Case(35, "802.11 with radiotap", PACKETS, {"unknown-link-type"}, [], 127),
    Case(35, "netfilter log", PACKETS, {"unknown-link-type"}, [], 239),
    Case(35, "a header shorter than its link has", [*PACKETS, Packet(PACKETS[-1].time_ns, b"\2\0\0")], {"packet-malformed"}),
    Case(36, "one tag", changed(tags(0x8100))),
    Case(36, "two tags", changed(tags(0x88A8, 0x8100))),
    Case(36, "eight tags", changed(tags(*[0x8100] * 8))),
    Case(36, "nine tags", changed(tags(*[0x8100] * 9)), {"nesting-too-deep"}, []),
    Case(36, "MPLS, one label", changed(in_mpls(1))),
    Case(36, "MPLS, 16 labels", changed(in_mpls(16))),
    Case(36, "MPLS, 17 labels", changed(in_mpls(17)), {"nesting-too-deep"}, []),
    Case(36, "MPLS without an end", changed(lambda data: data[:12] + b"\x88\x47" + bytes(20)), {"packet-malformed"}, []),
    Case(36, "PPPoE", changed(lambda data: data[:12] + b"\x88\x64" + pppoe(ppp(data[LINK_BYTES:])))),
    Case(37, "GRE", changed(tunnelled(47, b"\0\0\x08\0"))),
    Case(37, "GRE, a version that is not", changed(tunnelled(47, b"\0\2\x08\0")), {"packet-malformed"}, []),
    Case(37, "IP in IP", changed(tunnelled(4))),
    Case(37, "eight IP in IP", changed(tunnelled(4, times=8))),
    Case(37, "nine IP in IP", changed(tunnelled(4, times=9)), {"nesting-too-deep"}, []),
    Case(37, "GTP", changed(tunnelled(17, struct.pack(">HHHH", 2152, 2152, 0, 0) + b"\x30\xff\0\0\0\0\0\1")), set(), []),
    Case(
        37,
        "VXLAN, and each packet once more without",
        [copy for packet in PACKETS for copy in (packet, packet._replace(data=ethernet(FRAME_WRAPPERS["vxlan"](packet.data))))],
        {"packet-duplicate"},
    ),
    Case(38, "padding of short frames", changed(lambda data: data + b"\x55" * max(0, 60 - len(data)) + b"\x55" * 4)),
    Case(39, "total length 0", changed(patched(LINK_BYTES + 2, b"\0\0"))),
    Case(
        39,
        "total length less than the header",
        changed(patched(LINK_BYTES + 2, b"\0\x13"), SENDS[2:]),
        {"packet-malformed", "stream-gap"},
        [*OPENING, *sent(2), "SEND_RECEIPT"],
    ),
    Case(
        39,
        "total length beyond the packet",
        changed(patched(LINK_BYTES + 2, b"\x03\0"), SENDS[2:]),
        {"snaplen-truncated", "stream-gap"},
        None,
    ),
    Case(39, "a header of 16 bytes", changed(patched(LINK_BYTES, b"\x44"), SENDS[2:]), {"packet-malformed", "stream-gap"}, None),
    Case(40, "IPv6", six()),
    Case(40, "16 extension headers", six(options(16), 60)),
    Case(40, "17 extension headers", six(options(17), 60), {"nesting-too-deep"}, []),
    Case(40, "an atomic fragment", six(b"\6\0\0\0\0\0\0\7", 44)),
    Case(40, "an authentication header of no length", six(b"\6\0\0\0\0\0\0\7", 51)),
    Case(40, "no next header", six(b"", 59), set(), []),
    Case(40, "a routing header of type 0", six(b"\6\0\0\0\0\0\0\0", 43)),
    Case(41, "fragments", fragmented(list)),
    Case(41, "fragments backwards", fragmented(lambda parts: parts[::-1])),
    Case(41, "each fragment twice", fragmented(lambda parts: [part for part in parts for _ in range(2)])),
    Case(41, "all fragments twice", fragmented(lambda parts: parts * 2)),
    Case(
        41,
        "a fragment that comes later with other bytes",
        fragmented(lambda parts: [parts[0], other(parts[0]), *parts[1:]]),
        {"fragment-overlap"},
    ),
    Case(41, "a fragment missing", fragmented(lambda parts: parts[1:]), {"fragment-incomplete", "stream-gap"}, None),
    Case(
        41,
        "a fragment beyond 65,535 bytes",
        fragmented(lambda parts: [patched(6, b"\x1f\xff")(parts[0]), *parts]),
        {"packet-malformed"},
    ),
    Case(41, "first fragments alone", changed(patched(LINK_BYTES + 6, b"\x20\0"), SENDS[2:]), {"fragment-incomplete", "stream-gap"}, None),
    Case(
        41,
        "a last fragment that overlaps",
        changed(patched(LINK_BYTES + 6, b"\0\1"), SENDS[2:]),
        {"fragment-incomplete", "stream-gap"},
        None,
    ),
    Case(42, "bad checksums", changed(lambda data: patched(LINK_BYTES + 10, b"\xba\xad")(patched(LINK_BYTES + 36, b"\xba\xad")(data)))),
    Case(43, "a TCP header of 16 bytes", changed(patched(LINK_BYTES + 32, b"\x40"), SENDS[2:]), {"packet-malformed", "stream-gap"}, None),
    Case(
        43,
        "a TCP header longer than the packet",
        [*PACKETS[:5], PACKETS[4]._replace(data=patched(46, b"\xf0")(PACKETS[4].data)), *PACKETS[5:]],
        {"packet-malformed"},
    ),
    Case(
        43, "a TCP option of length 0", [PACKETS[0]._replace(data=patched(LINK_BYTES + 40, b"\x08\0\x08\0")(PACKETS[0].data)), *PACKETS[1:]]
    ),
]


@row(*range(34, 44))
@pytest.mark.parametrize("case", LINKS, ids=[f"{case.row}-{case.name}" for case in LINKS])
def test_links_and_ip(tmp_path: Path, case: Case) -> None:
    seen = look(capture(tmp_path, case.packets, link_type=case.link))
    assert_promised(case.row, seen, case.codes)
    assert seen.exit == 0
    if case.commands is not None:
        assert seen.commands == case.commands


# ---- TCP


BIG = send(1, chance(1).randbytes(9000))
"""A SEND of seven segments."""


def big() -> list[Packet]:
    """A connection with one large SEND; the positions of its segments are BIG_AT."""
    return exchange(exchange(opened(), 0).client(BIG).server(receipt(1, 1, entry=1)), 2).close().packets


BIG_PACKETS = big()
BIG_AT = [index for index, packet in enumerate(BIG_PACKETS) if len(packet.data) > 200]
BIG_COMMANDS = [*OPENING, *sent(3)]


def moved(packets: list[Packet], source: int, target: int) -> list[Packet]:
    """The packets with one moved to another place, and the times in order."""
    packets = list(packets)
    packets.insert(target, packets.pop(source))
    return retimed(packets)


def retimed(packets: list[Packet]) -> list[Packet]:
    return [packet._replace(time_ns=START_NS + index * STEP_NS) for index, packet in enumerate(packets)]


def sequence_of(packet: Packet) -> int:
    return int.from_bytes(packet.data[LINK_BYTES + IP_BYTES + 4 :][:4], "big")


def payload_of(packet: Packet) -> bytes:
    return packet.data[LINK_BYTES + IP_BYTES + 20 :]


def resent(packet: Packet, start: int, end: int, *, grow: bytes = b"", wrong: bool = False) -> Packet:
    """Bytes `start` to `end` of a segment, sent again 10 ms later."""
    data = payload_of(packet)[start:end] + grow
    if wrong:
        data = bytes(byte ^ 0xFF for byte in data)
    return segment(data, sequence=sequence_of(packet) + start)._replace(time_ns=packet.time_ns + 10 * MILLISECOND)


def inserted(packets: list[Packet], index: int, *new: Packet) -> list[Packet]:
    return [*packets[:index], *new, *packets[index:]]


FOURTH = BIG_PACKETS[BIG_AT[3]]
AFTER = BIG_AT[-1] + 1

NO_EFFECT = [
    (45, "exact copies", retimed([packet for packet in BIG_PACKETS for _ in range(2)])),
    (45, "one retransmission", retimed(inserted(BIG_PACKETS, AFTER, resent(FOURTH, 0, 1448)))),
    (
        46,
        "a keep-alive",
        retimed(
            inserted(
                BIG_PACKETS,
                AFTER + 2,
                segment(b"\0", sequence=sequence_of(BIG_PACKETS[BIG_AT[-1]]) + len(payload_of(BIG_PACKETS[BIG_AT[-1]])) - 1),
            )
        ),
    ),
    (46, "a window probe", retimed(inserted(BIG_PACKETS, BIG_AT[3], segment(payload_of(FOURTH)[:1], sequence=sequence_of(FOURTH))))),
    (
        47,
        "overlap at the left",
        retimed(inserted(BIG_PACKETS, BIG_AT[4], resent(FOURTH, 700, 1448, grow=payload_of(BIG_PACKETS[BIG_AT[4]])[:9]))),
    ),
    (47, "overlap inside", retimed(inserted(BIG_PACKETS, BIG_AT[5], resent(FOURTH, 100, 200)))),
    (
        47,
        "overlap that covers two",
        retimed(inserted(BIG_PACKETS, AFTER, resent(FOURTH, 0, 1448, grow=payload_of(BIG_PACKETS[BIG_AT[4]])))),
    ),
    (49, "the first segment last", moved(BIG_PACKETS, BIG_AT[0], BIG_AT[-1])),
    (49, "backwards", retimed([*BIG_PACKETS[: BIG_AT[0]], *BIG_PACKETS[BIG_AT[0] : AFTER][::-1], *BIG_PACKETS[AFTER:]])),
    (
        50,
        "sequence numbers wrap",
        exchange(exchange(opened(client_isn=2**32 - 3000, server_isn=2**32 - 100), 0).client(BIG).server(receipt(1, 1, entry=1)), 2)
        .close()
        .packets,
    ),
    (52, "the acknowledgment before its data", moved(BIG_PACKETS, AFTER, BIG_AT[0])),
    (53, "a hole filled late", moved(BIG_PACKETS, BIG_AT[2], AFTER + 3)),
    (60, "urgent data", [packet._replace(data=patched(47, bytes([packet.data[47] | 0x20]))(packet.data)) for packet in BIG_PACKETS]),
]


@row(45, 46, 47, 49, 50, 52, 53, 60)
@pytest.mark.parametrize(("number", "name", "packets"), NO_EFFECT, ids=[f"{number}-{name}" for number, name, _ in NO_EFFECT])
def test_what_networks_do_all_day_changes_no_message(tmp_path: Path, number: int, name: str, packets: list[Packet]) -> None:
    plain = look(capture(tmp_path, BIG_PACKETS))
    seen = look(capture(tmp_path, packets, "odd.pcap"))
    notes = {"packet-duplicate"} if name == "exact copies" else {"capture-order"} if name == "a hole filled late" else set()
    assert_promised(number, seen, notes)
    assert seen.exit == 0
    assert sorted(seen.commands) == sorted(plain.commands)
    assert [one.payload_sha256 for one in seen.messages] == [one.payload_sha256 for one in plain.messages]


@row(46)
def test_a_closed_window_is_a_note(tmp_path: Path) -> None:
    packets = exchange(opened(), 0).packets
    ack = next_sequence(packets)
    closed, opened_again = (segment(sequence=5001 + 61 + 22, ack=ack, window=window, at=99, reverse=True) for window in (0, 9000))
    seen = look(capture(tmp_path, [*packets, closed, opened_again]))
    assert_promised(46, seen, {"zero-window"})
    assert seen.commands == [*OPENING, *sent(1)]


@row(49)
def test_any_permutation_within_a_window_gives_the_same_messages(tmp_path: Path) -> None:
    plain = look(capture(tmp_path, BIG_PACKETS))
    dice = chance(7)
    for _ in range(10):
        middle = BIG_PACKETS[BIG_AT[0] : AFTER]
        dice.shuffle(middle)
        seen = look(capture(tmp_path, retimed([*BIG_PACKETS[: BIG_AT[0]], *middle, *BIG_PACKETS[AFTER:]]), "odd.pcap"))
        assert seen.codes == set()
        assert [one.payload_sha256 for one in seen.messages] == [one.payload_sha256 for one in plain.messages]


@row(44)
def test_a_snap_length_loses_only_what_it_cut(tmp_path: Path) -> None:
    cut = [packet._replace(data=packet.data[:400], wire_bytes=len(packet.data)) for packet in BIG_PACKETS]
    seen = look(capture(tmp_path, cut))
    assert_promised(44, seen, {"snaplen-truncated", "stream-gap", "frame-truncated", "bytes-skipped"})
    assert seen.commands == [*OPENING, "SEND", "SEND_RECEIPT", "SEND_RECEIPT", "SEND", "SEND_RECEIPT"]
    partial = next(frame for frame in seen.frames if frame.status == "truncated")
    assert partial.command == "SEND"
    assert {message.status for message in seen.messages} == {"ok", "truncated"}


@row(48)
def test_of_two_versions_of_bytes_the_first_is_believed(tmp_path: Path) -> None:
    packets = retimed(inserted(BIG_PACKETS, BIG_AT[5], resent(FOURTH, 100, 200, wrong=True)))
    seen = look(capture(tmp_path, packets))
    assert_promised(48, seen, {"overlap-conflict"})
    assert seen.commands == BIG_COMMANDS
    evidence = seen.findings[0].evidence
    assert evidence is not None
    assert (evidence["size"], evidence["first_packet"], evidence["packet"]) == (100, BIG_AT[3] + 1, BIG_AT[5] + 1)
    plain = look(capture(tmp_path, BIG_PACKETS))
    assert [one.payload_sha256 for one in seen.messages] == [one.payload_sha256 for one in plain.messages]


@row(51)
def test_behind_a_lost_segment_decoding_goes_on(tmp_path: Path) -> None:
    conversation = exchange(opened(), 0)
    first = len(conversation.packets)
    exchange(exchange(conversation.client(BIG).server(receipt(1, 1, entry=1)), 2, 5).close(), 7, 0)
    packets = [packet for index, packet in enumerate(conversation.packets) if index != first + 2]
    seen = look(capture(tmp_path, packets))
    assert_promised(51, seen, {"stream-gap", "frame-truncated", "bytes-skipped"} & seen.codes | {"stream-gap", "frame-truncated"})
    assert seen.connections[0].client_missing is not None
    assert seen.commands.count("SEND") == 6
    assert seen.commands.count("SEND_RECEIPT") == 7


@row(54)
def test_a_segment_out_of_any_window_is_left_out(tmp_path: Path) -> None:
    far = segment(b"x", sequence=(sequence_of(FOURTH) + (1 << 31) - 5) & 0xFFFF_FFFF)
    seen = look(capture(tmp_path, retimed(inserted(BIG_PACKETS, BIG_AT[3], far))))
    assert_promised(54, seen, {"sequence-jump"})
    assert seen.commands == BIG_COMMANDS


def by_sender(seen: Seen, commands: list[str]) -> bool:
    """Require these commands of each direction, in this order; a stream that had to be recognised may be readable later than the other."""
    from_server = {"CONNECTED", "PRODUCER_SUCCESS", "SEND_RECEIPT"}
    found = [(frame.command or "", frame.direction) for frame in seen.frames if frame.status == "ok"]
    return all(
        [command for command, direction in found if direction == side]
        == [command for command in commands if (command in from_server) == (side == "server")]
        for side in ("client", "server")
    )


MIDSTREAM = [
    ("between frames", PACKETS[11:], ["SEND", "SEND_RECEIPT"] * 3),
    (
        "one direction",
        [packet for packet in PACKETS if packet.data[LINK_BYTES + IP_BYTES :][:2] == b"\x9c\x40"],
        ["CONNECT", "PRODUCER", "SEND", "SEND", "SEND"],
    ),
    ("without the SYN", PACKETS[1:], HEALTHY),
    ("without the SYN|ACK", [PACKETS[0], *PACKETS[2:]], HEALTHY),
]


@row(55)
@pytest.mark.parametrize(("packets", "commands"), [case[1:] for case in MIDSTREAM], ids=[case[0] for case in MIDSTREAM])
def test_a_capture_may_begin_anywhere(tmp_path: Path, packets: list[Packet], commands: list[str]) -> None:
    seen = look(capture(tmp_path, packets))
    assert_promised(55, seen, {"midstream-start", "one-sided-capture"} & seen.codes)
    assert by_sender(seen, commands)
    assert seen.connections[0].client == "10.0.0.1:40000"


@row(55)
def test_a_capture_that_begins_within_a_frame_finds_the_next_one(tmp_path: Path) -> None:
    start = BIG_AT[2]
    seen = look(capture(tmp_path, BIG_PACKETS[start:]))
    assert_promised(55, seen, {"midstream-start", "bytes-skipped"})
    assert by_sender(seen, ["SEND_RECEIPT", "SEND", "SEND_RECEIPT"])


def handshake(*, client: int = 1001, server: int = 5001) -> list[Packet]:
    """The rest of a conversation whose first bytes have these numbers."""
    steps = [
        (CONNECT, False),
        (CONNECTED, True),
        (PRODUCER, False),
        (PRODUCER_SUCCESS, True),
        (send(0), False),
        (receipt(1, 0, entry=0), True),
    ]
    numbers = {False: client, True: server}
    packets = []
    for at, (data, reverse) in enumerate(steps):
        packets.append(segment(data, sequence=numbers[reverse], ack=numbers[not reverse], flags=ACK | PSH, at=10 + at, reverse=reverse))
        numbers[reverse] += len(data)
    return packets


SYN_CASES: list[tuple[str, list[Packet]]] = [
    (
        "data on the SYN",
        [
            segment(CONNECT, sequence=1000, flags=SYN, at=0),
            segment(sequence=5000, flags=SYN | ACK, ack=1001 + len(CONNECT), at=1, reverse=True),
            *handshake()[1:],
        ],
    ),
    (
        "a second SYN with another number",
        [
            segment(sequence=77_000, flags=SYN, at=0),
            segment(sequence=1000, flags=SYN, at=1),
            segment(sequence=5000, flags=SYN | ACK, ack=1001, at=2, reverse=True),
            *handshake(),
        ],
    ),
    (
        "simultaneous open",
        [
            segment(sequence=1000, flags=SYN, at=0),
            segment(sequence=5000, flags=SYN, at=1, reverse=True),
            segment(sequence=5000, flags=SYN | ACK, ack=1001, at=2, reverse=True),
            segment(sequence=1000, flags=SYN | ACK, ack=5001, at=3),
            *handshake(),
        ],
    ),
    (
        "the SYN|ACK before the SYN",
        [
            segment(sequence=5000, flags=SYN | ACK, ack=1001, at=0, reverse=True),
            segment(sequence=1000, flags=SYN, at=1),
            *handshake(),
        ],
    ),
    (
        "a handshake in four",
        [
            segment(sequence=1000, flags=SYN, at=0),
            segment(sequence=0, ack=1001, flags=ACK, at=1, reverse=True),
            segment(sequence=5000, flags=SYN, at=2, reverse=True),
            segment(sequence=1000, flags=SYN | ACK, ack=5001, at=3),
            *handshake(),
        ],
    ),
]


@row(56)
@pytest.mark.parametrize("packets", [packets for _, packets in SYN_CASES], ids=[name for name, _ in SYN_CASES])
def test_a_connection_may_begin_in_odd_ways(tmp_path: Path, packets: list[Packet]) -> None:
    seen = look(capture(tmp_path, packets))
    assert_promised(56, seen, set())
    assert seen.commands == [*OPENING, "SEND", "SEND_RECEIPT"]
    assert seen.frames[0].direction == "client"


@row(57)
@pytest.mark.parametrize("closing", [True, False])
def test_a_port_used_again_is_another_connection(tmp_path: Path, *, closing: bool) -> None:
    first = exchange(opened(), 0)
    if closing:
        first.close()
    second = exchange(opened(client_isn=900_000, server_isn=77, start_ns=first.time_ns), 0).close()
    seen = look(capture(tmp_path, [*first.packets, *second.packets]))
    assert_promised(57, seen, set())
    assert seen.commands == [*OPENING, *sent(1)] * 2
    assert [connection.closed for connection in seen.connections] == ["fin" if closing else "open", "fin"]


def next_sequence(packets: list[Packet]) -> int:
    """The next sequence number of the client."""
    return max(sequence_of(p) + len(payload_of(p)) for p in packets if p.data[LINK_BYTES + IP_BYTES :][:2] == b"\x9c\x40")


def reset_cases() -> list[tuple[str, list[Packet], str, set[str], list[str]]]:
    packets = exchange(opened(), 0).packets
    follow = next_sequence(packets)
    late = segment(send(1), sequence=follow, at=500)
    whole = [*OPENING, *sent(1)]
    more = [*whole, "SEND"]
    said = {"connection-reset"}
    return [
        ("a reset", [*packets, segment(sequence=follow, flags=RST | ACK, at=400)], "rst", said, whole),
        ("a reset by no end", [*packets, segment(sequence=follow, flags=RST, at=400)], "rst", said | {"reset-between"}, whole),
        (
            "data after a reset",
            [*packets, segment(sequence=follow, flags=RST | ACK, at=400), late],
            "rst",
            said | {"data-after-close"},
            whole,
        ),
        ("data on a reset", [*packets, segment(send(1), sequence=follow, flags=RST | ACK, at=400)], "rst", said, more),
        ("a reset out of the window", [*packets, segment(sequence=follow + (1 << 30), flags=RST, at=400), late], "open", set(), more),
        ("a reset before the end", [*packets, segment(sequence=follow + 1, flags=RST, at=400), late], "open", set(), more),
        ("a reset at the end of a hole", [*packets, segment(sequence=follow + 1, flags=RST | ACK, at=400)], "rst", said, whole),
    ]


@row(58)
@pytest.mark.parametrize(
    ("packets", "closed", "codes", "commands"), [case[1:] for case in reset_cases()], ids=[case[0] for case in reset_cases()]
)
def test_a_reset_ends_a_connection_when_it_can_be_of_it(
    tmp_path: Path, packets: list[Packet], closed: str, codes: set[str], commands: list[str]
) -> None:
    seen = look(capture(tmp_path, packets))
    assert_promised(58, seen, codes)
    assert seen.commands == commands
    assert [connection.closed for connection in seen.connections] == [closed]


def fin_cases() -> list[tuple[str, list[Packet], set[str], list[str]]]:
    packets = exchange(opened(), 0).packets
    follow = next_sequence(packets)
    fin = segment(sequence=follow, flags=FIN | ACK, at=400)
    beyond = segment(sequence=follow + len(send(1)), flags=FIN | ACK, at=400)
    whole = [*OPENING, *sent(1)]
    return [
        ("twice", [*packets, fin, fin._replace(time_ns=fin.time_ns + STEP_NS)], set(), whole),
        ("data behind it", [*packets, fin, segment(send(1), sequence=follow + 1, at=410)], {"data-after-close"}, whole),
        ("beyond a hole", [*packets, beyond], {"stream-gap"}, whole),
        ("a hole filled after it", [*packets, beyond, segment(send(1), sequence=follow, at=410)], set(), [*whole, "SEND"]),
    ]


@row(59)
@pytest.mark.parametrize(("packets", "codes", "commands"), [case[1:] for case in fin_cases()], ids=[case[0] for case in fin_cases()])
def test_a_stream_ends_where_its_fin_says(tmp_path: Path, packets: list[Packet], codes: set[str], commands: list[str]) -> None:
    seen = look(capture(tmp_path, packets))
    assert_promised(59, seen, codes)
    assert seen.commands == commands


@row(61)
def test_every_packet_captured_twice_is_read_once(tmp_path: Path) -> None:
    seen = look(capture(tmp_path, [packet for packet in PACKETS for _ in range(2)]))
    assert_promised(61, seen, {"packet-duplicate"})
    assert seen.commands == HEALTHY


@row(61)
@pytest.mark.parametrize(("client", "server"), [(("10.0.0.1", 0), ("10.0.0.2", 0)), (("10.0.0.1", 9), ("10.0.0.1", 9))])
def test_odd_endpoints_are_endpoints(tmp_path: Path, client: tuple[str, int], server: tuple[str, int]) -> None:
    seen = look(capture(tmp_path, healthy(client=client, server=server)))
    assert seen.exit == 0
    if client != server:
        assert_promised(61, seen, set())
        assert seen.commands == HEALTHY


@pytest.mark.slow
@row(62)
def test_a_flood_of_connections_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_table, "OPEN_CONNECTIONS_MAX", 256)
    flood = [
        Packet(START_NS, ethernet(ip_packet("10.9.9.9", "10.0.0.2", tcp_segment(port, 6650, 1, flags=SYN)))) for port in range(1024, 4096)
    ]
    # A block is 1 MiB: the excess is given up at its end.
    padding = [Packet(START_NS, bytes(60_000))] * 18
    seen = look(capture(tmp_path, [*flood, *padding, *healthy()]))
    assert_promised(62, seen, {"memory-cap"})
    assert seen.commands == HEALTHY
    assert len(seen.connections) == len(flood) + 1


@pytest.mark.slow
@row(63)
def test_thousands_of_segments_out_of_order_cost_no_more_than_their_number(tmp_path: Path) -> None:
    frames = [send(number) for number in range(4000)]
    packets = opened().packets
    at = next_sequence(packets)
    waiting = []
    for number, frame in enumerate(frames):
        waiting.append(segment(frame, sequence=at, at=1000 + number))
        at += len(frame)
    first, *rest = waiting
    disordered = [*packets, *rest[::-1], *rest, first]
    seen = look(capture(tmp_path, [packet._replace(time_ns=START_NS + i * MILLISECOND * 10) for i, packet in enumerate(disordered)]))
    assert_promised(63, seen, set())
    assert seen.commands == [*OPENING, *["SEND"] * 4000]


@row(64)
def test_a_stream_that_nobody_acknowledges_is_decoded(tmp_path: Path) -> None:
    conversation = Conversation(acknowledge=False).handshake().client(CONNECT)
    conversation.client(*[send(number, bytes(40_000)) for number in range(100)])
    seen = look(capture(tmp_path, conversation.packets))
    assert_promised(64, seen, set())
    assert seen.commands == ["CONNECT", *["SEND"] * 100]


@row(65)
@pytest.mark.parametrize(("idle", "connections"), [(HOUR // 2, 1), (HOUR + 10**9, 2)])
def test_an_hour_of_silence_ends_a_connection(tmp_path: Path, idle: int, connections: int) -> None:
    seen = look(capture(tmp_path, exchange(exchange(opened(), 0).wait(idle), 1, 2).close().packets))
    assert_promised(65, seen, set() if connections == 1 else {"midstream-start"})
    assert len(seen.connections) == connections
    assert by_sender(seen, [*OPENING, *sent(3)])


@row(66)
def test_one_stream_seen_before_and_behind_a_translator_is_two_connections(tmp_path: Path) -> None:
    packets = [*healthy(), *healthy(client=("192.0.2.1", 61_000), start_ns=START_NS + 5000)]
    packets.sort(key=lambda packet: packet.time_ns)
    seen = look(capture(tmp_path, packets))
    assert_promised(66, seen, set())
    assert len(seen.connections) == 2
    assert len(seen.messages) == 6
