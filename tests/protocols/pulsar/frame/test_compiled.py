"""The compiled reader compared with the Python one, which is the oracle."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Any

import pytest
from crc32c import crc32c

import pulsarscope as ps
from pulsarscope.dissect.contract.frames import FrameBatch, KeptBytes
from pulsarscope.dissect.framing.splitter import StreamSplitter
from pulsarscope.dissect.plugins.isolation import Failure
from pulsarscope.model.platform import NATIVE
from pulsarscope.protocols.pulsar.dissector import PulsarDissector
from pulsarscope.protocols.pulsar.frame.compiled import CompiledReader
from tests.places import CAPTURES
from tests.scenarios import Single, batch, compress
from tests.scenarios.both_readers import BothReaders, BothSplitters, EagerSplitter, reader
from tests.scenarios.capture_mutations import Corpus, corpus_options
from tests.scenarios.capturefile import pcap, write_pcap
from tests.scenarios.command_line import run
from tests.scenarios.commands import ack, copied, copied_receipt, created, flow, message, producer, receipt, send
from tests.scenarios.connections import connected, subscribed
from tests.scenarios.conversation import Conversation
from tests.scenarios.publishers import Publishers
from tests.scenarios.streams import Stream, frames_of, split

SMALL_MAX_BYTES = 200_000

NAMES, AT = (None, 0, None, "pulsar", None), (0, 1 << 20, -1, 0)
"""Names of a stream, and its position, as arguments of `Frames.read`."""


@pytest.fixture
def installed() -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")


def splitter(compiled: Any) -> EagerSplitter:
    with reader("off"):
        dissector = PulsarDissector()
    dissector.compiled = compiled
    return EagerSplitter(dissector, KeptBytes(payload=True), synced=True)


class Rows:
    """Frames of a compiled reader that finds nothing plain; `error` ends each call."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self._rows: list[tuple[Any, int, Any]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def read(self, stream: Any, names: Any, at: Any) -> Any:
        del names
        return stream[1], at[2], at[3], self._error

    def append(self, row: Any, moment: int, attachment: Any) -> None:
        self._rows.append((row, moment, attachment))

    def rows(self, start: int, stop: int, payload: bool, raw: bool) -> Any:
        del payload, raw
        frames = self._rows[start:stop]
        attached = {place: attachment for place, (_, _, attachment) in enumerate(frames) if attachment is not None}
        return [row for row, _, _ in frames], [moment for _, moment, _ in frames], attached


WHOLE, CUT = 1 << 30, 3_000
OUTPUTS = [
    (WHOLE, ("decode", "-f", "ndjson")),
    (WHOLE, ("decode",)),
    (WHOLE, ("stats", "-f", "json")),
    (WHOLE, ("diagnose", "-f", "json", "--jobs", "2")),
    (WHOLE, ("compare", "-f", "json", str(CAPTURES / "errors.pcap"))),
    (WHOLE, ("decode", "-f", "ndjson", "-Y", 'latency > 1ms || topic ~ "t" && !(size < 60) || ack.consumer_id >= 1')),
    (WHOLE, ("extract", "-Y", 'command == "SEND_RECEIPT" || ip == 10.0.0.1 && num_messages > 1')),
    (CUT, ("decode", "-f", "ndjson")),
    (CUT, ("decode", "--time", "delta", "-q")),
]
"""Number of bytes of captures that are read, and commands whose output is compared."""

IDLE = CompiledReader(None, Rows, (0, 0))
PANICKING = CompiledReader(None, lambda: Rows(RuntimeError("the compiled reader panicked")), (0, 0))


def test_a_reader_that_finds_nothing_plain_leaves_all_to_python() -> None:
    with reader("off"):
        dissector = PulsarDissector()
    stream = Stream().pieces(frames_of(Random(1), 60))  # noqa: S311 - repeatable
    assert split(splitter(IDLE), stream) == split(StreamSplitter(dissector, KeptBytes(payload=True), synced=True), stream)


def test_a_panic_ends_its_connection_with_a_failure_and_keeps_the_frames_before() -> None:
    used, out = splitter(IDLE), FrameBatch()
    frames = frames_of(Random(1), 3)  # noqa: S311 - repeatable
    used.feed(0, 0, [(frames[0], 1, 0, 1)], out)
    used.dissector.compiled = PANICKING
    used.feed(0, len(frames[0]), [(frames[1] + frames[2], 2, 0, 2)], out)
    used.finish(2, out)
    assert used.failure == Failure("pulsarscope", "pulsar", "decode", "RuntimeError: the compiled reader panicked")
    assert [(row.status, row.size) for row in out.rows] == [("ok", len(frames[0])), ("skipped", len(frames[1] + frames[2]))]


@pytest.mark.usefixtures("installed")
def test_streams_of_mutated_frames_read_as_by_the_reference() -> None:
    corpus, both, random = Corpus(CAPTURES, corpus_options()), BothSplitters(), Random(1)  # noqa: S311 - repeatable
    frames = [frame for conversation in corpus.conversations["pulsar"] for _, frame in conversation.frames]
    assert sum(both.check(random, frames) for _ in range(1500)) > 3000


@pytest.mark.usefixtures("installed")
def test_captures_read_as_by_the_reference(tmp_path: Path) -> None:
    both = BothReaders(tmp_path, corpus_options())
    for number, path in enumerate(sorted(CAPTURES.rglob("*.pcap"))):
        if path.stat().st_size < SMALL_MAX_BYTES:
            both.check(path.read_bytes(), other=number)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("odd_share", [0.0, 0.004, 0.05, 0.3])
def test_rules_report_the_same_from_columns_as_from_rows(tmp_path: Path, odd_share: float) -> None:
    conversation = Publishers(Random(int(1000 * odd_share)), odd_share=odd_share).publish(60)  # noqa: S311 - repeatable
    BothReaders(tmp_path, corpus_options()).check(pcap(conversation.packets), other=2)


@pytest.mark.usefixtures("installed")
def test_places_in_another_cluster_are_remembered_whatever_the_name_of_the_replicator(tmp_path: Path) -> None:
    talk = connected().client(producer(1, "repl.west", 2)).server(created("repl.west", 2))
    talk.client(*(send(1, number) for number in range(2000))).server(*(receipt(1, number) for number in range(2000)))
    talk.client(copied(9, 2000), copied(10, 2001)).server(copied_receipt(9, 1), copied_receipt(10, 2))
    talk.client(send(1, 2002)).server(receipt(1, 2002))
    BothReaders(tmp_path, corpus_options()).check(pcap(talk.packets), other=2)


@pytest.mark.usefixtures("installed")
def test_the_compiled_reader_reads_the_data_path() -> None:
    with reader("require"):
        compiled = PulsarDissector().compiled
    frames = [frame for frame in frames_of(Random(2), 200) if frame[9] in (6, 7, 9, 11)]  # noqa: S311 - repeatable
    read = 0
    for frame in frames:
        position, *_ = compiled.frames().read((frame, 0, 0, [(frame, 1, 0, 1)], [len(frame)]), NAMES, AT)
        read += position == len(frame)
    assert read > len(frames) * 0.7


@pytest.mark.usefixtures("installed")
def test_what_the_compiled_reader_cannot_take_is_an_exception_of_the_connection() -> None:
    with reader("require"):
        compiled = PulsarDissector().compiled
    (frame,) = [frame for frame in frames_of(Random(2), 50) if frame[9] == 7][:1]  # noqa: S311 - repeatable
    position, packet, sub, error = compiled.frames().read((frame, 0, 0, [], []), NAMES, AT)
    assert (position, packet, sub) == (0, -1, 0)
    assert isinstance(error, IndexError)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(("size", "arguments"), OUTPUTS)
def test_outputs_of_frames_in_columns_are_those_of_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int, arguments: tuple[str, ...]
) -> None:
    paths = [path for path in CAPTURES.rglob("*.pcap*") if path.suffix in (".pcap", ".pcapng") and path.stat().st_size < SMALL_MAX_BYTES]
    for number, path in enumerate(sorted(paths)):
        if number % len(OUTPUTS) in (OUTPUTS.index((size, arguments)), 0):
            copy = tmp_path / path.name
            copy.write_bytes(path.read_bytes()[:size])
            in_one_process = arguments[:-2] if "--jobs" in arguments else arguments
            assert output_of(monkeypatch, "require", copy, arguments) == output_of(monkeypatch, "off", copy, in_one_process), path


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("form", ["ndjson", "csv"])
def test_numbers_and_texts_of_every_size_are_written_as_by_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    numbers = [0, 9, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, *(10**digits + off for digits in range(1, 20) for off in (-1, 0, 1))]
    texts = [end * size for end in ("a", "~", "é", "ab\x7f", '"', "\\", "\n") for size in range(36)]
    texts += ["a" * size + end for end in ('"', "é", "\x7f") for size in range(36)]
    talk = connected().client(producer(1, "p", 2, "persistent://public/default/" + "t" * 40)).server(created("p", 2))
    for number, text in zip(cycle(numbers), texts, strict=False):
        talk.client(send(1, number, metadata={"producer_name": text, "publish_time": number})).wait(number % 10**10)
    path = write_pcap(tmp_path / "sizes.pcap", talk.close().packets)
    arguments = ("decode", "-f", form, "--records", "frame")
    compiled = output_of(monkeypatch, "require", path, arguments)
    assert compiled == output_of(monkeypatch, "off", path, arguments)
    assert len(compiled[1].splitlines()) > len(texts)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("codec", ["NONE", "LZ4"])
def test_a_batch_that_was_sent_is_the_one_that_is_delivered_only_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
) -> None:
    talk = subscribed(subscribed(connected()), 2).client(producer(1)).server(created())
    payload = batch([Single(bytes([number]) * 40, {"partition_key": f"k{number}"}) for number in range(9)])
    # Two changes that keep the CRC-32C of any bytes: the polynomial itself, with its bits in the order of the wire.
    bits = f"1{0x1EDC6F41:032b}" + "0" * 7
    other = bytearray(payload)
    for place in range(5):
        other[place - 6] ^= int(bits[8 * place : 8 * place + 8][::-1], 2)
    assert crc32c(bytes(other)) == crc32c(payload)
    assert other != payload
    entry = 0
    for plain in (payload, bytes(other), payload, batch([Single(b"more")] * 9)):
        metadata: dict[str, Any] = {"producer_name": "p", "publish_time": 5}
        if codec != "NONE":
            metadata |= {"compression": codec, "uncompressed_size": len(plain)}
        data = compress(codec, plain)
        for count, sequence in ((9, 3), (9, 4), (8, 3)):
            values = metadata | {"num_messages_in_batch": count, "sequence_id": sequence}
            talk.client(send(1, sequence, data, values)).server(receipt(1, sequence, entry=entry))
            talk.server(message(1, entry, data, values), message(2, entry, data, values))
            entry += 1
    path = write_pcap(tmp_path / "again.pcap", talk.close().packets)
    compiled = output_of(monkeypatch, "require", path, ("messages", "-f", "ndjson"))
    assert compiled == output_of(monkeypatch, "off", path, ("messages", "-f", "ndjson"))
    assert len({json.loads(line).get("payload_sha256") for line in compiled[1].splitlines()}) > 9


@pytest.mark.usefixtures("installed")
def test_coloured_text_of_several_files_is_that_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    files = [CAPTURES / name for name in ("quickstart.pcapng", "stuck-consumer.pcap", "errors.pcap")]
    folder = tmp_path / "captures"
    folder.mkdir()
    for path in files:
        shutil.copy(path, folder)
    assert output_of(monkeypatch, "require", folder, ("decode",)) == output_of(monkeypatch, "off", folder, ("decode",))


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["quickstart.pcapng", "stuck-consumer.pcap"])
def test_reports_of_the_library_are_those_of_rows(name: str) -> None:
    def reports() -> list[Any]:
        capture = ps.open(CAPTURES / name, jobs=2)
        return [capture.stats(), capture.diagnose(), capture.compare(ps.open(CAPTURES / "errors.pcap"))]

    with reader("require"):
        found = reports()
    with reader("off"):
        assert found == reports()


def output_of(monkeypatch: pytest.MonkeyPatch, choice: str, path: Path, arguments: tuple[str, ...]) -> tuple[int, bytes]:
    out = path.parent / "out"
    out.unlink(missing_ok=True)
    with reader(choice):
        code = run(monkeypatch, *arguments, str(path), "-o", str(out))
    return code, out.read_bytes() if out.exists() else b""


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_long_names_take_no_memory_for_each_frame_between_others(tmp_path: Path) -> None:
    """If one frame in turn is for Python, the session is asked for the names each time."""
    path = write_pcap(tmp_path / "names.pcap", alternating("é" * 4000, 15_000).packets)
    assert peak_bytes(path, "require") < peak_bytes(path, "off") + (80 << 20)


def alternating(topic: str, count: int) -> Conversation:
    talk = subscribed(connected(), topic=topic)
    return talk.client(b"".join(flow(1) + ack(entry, ack_set=[3]) for entry in range(count)), mss=60_000).close()


def peak_bytes(path: Path, choice: str) -> int:
    """Peak memory of `stats` on a capture, with this reader."""
    process = subprocess.Popen(
        [sys.executable, "-m", "pulsarscope", "stats", path], stdout=subprocess.DEVNULL, env={**os.environ, NATIVE: choice}
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return used.ru_maxrss << 10


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits the memory as Linux does")
@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("of", "code", "line"),
    [
        ("end_without_memory(tells=True)", 6, b"pulsarscope: there is not enough memory; the output is not complete"),
        ("end_without_memory(tells=False)", 6, b""),
        ("", -signal.SIGABRT, b"memory allocation of "),
    ],
)
def test_without_memory_only_a_process_of_pulsarscope_ends_with_the_documented_code(of: str, code: int, line: bytes) -> None:
    program = f"""
import resource
from pathlib import Path
from pulsarscope.model.platform import end_without_memory, load_native
{of}
native = load_native()[0]
stretches = [(b"", b"", 0, 0)] * 4_000_000
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (8 << 20),) * 2)
native.merged_lines(stretches)
"""
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, check=False)
    assert ended.returncode == code
    assert ended.stderr.startswith(line) if line else not ended.stderr
