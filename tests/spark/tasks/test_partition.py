"""Any distribution of the work gives the rows of the local decoder."""

from __future__ import annotations

import gzip
import os
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest
import zstandard
from hypothesis import given as given_by_chance
from hypothesis import settings
from hypothesis import strategies as st

from benchmarks.traffic import short_connections, steady
from pulsarscope.capture import Inputs, expand_inputs
from pulsarscope.cli.arguments.options import ReadOptions
from pulsarscope.cli.arguments.pipeline_request import PipelineRequest, table_options
from pulsarscope.engine import resting_connections
from pulsarscope.model.flow import source_of_key
from pulsarscope.spark.rows import shuffle_batches
from tests.scenarios import Conversation, write_pcap, write_pcapng
from tests.scenarios.copied_capture import capture_of_a_copied_capture
from tests.scenarios.options import Options
from tests.scenarios.recapture import bridged, packets_of
from tests.scenarios.rings import moved
from tests.scenarios.rings import ring as rotated
from tests.spark.inside import (
    CAPTURES_WITH_SECRETS,
    EVERYTHING,
    SOURCE_PER_FILE,
    Cluster,
    Scanned,
    Streamed,
    Tables,
    cut,
    local,
    of_kind,
    read_options,
    ring,
)


@pytest.fixture(autouse=True)
def _closed_connections_rest_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resting_connections, "RESTING_LEAST", 1)


@pytest.fixture(scope="module")
def apart(captures: Path) -> tuple[Scanned, Tables]:
    """All captures, each of them alone, and their rows."""
    inputs = expand_inputs([str(captures)], SOURCE_PER_FILE)
    return Scanned(inputs), local(inputs)


@pytest.fixture(scope="module")
def together(captures: Path) -> tuple[Inputs, Tables]:
    """All captures as one ring, and their rows."""
    inputs = expand_inputs([str(captures)])
    return inputs, local(inputs)


@pytest.fixture(scope="module")
def scanned_together(together: tuple[Inputs, Tables]) -> Scanned:
    """All captures as one ring, scanned."""
    return Scanned(together[0])


def has_every_packet(cluster: Cluster) -> bool:
    """Return True if every packet is decoded, or counted in a connection of no known protocol."""
    reports = cluster.reports()
    decoded, unrecognised = sum(report.packets for report in reports), sum(report.unrecognised for report in reports)
    return unrecognised > 0 and decoded + unrecognised == sum(one.segments for one in cluster.seen)


@pytest.mark.parametrize("partitions", [1, 7, 64])
@pytest.mark.slow
def test_all_captures_each_on_its_own(apart: tuple[Scanned, Tables], partitions: int) -> None:
    scanned, want = apart
    cluster = Cluster(scanned, partitions=partitions)
    assert cluster.tables() == want
    assert has_every_packet(cluster)
    assert sum(report.connections for report in cluster.reports()) == len(want["connection"])


@pytest.mark.parametrize("by_packet", [False, True])
@pytest.mark.slow
def test_all_captures_as_one_ring(together: tuple[Inputs, Tables], scanned_together: Scanned, *, by_packet: bool) -> None:
    cluster = Cluster(scanned_together, partitions=7, by_packet=by_packet)
    assert cluster.tables() == together[1]
    assert by_packet or has_every_packet(cluster)


@pytest.mark.slow
@pytest.mark.parametrize("by_packet", [False, True])
@pytest.mark.parametrize("partitions", [1, 7])
def test_interfaces_of_a_ring_each_on_its_own(captures: Path, tmp_path: Path, partitions: int, *, by_packet: bool) -> None:
    """Covers unrecognised flows at both, a capture without interfaces, and one whose packets have them."""
    for name in ("errors.pcap", "raw-not-pulsar.pcap"):
        both = bridged(packets_of(captures / name), lost=20)
        for index, part in enumerate((both[:70], both[70:])):
            write_pcapng(tmp_path / f"{name}-{index}", part)
    for name in ("ipv6.pcap", "any-sll2.pcap"):
        (tmp_path / name).write_bytes((captures / name).read_bytes())
    inputs = expand_inputs([str(tmp_path)], "interface")
    cluster = Cluster(inputs, partitions=partitions, by_packet=by_packet)
    want = local(inputs)
    assert cluster.tables() == want
    assert by_packet or Streamed(inputs, range(2, len(inputs.paths), 2)).tables() == want
    assert cluster.tables() != local(expand_inputs([str(tmp_path)]))
    assert by_packet or {source_of_key(row["flow"]) for row in cluster.unrecognised} >= {"veth0", "br0"}
    rows = [row for batch in shuffle_batches.unpack(of_kind("connection", cluster.batches)) for row in batch.to_pylist()]
    assert {row["source"] for row in rows} == {"veth0", "br0", "ifindex 2", None}


def gz(path: Path) -> Path:
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    return packed


def zst(path: Path) -> Path:
    packed = path.with_name(path.name + ".zst")
    packed.write_bytes(zstandard.compress(path.read_bytes()))
    path.unlink()
    return packed


@pytest.fixture
def bulk(tmp_path: Path) -> Path:
    path = tmp_path / "bulk.cap"
    short_connections(path, 60, 1)
    steady(tmp_path / "tiny.cap", "tiny", 0.5, 1)
    path.write_bytes(path.read_bytes() + (tmp_path / "tiny.cap").read_bytes()[24:])
    return path


@pytest.mark.parametrize("packed", [lambda path: path, gz, zst], ids=["plain", "gz", "zst"])
@pytest.mark.slow
def test_a_ring_of_twelve_files_listed_in_any_order(bulk: Path, tmp_path: Path, packed: Callable[[Path], Path]) -> None:
    folder = tmp_path / "ring"
    folder.mkdir()
    files = [packed(path) for path in ring(bulk, folder, 12)]
    want = local(expand_inputs([str(path) for path in files]))
    assert len(want["connection"]) > 40
    shuffled = expand_inputs([str(path) for path in sorted(files, key=lambda path: hash(path.name))])
    assert Cluster(shuffled, partitions=7).tables() == want


SMALLEST = 64 << 10


@pytest.fixture(scope="module")
def plain(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All captures, uncompressed, and one that contains a copy of another: only plain files are split."""
    folder = tmp_path_factory.mktemp("plain")
    for path in captures.iterdir():
        if path.suffix == ".zst":
            (folder / path.stem).write_bytes(zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read())
        elif path.suffix == ".gz":
            (folder / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        elif path.is_file():
            (folder / path.name).write_bytes(path.read_bytes())
    (folder / "copied.pcap").write_bytes(capture_of_a_copied_capture(1 << 20))
    return folder


@pytest.fixture(scope="module")
def plain_apart(plain: Path) -> tuple[Inputs, Tables]:
    """Plain captures, each of them alone, and their rows."""
    inputs = expand_inputs([str(plain)], SOURCE_PER_FILE)
    return inputs, local(inputs)


@pytest.fixture(scope="module")
def plain_together(plain: Path) -> tuple[Scanned, Tables]:
    """Plain captures as one ring, in portions, and their rows."""
    inputs = expand_inputs([str(plain)])
    return Scanned(inputs, split=5_000), local(inputs)


@pytest.mark.cluster
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("split", "divided", "partitions"), [(SMALLEST, 14, (1, 64)), (5_000, 50, (3, 64))])
def test_all_captures_in_portions(plain_apart: tuple[Inputs, Tables], split: int, divided: int, partitions: tuple[int, ...]) -> None:
    inputs, want = plain_apart
    scanned = Scanned(inputs, split=split)
    for count in partitions:
        cluster = Cluster(scanned, partitions=count)
        portions = Counter(portion.file for portion in cluster.portions)
        assert sum(number > 1 for number in portions.values()) >= divided
        assert {Path(inputs.paths[file]).name for file in cluster.whole} == {"rw-ipfrag.pcap"}
        assert cluster.tables() == want


@pytest.mark.cluster
@pytest.mark.parametrize("by_packet", [False, True])
def test_all_captures_in_portions_as_one_ring(plain_together: tuple[Scanned, Tables], *, by_packet: bool) -> None:
    scanned, want = plain_together
    assert Cluster(scanned, by_packet=by_packet).tables() == want


IN_PORTIONS = {
    "rw-bigendian.pcap": 3,
    "rw-seqwrap.pcap": 3,
    "rw-ipfrag.pcap": 1,
    "go-tls13-dsb.pcapng": 4,
    "snaplen200.pcap": 4,
    "raw-not-pulsar.pcap": 4,
    "copied.pcap": 4,
}


@pytest.mark.slow
def test_files_in_portions_are_the_files(captures: Path, tmp_path: Path) -> None:
    """A flow in several portions is not called unrecognised in one of them; findings about files are reported once."""
    for name, portions in IN_PORTIONS.items():
        path = tmp_path / name
        path.write_bytes(capture_of_a_copied_capture(300_000) if name == "copied.pcap" else (captures / name).read_bytes())
        inputs = expand_inputs([str(path)])
        cluster = Cluster(inputs, partitions=3, split=min(-(-path.stat().st_size // 4), SMALLEST))
        assert len(cluster.portions) >= portions
        assert cluster.tables() == local(inputs)


def test_only_what_is_asked_for_is_given(captures: Path) -> None:
    inputs = expand_inputs([str(captures / "quickstart.pcapng")])
    options = Options(frozenset({"message"}), payload="text")
    cluster = Cluster(inputs, options)
    assert cluster.tables() == local(inputs, options)
    assert set(cluster.tables()) == {"message"}


def test_what_is_named_and_no_capture_is_said_once(captures: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no capture")
    inputs = expand_inputs([str(captures / "quickstart.pcapng"), str(tmp_path / "notes.txt"), str(tmp_path / "nowhere")])
    cluster = Cluster(inputs)
    assert cluster.tables() == local(inputs)
    assert sum(report.damaged for report in cluster.reports()) == 1


def test_what_may_be_known_in_another_file_is_decoded(captures: Path, tmp_path: Path) -> None:
    """The start of a connection in one file reveals its protocol, its last packets in the other do not."""
    first, *_, last = ring(captures / "seek-reader.pcap", tmp_path, 100)
    alone = Cluster(expand_inputs([str(last)]))
    assert alone.unrecognised
    both = expand_inputs([str(first), str(last)])
    assert not Cluster(both).unrecognised
    assert Cluster(both).tables() == local(both)


def test_what_a_file_says_of_lost_packets_is_known_to_all_that_end_after_it(captures: Path) -> None:
    # The file with the start comes first; the request without a response is in the next.
    inputs = expand_inputs([str(captures / "stuck-consumer.pcap"), str(captures / "quickstart.pcapng")])
    assert Cluster(inputs, EVERYTHING).tables() == local(inputs)


@pytest.mark.slow
@pytest.mark.parametrize("lines", [b"", b"CLIENT_RANDOM no secret\n"], ids=["whole", "with a line that is none"])
def test_secrets_keys_and_schemas_reach_the_partitions(captures: Path, tmp_path: Path, lines: bytes) -> None:
    """Covers secrets of the options, and those in a capture."""
    key_log = tmp_path / "more.keylog"
    key_log.write_bytes(lines)
    reading = read_options(captures)
    reading = msgspec.structs.replace(reading, tls_keylog=[*(reading.tls_keylog or ()), str(key_log)])
    options = table_options(PipelineRequest(reading=reading))
    inputs = expand_inputs([str(captures / name) for name in CAPTURES_WITH_SECRETS], SOURCE_PER_FILE)
    cluster = Cluster(inputs, options)
    assert cluster.tables() == local(inputs, options)
    without = Cluster(inputs).tables()
    assert {kind for kind, rows in cluster.tables().items() if rows != without[kind]} == set(cluster.tables())


@pytest.mark.parametrize("partitions", [1, 7])
def test_thresholds_reach_the_partitions(captures: Path, partitions: int) -> None:
    """Covers a rule about connections, and one across them."""
    options = msgspec.structs.replace(EVERYTHING, thresholds={"slow-exchange-seconds": 0, "reconnect-loop-failures": 1})
    inputs = expand_inputs([str(captures / name) for name in ("errors.pcap", "raw-strange.pcap")], SOURCE_PER_FILE)
    tables = Cluster(inputs, options, partitions=partitions).tables()
    assert tables == local(inputs, options)
    for code in ("slow-exchange", "reconnect-loop"):
        assert any(f"'{code}'" in row for row in tables["finding"])


def test_what_is_wrong_with_the_secrets_that_a_capture_brings_is_said_once(captures: Path, tmp_path: Path) -> None:
    path = tmp_path / "dsb.pcapng"
    whole = (captures / "go-tls13-dsb.pcapng").read_bytes()
    path.write_bytes(re.sub(rb"(CLIENT_HANDSHAKE_TRAFFIC_SECRET )..", rb"\1no", whole))
    inputs = expand_inputs([str(captures / "quickstart.pcapng"), str(path)])
    cluster = Cluster(inputs)
    assert cluster.tables() == local(inputs)
    assert sum("tls-key-log-malformed" in row for row in cluster.tables()["finding"]) == 1


@pytest.mark.slow
def test_a_stream_of_all_captures(together: tuple[Inputs, Tables]) -> None:
    inputs, want = together
    assert Streamed(inputs, range(7, len(inputs.paths), 7)).tables() == want


@pytest.mark.slow
@pytest.mark.parametrize("name", ["go-schemas.pcap", "rw-shuffle.pcap", "mixed-pulsar-kafka.pcap"])
@given_by_chance(shares=st.lists(st.floats(0, 1), min_size=1, max_size=6))
@settings(max_examples=4)
def test_a_stream_whose_batches_end_anywhere(
    captures: Path, tmp_path_factory: pytest.TempPathFactory, name: str, shares: list[float]
) -> None:
    inputs = cut(captures / name, tmp_path_factory.mktemp("cut"), shares)
    assert Streamed(inputs, range(1, len(inputs.paths))).tables() == local(inputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["go-tls12.pcap", "go-tls13.pcap"])
def test_a_stream_whose_batches_end_within_tls(captures: Path, tmp_path: Path, name: str) -> None:
    key_log = str((captures / name).with_suffix(".keylog"))
    options = table_options(PipelineRequest(reading=ReadOptions(tls_keylog=[key_log])))
    inputs = cut(captures / name, tmp_path, [share / 16 for share in range(1, 16)])
    assert Streamed(inputs, range(1, len(inputs.paths)), options).tables() == local(inputs, options)


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 3, 6, 20])
def test_legs_of_a_path_are_one_finding_of_a_stream(captures: Path, tmp_path: Path, count: int) -> None:
    chance = Random(count)
    inputs = cut(captures / "balancer.pcap", tmp_path, [chance.random() for _ in range(count)])
    tables = Streamed(inputs, range(1, len(inputs.paths))).tables()
    assert tables == local(inputs)
    assert sum("proxy-legs" in row for row in tables["finding"]) == 4


@pytest.mark.slow
def test_holes_at_the_end_of_a_file_that_the_next_one_gives_up(captures: Path, tmp_path: Path) -> None:
    capture = captures / "rw-capture-loss.pcap.zst"
    inputs = cut(capture, tmp_path, [0.7849113560871108])
    want = local(inputs)
    assert Streamed(inputs, [1]).tables() == want
    unrequested = [[row for row in rows["exchange"] if "'unrequested'" in row] for rows in (want, local(Inputs([str(capture)], 0, [])))]
    assert len(unrequested[0]) == len(unrequested[1])


@pytest.mark.timeout(600)
@pytest.mark.cluster
def test_a_stream_of_each_capture_whose_batches_end_anywhere(captures: Path, tmp_path: Path) -> None:
    chance = Random(os.environ.get("CHANCE"))
    with_keys = table_options(PipelineRequest(reading=read_options(captures)))
    for path in sorted(captures.glob("*.pcap*")):
        if path.name == "rw-bigendian.pcap":
            continue  # the encoder does not read these
        shares = [chance.random() for _ in range(chance.choice([1, 3, 6, 20]))]
        folder = tmp_path / path.name
        folder.mkdir()
        inputs = cut(path, folder, shares)
        options = with_keys if path.name in CAPTURES_WITH_SECRETS else EVERYTHING
        assert Streamed(inputs, range(1, len(inputs.paths)), options).tables() == local(inputs, options), (path, shares)


@pytest.mark.slow
def test_what_captures_of_a_stream_bring_and_lack_is_known_to_later_ones(captures: Path, tmp_path: Path) -> None:
    """Covers secrets, dropped packets, and the findings about them, reported once."""
    path = tmp_path / "dsb.pcapng"
    path.write_bytes(re.sub(rb"(SERVER_HANDSHAKE_TRAFFIC_SECRET )..", rb"\1no", (captures / "go-tls13-dsb.pcapng").read_bytes()))
    names = ("go-tls13-dsb.pcapng", "stuck-consumer.pcap", "quickstart.pcapng", "go-tls13.pcap")
    inputs = Inputs([str(path), *(str(captures / name) for name in names)], 0, [])
    streamed = Streamed(inputs, [1, 2, 4])
    assert streamed.tables() == local(inputs)
    assert sum("tls-key-log-malformed" in row for row in streamed.tables()["finding"]) == 1


START = 1_700_000_000_000_000_000
HOUR = 3_600_000_000_000


@pytest.mark.slow
def test_idle_connections_of_a_stream_end_and_keys_are_evaluated(tmp_path: Path) -> None:
    """The same traffic repeatedly, from other clients and from the same ones, each time after a pause longer than any timeout."""
    files = []
    for number in range(4):
        start = START + number * 30 * HOUR
        segments = [*moved("errors.pcap", number, start), *moved("kafka07.pcap", 100, start + HOUR // 60)]
        files += rotated(tmp_path, f"{number}", segments[:-20], (0.5,))
    inputs = Inputs([str(path) for path in files], 0, [])
    streamed = Streamed(inputs, range(1, len(files)), count_waiting=True)
    assert streamed.tables() == local(inputs)
    assert max(streamed.open) == max(streamed.open[:2]) > 0
    assert max(streamed.waiting) == max(streamed.waiting[:2]) > 0
    assert streamed.open[-1] == streamed.waiting[-1] == 0


@pytest.mark.slow
def test_closed_connections_of_a_stream_wait_for_late_packets_for_some_minutes_only(tmp_path: Path) -> None:
    segments = [
        Conversation(("10.0.0.1", 40_000 + number), start_ns=START + number * 60_000_000_000).handshake().close().packets
        for number in range(30)
    ]
    inputs = Inputs([str(write_pcap(tmp_path / f"{number:02}.pcap", packets)) for number, packets in enumerate(segments)], 0, [])
    streamed = Streamed(inputs, range(1, 30), partitions=1)
    assert streamed.tables() == local(inputs)
    assert streamed.open == [*range(1, 13), *[12] * 18, 0]


@pytest.mark.slow
def test_hosts_whose_captures_take_turns_in_a_stream_stay_apart(tmp_path: Path) -> None:
    rings = [rotated(tmp_path, name, moved("quickstart.pcapng", 1, START), (0.3, 0.6)) for name in ("a", "b")]
    paths = [str(path) for turn in zip(*rings, strict=True) for path in turn]
    inputs = Inputs(paths, 0, [], ["a", "b"] * 3)
    assert Streamed(inputs, [1, 3, 4]).tables() == Cluster(inputs).tables()


@pytest.mark.slow
def test_stray_packets_are_waited_for_as_long_however_many_hosts_take_turns(tmp_path: Path) -> None:
    """They come in the second of three rounds: many files later, but in the next file of their host."""
    packets = Conversation(("10.0.0.1", 40_000), start_ns=START).handshake().close().packets
    hosts = [f"{number:02}" for number in range(20)]
    sources: list[str | None] = []
    paths = []
    for turn, some in enumerate((packets, packets[-1:], packets[-1:])):
        for host in hosts:
            (tmp_path / host).mkdir(exist_ok=True)
            paths.append(str(write_pcap(tmp_path / host / f"{turn}.pcap", some)))
            sources.append(host)
    inputs = Inputs(paths, 0, [], sources)
    want = Cluster(inputs).tables()
    assert len(want["connection"]) == len(hosts)
    assert Streamed(inputs, [20, 40]).tables() == want


def test_a_clock_that_was_wrong_once_ends_no_connection_of_a_stream(captures: Path, tmp_path: Path) -> None:
    """The clock is wrong in the middle of a capture, and at the end of one while no other connection is open."""
    inputs = cut(captures / "quickstart.pcapng", tmp_path, (0.3, 0.6))
    packets = packets_of(Path(inputs.paths[0]))
    wrong = Conversation(("10.9.9.9", 40_000), start_ns=START + 600_000 * HOUR).handshake().packets
    before = write_pcap(tmp_path / "before.pcap", wrong)
    write_pcap(Path(inputs.paths[0]), [*packets[:5], *wrong[:1], *packets[5:]])
    inputs = Inputs([str(before), *inputs.paths], 0, [])
    assert Streamed(inputs, [1, 2, 3]).tables() == local(inputs)
