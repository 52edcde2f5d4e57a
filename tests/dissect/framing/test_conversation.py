"""Both streams of a connection: its protocol, frames in the order in which they became readable, one bound for both."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import example, given, settings

from pulsarscope.dissect.contract.frames import MALFORMED, OK, SKIPPED, TRUNCATED, FrameBatch, KeptBytes, Origin
from pulsarscope.dissect.framing.conversation import Conversation
from pulsarscope.model.limits import FRAME_PADDING_BYTES, RECOGNITION_WINDOW_BYTES
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from pulsarscope.tcp.pieces import Data, Gap, Item
from tests.scenarios import command_frame, message_metadata, payload_frame
from tests.scenarios.chance import randoms
from tests.scenarios.commands import CONNECT, CONNECTED, PING
from tests.scenarios.streams import SplitFrame, Stream, cut, frames_in, frames_of, garbage, groups

DISSECTOR = PulsarDissector(show_secrets=True)
SUCCESS = command_frame("SUCCESS", request_id=1)
LOOKUP = command_frame("LOOKUP", topic="t", request_id=1)


class Exchange:
    """Two streams with common packet numbers."""

    def __init__(self) -> None:
        self.streams = (Stream(), Stream())
        self.order: list[tuple[int, int]] = []
        """(stream, index of its atom) in the order of capture."""

    def say(self, stream: int, *parts: bytes) -> Exchange:
        """Add each part in the next packet."""
        for part in parts:
            self.streams[stream].piece(part, packet=len(self.order) + 1)
            self._note(stream)
        return self

    def lose(self, stream: int, size: int) -> Exchange:
        self.streams[stream].gap(size, moment=len(self.order) + 1)
        self._note(stream)
        return self

    def _note(self, stream: int) -> None:
        self.order.append((stream, len(self.streams[stream].atoms) - 1))
        self.streams[stream].packet = len(self.order)

    def blocks(self, ranges: Sequence[tuple[int, int]]) -> list[tuple[list[Item], list[Item]]]:
        """Return the items of both streams, block by block."""
        out = []
        for begin, end in ranges:
            block: tuple[list[Item], list[Item]] = ([], [])
            for stream in (0, 1):
                indexes = [index for which, index in self.order[begin:end] if which == stream]
                if indexes:
                    block[stream].extend(self.streams[stream].items(indexes[0], indexes[-1] + 1))
            out.append(block)
        return out

    @property
    def all_ways(self) -> list[list[tuple[int, int]]]:
        """Ranges of the order: all at once, packet by packet, and cut in two in every way."""
        count = len(self.order)
        return [[(0, count)], [(at, at + 1) for at in range(count)], *[[(0, at), (at, count)] for at in range(1, count)]]


def conversation(*, from_start: bool = True, forced: bool = False) -> Conversation:
    return Conversation([DISSECTOR], KeptBytes(payload=True), Origin("s", "0:1", ""), from_start=from_start, forced=forced)


def hold(used: Conversation, exchange: Exchange, ranges: Sequence[tuple[int, int]] | None = None) -> list[SplitFrame]:
    out = FrameBatch()
    for items in exchange.blocks(ranges or [(0, len(exchange.order))]):
        out.extend(used.feed(items))
    out.extend(used.finish(len(exchange.order) + 1))
    return frames_in(out)


def outline(frames: Sequence[SplitFrame]) -> list[tuple[int, str | None]]:
    return [(frame.stream, frame.command if frame.status in (OK, MALFORMED) else frame.status) for frame in frames]


class TestRecognition:
    def test_a_handshake_is_recognised(self) -> None:
        used = conversation()
        frames = hold(used, Exchange().say(0, CONNECT).say(1, CONNECTED).say(0, LOOKUP))
        assert outline(frames) == [(0, "CONNECT"), (1, "CONNECTED"), (0, "LOOKUP")]
        assert used.dissector is DISSECTOR
        assert {frame.source for frame in frames} == {"s"}

    @pytest.mark.parametrize("size", [1, 3, 8])
    def test_one_that_dribbles_in_is_recognised(self, size: int) -> None:
        exchange = Exchange()
        for stream, data in ((0, CONNECT), (1, CONNECTED), (0, LOOKUP), (1, SUCCESS)):
            exchange.say(stream, *[data[at : at + size] for at in range(0, len(data), size)])
        for ranges in exchange.all_ways:
            assert [command for _, command in outline(hold(conversation(), exchange, ranges))] == [
                "CONNECT",
                "CONNECTED",
                "LOOKUP",
                "SUCCESS",
            ]

    def test_one_side_proves_the_other_from_its_start_on(self) -> None:
        """The server's lone SUCCESS could be anything; the client's CONNECT proves what it is."""
        exchange = Exchange().say(1, SUCCESS).say(0, CONNECT).say(1, SUCCESS)
        for ranges in exchange.all_ways:
            frames = hold(conversation(), exchange, ranges)
            assert [(frame.stream, frame.command, frame.packet, frame.moment) for frame in frames] == [
                (0, "CONNECT", 2, 2),
                (1, "SUCCESS", 1, 2),
                (1, "SUCCESS", 3, 3),
            ]

    def test_a_middle_start_is_recognised_by_two_frames(self) -> None:
        exchange = Exchange().say(0, LOOKUP[5:] + PING).say(1, SUCCESS).say(0, PING).say(1, PING, PING)
        for ranges in exchange.all_ways:
            frames = hold(conversation(from_start=False), exchange, ranges)
            assert [frame.command for frame in frames if frame.stream == 0] == [None, "PING", "PING"]
            assert [frame.command for frame in frames if frame.stream == 1] == ["SUCCESS", "PING", "PING"]

    def test_a_proxy_header_has_its_row_whether_or_not_it_has_a_segment_of_its_own(self) -> None:
        header = b"PROXY TCP4 1.2.3.4 5.6.7.8 1 6650\r\n"
        for exchange in (
            Exchange().say(0, header + CONNECT).say(1, CONNECTED),
            Exchange().say(0, header, CONNECT).say(1, CONNECTED),
            Exchange().say(1, CONNECTED).say(0, header, CONNECT),
        ):
            frames = hold(conversation(), exchange)
            assert sorted((frame.stream, frame.offset or 0, str(frame.status)) for frame in frames) == [
                (0, 0, SKIPPED),
                (0, len(header), OK),
                (1, 0, OK),
            ]

    def test_what_was_skipped_before_a_gap_and_before_the_protocol_was_known_has_its_row(self) -> None:
        exchange = Exchange().say(0, b"\xff" * 30).lose(0, 10).say(0, PING, PING, PING)
        assert outline(hold(conversation(), exchange)) == [(0, SKIPPED), *[(0, "PING")] * 3]

    def test_another_protocol_gives_no_frames_and_its_name(self) -> None:
        used = conversation()
        assert hold(used, Exchange().say(0, b"GET / HTTP/1.1\r\n\r\n").say(1, b"HTTP/1.1 400 Bad Request\r\n\r\n")) == []
        assert (used.dissector, used.account(0), used.foreign) == (None, None, "HTTP")

    def test_an_unknown_connection_is_given_up_after_a_while_and_holds_nothing(self) -> None:
        used = conversation()
        piece = b"\xff" * (1 << 20)
        for number in range((RECOGNITION_WINDOW_BYTES >> 20) + 2):
            used.feed(([Data(0, number << 20, [(piece, number + 1, 0, number + 1)])], []))
        assert used.waits() == 0
        begin = (RECOGNITION_WINDOW_BYTES >> 20) + 2 << 20
        assert used.feed(([Data(0, begin, [(CONNECT + PING, 99, 0, 99)])], [])).rows == []

    def test_within_the_window_it_is_still_recognised(self) -> None:
        used = conversation()
        exchange = Exchange().say(0, b"\xff" * (RECOGNITION_WINDOW_BYTES - 100), CONNECT, PING)
        assert outline(hold(used, exchange)) == [(0, SKIPPED), (0, "CONNECT"), (0, "PING")]

    def test_an_empty_connection_gives_nothing(self) -> None:
        used = conversation()
        assert (used.feed(([], [])).rows, used.finish(1).rows, used.waits()) == ([], [], 0)


class TestForced:
    def test_a_forced_dissector_is_believed_at_once(self) -> None:
        used = conversation(forced=True)
        assert used.dissector is DISSECTOR
        exchange = Exchange().say(0, PING).say(1, SUCCESS)
        for ranges in exchange.all_ways:
            assert outline(hold(conversation(forced=True), exchange, ranges)) == [(0, "PING"), (1, "SUCCESS")]

    def test_in_the_middle_of_a_connection_its_frames_are_found_by_content(self) -> None:
        frames = hold(conversation(from_start=False, forced=True), Exchange().say(0, LOOKUP[3:] + PING + PING))
        assert outline(frames) == [(0, SKIPPED), (0, "PING"), (0, "PING")]

    def test_what_is_no_frame_has_its_row(self) -> None:
        assert outline(hold(conversation(forced=True), Exchange().say(0, b"zzzz" * 10))) == [(0, SKIPPED)]
        assert outline(hold(conversation(forced=True), Exchange().say(0, LOOKUP[:15]))) == [(0, TRUNCATED)]

    def test_a_proxy_header_is_no_error(self) -> None:
        used = conversation(forced=True)
        frames = hold(used, Exchange().say(0, b"PROXY TCP4 1.2.3.4 5.6.7.8 1 6650\r\n" + CONNECT).say(1, CONNECTED))
        assert outline(frames) == [(0, SKIPPED), (0, "CONNECT"), (1, "CONNECTED")]
        assert frames[0].notes is None
        account = used.account(0)
        assert account is not None
        assert account.proxy_source == "1.2.3.4:1"


class TestOrder:
    def test_frames_of_both_sides_come_by_their_moments(self) -> None:
        exchange = Exchange().say(0, CONNECT).say(1, CONNECTED).say(0, LOOKUP[:5]).say(1, SUCCESS).say(0, LOOKUP[5:]).say(1, PING)
        for ranges in exchange.all_ways:
            frames = hold(conversation(), exchange, ranges)
            assert [(frame.command, frame.packet) for frame in frames] == [
                ("CONNECT", 1),
                ("CONNECTED", 2),
                ("SUCCESS", 4),
                ("LOOKUP", 5),
                ("PING", 6),
            ]


class TestLimit:
    @staticmethod
    def send(size: int) -> bytes:
        return payload_frame("SEND", message_metadata(), bytes(size), producer_id=1, sequence_id=1)

    @staticmethod
    def connected(limit: int) -> bytes:
        return command_frame("CONNECTED", server_version="y", max_message_size=limit)

    def check(self, exchange: Exchange, want: list[tuple[int, str | None]]) -> None:
        for ranges in exchange.all_ways:
            assert outline(hold(conversation(), exchange, ranges)) == want, ranges

    def test_what_the_broker_announces_lets_the_client_send_more(self) -> None:
        exchange = Exchange().say(0, CONNECT).say(1, self.connected(20_000_000)).say(0, self.send(6_000_000)).say(0, PING)
        self.check(exchange, [(0, "CONNECT"), (1, "CONNECTED"), (0, "SEND"), (0, "PING")])

    def test_the_broker_itself_may_send_more(self) -> None:
        message = payload_frame("MESSAGE", message_metadata(), bytes(6_000_000), consumer_id=1, message_id={"ledgerId": 1, "entryId": 2})
        exchange = Exchange().say(0, CONNECT).say(1, self.connected(20_000_000), message).say(0, PING)
        self.check(exchange, [(0, "CONNECT"), (1, "CONNECTED"), (1, "MESSAGE"), (0, "PING")])

    def test_a_smaller_limit_holds_too(self) -> None:
        exchange = Exchange().say(0, CONNECT).say(1, self.connected(1000)).say(0, self.send(FRAME_PADDING_BYTES + 1001)).say(0, PING + PING)
        self.check(exchange, [(0, "CONNECT"), (1, "CONNECTED"), (0, SKIPPED), (0, "PING"), (0, "PING")])

    def test_it_holds_for_what_is_sent_after_it_only(self) -> None:
        exchange = Exchange().say(0, CONNECT).say(0, self.send(FRAME_PADDING_BYTES + 5000)).say(1, self.connected(1000)).say(0, PING)
        self.check(exchange, [(0, "CONNECT"), (0, "SEND"), (1, "CONNECTED"), (0, "PING")])

    def test_it_holds_when_the_server_is_stream_0(self) -> None:
        exchange = Exchange().say(1, CONNECT).say(0, self.connected(20_000_000)).say(1, self.send(6_000_000)).say(1, PING)
        self.check(exchange, [(1, "CONNECT"), (0, "CONNECTED"), (1, "SEND"), (1, "PING")])


def disturbed(random: Random) -> Exchange:
    """A conversation with garbage and gaps, in segments of any size."""
    exchange = Exchange()
    turns = [(0, CONNECT), (1, CONNECTED)] if random.random() < 0.8 else []
    turns += [(random.randrange(2), frame) for frame in frames_of(random, random.randint(2, 10))]
    for stream, frame in turns:
        data = (garbage(random) if random.random() < 0.1 else b"") + frame
        for part in cut(data, random, 200):
            if random.random() < 0.03:
                exchange.lose(stream, len(part))
            else:
                exchange.say(stream, part)
    return exchange


@pytest.mark.slow
@given(randoms)
@example(Random(331))  # noqa: S311 - a frame that fills its segments, and comes alone
@settings(max_examples=120)
def test_however_a_connection_is_handed_over_the_frames_are_the_same(random: Random) -> None:
    exchange = disturbed(random)
    from_start, forced = random.random() < 0.7, random.random() < 0.2
    used = conversation(from_start=from_start, forced=forced)
    want = hold(used, exchange)
    assert [frame.moment for frame in want] == sorted(frame.moment for frame in want)
    for number, stream in enumerate(exchange.streams):
        account = used.account(number)
        if account is None:
            break
        sizes = {OK: 0, MALFORMED: 0, SKIPPED: 0, TRUNCATED: 0}
        for frame in want:
            if frame.stream == number:
                sizes[str(frame.status)] += frame.size or 0
        assert sizes[OK] + sizes[MALFORMED] + account.skipped + account.cut + account.tail + stream.missing == stream.length
        assert (sizes[SKIPPED], sizes[TRUNCATED]) == (account.skipped, account.cut + account.tail)
    count = len(exchange.order)
    for ranges in ([(at, at + 1) for at in range(count)], groups(count, random), groups(count, random, 15)):
        other = conversation(from_start=from_start, forced=forced)
        assert hold(other, exchange, ranges) == want
        assert (other.dissector, other.foreign) == (used.dissector, used.foreign)


def test_what_waits_is_known() -> None:
    used = conversation()
    used.feed(([Data(0, 0, [(CONNECT[:9], 1, 0, 1)])], [Data(0, 0, [(CONNECTED[:4], 2, 0, 2)])]))
    assert used.waits() == 13
    used.feed(([Data(0, 9, [(CONNECT[9:], 3, 0, 3)])], []))
    assert used.waits() == 4
    used.feed(([], [Gap(4, 100, 5, "hole")]))
    assert used.waits() == 0


@pytest.mark.slow
def test_a_protocol_that_nobody_knows_is_given_up_for_good() -> None:
    exchange = Exchange().say(0, *[bytes(1 << 20)] * 9)
    assert hold(conversation(), exchange) == []
    assert hold(conversation(), exchange, [(at, at + 1) for at in range(9)]) == []


@pytest.mark.parametrize("client", [0, 1])
@pytest.mark.parametrize("questions", [1, 2, 9])
@pytest.mark.parametrize("opening", [[CONNECT], [CONNECT[:9], CONNECT[9:]]], ids=["whole", "in-two-pieces"])
def test_what_waited_for_secrets_in_both_streams_comes_in_the_order_of_its_packets(
    questions: int, client: int, opening: list[bytes]
) -> None:
    streams = Stream(), Stream()
    said = [(1 - client, CONNECTED), *[(client, LOOKUP), (1 - client, SUCCESS)] * questions]
    pieces = [*((client, part) for part in opening), *said]
    for packet, (stream, piece) in enumerate(pieces, 1):
        streams[stream].piece(piece, packet=packet, moment=len(pieces))
    frames = conversation().feed((streams[0].items(), streams[1].items()))
    assert [row.packet for row in frames.rows] == [*range(len(opening), len(pieces) + 1)]
