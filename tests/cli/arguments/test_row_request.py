"""Rows that stay in the columns of the compiled reader while rules read them, compared with those of the Python reader."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from functools import cache
from itertools import cycle, product
from pathlib import Path
from random import Random

import pytest

from pulsarscope.cli.arguments.options import CommandRequest, ReadOptions
from pulsarscope.cli.arguments.row_request import kinds_of, run_options
from tests.places import CAPTURES
from tests.scenarios import Single, batch, message_metadata, payload_frame
from tests.scenarios.both_readers import blocks_of, reader
from tests.scenarios.capturefile import Packet, write_pcap
from tests.scenarios.command_line import execute_here
from tests.scenarios.commands import TOPIC, ack, created, flow, message, producer, receipt, send, send_error, subscribe, success
from tests.scenarios.connections import connected
from tests.scenarios.conversation import SECOND

IN_COLUMNS = ("frame", "frame,exchange", "frame,finding", "frame,connection,finding", "frame,exchange,connection,finding")
BESIDE = ("frame,message", "frame,exchange,message", "all")
"""Records with messages beside frames."""

WITHOUT_FRAMES = ("exchange", "connection", "finding", "exchange,finding", "exchange,connection,finding")

OF_MESSAGES_WITHOUT_FRAMES = ("exchange,message", "message,finding", "exchange,message,connection,finding")

OF_MESSAGES = (
    "quickstart.pcapng",
    "compress-zlib.pcap",
    "acks-batchindex.pcap",
    "encrypted.pcap",
    "java-schemas.pcap",
    "java-chunk-interleaved.pcap.zst",
    "lo-java-txn.pcap",
    "proxy-keyshared.pcap",
    "raw-checksum.pcap",
    "mixed-pulsar-kafka.pcap",
)
"""Captures of batches and single messages, compressed, encrypted, chunked, with schemas, on two legs, damaged, and of another protocol."""


@pytest.fixture(autouse=True)
def installed() -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")


KEYS = ("k1", "", "é", "\x1b[2J\n", 'a "b"', "k" * 256, "k" * 257, "é" * 200)


def published(folder: Path) -> Path:
    """A capture of connections that publish and consume: some receipts are refusals, late, out of order, or missing."""
    return write_pcap(folder / "published.pcap", _published())


@cache
def _published() -> list[Packet]:
    random = Random(1)  # noqa: S311 - repeatable
    packets: list[Packet] = []
    for port in range(3):
        talk = (
            connected(40000 + port)
            .client(producer(1, "p", 1), producer(2, "", 2, topic=f"{TOPIC}-é"))
            .server(created("p", 1), created("q", 2))
        )
        talk.client(subscribe(1, "c", 3), flow(1000)).server(success(3))
        for number in range(300):
            who = random.choice((1, 1, 2))
            key = {"partition_key": KEYS[number % len(KEYS)]} if number % 3 else {}
            talk.client(send(who, number, metadata=key))
            if random.random() < 0.02:
                talk.wait(random.choice((1, 3)))
            if random.random() < 0.97:
                talk.server(
                    receipt(who, number, entry=number) if random.random() < 0.99 else send_error("UnknownError", "no\x7f", who, number)
                )
            if random.random() < 0.3:
                talk.server(message(1, number, metadata=key)).client(ack(number))
        packets += talk.packets if port else talk.close().packets
    return sorted(packets, key=lambda packet: packet.time_ns)


def output(choice: str, *arguments: str) -> tuple[int, bytes, bytes]:
    """Exit code, output and warnings of a command with a reader."""
    with reader(choice):
        done = execute_here(*arguments)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("records", IN_COLUMNS)
@pytest.mark.parametrize("more", [("--format", "ndjson"), ("--format", "ndjson", "--fail-on", "note"), ()])
def test_rows_among_frames_in_columns_are_those_of_the_reference(tmp_path: Path, records: str, more: tuple[str, ...]) -> None:
    for path in (published(tmp_path), CAPTURES / "quickstart.pcapng", CAPTURES / "mixed-pulsar-kafka.pcap", CAPTURES / "proxy-v2.pcap"):
        arguments = "decode", str(path), "--records", records, *more
        expected = output("off", *arguments)
        assert output("require", *arguments) == expected
        assert expected[1].count(b"\n") > 10


@pytest.mark.parametrize("records", BESIDE)
@pytest.mark.parametrize("more", [(), ("--fail-on", "note"), ("--jobs", "2"), ("--payload", "hex"), ("--limit", "50"), ("--tail", "9")])
def test_messages_beside_frames_are_those_of_the_reference(tmp_path: Path, records: str, more: tuple[str, ...]) -> None:
    for path in (published(tmp_path), CAPTURES / "quickstart.pcapng"):
        arguments = "decode", str(path), "-f", "ndjson", "--records", records, *more
        expected = output("off", *arguments)
        assert output("require", *arguments) == expected
        assert b'{"record":"message"' in expected[1]


@pytest.mark.parametrize("form", ["ndjson", "json"])
@pytest.mark.parametrize("records", ["message", "all"])
def test_lines_that_come_in_parts_are_those_of_the_reference(tmp_path: Path, records: str, form: str) -> None:
    payload = batch([Single(b"x", {"partition_key": "k" * 300})] * 900)
    talk = connected(40000).client(producer(1, "p", 1)).server(created("p", 1))
    for number in range(0, 9_000, 900):
        talk.client(
            payload_frame(
                "SEND", message_metadata(sequence_id=number, num_messages_in_batch=900), payload, producer_id=1, sequence_id=number
            )
        )
        talk.client(send(1, number + 10_000)).server(receipt(1, number, entry=number))
    path = write_pcap(tmp_path / "large.pcap", talk.packets)
    arguments = "decode", str(path), "-f", form, "--records", records
    expected = output("off", *arguments)
    assert output("require", *arguments) == expected
    assert len(expected[1]) > 9_000 * 500


@pytest.mark.parametrize("records", [*WITHOUT_FRAMES, *OF_MESSAGES_WITHOUT_FRAMES])
@pytest.mark.parametrize(
    "more",
    [(), ("-f", "ndjson"), ("-f", "json", "-q", "--jobs", "2"), ("--limit", "3"), ("-Y", 'dissector == "pulsar"')],
)
def test_rows_without_those_of_frames_in_columns_are_those_of_the_reference(tmp_path: Path, records: str, more: tuple[str, ...]) -> None:
    for path in (published(tmp_path), CAPTURES / "quickstart.pcapng", CAPTURES / "mixed-pulsar-kafka.pcap", CAPTURES / "proxy-v2.pcap"):
        arguments = "decode", str(path), "--records", records, *more
        expected = output("off", *arguments)
        assert output("require", *arguments) == expected
        assert expected[0] == 0
        assert b'"record":"frame"' not in expected[1]


CHOSEN = (
    ("frame", "latency_ns,time,checksum,topic,fields,direction"),
    ("frame", "findings"),
    ("frame", "subscription,producer_name,request,status,broker_entry_metadata,metadata,source,file,packet,sub"),
    ("message", "properties,topic,publish_time,payload_size,key,batch_index"),
    ("message", "payload_sha256"),
    ("exchange", "latency_ns,request,time,topic"),
    ("all", "time,topic,status,text,latency_ns,properties,client_bytes"),
    ("frame,exchange,finding", "connection,text,size,response"),
)
"""Kinds of records and columns of them."""


@pytest.mark.parametrize(("records", "columns"), CHOSEN)
@pytest.mark.parametrize("more", [("-f", "ndjson"), ("-f", "json", "--limit", "40"), ("-f", "csv"), ("-f", "csv", "--jobs", "2")])
def test_chosen_columns_are_those_of_the_reference(tmp_path: Path, records: str, columns: str, more: tuple[str, ...]) -> None:
    if "csv" in more and ("," in records or records == "all"):
        return  # a CSV file holds one kind of record
    for path in (published(tmp_path), CAPTURES / "quickstart.pcapng"):
        arguments = "decode", str(path), "--records", records, "--columns", columns, *more
        expected = output("off", *arguments)
        assert output("require", *arguments) == expected
        assert expected[0] == 0


@pytest.mark.parametrize("more", [(), ("--payload", "text"), ("--columns", "payload", "--payload", "hex")])
def test_chosen_columns_of_messages_are_those_of_the_reference(tmp_path: Path, more: tuple[str, ...]) -> None:
    for path in (published(tmp_path), CAPTURES / "quickstart.pcapng"):
        arguments = "messages", str(path), "-f", "ndjson", "--columns", "properties,topic,sequence_id", *more
        expected = output("off", *arguments)
        assert output("require", *arguments) == expected
        assert expected[0] == 0


CHOICES = (
    ("--limit", "23"),
    ("--limit", "7", "-Y", "size > 60 or latency > 200us or payload_size > 1"),
    ("--tail", "19"),
    ("--tail", "5", "-Y", 'topic contains "é"'),
    ("-Y", "size > 60 or latency > 200us or payload_size > 1"),
    ("-Y", 'payload contains "a" or connection == "1"'),
    ("-Y", 'findings or status != "ok" or severity == "warning"'),
)
"""Ways to choose rows. What a kind of records has not, it does not match."""


@pytest.mark.slow
@pytest.mark.parametrize("choice", CHOICES)
def test_rows_are_chosen_in_columns_as_by_the_reference(tmp_path: Path, choice: tuple[str, ...]) -> None:
    capture = published(tmp_path)
    kinds = (*IN_COLUMNS, *BESIDE, *WITHOUT_FRAMES, *OF_MESSAGES_WITHOUT_FRAMES)
    shown = ((), ("-f", "ndjson"), ("-f", "json", "--fail-on", "warning"), ("--columns", "packet,topic"), ("-V",), ("-f", "csv"))
    with blocks_of(3000):
        for records, more in zip(kinds, cycle(shown), strict=False):
            arguments = "decode", str(capture), "--records", records, *choice, *more
            expected = output("off", *arguments)
            assert output("require", *arguments) == expected, arguments


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["utc", "local", "epoch", "delta"])
def test_times_are_those_of_the_reference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    monkeypatch.setenv("TZ", "America/St_Johns")
    time.tzset()
    talk = connected(start=6_391 * SECOND).client(producer(1, "p", 1)).server(created("p", 1))  # it begins before midnight, UTC
    for number in range(200):
        talk.client(send(1, number, bytes(number))).wait(
            (0, SECOND // 3, 2 * SECOND, 10_000 * SECOND)[number % 4 if number % 30 < 6 else 0]
        )
        talk.server(receipt(1, number, entry=number))
    steps = {100: -3 * SECOND, 300: -(1 << 61), 310: 1 << 62}
    packets = [packet._replace(time_ns=max(packet.time_ns + steps.get(at, 0), 0)) for at, packet in enumerate(talk.packets)]
    paths = [str(write_pcap(tmp_path / f"{number}.pcap", packets[: 200 + number])) for number in range(2)]
    with blocks_of(3000):
        for command, files in product((("decode",), ("decode", "-Y", "packet > 20"), ("follow", "--topic", TOPIC), ("messages",)), (1, 2)):
            arguments = *command, *paths[:files], "--time", mode
            expected = output("off", *arguments)
            assert output("require", *arguments) == expected, arguments
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize("records", [*IN_COLUMNS, *BESIDE, *WITHOUT_FRAMES, *OF_MESSAGES_WITHOUT_FRAMES])
def test_tables_of_frames_in_columns_are_those_of_the_reference(tmp_path: Path, records: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for path in (published(tmp_path), CAPTURES / "quickstart.pcapng", CAPTURES / "mixed-pulsar-kafka.pcap", CAPTURES / "proxy-v2.pcap"):
        for choice in ("off", "require"):
            arguments = "decode", str(path), "--records", records, "-f", "parquet", "-o", str(tmp_path / f"{path.name}-{choice}")
            assert output(choice, *arguments) == (0, b"", b"")
        kinds = ("frame", "message", "exchange", "connection", "finding") if records == "all" else records.split(",")
        for kind in kinds if len(kinds) > 1 else ("",):
            expected, found = (
                parquet.read_table(tmp_path / f"{path.name}-{choice}" / (kind and f"{kind}.parquet")) for choice in ("off", "require")
            )
            assert found.equals(expected, check_metadata=True)
            assert found.num_rows > 0 or "finding" in (kind, records)


def test_pandas_is_not_imported_for_a_table(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "pandas.py").write_text("raise MemoryError('pandas takes 60 MiB')\n")
    command = [sys.executable, "-m", "pulsarscope", "decode", str(published(tmp_path)), "--records", "all", "-f", "parquet"]
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths, "PULSARSCOPE_NATIVE": "require"}
    done = subprocess.run([*command, "-o", str(tmp_path / "out")], check=False, capture_output=True, env=environment)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("values", "in_columns"),
    [
        *(({"records": records}, True) for records in (*IN_COLUMNS, *BESIDE, *WITHOUT_FRAMES, *OF_MESSAGES_WITHOUT_FRAMES)),
        ({"format": "ndjson", "records": "frame,message", "payload": "hex"}, True),
        ({"format": "parquet", "columns": "packet", "limit": 5}, True),
        ({"detail": True, "filter": "size > 60"}, True),
        ({"hex": True}, False),
        ({"records": "exchange", "limit": 5, "once": True}, True),
        ({"format": "ndjson", "records": "frame,finding", "once": True}, False),
        ({"records": "message,exchange", "once": True}, False),
    ],
)
def test_rows_stay_in_columns_where_nobody_looks_into_bytes_of_frames(values: dict[str, object], in_columns: bool) -> None:
    asked = CommandRequest(files=["a.pcap"], reading=ReadOptions(), **values)  # type: ignore[arg-type]
    with reader("require"):
        assert run_options(asked, kinds_of(asked), None).columns == in_columns


FOLLOWED = (("--topic", "topic"), ("--topic", f"{TOPIC}-é"), ("--connection", "1"), ("--connection", "9"))
SHOWN = (
    (),
    ("-f", "ndjson"),
    ("-f", "csv"),
    ("-Y", "latency_ns > 0"),
    ("-Y", 'frame.command == "SEND"', "-f", "ndjson"),
    ("--time", "utc"),
    ("--limit", "99"),
    ("--redact-key", "KEY"),
    ("-q",),
)
"""Ways to show followed rows."""


@pytest.mark.slow
@pytest.mark.parametrize("color", ["0", "1"])
@pytest.mark.parametrize("block", [None, 3000])
def test_what_is_followed_is_shown_as_by_the_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, color: str, block: int | None
) -> None:
    monkeypatch.setenv("FORCE_COLOR", color)
    monkeypatch.chdir(tmp_path)
    Path("KEY").write_bytes(b"k" * 32)
    paths = [str(path) for path in (published(tmp_path), CAPTURES / "quickstart.pcapng", CAPTURES / "proxy-v2.pcap")]
    with blocks_of(block):
        for subject, shown, files in product(
            FOLLOWED[: 4 if color == "0" else 1], SHOWN if block is None else SHOWN[:2], (paths[:1], paths)
        ):
            arguments = "follow", *files, *subject, *shown
            expected = output("off", *arguments)
            assert output("require", *arguments) == expected, arguments
            assert expected[0] in (0, 1), arguments


@pytest.mark.slow
def test_times_that_jump_and_hostile_names_are_followed_as_by_the_reference(tmp_path: Path) -> None:
    hostile = f"{TOPIC}-\x1b[2J", f"{TOPIC}-{'x' * 300}", f"{TOPIC}  seq", "日本語"
    talk = connected(40000).client(*(producer(number, f"p{number}", number, topic) for number, topic in enumerate((TOPIC, *hostile))))
    talk.server(*(created(f"p{number}", number) for number in range(len(hostile) + 1)))
    for number in range(400):
        talk.client(send(number % (len(hostile) + 1) if number > 99 else 0, number, bytes(number)))
        talk.wait((10**5, 10**9 - 1, 10**9, 13 * 10**10, 4 * 10**12)[number % 5] if number % 20 < 5 else 10**5)
        talk.server(receipt(number % (len(hostile) + 1) if number > 99 else 0, number, entry=number))
    packets = [
        packet._replace(time_ns=packet.time_ns - 10**13 if number == 650 else packet.time_ns) for number, packet in enumerate(talk.packets)
    ]
    path = str(write_pcap(tmp_path / "hostile.pcap", packets))
    for subject in (("--connection", "1"), *(("--topic", topic) for topic in (TOPIC, *hostile))):
        expected = output("off", "follow", path, *subject)
        assert output("require", "follow", path, *subject) == expected
    assert output("require", "decode", path) == output("off", "decode", path)


@pytest.mark.parametrize(
    "more",
    [
        ("-f", "ndjson"),
        ("-f", "csv"),
        ("-f", "json", "-Y", "sequence_id >= 0"),
        ("-f", "ndjson", "--columns", "topic,payload_sha256,properties,ledger"),
        ("-f", "csv", "--columns", "packet,producer_name,payload_size"),
        ("-Y", 'topic contains "t"'),
        ("--limit", "7"),
        ("--tail", "7"),
    ],
)
def test_messages_are_those_of_the_reference(tmp_path: Path, more: tuple[str, ...]) -> None:
    for path in (published(tmp_path), *(CAPTURES / name for name in OF_MESSAGES)):
        arguments = "messages", str(path), *more
        expected = output("off", *arguments)
        assert output("require", *arguments) == expected
        assert expected[1].count(b"\n") > 1
