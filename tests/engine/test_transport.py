"""What the first bytes of a connection reveal about the rest."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pulsarscope.engine.transport import HEAD_MAX_BYTES, Transport, is_plain
from pulsarscope.inputs.key_logs import Secrets
from pulsarscope.tcp.pieces import HOLE, Data, Gap, Item
from tests.scenarios.commands import CONNECT
from tests.scenarios.tls import sealing

HELLO = sealing.clear(sealing.HANDSHAKE, sealing.client_hello())
V1 = b"PROXY TCP4 192.0.2.7 10.0.0.2 4711 6651\r\n"
V2 = b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c" + bytes(12)


def run(data: bytes, moment: int = 1, offset: int = 0) -> Data:
    return Data(0, offset, [(data, moment, moment * 10, moment)])


def feed(transport: Transport, *streams: tuple[int, bytes], file: int = 0) -> bytes:
    """Return the output for each stream; each piece is a packet, and fed alone."""
    given = b""
    for number, (stream, data) in enumerate(streams, 1):
        items: tuple[list[Item], list[Item]] = ([], [])
        items[stream].append(run(data, number))
        given += through(transport.feed(items, file))
    return given


def through(items: Sequence[Sequence[Item]]) -> bytes:
    return b"".join(piece[0] for some in items for item in some if isinstance(item, Data) for piece in item.pieces)


@pytest.mark.parametrize(
    ("items", "want"),
    [
        (([run(CONNECT)], []), True),
        (([], [run(CONNECT)]), True),
        (([run(CONNECT)], [run(b"GET /")]), True),
        (([run(HELLO)], []), False),
        (([run(V1)], []), False),
        (([run(CONNECT)], [run(V2)]), False),
        (([Gap(0, 5, 1, HOLE)], []), False),
        (([], []), False),
    ],
)
def test_plain_streams_are_recognised_at_once(items: tuple[list[Item], list[Item]], want: bool) -> None:
    assert is_plain(items) == want


@pytest.mark.parametrize("head", [b"", V1, V2], ids=["none", "v1", "v2"])
@pytest.mark.parametrize("size", [1, 3, 10_000])
def test_tls_is_found_behind_a_proxy_header_however_it_is_cut(head: bytes, size: int) -> None:
    transport = Transport(Secrets(), spans=False)
    data = head + HELLO
    given = feed(transport, *((1, data[start : start + size]) for start in range(0, len(data), size)))
    assert transport.tls is not None
    assert given == head
    assert transport.tls.client == 1
    assert transport.tls.client_random == sealing.CLIENT_RANDOM.hex()


@pytest.mark.parametrize(
    "data",
    [
        V1 + CONNECT,
        V2 + CONNECT,
        b"POST / HTTP/1.1\r\n",
        b"\x16\x03\x03\0\0junk",
        b"\x16\x03\x09\0\1",
        b"\x17junk",
        b"\r\n\r\nother",
        b"PROXY " + b"x" * 200,
        b"PROXY UNKNOWN\r\nhello",
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_all_else_comes_through_as_it_is(data: bytes, size: int) -> None:
    transport = Transport(Secrets(), spans=False)
    given = feed(transport, *((0, data[start : start + size]) for start in range(0, len(data), size)))
    assert transport.decided
    assert transport.tls is None
    assert given == data


@pytest.mark.parametrize("data", [V1, V1[:9], V2[:13], HELLO[:4], b"\x16"])
def test_what_was_held_when_the_streams_end_comes_through(data: bytes) -> None:
    transport = Transport(Secrets(), spans=False)
    assert feed(transport, (0, data)) == b""
    assert not transport.decided
    assert through(transport.finish(1, 0)) == data


def test_the_stream_that_spoke_first_decides() -> None:
    items: tuple[list[Item], list[Item]] = ([run(HELLO, 2)], [run(CONNECT, 1)])
    transport = Transport(Secrets(), spans=False)
    assert through(transport.feed(items, 0)) == HELLO + CONNECT
    transport = Transport(Secrets(), spans=False)
    transport.feed(([run(HELLO, 1)], [run(CONNECT, 2)]), 0)
    assert transport.tls is not None


def test_a_gap_ends_the_waiting() -> None:
    transport = Transport(Secrets(), spans=False)
    assert through(transport.feed(([run(HELLO[:4]), Gap(4, 9, 2, HOLE)], []), 0)) == HELLO[:4]
    transport = Transport(Secrets(), spans=False)
    assert transport.feed(([Gap(0, 9, 1, HOLE)], []), 0) == ((), ())
    transport.feed(([run(HELLO, 2, 9)], []), 0)
    assert transport.tls is not None


def test_no_more_is_held_than_a_header_needs() -> None:
    transport = Transport(Secrets(), spans=False)
    endless = V2[:14] + (60_000).to_bytes(2, "big") + bytes(HEAD_MAX_BYTES)
    assert feed(transport, (0, endless)) == endless


@pytest.mark.parametrize("head", [b"\x16", V1[:3]])
def test_while_one_side_is_slow_little_is_held_of_the_other(head: bytes) -> None:
    transport = Transport(Secrets(), spans=False)
    given = feed(transport, (0, head), *[(1, bytes(100))] * (HEAD_MAX_BYTES // 100 + 1))
    assert transport.tls is None
    assert given == head + bytes(HEAD_MAX_BYTES // 100 * 100 + 100)


def test_what_is_held_from_an_earlier_file_counts_before_all_packets_of_this_one() -> None:
    transport = Transport(Secrets(), spans=False)
    feed(transport, (0, V1))
    (items, _) = transport.feed(([run(CONNECT, 1, len(V1))], [Gap(0, 3, 1, HOLE)]), 1)
    assert [piece[1:] for item in items if isinstance(item, Data) for piece in item.pieces] == [(1, 10, 0), (1, 10, 1)]
