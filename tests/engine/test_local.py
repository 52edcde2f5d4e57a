"""All parts together: the same rows, however the capture was made, cut, read or split."""

from __future__ import annotations

import functools
import io
import itertools
import shutil
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from pulsarscope.capture import BlockReader, expand_inputs
from pulsarscope.engine import local as pipeline
from pulsarscope.engine.local import ALL_RECORDS, DAMAGE_CODES, run
from pulsarscope.engine.rule_engine import RuleEngine
from pulsarscope.inputs.key_logs import read_key_logs
from pulsarscope.model.errors import CaptureError, UsageError
from pulsarscope.model.findings import CAPTURE_CODES
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.model.records import ConnectionRow, FindingRow, FrameRow, MessageRow, RawFrame, Row
from pulsarscope.model.row_lists import EntryMessages, count_rows
from pulsarscope.output.export.arrow import table
from tests.places import CAPTURES
from tests.scenarios import Conversation, Packet, Single, batch, command_frame, message_metadata, payload_frame, write_pcap, write_pcapng
from tests.scenarios.both_readers import installed_reader
from tests.scenarios.commands import CONNECT, CONNECTED, PING, PONG, message, receipt, send
from tests.scenarios.options import Options
from tests.scenarios.recapture import Segment, bridged, doubled, packets_of, resegmented, retimed, segments_of, shuffled
from tests.scenarios.wrapping import FRAME_WRAPPERS, Wrapper, fragments, framed

NAMES = sorted(path.name for path in CAPTURES.glob("*.pcap*"))
RECAPTURED = ["quickstart.pcapng", "errors.pcap", "compress-zlib.pcap", "proxy-v2.pcap"]
LOSSLESS = [name for name in NAMES if name not in {"rw-capture-loss.pcap.zst", "rw-cuthead.pcap.zst", "snaplen200.pcap"}]

Streams = dict[tuple[Any, ...], list[tuple[Any, ...]]]


def rows_of(*paths: Path, records: frozenset[str] = ALL_RECORDS, **options: Any) -> list[Any]:
    """The rows of all batches."""
    return [row for batch in run([str(path) for path in paths], Options(records, **options)) for row in batch.rows]


def streams_of(rows: list[Any]) -> Streams:
    """The content of frames for each direction of each connection, in stream order, without names and times."""
    ends = {row.connection: (row.client, row.server) for row in rows if isinstance(row, ConnectionRow)}
    starts: dict[tuple[Any, Any], Counter[Any]] = defaultdict(Counter)
    number = {}
    for row in rows:
        if isinstance(row, ConnectionRow):
            pair = ends[row.connection]
            number[row.connection] = starts[pair][None]
            starts[pair][None] += 1
    out: Streams = defaultdict(list)
    for row in rows:
        if isinstance(row, FrameRow):
            key = (*ends[row.connection], number[row.connection], row.direction)
            out[key].append(
                (
                    row.offset,
                    row.size,
                    row.command,
                    row.status,
                    row.fields,
                    row.metadata,
                    row.broker_entry_metadata,
                    row.checksum,
                    row.payload_size,
                )
            )
    for frames in out.values():
        frames.sort(key=lambda frame: int(frame[0]))
    return dict(out)


def encoded(rows: list[Row]) -> list[bytes]:
    """The rows as sorted lines, the criterion for equality of ways of running."""
    return sorted(msgspec.json.encode(row) for row in rows)


def write(path: Path, segments: list[Segment]) -> Path:
    return write_pcap(path, [segment.packet() for segment in segments])


def check_conservation(rows: list[Any]) -> None:
    """Require that every byte of every stream is in a frame, skipped, missing, or in the tail."""
    framed: Counter[tuple[Any, Any]] = Counter()
    for row in rows:
        if isinstance(row, FrameRow) and row.status in ("ok", "malformed"):
            framed[row.connection, row.direction] += row.size or 0
    for row in rows:
        if isinstance(row, ConnectionRow):
            for side in ("client", "server"):
                total, missing, skipped, tail = (getattr(row, f"{side}_{what}") for what in ("bytes", "missing", "skipped", "tail"))
                assert framed[row.connection, side] + missing + skipped + tail == total, (row.connection, side)


@pytest.fixture(scope="module", params=RECAPTURED)
def original(request: pytest.FixtureRequest) -> tuple[list[Segment], Streams]:
    path = CAPTURES / request.param
    return segments_of(packets_of(path)), streams_of(rows_of(path))


class TestTheSameTrafficCapturedAnew:
    def check(self, path: Path, want: Streams) -> list[Any]:
        rows = rows_of(path)
        assert streams_of(rows) == want
        check_conservation(rows)
        return rows

    def test_as_it_is(self, original: tuple[list[Segment], Streams], tmp_path: Path) -> None:
        segments, want = original
        self.check(write(tmp_path / "a.pcap", segments), want)

    @pytest.mark.parametrize("seed", range(3))
    def test_in_other_segments(self, original: tuple[list[Segment], Streams], tmp_path: Path, seed: int) -> None:
        segments, want = original
        self.check(write(tmp_path / "a.pcap", resegmented(segments, Random(seed))), want)  # noqa: S311 - for a test

    @pytest.mark.parametrize("seed", range(3))
    def test_in_another_order(self, original: tuple[list[Segment], Streams], tmp_path: Path, seed: int) -> None:
        segments, want = original
        rows = self.check(write(tmp_path / "a.pcap", shuffled(segments, Random(seed))), want)  # noqa: S311 - for a test
        assert all(row.latency_ns is None or row.latency_ns >= 0 for row in rows if isinstance(row, FrameRow))

    @pytest.mark.parametrize("seed", range(3))
    def test_with_copies(self, original: tuple[list[Segment], Streams], tmp_path: Path, seed: int) -> None:
        segments, want = original
        rows = self.check(write(tmp_path / "a.pcap", doubled(segments, Random(seed))), want)  # noqa: S311 - for a test
        assert {row.retransmitted for row in rows if isinstance(row, ConnectionRow)} == {0}  # their timestamps show that they are copies

    @pytest.mark.parametrize("seed", range(3))
    def test_in_other_segments_in_another_order_with_copies(
        self, original: tuple[list[Segment], Streams], tmp_path: Path, seed: int
    ) -> None:
        segments, want = original
        random = Random(seed)  # noqa: S311 - for a test
        self.check(write(tmp_path / "a.pcap", doubled(shuffled(resegmented(segments, random), random, 12), random)), want)

    @pytest.mark.parametrize("wrap", [wrap for name, wrap in FRAME_WRAPPERS.items() if name in ("vxlan", "geneve-options", "erspan-ii")])
    def test_in_a_tunnel_every_row_is_the_same(self, original: tuple[list[Segment], Streams], tmp_path: Path, wrap: Wrapper) -> None:
        packets = [segment.packet() for segment in original[0]]
        plain = rows_of(write_pcap(tmp_path / "a.pcap", packets))
        wrapped = rows_of(write_pcap(tmp_path / "b.pcap", [packet._replace(data=framed(wrap(packet.data))) for packet in packets]))
        assert encoded(wrapped) == encoded(plain)

    def test_inside_and_outside_of_a_tunnel(self, original: tuple[list[Segment], Streams], tmp_path: Path) -> None:
        """The outer copy is cut into smaller segments, as by network cards."""
        segments, want = original
        random = Random(1)  # noqa: S311 - for a test
        wrap = FRAME_WRAPPERS["vxlan"]
        packets = []
        for segment in segments:
            packet = segment.packet()
            cut = resegmented([segment], random) if len(segment.payload) > 1 else [segment]
            packets += [packet, *(packet._replace(data=framed(wrap(part.packet().data))) for part in cut)]
        rows = self.check(write_pcap(tmp_path / "a.pcap", packets), want)
        assert {row.retransmitted for row in rows if isinstance(row, ConnectionRow)} == {0}
        assert "packet-duplicate" in {row.code for row in rows if isinstance(row, FindingRow)}

    @pytest.mark.parametrize("seed", range(3))
    def test_in_fragments_in_any_order_in_tunnels(self, original: tuple[list[Segment], Streams], tmp_path: Path, seed: int) -> None:
        segments, want = original
        random = Random(seed)  # noqa: S311 - for a test
        numbers = itertools.count()
        packets: list[Packet] = []
        for segment in segments:
            packet = segment.packet()
            datas = [packet.data]
            for _ in range(random.randrange(3)):
                wrap, size = random.choice(list(FRAME_WRAPPERS.values())), random.choice((256, 512, 1024))
                datas = [framed(part) for data in datas for part in fragments(wrap(data), size, identification=next(numbers))]
                random.shuffle(datas)
            packets += [packet._replace(data=data) for data in datas]
        self.check(write_pcap(tmp_path / "a.pcap", packets), want)

    @pytest.mark.parametrize("seed", range(4))
    def test_with_packets_lost_what_is_left_is_right(self, original: tuple[list[Segment], Streams], tmp_path: Path, seed: int) -> None:
        segments, want = original
        random = Random(seed)  # noqa: S311 - for a test
        kept = [segment for segment in segments if not segment.payload or random.random() > 0.08]
        rows = rows_of(write(tmp_path / "a.pcap", kept))
        check_conservation(rows)
        found = streams_of(rows)
        known = {key: {frame[0]: frame for frame in frames} for key, frames in want.items()}
        whole = [(key, frame) for key, frames in found.items() for frame in frames if frame[3] == "ok"]
        assert whole
        assert [
            frame for key, frame in whole if key in known and known[key].get(frame[0]) != frame and _starts_alike(found, want, key)
        ] == []


def test_fragments_in_two_files_are_not_joined(tmp_path: Path) -> None:
    """Every file can be read alone, so that all ways of running give the same rows."""
    packets = Conversation().handshake().client(CONNECT).server(CONNECTED).client(PING).packets
    parts = [packets[3]._replace(data=framed(part)) for part in fragments(packets[3].data[14:], 32)]
    first = write_pcap(tmp_path / "a.pcap", [*packets[:3], parts[0]])
    second = write_pcap(tmp_path / "b.pcap", [*parts[1:], *packets[4:]])
    rows = rows_of(first, second)
    incomplete = [(row.file, row.packet, row.evidence) for row in rows if isinstance(row, FindingRow) and row.code == "fragment-incomplete"]
    assert incomplete == [
        (0, 4, {"packets": 1, "reasons": {"ipv4": 1}}),
        (1, 1, {"packets": len(parts) - 1, "reasons": {"ipv4": len(parts) - 1}}),
    ]
    assert [row.command for row in rows if isinstance(row, FrameRow) and row.direction == "client" and row.status == "ok"] == ["PING"]


def _starts_alike(found: Streams, want: Streams, key: tuple[Any, ...]) -> bool:
    """True if offsets count from the same byte, which is not so if the first packets of a stream without SYN are lost."""
    return bool(found[key]) and found[key][0][0] == want[key][0][0]


class TestReading:
    @pytest.mark.parametrize("name", NAMES)
    def test_any_read_block_gives_the_same_rows_of_all_kinds(self, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
        want = rows_of(CAPTURES / name)
        small = (CAPTURES / name).stat().st_size < 100_000
        for size in (333, 4096, 50_000) if small else (50_000,):
            monkeypatch.setattr(pipeline, "BlockReader", functools.partial(BlockReader, read_bytes=size))
            rows = rows_of(CAPTURES / name)
            assert encoded(rows) == encoded(want), size
            for kind in ("frame", "message", "exchange"):
                in_order = [msgspec.json.encode(row) for row in rows if row.kind == kind]
                assert in_order == [msgspec.json.encode(row) for row in want if row.kind == kind], (size, kind)

    @pytest.mark.parametrize("seed", range(12))
    def test_that_holds_for_disturbed_captures_too(self, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        random = Random(seed)  # noqa: S311 - for a test
        segments = segments_of(packets_of(CAPTURES / RECAPTURED[seed % len(RECAPTURED)]))
        segments = doubled(shuffled(resegmented(segments, random), random, 10), random, 0.1)
        kept = [segment for segment in segments if not segment.payload or random.random() > 0.02]
        damaged = [
            segment._replace(payload=bytes(len(segment.payload))) if segment.payload and random.random() < 0.01 else segment
            for segment in kept
        ]
        path = write(tmp_path / "a.pcap", damaged)
        want = encoded(rows_of(path))
        for size in (200, 3001, 20_000):
            monkeypatch.setattr(pipeline, "BlockReader", functools.partial(BlockReader, read_bytes=size))
            assert encoded(rows_of(path)) == want, size

    @pytest.mark.parametrize("name", RECAPTURED)
    def test_two_files_of_one_capture_give_the_commands_of_the_one(self, name: str, tmp_path: Path) -> None:
        packets = packets_of(CAPTURES / name)
        whole = rows_of(write_pcap(tmp_path / "whole.pcap", packets))
        for share in (0.2, 0.5, 0.8):
            at = int(len(packets) * share)
            one, two = write_pcap(tmp_path / "1.pcap", packets[:at]), write_pcap(tmp_path / "2.pcap", packets[at:])
            rows = rows_of(one, two)
            assert streams_of(rows) == streams_of(whole)
            check_conservation(rows)
            assert {row.file for row in rows if isinstance(row, FrameRow)} == {0, 1}
            for kind in ("message", "exchange"):
                assert sum(row.kind == kind for row in rows) == sum(row.kind == kind for row in whole)
            by_place = {(row.connection, row.direction, row.offset): row for row in whole if isinstance(row, FrameRow)}
            for row in rows:
                if isinstance(row, FrameRow):
                    twin = by_place[row.connection, row.direction, row.offset]
                    assert (row.file or 0) * at + (row.packet or 0) == twin.packet
                    assert (row.sub, row.time, row.latency_ns, row.topic, row.status) == (
                        twin.sub,
                        twin.time,
                        twin.latency_ns,
                        twin.topic,
                        twin.status,
                    )

    def test_files_are_read_in_the_order_of_their_times_however_they_are_named(self, tmp_path: Path) -> None:
        packets = packets_of(CAPTURES / "quickstart.pcapng")
        one, two = write_pcap(tmp_path / "b.pcap", packets[:50]), write_pcap(tmp_path / "a.pcap", packets[50:])
        assert streams_of(rows_of(two, one)) == streams_of(rows_of(CAPTURES / "quickstart.pcapng"))

    def test_a_run_twice_gives_the_same_bytes(self) -> None:
        first, second = ([msgspec.json.encode(row) for row in rows_of(CAPTURES / "quickstart.pcapng")] for _ in range(2))
        assert first == second


class TestLatencies:
    def test_those_of_the_quickstart_are_the_differences_of_its_packet_times(self) -> None:
        """Computed from the raw file with upb alone: receipts by producer and sequence id, responses by request id."""
        from tests.scenarios import pulsar_pb2 as pb  # noqa: PLC0415 - only this one needs it

        path = CAPTURES / "quickstart.pcapng"
        packets = packets_of(path)
        buffers: dict[tuple[str, int], tuple[bytearray, int]] = {}
        asked: dict[Any, tuple[int, int]] = {}
        want: dict[tuple[str, int, int, str | None], int] = {}
        for number, packet in enumerate(packets, 1):
            segment = segments_of([packet])
            if not segment or not segment[0].payload:
                continue
            (one,) = segment
            data, done = buffers.get((one.source, one.source_port), (bytearray(), 0))
            data += one.payload
            while len(data) - done >= 4 and len(data) - done >= 4 + int.from_bytes(data[done : done + 4], "big"):
                size = int.from_bytes(data[done + 4 : done + 8], "big")
                command = pb.BaseCommand.FromString(bytes(data[done + 8 : done + 8 + size]))
                done += 4 + int.from_bytes(data[done : done + 4], "big")
                if command.type == pb.BaseCommand.SEND:
                    asked["SEND", command.send.producer_id, command.send.sequence_id] = number, packet.time_ns
                elif command.type == pb.BaseCommand.SEND_RECEIPT:
                    place, when = asked["SEND", command.send_receipt.producer_id, command.send_receipt.sequence_id]
                    want["SEND", place, number, f"{command.send_receipt.producer_id}:{command.send_receipt.sequence_id}"] = (
                        packet.time_ns - when
                    )
                elif command.type == pb.BaseCommand.LOOKUP:
                    asked["LOOKUP", command.lookupTopic.request_id] = number, packet.time_ns
                elif command.type == pb.BaseCommand.LOOKUP_RESPONSE:
                    place, when = asked["LOOKUP", command.lookupTopicResponse.request_id]
                    want["LOOKUP", place, number, str(command.lookupTopicResponse.request_id)] = packet.time_ns - when
                elif command.type == pb.BaseCommand.CONNECT:
                    asked["CONNECT"] = number, packet.time_ns
                elif command.type == pb.BaseCommand.CONNECTED:
                    place, when = asked["CONNECT"]
                    want["CONNECT", place, number, None] = packet.time_ns - when
            buffers[one.source, one.source_port] = data, done
        rows = rows_of(path, records=frozenset({"exchange"}))
        have = {
            (row.request, row.packet, row.response_packet, row.key): row.latency_ns
            for row in rows
            if row.request in ("SEND", "LOOKUP", "CONNECT")
        }
        assert len(want) > 20
        assert have == want


class TestOptions:
    QUICKSTART = CAPTURES / "quickstart.pcapng"

    @pytest.mark.parametrize("kind", sorted(ALL_RECORDS))
    def test_a_kind_alone_gives_the_rows_that_it_gives_among_all(self, kind: str) -> None:
        for name in ("quickstart.pcapng", "raw-strange.pcap", "java-errors.pcap", "snaplen200.pcap"):
            alone = rows_of(CAPTURES / name, records=frozenset({kind}))
            assert {row.kind for row in alone} <= {kind}
            among_all = [row for row in rows_of(CAPTURES / name) if row.kind == kind]
            assert encoded(alone) == encoded(among_all), name

    @pytest.mark.parametrize("name", NAMES)
    def test_without_message_rows_the_others_stand_in_the_same_order(self, name: str) -> None:
        want = [row for row in rows_of(CAPTURES / name) if not isinstance(row, MessageRow)]
        assert rows_of(CAPTURES / name, records=ALL_RECORDS - {"message"}, payloads=True) == want

    def test_every_frame_is_followed_by_its_bytes_when_they_are_asked_for(self) -> None:
        for records in (frozenset({"frame"}), ALL_RECORDS):
            rows = rows_of(self.QUICKSTART, records=records, raw=True)
            frames = [at for at, row in enumerate(rows) if isinstance(row, FrameRow)]
            assert frames
            for at in frames:
                raw = rows[at + 1]
                assert isinstance(raw, RawFrame)
                assert len(raw.data) == rows[at].size
                assert raw.ranges[0] == (0, 4, f"totalSize  {len(raw.data) - 4:,}", 0)

    def test_payloads_are_given_when_they_are_asked_for(self) -> None:
        rows = rows_of(self.QUICKSTART, records=frozenset({"message"}), payload="hex")
        assert rows
        assert all(len(row.payload or "") == 2 * (row.payload_size or 0) for row in rows if isinstance(row, MessageRow))

    @pytest.mark.parametrize("name", ["quickstart.pcapng", "compress-zlib.pcap", "raw-strange.pcap", "snaplen200.pcap"])
    @pytest.mark.parametrize(
        "columns", [("topic",), ("status", "key", "ledger", "batch_index"), ("payload", "properties", "index", "time")]
    )
    def test_message_rows_of_some_columns_report_what_whole_ones_say(self, name: str, columns: tuple[str, ...]) -> None:
        records = frozenset({"message", "finding"})
        whole = rows_of(CAPTURES / name, records=records, payload="hex")
        some = rows_of(CAPTURES / name, records=records, payload="hex", message_columns=columns)
        assert [row.kind for row in some] == [row.kind for row in whole]
        for one, other in zip(whole, some, strict=True):
            if isinstance(one, MessageRow):
                assert other.__struct_fields__ == columns
                assert [getattr(other, column) for column in columns] == [getattr(one, column) for column in columns]
            else:
                assert other == one

    def test_rows_are_handed_on_before_there_are_too_many(self, tmp_path: Path) -> None:
        data = batch([Single(b"x")] * 10)
        conversation = Conversation().client(CONNECT)
        for number in range(20):
            conversation.server(message(payload=data, entry=number, metadata={"num_messages_in_batch": 10}))
        path = tmp_path / "batches.pcap"
        write_pcap(path, conversation.packets)
        sizes = [len(part.rows) for part in run([str(path)], Options(frozenset({"message"}), rows_max=50)) if part.rows]
        assert sum(sizes) == 200
        assert max(sizes) == 50
        assert rows_of(path, rows_max=50) == rows_of(path)

    @pytest.mark.parametrize("payload", [None, "text"])
    def test_rows_of_one_very_large_entry_are_handed_on_in_pieces(self, payload: str | None, tmp_path: Path) -> None:
        count = ROWS_MAX + 10
        metadata = {"num_messages_in_batch": count}
        data = batch([Single(b"x", {"partition_key": str(number)}) for number in range(count)])
        conversation = Conversation().client(CONNECT)
        conversation.server(message(payload=b"one"), message(payload=data, metadata=metadata), message(payload=b"one"))
        conversation.client(send(payload=data, metadata=metadata))  # without a receipt, reported at the end
        path = tmp_path / "batches.pcap"
        write_pcap(path, conversation.packets)
        records = frozenset({"frame", "message"})
        sizes = [len(part.rows) for part in run([str(path)], Options(records, payload=payload, rows_max=500)) if part.rows]
        assert max(sizes) == 500
        rows = rows_of(path, records=records, payload=payload, rows_max=500)
        assert rows == rows_of(path, records=records, payload=payload)
        assert [row.key for row in rows if row.kind == "message"] == [None, *map(str, range(count)), None, *map(str, range(count))]

    @pytest.mark.parametrize("name", NAMES)
    def test_messages_that_stay_together_report_what_their_rows_say(self, name: str) -> None:
        pytest.importorskip("pyarrow")
        rows = rows_of(CAPTURES / name)
        together = rows_of(CAPTURES / name, rows_max=ROWS_MAX, together=True)
        assert count_rows(together) == len(rows)
        assert [row for row in together if row.kind != "message"] == [row for row in rows if row.kind != "message"]
        tables = [table("message", (row for row in some if row.kind == "message")) for some in (rows, together)]
        assert tables[0].equals(tables[1])

    def test_messages_that_stay_together_are_handed_on_before_there_are_too_many(self, tmp_path: Path) -> None:
        data = batch([Single(b"x")] * 1000)
        conversation = Conversation().client(CONNECT)
        for number in range(20):
            conversation.server(message(payload=data, entry=number, metadata={"num_messages_in_batch": 1000}))
        path = tmp_path / "batches.pcap"
        write_pcap(path, conversation.packets)
        made = run([str(path)], Options(frozenset({"message"}), rows_max=ROWS_MAX, together=True))
        parts: list[list[Any]] = [part.rows for part in made if part.rows]
        assert {type(row) for rows in parts for row in rows} == {EntryMessages}
        assert sum(map(count_rows, parts)) == 20_000
        assert max(map(count_rows, parts)) < ROWS_MAX + 1000

    @pytest.mark.parametrize("looks", ["columns", "rule"])
    def test_messages_whose_rows_someone_looks_into_do_not_stay_together(self, looks: str, monkeypatch: pytest.MonkeyPatch) -> None:
        options: dict[str, Any] = {"columns": {"message_columns": ("topic",)}, "rule": {"rules": True}}
        if looks == "rule":
            monkeypatch.setattr(RuleEngine, "kinds", ALL_RECORDS)
        path = CAPTURES / "acks-batchindex.pcap"
        for payload in (None, "text"):
            assert EntryMessages in map(type, rows_of(path, rows_max=ROWS_MAX, together=True, payload=payload))
        assert EntryMessages not in map(type, rows_of(path, rows_max=ROWS_MAX, together=True, **options[looks]))

    def test_secrets_are_hidden_unless_asked_for(self) -> None:
        def tokens(*, show: bool) -> set[Any]:
            rows = rows_of(CAPTURES / "token-auth-py.pcap", records=frozenset({"frame"}), show_secrets=show)
            return {type(row.fields["auth_data"]) for row in rows if row.command == "CONNECT" and "auth_data" in row.fields}

        assert tokens(show=False) == {str}
        assert tokens(show=True) == {bytes}

    def test_more_secrets_than_are_kept_are_reported(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("pulsarscope.inputs.key_logs.TLS_SECRETS_MAX", 3)
        for name in "ab":
            lines = [f"CLIENT_RANDOM {name * 62}{number:02} {'00' * 48}\n" for number in range(2 if name == "a" else 4)]
            (tmp_path / name).write_text("".join(lines))
        (found,) = read_key_logs([str(tmp_path / "a"), str(tmp_path / "b")]).findings
        assert (found.code, found.evidence) == ("tls-secrets-cap", {"lines": 3, "path": str(tmp_path / "b")})

    def test_an_unknown_kind_is_refused(self) -> None:
        with pytest.raises(UsageError, match=r'unknown record kind "frames"; did you mean frame'):
            run([str(self.QUICKSTART)], Options(frozenset({"frames", "x", "frame"})))

    def test_an_unknown_dissector_is_refused(self) -> None:
        with pytest.raises(UsageError, match="no dissector is named 'kafka': there are pulsar"):
            run([str(self.QUICKSTART)], Options(decode_as={1: "kafka"}))

    @pytest.mark.parametrize("options", [{"ports": frozenset({7777})}, {"decode_as": {7777: "pulsar"}}])
    def test_a_port_can_be_said_to_be_pulsar_s(self, options: dict[str, Any], tmp_path: Path) -> None:
        """No proof is then needed."""
        talk = Conversation(server=("10.0.0.2", 7777)).handshake().client(PING).close()
        path = write_pcap(tmp_path / "a.pcap", talk.packets)
        assert [row.command for row in rows_of(path, records=frozenset({"frame"}), **options)] == ["PING"]

    def test_pulsar_is_found_on_any_port(self, tmp_path: Path) -> None:
        talk = Conversation(server=("10.0.0.2", 7777)).handshake().client(CONNECT).server(CONNECTED).close()
        rows = rows_of(write_pcap(tmp_path / "a.pcap", talk.packets))
        assert [row.command for row in rows if isinstance(row, FrameRow)] == ["CONNECT", "CONNECTED"]


class TestRun:
    def test_batches_emit_how_far_it_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pipeline, "BlockReader", functools.partial(BlockReader, read_bytes=8000))
        running = run([str(CAPTURES / "quickstart.pcapng")], Options())
        batches = list(running)
        assert len(batches) > 3
        read = [batch.bytes_read for batch in batches]
        assert read == sorted(read)
        assert read[-1] == running.inputs.sizes
        assert batches[-1].last_packet == 110
        assert {batch.file for batch in batches} == {0}

    def test_severities_count_what_is_not_asked_for_too(self) -> None:
        running = run([str(CAPTURES / "raw-strange.pcap")], Options(frozenset({"frame"})))
        rows = [row for batch in running for row in batch.rows]
        assert not [row for row in rows if isinstance(row, FindingRow)]
        found = rows_of(CAPTURES / "raw-strange.pcap", records=frozenset({"finding"}))
        assert running.severities == Counter(row.severity for row in found)
        assert running.severities["error"] > 0

    def test_connections_that_go_on_have_their_endpoints_and_dissector(self, tmp_path: Path) -> None:
        talk = Conversation().handshake().client(CONNECT).server(CONNECTED)
        running = run([str(write_pcap(tmp_path / "a.pcap", talk.packets))], Options())
        batches = iter(running)
        next(batches)
        assert running.endpoints == {"0:1": ("10.0.0.1:40000", "10.0.0.2:6650")}
        assert running.dissector_of == {"0:1": "pulsar"}
        assert running.dissectors["pulsar"].name == "pulsar"
        list(batches)

    def test_a_damaged_input_is_said_to_be(self, tmp_path: Path) -> None:
        data = (CAPTURES / "errors.pcap").read_bytes()
        cut_off = tmp_path / "cut.pcap"
        cut_off.write_bytes(data[:-20])
        whole, broken = run([str(CAPTURES / "errors.pcap")], Options()), run([str(cut_off)], Options())
        assert all([list(whole), list(broken)])
        assert (whole.damaged, broken.damaged) == (False, True)

    def test_one_of_several_inputs_may_be_no_capture(self, tmp_path: Path) -> None:
        other = tmp_path / "x.txt"
        other.write_text("no capture")
        running = run([str(other), str(CAPTURES / "errors.pcap")], Options(ALL_RECORDS))
        rows = [row for batch in running for row in batch.rows]
        assert running.damaged
        assert "not-a-capture" in {row.code for row in rows if isinstance(row, FindingRow)}
        assert streams_of(rows) == streams_of(rows_of(CAPTURES / "errors.pcap"))

    def test_no_capture_at_all_is_an_error(self, tmp_path: Path) -> None:
        empty = tmp_path / "empty"
        empty.write_bytes(b"")
        for arguments in ([str(empty)], [str(tmp_path / "missing")], [str(tmp_path)]):
            with pytest.raises(CaptureError):
                list(run(arguments, Options()))

    def test_a_pipe_that_is_no_capture_is_refused_with_what_to_give(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for data, words in ((b"# Notes\n" * 10, "is text, not a capture"), (b"", "is empty")):
            monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
            with pytest.raises(CaptureError, match=rf"^standard input {words}\. Give a pcap or pcapng file"):
                list(run(["-"], Options()))

    def test_the_codes_of_damage_exist(self) -> None:
        assert CAPTURE_CODES.keys() >= DAMAGE_CODES

    def test_frames_that_identified_no_client_until_the_next_file_are_given(self, tmp_path: Path) -> None:
        silent = Conversation(("10.0.0.1", 40001)).client(PING).client(PING)
        other = Conversation(("10.0.0.1", 40002), start_ns=silent.time_ns).client(PING)
        one, two = write_pcap(tmp_path / "1.pcap", silent.packets[:3]), write_pcap(tmp_path / "2.pcap", silent.packets[3:] + other.packets)
        rows = rows_of(one, two, records=frozenset({"frame", "connection"}))
        assert [(row.kind, row.connection, row.packet) for row in rows] == [
            ("frame", "0:1", 1),
            ("frame", "0:1", 3),
            ("connection", "0:1", 1),
            ("frame", "1:2", 2),
            ("connection", "1:2", 2),
        ]

    @pytest.mark.parametrize("between", [0, 1, 5])
    @pytest.mark.parametrize("known", [False, True])
    def test_frames_that_identified_no_client_come_before_those_of_later_files(self, tmp_path: Path, between: int, known: bool) -> None:
        """An idle connection from before the capture, and files in which its packets have the same numbers, or lower ones."""
        talk = Conversation(("10.0.0.1", 40001))
        for _ in range(3):
            talk.client(PING).server(PONG).server(PING).client(PONG).wait(30_000_000_000)
        if known:
            talk.client(send(sequence_id=1))
        other = Conversation(("10.0.0.1", 40002), start_ns=talk.packets[0].time_ns - 1_000_000_000)
        for _ in range(between):
            other.client(PING)
        third = len(talk.packets) // 3
        files = [[*other.packets, *talk.packets[:third]], talk.packets[third : 2 * third], talk.packets[2 * third :]]
        paths = [write_pcap(tmp_path / f"{number}.pcap", packets) for number, packets in enumerate(files)]
        name = f"0:{len(other.packets) + 1}"
        rows = [row for row in rows_of(*paths, records=frozenset({"frame"})) if row.connection == name]
        assert len(rows) == 12 + known
        assert [row.file for row in rows] == sorted(row.file for row in rows)
        for direction in ("client", "server"):
            offsets = [row.offset for row in rows if row.direction == direction]
            assert offsets == sorted(offsets)


class TestSeveralConnections:
    def test_what_one_sends_changes_nothing_for_the_other(self, tmp_path: Path) -> None:
        """Damage in one connection leaves the rows of the other as they are."""

        def captured(noise: bytes) -> list[Any]:
            quiet = Conversation(client=("10.0.0.1", 40001)).handshake().client(CONNECT).server(CONNECTED)
            for number in range(5):
                quiet.client(send(sequence_id=number)).server(receipt(sequence_id=number))
            loud = Conversation(client=("10.0.0.1", 40002)).handshake().client(CONNECT).client(noise, mss=50)
            packets = sorted([*quiet.packets, *loud.packets], key=lambda packet: packet.time_ns)
            rows = rows_of(write_pcap(tmp_path / "a.pcap", packets))
            return [row for row in rows if row.connection == "0:1" and row.kind != "connection"]

        want = captured(PING * 12)
        assert len(want) > 20
        for noise in (b"\xff" * 156, bytes(156), PING[:-1] * 13):
            assert [(type(row), row.time, getattr(row, "command", None)) for row in captured(noise)] == [
                (type(row), row.time, getattr(row, "command", None)) for row in want
            ]

    def test_rows_come_by_the_packets_that_complete_them(self, tmp_path: Path) -> None:
        talks = [
            Conversation(client=("10.0.0.1", 40000 + number)).handshake().client(CONNECT).server(CONNECTED, PING) for number in range(4)
        ]
        packets = sorted([packet for talk in talks for packet in talk.packets], key=lambda packet: packet.time_ns)
        rows = rows_of(write_pcap(tmp_path / "a.pcap", packets), records=frozenset({"frame"}))
        names = [(row.packet, row.sub) for row in rows]
        assert len(names) == 12
        assert names == sorted(names)


def test_a_packet_more_changes_no_row_before_it(tmp_path: Path) -> None:
    """Frames of the beginning of a capture are the first frames of the whole capture."""
    packets = packets_of(CAPTURES / "errors.pcap")
    whole = [row for row in rows_of(CAPTURES / "errors.pcap") if isinstance(row, FrameRow)]
    for end in (10, 33, 61, 90):
        rows = rows_of(write_pcap(tmp_path / "a.pcap", packets[:end]))
        frames = [row for row in rows if isinstance(row, FrameRow) and row.status == "ok"]
        assert [encoded([row]) for row in frames] == [encoded([row]) for row in whole[: len(frames)]]


def test_a_large_message_over_many_blocks_is_one_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = payload_frame("SEND", message_metadata(), bytes(3_000_000), producer_id=1, sequence_id=1)
    talk = Conversation(acknowledge=False).handshake().client(CONNECT).server(CONNECTED).client(frame).client(command_frame("PING")).close()
    path = write_pcap(tmp_path / "a.pcap", [Packet(packet.time_ns, packet.data) for packet in talk.packets])
    want = encoded(rows_of(path))
    for size in (70_000, 1 << 20):
        monkeypatch.setattr(pipeline, "BlockReader", functools.partial(BlockReader, read_bytes=size))
        rows = rows_of(path)
        assert [row.command for row in rows if isinstance(row, FrameRow)] == ["CONNECT", "CONNECTED", "SEND", "PING"]
        assert encoded(rows) == want


def test_captures_without_loss_have_no_gaps() -> None:
    for name in LOSSLESS[:12]:
        connections = [row for row in rows_of(CAPTURES / name, records=frozenset({"connection"})) if isinstance(row, ConnectionRow)]
        assert sum((row.client_missing or 0) + (row.server_missing or 0) for row in connections) == 0, name


def test_times_can_be_put_in_order_again() -> None:
    segments = segments_of(packets_of(CAPTURES / "quickstart.pcapng"))
    assert [segment.time_ns for segment in retimed(segments[::-1])] == sorted(segment.time_ns for segment in segments)


def test_connections_captured_by_two_hosts_are_reported_for_each(tmp_path: Path) -> None:
    for host in "ab":
        (tmp_path / host).mkdir()
        shutil.copy(CAPTURES / "quickstart.pcapng", tmp_path / host)
    alone, both = (
        [row for batch in run([str(path)], Options(source_by="dir")) for row in batch.rows if isinstance(row, FrameRow)]
        for path in (tmp_path / "a" / "quickstart.pcapng", tmp_path / "*" / "*")
    )
    assert len(alone) > 50
    for number, host in enumerate("ab"):
        of_host = [row for row in both if row.source == str(tmp_path / host)]
        assert [(row.file, row.packet, row.sub, row.command) for row in of_host] == [
            (number, row.packet, row.sub, row.command) for row in alone
        ]
        assert [row.connection for row in of_host] == [f"{number}:{(row.connection or '').partition(':')[2]}" for row in alone]


def at_source(rows: list[Any], source: str | None) -> list[Any]:
    return [row for row in rows if row.source == source]


@pytest.mark.parametrize("cut", [None, 61])
def test_the_two_sides_of_a_bridge_are_two_connections_of_which_one_lost_a_packet(tmp_path: Path, cut: int | None) -> None:
    """Holds in one file, and in a ring of two."""
    packets = packets_of(CAPTURES / "quickstart.pcapng")
    both = bridged(packets, lost=10)
    parts = [both] if cut is None else [both[:cut], both[cut:]]
    paths = [write_pcapng(tmp_path / f"{number}.pcapng", part) for number, part in enumerate(parts)]
    as_one = rows_of(*paths, rules=True)
    assert [row.source for row in as_one if isinstance(row, ConnectionRow)] == [None]
    assert "packet-duplicate" in codes(as_one)

    rows = rows_of(*paths, rules=True, source_by="interface")
    assert "packet-duplicate" not in codes(rows)
    ends = [row for row in rows if isinstance(row, ConnectionRow)]
    assert [(row.source, row.connection, row.packets, row.server_missing) for row in ends] == [
        ("veth0", "0:1", len(packets), 0),
        ("br0", "0:2", len(packets) - 1, 73),
    ]
    assert {row.connection for row in at_source(rows, "br0")} == {"0:2"}
    assert codes(at_source(rows, "br0")).count("stream-gap") == 1
    whole = rows_of(write_pcap(tmp_path / "alone.pcap", packets), rules=True)
    assert streams_of(at_source(rows, "veth0")) == streams_of(whole)
    assert codes(at_source(rows, "veth0")) == [code for code in codes(whole) if code != "time-backwards"]
    assert {type(row) for row in at_source(rows, None)} <= {FindingRow}, "what is said of a file is of no interface"
    sources = [row.source for row in rows if isinstance(row, FrameRow)]
    assert sources[:4] == ["veth0", "br0"] * 2, "in the order of the capture, not one interface after the other"


def codes(rows: list[Any]) -> list[str | None]:
    return [row.code for row in rows if isinstance(row, FindingRow)]


def test_a_capture_without_interfaces_is_one_vantage_point(tmp_path: Path) -> None:
    path = write_pcap(tmp_path / "a.pcap", packets_of(CAPTURES / "errors.pcap"))
    assert encoded(rows_of(path, source_by="interface")) == encoded(rows_of(path))


def test_packets_for_who_copies_them_are_of_the_connections_of_their_interfaces(tmp_path: Path) -> None:
    path = write_pcapng(tmp_path / "a.pcapng", bridged(packets_of(CAPTURES / "quickstart.pcapng")))
    inputs = expand_inputs([str(path)], "interface")
    places = [
        (record.interface.name, place.connection) for batch in pipeline.packets(inputs, None) for record, place in batch.packets if place
    ]
    assert set(places) == {("veth0", "0:1"), ("br0", "0:2")}


@pytest.mark.parametrize("reader", ["off", "auto"])
def test_reports_get_blocks_of_one_size_with_either_reader(reader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else findings at the ends of connections would come in another order, and the verdict would quote another one."""
    readers: list[BlockReader] = []

    def opened(*args: Any, **options: Any) -> BlockReader:
        readers.append(BlockReader(*args, **options))
        return readers[-1]

    monkeypatch.setattr(pipeline, "BlockReader", opened)
    with installed_reader(reader):
        list(run([str(CAPTURES / "errors.pcap")], Options(frozenset({"finding"}), rules=True, any_order=True)))
    assert [each.needs_small_blocks for each in readers] == [True]
