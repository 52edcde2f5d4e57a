"""One stream to frames: the same however it is fed, with every byte accounted for, and sync found again."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import example, given, settings

from pulsarscope.dissect.contract.frames import MALFORMED, OK, SKIPPED, TRUNCATED, Decoded, FrameBatch, KeptBytes, Origin
from pulsarscope.dissect.framing.splitter import StreamSplitter
from pulsarscope.model import limits
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from pulsarscope.tcp.pieces import Data, Gap, Item
from tests.scenarios import command_frame, message_metadata, payload_frame
from tests.scenarios.chance import randoms
from tests.scenarios.commands import CONNECT, PING
from tests.scenarios.frames import base_command, sized
from tests.scenarios.streams import SplitFrame, Stream, cut, frames_in, frames_of, garbage, groups, split

DISSECTOR = PulsarDissector(show_secrets=True)
KEEP = KeptBytes(payload=True)
KEEP_ALL = KeptBytes(payload=True, raw=True)


def splitter(*, synced: bool = False, at_start: bool = True, keep: KeptBytes = KEEP) -> StreamSplitter:
    return StreamSplitter(DISSECTOR, keep, synced=synced, at_start=at_start)


def of(data: bytes, *, synced: bool = True, at_start: bool = True) -> list[SplitFrame]:
    """The frames of bytes in one packet."""
    return split(splitter(synced=synced, at_start=at_start), Stream().piece(data))


def outline(frames: list[SplitFrame]) -> list[tuple[str, str | None, int, int]]:
    """(status, command, offset, size) of each."""
    return [(str(frame.status), frame.command, frame.offset or 0, frame.size or 0) for frame in frames]


def codes(frame: SplitFrame) -> list[str]:
    return [code for code, _ in frame.notes or ()]


def account(used: StreamSplitter, stream: Stream, frames: list[SplitFrame]) -> None:
    """Require that each byte of the stream is in a frame, skipped, cut by a gap, in the tail, or missing, and that the rows agree."""
    sizes = {status: sum(frame.size or 0 for frame in frames if frame.status == status) for status in (OK, MALFORMED, SKIPPED, TRUNCATED)}
    assert sizes[OK] + sizes[MALFORMED] + used.skipped + used.account().cut + used.account().tail + stream.missing == stream.length
    assert sizes[SKIPPED] == used.skipped
    assert sizes[TRUNCATED] == used.account().cut + used.account().tail
    assert used.frames == sum(frame.status in (OK, MALFORMED) for frame in frames)
    at = 0
    for frame in sorted(frames, key=lambda frame: frame.offset or 0):
        assert (frame.offset or 0) >= at, "two frames share bytes"
        at = (frame.offset or 0) + (frame.size or 0)
    assert at <= stream.length


def check_names(frames: list[SplitFrame]) -> None:
    """Require that no two frames have the same name, and that the subs of a packet count from 1 without a hole."""
    subs: dict[int, list[int]] = {}
    for frame in frames:
        subs.setdefault(frame.packet, []).append(frame.sub)
    for packet, found in subs.items():
        assert sorted(found) == list(range(1, len(found) + 1)), f"packet {packet}: {found}"


class TestInSync:
    def test_frames_are_named_by_the_packet_that_completes_them(self) -> None:
        stream = Stream().piece(PING + PING[:3]).piece(PING[3:8]).piece(PING[8:] + PING + PING).piece(PING)
        frames = split(splitter(synced=True), stream)
        assert [(frame.packet, frame.sub, frame.moment, frame.time, frame.offset) for frame in frames] == [
            (1, 1, 1, 1000, 0),
            (3, 1, 3, 3000, 13),
            (3, 2, 3, 3000, 26),
            (3, 3, 3, 3000, 39),
            (4, 1, 4, 4000, 52),
        ]

    def test_a_frame_holds_what_was_to_be_kept(self) -> None:
        frame = payload_frame("SEND", message_metadata(), b"payload", producer_id=1, sequence_id=1)
        for keep, payload, raw in (
            (KeptBytes(), None, None),
            (KeptBytes(payload=True), b"payload", None),
            (KeptBytes(raw=True), None, frame),
        ):
            (found,) = split(splitter(synced=True, keep=keep), Stream().piece(frame))
            assert (found.payload, found.raw, found.payload_size) == (payload, raw, 7)

    def test_a_frame_says_whose_it_is(self) -> None:
        used = StreamSplitter(DISSECTOR, KeptBytes(), origin=Origin("a source", "0:17", "pulsar"), stream=1, synced=True)
        (found,) = split(used, Stream().piece(PING))
        assert (found.source, found.connection, found.stream) == ("a source", "0:17", 1)

    def test_frames_within_a_payload_are_payload(self) -> None:
        inner = PING * 3 + CONNECT + payload_frame("SEND", message_metadata(), b"x" * 50, producer_id=1, sequence_id=1)
        outer = payload_frame("SEND", message_metadata(), inner * 20, producer_id=1, sequence_id=1)
        for size in (1, 7, 100, 10_000):
            stream = Stream().pieces([(outer + PING)[at : at + size] for at in range(0, len(outer) + len(PING), size)])
            assert [frame.command for frame in split(splitter(synced=True), stream)] == ["SEND", "PING"]
            stream = Stream().pieces([(CONNECT + outer + PING)[at : at + size] for at in range(0, len(CONNECT + outer + PING), size)])
            assert [frame.command for frame in split(splitter(), stream)] == ["CONNECT", "SEND", "PING"]

    def test_a_command_that_does_not_decode_is_one_malformed_frame_when_the_next_one_follows(self) -> None:
        bad = sized(sized(b"\x08\x12\x92\x01\x05"))
        frames = of(PING + bad + PING)
        assert [(frame.status, frame.size) for frame in frames] == [(OK, 13), (MALFORMED, 13), (OK, 13)]
        assert codes(frames[1]) == ["frame-malformed"]

    def test_it_is_one_at_the_end_of_the_stream_too(self) -> None:
        assert [frame.status for frame in of(PING + sized(sized(b"\x08\x12\x92\x01\x05")))] == [OK, MALFORMED]

    def test_an_unfinished_frame_is_truncated_and_gives_what_it_has(self) -> None:
        frame = payload_frame("SEND", message_metadata(), b"p" * 100, producer_id=1, sequence_id=5)
        used = splitter(synced=True)
        stream = Stream().piece(PING + frame[:-40])
        frames = split(used, stream)
        assert outline(frames)[1] == (TRUNCATED, "SEND", 13, len(frame) - 40)
        assert frames[1].fields == {"producer_id": 1, "sequence_id": 5}
        assert frames[1].payload == b"p" * 60
        assert codes(frames[1]) == ["frame-truncated"]
        text = f"only {len(frame) - 40} of {len(frame)} bytes are present; its sender ended the connection within it"
        assert frames[1].notes == [("frame-truncated", text)]
        account(used, stream, frames)

    @pytest.mark.parametrize("length", range(1, 13))
    def test_a_frame_of_a_few_bytes_only_is_truncated(self, length: int) -> None:
        assert outline(of(PING + PING[:length]))[1:] == [(TRUNCATED, None, 13, length)]


class TestLostSync:
    @pytest.mark.parametrize("size", [0, 1, 3, (5 << 20) + (10 << 10) - 3, 1 << 31, (1 << 32) - 1])
    def test_a_length_that_cannot_be_is_skipped_to_the_next_frames(self, size: int) -> None:
        head = struct.pack(">I", size)
        frames = of(PING + head + PING + PING)
        assert outline(frames) == [(OK, "PING", 0, 13), (SKIPPED, None, 13, 4), (OK, "PING", 17, 13), (OK, "PING", 30, 13)]
        assert codes(frames[1]) == ["frame-malformed" if size < 4 else "frame-too-large", "bytes-skipped"]

    @pytest.mark.parametrize(
        ("start", "name"),
        [
            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "an answer in HTTP, so this is the port of a web service"),
            (b"\x16\x03\x03\x00\x40" + bytes(60), "TLS"),
            (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
            (b"\x7fELF" + bytes(40), None),
        ],
    )
    def test_a_length_that_is_the_start_of_another_protocol_names_it(self, start: bytes, name: str | None) -> None:
        frames = of(PING + start + PING + PING)
        size = f"a frame of {int.from_bytes(start[:4], 'big') + 4:,} bytes is announced, the limit is 5,253,120"
        assert (frames[1].notes or [])[0] == ("frame-too-large", size + (f": these are the first bytes of {name}" if name else ""))

    @pytest.mark.parametrize(
        "between", [b"x", b"\xff" * 100, bytes(50), b"GET / HTTP/1.1\r\n\r\n", CONNECT[:9]], ids=["byte", "ones", "zeros", "http", "head"]
    )
    def test_garbage_is_one_run_of_skipped_bytes(self, between: bytes) -> None:
        # Two frames prove each other; a checksum proves itself.
        for after in (PING + PING, payload_frame("SEND", message_metadata(), b"x", producer_id=1, sequence_id=1)):
            used = splitter(synced=True)
            stream = Stream().piece(PING + between + after)
            frames = split(used, stream)
            account(used, stream, frames)
            whole = [frame for frame in frames if frame.status == OK]
            assert frames[0].size == 13
            assert (whole[-1].offset or 0) + (whole[-1].size or 0) == stream.length

    def test_a_skipped_run_is_named_by_the_packet_of_its_last_byte(self) -> None:
        stream = Stream().piece(PING + b"\xff" * 10).piece(b"\xff" * 5).piece(b"\xff" * 3 + PING + PING)
        frames = split(splitter(synced=True), stream)
        assert [(frame.status, frame.packet, frame.sub, frame.offset, frame.size) for frame in frames] == [
            (OK, 1, 1, 0, 13),
            (SKIPPED, 3, 1, 13, 18),
            (OK, 3, 2, 31, 13),
            (OK, 3, 3, 44, 13),
        ]

    @pytest.mark.parametrize(("more", "packet"), [(b"\xff" * 3, 1), (b"", 0)])
    def test_a_skipped_run_that_goes_on_in_the_next_file_is_named_by_that_file(self, more: bytes, packet: int) -> None:
        used, out = splitter(synced=True), FrameBatch()
        used.feed(0, 0, [(PING + b"\xff" * 10, 35, 35_000, 35)], out)
        used.feed(1, 23, [(more + PING + PING, 1, 40_000, 1)], out)
        rows = [(row.status, row.file, row.packet, row.sub) for row in out.rows]
        assert rows == [(OK, 0, 35, 1), (SKIPPED, 1, packet, 1), (OK, 1, 1, 1 + packet), (OK, 1, 1, 2 + packet)]

    def test_a_stream_without_any_frame_is_all_skipped(self) -> None:
        used = splitter()
        stream = Stream().pieces([b"\xff" * 100, b"abc" * 50])
        frames = split(used, stream)
        assert outline(frames) == [(SKIPPED, None, 0, 250)]
        account(used, stream, frames)

    def test_damage_in_one_frame_changes_none_before_and_none_behind_the_next(self) -> None:
        random = Random(5)  # noqa: S311 - for a test
        parts = frames_of(random, 12)
        clean = of(b"".join(parts))
        starts = [sum(map(len, parts[:index])) for index in range(len(parts))]
        for index in range(3, 9):
            broken = [*parts]
            broken[index] = struct.pack(">I", 0xFFFF_FFF0) + parts[index][4:]
            frames = of(b"".join(broken))
            assert frames[:index] == clean[:index]
            tail = [(frame.offset, frame.command, frame.fields) for frame in frames if (frame.offset or 0) >= starts[index + 2]]
            assert tail == [(frame.offset, frame.command, frame.fields) for frame in clean[index + 2 :]]


class TestMiddleStart:
    def test_frames_are_found_by_content(self) -> None:
        parts = [PING[5:], CONNECT, PING, command_frame("SUCCESS", request_id=1)]
        frames = of(b"".join(parts), synced=False, at_start=False)
        assert [frame.command for frame in frames] == [None, "CONNECT", "PING", "SUCCESS"]
        assert frames[0].status == SKIPPED

    def test_one_frame_alone_is_not_believed_before_the_end(self) -> None:
        used = splitter(at_start=False)
        out = FrameBatch()
        used.feed(0, 0, [(PING, 1, 1000, 1)], out)
        assert out.rows == []
        used.finish(2, out)
        assert [frame.command for frame in out.rows] == ["PING"]

    def test_one_with_a_right_checksum_is(self) -> None:
        used = splitter(at_start=False)
        out = FrameBatch()
        used.feed(0, 0, [(b"abc" + payload_frame("SEND", message_metadata(), b"x", producer_id=1, sequence_id=1), 1, 1000, 1)], out)
        assert [frame.command for frame in out.rows] == [None, "SEND"]

    def test_connect_at_the_very_start_proves_itself(self) -> None:
        used = splitter()
        out = FrameBatch()
        used.feed(0, 0, [(CONNECT, 1, 1000, 1)], out)
        assert [frame.command for frame in out.rows] == ["CONNECT"]

    def test_a_frame_is_readable_when_what_proves_it_is(self) -> None:
        stream = Stream().piece(b"abc" + PING).piece(PING[:8]).piece(PING[8:])
        frames = split(splitter(at_start=False), stream)
        assert [(frame.command, frame.packet, frame.moment) for frame in frames] == [(None, 1, 3), ("PING", 1, 3), ("PING", 3, 3)]


class TestGaps:
    BIG = payload_frame("SEND", message_metadata(), PING * 300 + CONNECT * 50, producer_id=1, sequence_id=1)

    def test_a_gap_within_a_large_frame_ends_exactly_where_the_frame_does(self) -> None:
        """Its payload is full of frames."""
        for start, size in ((60, 100), (500, 1), (100, len(self.BIG) - 101), (20, 2000)):
            stream = Stream().piece(CONNECT).piece(self.BIG[:start]).gap(size).piece(self.BIG[start + size :]).piece(PING)
            used = splitter()
            frames = split(used, stream)
            account(used, stream, frames)
            assert [(frame.status, frame.command, frame.offset) for frame in frames if frame.status != SKIPPED] == [
                (OK, "CONNECT", 0),
                (TRUNCATED, "SEND", len(CONNECT)),
                (OK, "PING", len(CONNECT) + len(self.BIG)),
            ]

    def test_a_gap_that_takes_the_rest_of_a_frame_and_more_is_searched_behind(self) -> None:
        stream = Stream().piece(CONNECT).piece(self.BIG[:100]).gap(len(self.BIG)).piece(b"xyz" + PING + PING)
        used = splitter()
        frames = split(used, stream)
        account(used, stream, frames)
        assert [frame.command for frame in frames] == ["CONNECT", "SEND", None, "PING", "PING"]
        assert used.account().cut == 100

    def test_two_gaps_in_one_frame_are_no_trouble(self) -> None:
        stream = Stream().piece(CONNECT).piece(self.BIG[:100]).gap(50).piece(self.BIG[150:200]).gap(50).piece(self.BIG[250:] + PING)
        used = splitter()
        frames = split(used, stream)
        account(used, stream, frames)
        assert outline(frames)[-1] == (OK, "PING", len(CONNECT) + len(self.BIG), 13)

    def test_a_gap_between_two_frames_loses_nothing_else(self) -> None:
        stream = Stream().piece(CONNECT + PING).gap(13).piece(PING).piece(PING)
        used = splitter()
        frames = split(used, stream)
        account(used, stream, frames)
        assert outline(frames) == [(OK, "CONNECT", 0, len(CONNECT)), *[(OK, "PING", len(CONNECT) + at, 13) for at in (0, 26, 39)]]

    def test_a_gap_at_the_very_start_or_end_is_only_missing(self) -> None:
        stream = Stream().gap(100).piece(PING + PING).gap(50)
        used = splitter()
        frames = split(used, stream)
        account(used, stream, frames)
        assert [frame.command for frame in frames] == ["PING", "PING"]

    def test_behind_a_gap_a_frame_is_named_by_the_packets_of_its_own_bytes(self) -> None:
        stream = (
            Stream()
            .piece(CONNECT)
            .gap(10, moment=30)
            .piece(PING, packet=5)
            .piece(PING[:6], packet=9)
            .piece(PING[6:], packet=7)
            .piece(PING, packet=5)
        )
        frames = split(splitter(), stream)
        names = [(frame.packet, frame.sub, frame.moment) for frame in frames]
        assert names == [(1, 1, 1), (5, 1, 30), (9, 1, 30), (5, 2, 30)]
        check_names(frames)


class TestOtherThingsAtTheStart:
    @pytest.mark.parametrize("size", [1, 3, 1000])
    @pytest.mark.parametrize("synced", [True, False])
    @pytest.mark.parametrize(
        ("header", "source"),
        [
            (b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 6650\r\n", "192.0.2.1:56324"),
            (b"PROXY UNKNOWN\r\n", None),
            (b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c\xc0\x00\x02\x01\xc6\x33\x64\x02\xdc\x04\x19\xfa", "192.0.2.1:56324"),
            (b"\r\n\r\n\x00\r\nQUIT\n\x20\x00\x00\x00", None),
        ],
        ids=["v1", "v1 unknown", "v2", "v2 local"],
    )
    def test_a_proxy_header_is_skipped_and_read(self, header: bytes, source: str | None, synced: bool, size: int) -> None:
        data = header + CONNECT + PING
        used = splitter(synced=synced)
        stream = Stream().pieces([data[at : at + size] for at in range(0, len(data), size)])
        frames = split(used, stream)
        account(used, stream, frames)
        assert outline(frames)[1:] == [(OK, "CONNECT", len(header), len(CONNECT)), (OK, "PING", len(header) + len(CONNECT), 13)]
        assert outline(frames)[0] == (SKIPPED, None, 0, len(header))
        assert frames[0].notes is None
        assert used.account().proxy_source == source

    @pytest.mark.parametrize("end", range(1, 47))
    def test_a_proxy_header_that_never_ends_is_no_trouble(self, end: int) -> None:
        data = b"PROXY TCP4 192.0.2.1 198.51.100.2 56324 6650\r\n"[:end]
        used = splitter()
        stream = Stream().piece(data)
        frames = split(used, stream)
        account(used, stream, frames)

    @pytest.mark.parametrize(
        ("start", "name"),
        [
            (b"\x16\x03\x01\x02\x00\x01\x00\x01", "TLS"),
            (b"GET / HT", "HTTP"),
            (b"SSH-2.0-", "SSH"),
            (b"\x00\x00\x00\x40\x00\x12\x00\x03", None),
        ],
    )
    def test_another_protocol_is_named(self, start: bytes, name: str | None) -> None:
        for data in ([start + b"more" * 20], [start[at : at + 1] for at in range(8)] + [b"more" * 20]):
            used = splitter()
            split(used, Stream().pieces(data))
            assert used.foreign == name
            assert used.frames == 0

    @pytest.mark.parametrize(("start", "name"), [(b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"), (b"\x7fELF" + bytes(40), None)])
    def test_another_protocol_at_the_start_is_a_finding(self, start: bytes, name: str | None) -> None:
        used = splitter()
        (frame,) = split(used, Stream().piece(start))
        texts = [text for code, text in frame.notes or () if code == "frame-too-large"]
        assert [text.rpartition(" of ")[2] for text in texts] == ([name] if name else [])

    def test_it_is_named_behind_a_proxy_header_too(self) -> None:
        used = splitter()
        split(used, Stream().piece(b"PROXY UNKNOWN\r\n" + b"GET / HTTP/1.1\r\n"))
        assert used.foreign == "HTTP"


class TestLimit:
    @staticmethod
    def connected(size: int) -> bytes:
        return command_frame("CONNECTED", server_version="x", max_message_size=size)

    def sized_send(self, size: int) -> bytes:
        empty = len(payload_frame("SEND", message_metadata(), b"", producer_id=1, sequence_id=1))
        return payload_frame("SEND", message_metadata(), bytes(size - empty), producer_id=1, sequence_id=1)

    def test_the_default_limit_is_pulsar_s(self) -> None:
        limit = (5 << 20) + (10 << 10)
        assert [frame.command for frame in of(CONNECT + self.sized_send(limit) + PING)] == ["CONNECT", "SEND", "PING"]
        frames = of(CONNECT + self.sized_send(limit + 1) + PING + PING)
        assert [(frame.status, frame.command) for frame in frames] == [(OK, "CONNECT"), (SKIPPED, None), (OK, "PING"), (OK, "PING")]
        assert "frame-too-large" in codes(frames[1])

    @pytest.mark.parametrize("announced", [1000, 100_000])
    def test_what_is_announced_lowers_it_from_the_next_frame_on(self, announced: int) -> None:
        limit = announced + limits.FRAME_PADDING_BYTES
        fits, too_large = self.sized_send(limit), self.sized_send(limit + 1)
        assert [frame.status for frame in of(self.connected(announced) + fits + PING)] == [OK] * 3
        assert [frame.status for frame in of(self.connected(announced) + too_large + PING + PING)] == [OK, SKIPPED, OK, OK]

    def test_what_is_announced_raises_it(self) -> None:
        frame = self.sized_send(6 << 20)
        assert [found.status for found in of(self.connected(8 << 20) + frame + PING)] == [OK] * 3

    @pytest.mark.parametrize("announced", [0, -1, (1 << 31) - 1, -(1 << 31)])
    def test_what_cannot_be_is_bounded(self, announced: int) -> None:
        used = splitter(synced=True)
        split(used, Stream().piece(self.connected(announced)))
        assert limits.FRAME_PADDING_BYTES <= used.limits[-1][1] <= limits.FRAME_HARD_MAX_BYTES

    def test_a_length_within_the_limit_is_waited_for_without_taking_memory_for_it(self) -> None:
        used = splitter(synced=True)
        out = FrameBatch()
        used.feed(0, 0, [(struct.pack(">II", 5 << 20, 5) + b"\x08\x12", 1, 1, 1)], out)
        assert out.rows == []
        assert used.waits() == 10


def disturbed(random: Random) -> Stream:
    """Frames with garbage between them and missing bytes, in pieces of any size, some of them late."""
    parts: list[bytes] = []
    for frame in [CONNECT] * random.randint(0, 1) + frames_of(random, random.randint(1, 8)):
        if random.random() < 0.3:
            parts.append(garbage(random))
        parts.append(frame)
    if random.random() < 0.3:
        parts.append(garbage(random))
    stream = Stream()
    late: list[int] = []  # numbers of packets that came before those of the preceding bytes
    for piece in cut(b"".join(parts), random):
        if random.random() < 0.06:
            late += range(stream.packet + 1, stream.packet + 4)
            stream.packet += 3
            stream.gap(len(piece), moment=stream.packet + random.randint(1, 5))
        elif late and random.random() < 0.3:
            stream.piece(piece, packet=late.pop(random.randrange(len(late))))
        else:
            stream.piece(piece)
    return stream


class TestEveryStream:
    @pytest.mark.slow
    @given(randoms)
    @example(Random(29906))  # noqa: S311 - where no frame is, a head claims more bytes than a frame can have
    @settings(max_examples=150)
    def test_however_it_is_handed_over_the_frames_are_the_same(self, random: Random) -> None:
        stream = disturbed(random)
        synced, at_start = random.choice(((True, True), (False, True), (False, False)))
        whole = splitter(synced=synced, at_start=at_start)
        want = split(whole, stream)
        account(whole, stream, want)
        check_names(want)
        count = len(stream.atoms)
        for blocks in ([(at, at + 1) for at in range(count)], groups(count, random), groups(count, random, 20)):
            used = splitter(synced=synced, at_start=at_start)
            assert split(used, stream, blocks) == want
            account(used, stream, want)
            assert (used.account(), used.foreign) == (whole.account(), whole.foreign)

    @given(randoms)
    @settings(max_examples=60)
    def test_behind_a_gap_the_latest_packet_with_bytes_of_a_frame_names_it(self, random: Random) -> None:
        stream = Stream().piece(CONNECT).gap(random.randint(1, 40))
        waiting = random.sample(range(stream.packet + 1, 40), random.randint(0, 6))  # packets that came while bytes were missing
        stream.packet = 40
        bounds = []
        for frame in frames_of(random, random.randint(2, 12)):
            bounds.append((stream.length, stream.length + len(frame)))
            for part in cut(frame, random, 400):
                if random.random() < 0.1:  # two that come in the other order
                    stream.packet += 2
                    stream.piece(part[:1], packet=stream.packet).piece(part[1:], packet=stream.packet - 1)
                else:
                    stream.piece(part, packet=waiting.pop() if waiting else None)
        count = len(stream.atoms)
        found = split(splitter(), stream, groups(count, random, random.choice((1, 4, 20))))
        subs: dict[int, int] = {}
        want = []
        for start, end in bounds:
            packet = max(atom[1] for at, atom in stream.atoms if isinstance(atom, tuple) and at < end and at + len(atom[0]) > start)
            subs[packet] = subs.get(packet, 0) + 1
            want.append((packet, subs[packet]))
        assert [(frame.packet, frame.sub) for frame in found if frame.offset] == want

    @given(randoms)
    @settings(max_examples=40)
    def test_the_bytes_that_frames_keep_are_the_same_too(self, random: Random) -> None:
        stream = disturbed(random)
        want = split(splitter(keep=KEEP_ALL), stream)
        for blocks in ([(at, at + 1) for at in range(len(stream.atoms))], groups(len(stream.atoms), random)):
            found = split(splitter(keep=KEEP_ALL), stream, blocks)
            assert [(frame.status, frame.offset, frame.raw) for frame in found] == [
                (frame.status, frame.offset, frame.raw) for frame in want
            ]

    @given(randoms)
    @settings(max_examples=100)
    def test_undisturbed_frames_come_out_as_they_went_in(self, random: Random) -> None:
        parts = [CONNECT, *frames_of(random, random.randint(1, 15))]
        stream = Stream().pieces(cut(b"".join(parts), random))
        used = splitter(synced=random.random() < 0.5, keep=KEEP_ALL)
        frames = split(used, stream, groups(len(stream.atoms), random))
        assert [frame.raw for frame in frames] == parts
        assert {frame.status for frame in frames} == {OK}
        assert [frame.moment for frame in frames] == [frame.packet for frame in frames]
        check_names(frames)

    @given(randoms)
    @settings(max_examples=100)
    def test_bytes_that_follow_change_no_frame_before_them(self, random: Random) -> None:
        stream = disturbed(random)
        want = split(splitter(synced=True), stream)
        out = FrameBatch()
        used = splitter(synced=True)
        for end, (offset, atom) in enumerate(stream.atoms):
            if isinstance(atom, tuple):
                used.feed(0, offset, [atom], out)
            else:
                used.gap(offset, atom.size, atom.moment, out)
            assert frames_in(out) == want[: len(out)], f"after {end}"

    @given(randoms)
    @settings(max_examples=60)
    def test_behind_garbage_the_frames_are_found_again(self, random: Random) -> None:
        tail = frames_of(random, 4)
        data = CONNECT + b"\xff\xff\xff\xff" + random.randbytes(random.randint(0, 50)) + PING + PING + b"".join(tail)
        frames = split(splitter(synced=True, keep=KEEP_ALL), Stream().piece(data))
        assert [frame.raw for frame in frames[-4:]] == tail


def fodder_of_commands(count: int) -> bytes:
    """Heads of commands, each of which contains the next ones in an unknown field."""
    unit = bytearray()
    for index in range(count):
        claim = 2 + 13 * ((count - index) // 2)
        unit += struct.pack(">II", claim + 4, claim) + b"\x08\x05" + b"\xa2\x06\x0a"
    return bytes(unit)


def fodder_of_text(count: int) -> bytes:
    """Heads of commands, each of which contains the next ones as the text of a known field."""
    inner = b""
    for _ in range(count):
        length = len(inner)
        text = b"\x0a" + bytes([length & 127 | 128, length >> 7 & 127 | 128, length >> 14]) + inner
        size = len(text)
        base = b"\x08\x0d\x6a" + bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14]) + text
        inner = struct.pack(">II", len(base) + 4, len(base)) + base
    return inner


def fodder_of_checksums(count: int) -> bytes:
    """Heads of SENDs with a wrong checksum over half of all bytes."""
    base = base_command("SEND", producer_id=1, sequence_id=1)
    unit = struct.pack(">II", 11 * count, len(base)) + base + b"\x0e\x01\x00\x00\x00\x01"
    return unit * count


def fodder_of_waiting(count: int) -> bytes:
    """Heads of commands that are larger than the available bytes."""
    return (struct.pack(">II", 4 << 20, 4 << 20) + b"\x08\x05") * count


def fodder_of_likely(count: int) -> bytes:
    """Whole commands, each followed by something else."""
    return (PING + b"\xff") * count


class TestHostileSearch:
    """The time to search for a frame grows with the bytes, not with their square."""

    @staticmethod
    def seconds(data: bytes, piece: int) -> float:
        pieces = [data[at : at + piece] for at in range(0, len(data), piece)]
        stream = Stream().pieces(pieces)
        used = splitter(at_start=False, keep=KeptBytes())
        began = time.process_time()
        frames = split(used, stream, [(at, at + 1) for at in range(len(pieces))])
        spent = time.process_time() - began
        account(used, stream, frames)
        return spent

    @pytest.mark.slow
    @pytest.mark.parametrize("piece", [1448, 1 << 20])
    @pytest.mark.parametrize("fodder", [fodder_of_commands, fodder_of_text, fodder_of_checksums, fodder_of_waiting, fodder_of_likely])
    def test_heads_of_no_frames_take_no_more_than_some_times_a_clean_stream(self, fodder: Callable[[int], bytes], piece: int) -> None:
        """A fixed amount of work is allowed in addition."""
        for size in (32 << 10, 600_000):  # a first size at which even quadratic work is bearable
            count = size // (len(fodder(200)) // 200)
            data = fodder(min(count, 30_000))
            assert self.seconds(data, piece) < 30 * self.clean(len(data), piece) + 2, f"{len(data)} bytes"

    def test_losing_sync_again_and_again_earns_no_more_work(self) -> None:
        unit = fodder_of_commands(1000) + PING + PING + b"\xff\xff\xff\xff"
        data = unit * 20
        assert self.seconds(data, 1 << 20) < 30 * self.clean(len(data), 1 << 20) + 2

    def clean(self, size: int, piece: int) -> float:
        """Return the seconds that sound frames of this size take."""
        frame = payload_frame("SEND", message_metadata(), b"x" * 20, producer_id=1, sequence_id=1)
        return self.seconds(frame * (size // len(frame)), piece)

    @pytest.mark.slow
    def test_a_large_frame_in_small_pieces_takes_time_that_grows_with_its_size(self) -> None:
        spent = []
        for size in (250_000, 1_000_000):
            frame = payload_frame("SEND", message_metadata(), bytes(size), producer_id=1, sequence_id=1)
            spent.append(min(self.seconds(CONNECT + frame + PING, 20) for _ in range(2)))
        assert spent[1] < 10 * spent[0] + 0.1


def test_a_dissector_that_takes_for_a_frame_what_it_cannot_decode_does_not_stop_the_search() -> None:
    class Contradictory(PulsarDissector):
        def __init__(self) -> None:
            super().__init__()
            self.layouts = {}

        def decode(self, data: bytes, start: int, end: int) -> Decoded:
            del data, start, end
            return None, None, None, None, None, None, "malformed", None

    used = StreamSplitter(Contradictory(), KEEP, synced=False)
    stream = Stream().pieces([PING + PING + PING])
    frames = split(used, stream)
    assert {frame.status for frame in frames} <= {"skipped", "malformed", "truncated"}
    account(used, stream, frames)


@pytest.mark.slow
@given(randoms)
@settings(max_examples=300)
def test_a_cut_packet_gives_the_same_frames_with_the_gap_behind_it_and_before_it(random: Random) -> None:
    """Cut packets anywhere, as a snap length does, among whole ones, late ones, and bytes that are no frames."""
    data = b"".join([garbage(random) if random.random() < 0.1 else frame for frame in frames_of(random, 40)])
    snaplen = random.choice((0, 12, 30, 62, 200, 1000))
    stream, packet = Stream(), 0
    for part in cut(data, random, random.choice((60, 400, 1448))):
        packet += 1
        keep = min(len(part), snaplen if random.random() < 0.8 else len(part))
        if keep:
            stream.piece(part[:keep], packet=packet - (random.random() < 0.1), moment=packet)
        if keep < len(part):
            stream.gap(len(part) - keep, moment=packet)
    at_start = random.random() < 0.5
    results = []
    for together in (False, True):
        used, out = splitter(at_start=at_start, keep=KEEP_ALL), FrameBatch()
        items = stream.items()
        for position, item in enumerate(items):
            behind = items[position + 1] if position + 1 < len(items) else None
            if isinstance(item, Gap):
                if not (together and position and can_join(items[position - 1], item)):
                    used.gap(item.offset, item.size, item.moment, out)
            elif together and isinstance(behind, Gap) and can_join(item, behind):
                used.feed_cut(item, behind, out)
            else:
                used.feed(item.file, item.offset, item.pieces, out)
        used.finish(packet + 1, out)
        results.append((out.rows, out.moments, out.attachments, used.account()))
    assert results[0] == results[1]


def can_join(item: Item, gap: Gap) -> bool:
    return isinstance(item, Data) and len(item.pieces) == 1 and item.pieces[0][3] == gap.moment
