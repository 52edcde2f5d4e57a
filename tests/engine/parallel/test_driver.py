"""With any number of processes, and any assignment of files to them, the output is that of one process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pulsarscope.cli.arguments.options import CommandRequest
from pulsarscope.cli.encoded_rows import Encoding
from pulsarscope.cli.run_command import run_command
from pulsarscope.engine import local as pipeline
from pulsarscope.engine import parallel as jobs
from pulsarscope.engine.local import Run
from pulsarscope.engine.options import ALL_RECORDS
from pulsarscope.engine.parallel import driver as module
from pulsarscope.engine.parallel.driver import ParallelRun
from pulsarscope.engine.parallel.process import Process
from pulsarscope.engine.parallel.worker import Decode
from pulsarscope.inputs.key_logs import read_key_logs
from pulsarscope.inputs.private_keys import read_key_files
from pulsarscope.model.errors import CaptureError, OutputError
from pulsarscope.model.ordered_rows import in_rows
from pulsarscope.model.records import ROWS, FindingRow, Row
from tests.places import CAPTURES
from tests.scenarios.both_readers import reader
from tests.scenarios.capture_bytes import Pcapng
from tests.scenarios.capture_mutations import Corpus, corpus_options
from tests.scenarios.capturefile import Packet, write_pcap
from tests.scenarios.commands import created, producer, receipt, send
from tests.scenarios.connections import connected
from tests.scenarios.inside import Inside
from tests.scenarios.options import Options
from tests.scenarios.processes import is_there
from tests.scenarios.recapture import packets_of
from tests.scenarios.rings import folder_of_all, moved, ring

CLI = [sys.executable, "-m", "pulsarscope"]
START = 1_700_000_000_000_000_000
LATER = 2_000_000_000


class Names:
    """An output that turns rows into the names of their types."""

    takes_columns = False

    def prepare(self, rows: list[Any]) -> list[str]:
        return [type(row).__name__ for row in rows]

    def join(self, prepared: list[str]) -> list[str]:
        return prepared


def output_of(run: Run | ParallelRun) -> list[Any]:
    """The whole output of a run, however its input is cut into blocks and its rows into batches."""
    said: list[Any] = []
    progress: dict[int, tuple[int, int]] = {}
    with closing(iter(run)) as batches:
        for batch in batches:
            now = batch.bytes_read, batch.last_packet
            assert now >= progress.get(batch.file, (0, 0))
            progress[batch.file] = now
            for row in batch.rows:
                name = str(row.connection) if isinstance(row, Row) else ""
                ends = (run.endpoints[name], run.dissector_of[name]) if name in run.endpoints else None
                said.append((msgspec.json.encode(row), batch.file, ends))
    return [*said, progress, run.packets, run.connections, run.severities, run.damaged, run.fragmented]


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(folder_of_all(tmp_path_factory.mktemp("all")))


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "Process", Inside)


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(ALL_RECORDS),
        Options(ALL_RECORDS, rules=True),
        Options(frozenset(ROWS), rules=True),
        Options(frozenset({"journey"}), rows_max=20),
        Options(ALL_RECORDS, rules=True, rows_max=50),
        Options(frozenset({"connection", "finding"}), rules=True, rows_max=2_048),
        Options(frozenset({"message"}), rows_max=20),
        Options(ALL_RECORDS, payload="hex", show_secrets=True),
        Options(frozenset({"frame", "connection", "finding"}), raw=True),
        Options(frozenset({"message"})),
        Options(ALL_RECORDS, private_keys=read_key_files([str(CAPTURES / "keys" / "e2e_a.private.pem")])),
        Options(ALL_RECORDS, source_by=r"(.)[^/]*$"),
        Options(ALL_RECORDS, source_by="interface"),
        Options(ALL_RECORDS, decode_as={6650: "pulsar"}, ports=frozenset({80})),
    ],
)
def test_any_number_of_processes_gives_what_one_gives(everything: str, options: Options) -> None:
    want = output_of(jobs.run([everything], options, 1))
    for count in (2, 5):
        found = jobs.run([everything], options, count)
        assert isinstance(found, ParallelRun) or found.engine.in_columns
        assert output_of(found) == want


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_many_processes_give_what_one_gives(everything: str) -> None:
    options = Options(ALL_RECORDS, rules=True)
    assert output_of(jobs.run([everything], options, 16)) == output_of(jobs.run([everything], options, 1))


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_bounds_change_nothing(everything: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pulsarscope.tcp.connection_table.CLOSED_CONNECTIONS_MAX", 4)
    monkeypatch.setattr("pulsarscope.engine.timelines.PAYLOADS_MAX_BYTES", 1_000)
    options = Options(ALL_RECORDS, payload="base64")
    assert output_of(jobs.run([everything], options, 2)) == output_of(jobs.run([everything], options, 1))


names = st.sampled_from(["quickstart.pcapng", "errors.pcap", "rw-portreuse.pcap", "go-nack-dlq-gz.pcap.gz"])
rings = st.lists(st.tuples(names, st.integers(0, 3), st.lists(st.floats(0, 1), max_size=3)), min_size=2, max_size=4)


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rings, st.integers(2, 4), st.integers(0, 6))
def test_files_may_share_connections(
    tmp_path_factory: pytest.TempPathFactory, chosen: list[tuple[str, int, list[float]]], count: int, closed: int
) -> None:
    folder = tmp_path_factory.mktemp("rings")
    for number, (name, later, cuts) in enumerate(chosen):
        ring(folder, str(number), moved(name, number, START + later * 1_000_000), cuts)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pulsarscope.tcp.connection_table.CLOSED_CONNECTIONS_MAX", closed)
        want = output_of(jobs.run([str(folder)], Options(ALL_RECORDS, rules=True), 1))
        assert output_of(jobs.run([str(folder)], Options(ALL_RECORDS, rules=True), count)) == want


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("first", ["secrets", "connection", "both"])
def test_secrets_in_one_file_open_the_connections_of_later_ones(tmp_path: Path, first: str) -> None:
    key_log = (CAPTURES / "go-tls13.keylog").read_bytes()
    blocks = Pcapng()
    elsewhere = packets_of(CAPTURES / "quickstart.pcapng")
    tls = moved("go-tls13.pcap", 1, START + 1_000_000_000)
    placed = {"secrets": {"b": START}, "connection": {"d": START + LATER}, "both": {"b": START, "d": START + LATER}}
    for name, start in placed[first].items():
        data = blocks.section() + blocks.interface()
        for number, packet in enumerate(elsewhere):
            data += blocks.secrets(key_log) if number == 20 else b""
            data += blocks.packet(packet.data, ticks=(start + packet.time_ns - elsewhere[0].time_ns) // 1000)
        (tmp_path / f"{name}.pcapng").write_bytes(data)
    ring(tmp_path, "c", tls, ())
    ring(tmp_path, "e", moved("errors.pcap", 2, START + 3_000_000_000), ())
    want = output_of(jobs.run([str(tmp_path)], Options(ALL_RECORDS), 1))
    assert output_of(jobs.run([str(tmp_path)], Options(ALL_RECORDS), 4)) == want
    rows = [row for batch in jobs.run([str(tmp_path)], Options(ALL_RECORDS), 1) for row in batch.rows if isinstance(row, FindingRow)]
    assert ("tls-no-secrets" in {row.code for row in rows}) == (first == "connection")


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("brought", [False, True], ids=["alone", "beside-those-of-a-capture"])
def test_key_logs_reach_every_process(tmp_path: Path, brought: bool) -> None:
    ring(tmp_path, "a", moved("go-tls12.pcap", 1, START), ())
    ring(tmp_path, "b", moved("go-tls13.pcap", 2, START), (0.5,))
    of_nobody = b"CLIENT_RANDOM " + b"00" * 32 + b" " + b"00" * 48
    blocks = Pcapng()
    (tmp_path / "c.pcapng").write_bytes(blocks.section() + blocks.interface() + (blocks.secrets(of_nobody) if brought else b""))
    odd = tmp_path / "odd.keylog"
    odd.write_bytes((CAPTURES / "go-tls13.keylog").read_bytes() + b"no line of a key log\n")
    key_logs = read_key_logs([str(CAPTURES / "go-tls12.keylog"), str(odd)])
    options = Options(ALL_RECORDS, key_logs=key_logs)
    want = output_of(jobs.run([str(tmp_path)], options, 1))
    assert output_of(jobs.run([str(tmp_path)], options, 2)) == want
    assert b"tls-key-log-malformed" in want[0][0]


@pytest.mark.usefixtures("inside")
def test_what_is_prepared_takes_the_place_of_the_rows(everything: str) -> None:
    whole = [row for batch in jobs.run([everything], Options(ALL_RECORDS, rules=True), 1) for row in batch.rows]
    batches = list(jobs.run([everything], Options(ALL_RECORDS, rules=True), 2, Names()))
    assert [name for batch in batches for name in batch.prepared] == [type(row).__name__ for row in whole]
    assert all(batch.rows == [] for batch in batches)


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("capture", ["quickstart.pcapng", "errors.pcap", "rw-portreuse.pcap", "stuck-consumer.pcap"])
def test_one_file_is_shared_connection_by_connection(capture: str, count: int) -> None:
    options = Options(ALL_RECORDS, rules=True)
    assert output_of(jobs.run([str(CAPTURES / capture)], options, count)) == output_of(jobs.run([str(CAPTURES / capture)], options, 1))


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(("bound", "rows_max"), [(300, None), (2_000, None), (2_000, 50), (20_000, None)])
def test_facts_that_are_evaluated_early_are_the_same(
    everything: str, bound: int, rows_max: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsarscope.engine.facts.FACTS_MAX_BYTES", bound)
    options = Options(ALL_RECORDS, rules=True, rows_max=rows_max)
    want, found = ([row[0] for row in output_of(jobs.run([everything], options, count))[:-5]] for count in (1, 3))
    assert any(b"memory-cap" in row for row in want)
    assert found == want


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("mode", ["off", "require"])
def test_changed_captures_give_what_one_process_gives(tmp_path: Path, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if mode == "require":
        pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    monkeypatch.setattr("pulsarscope.engine.facts.FACTS_MAX_BYTES", 4_000)
    monkeypatch.setattr("pulsarscope.engine.parallel.connection_shares.SAMPLE_PACKETS", 2)
    monkeypatch.setattr("pulsarscope.engine.parallel.connection_shares.SAMPLE_MAX_PACKETS", 3)
    corpus, options = Corpus(CAPTURES, corpus_options()), Options(ALL_RECORDS, rules=True)
    inputs = iter(range(120))
    with reader(mode):
        while files := [corpus.input(5, number).data for number in islice(inputs, 4)]:  # tunnels, fragments, TLS, reused ports …
            for number, data in enumerate(files):
                (tmp_path / f"{number}.pcap").write_bytes(data)
            try:
                want = [row[0] for row in output_of(jobs.run([str(tmp_path)], options, 1))[:-5]]
            except CaptureError:
                continue
            assert [row[0] for row in output_of(jobs.run([str(tmp_path)], options, 2))[:-5]] == want


def test_what_cannot_be_shared_is_one_process(everything: str, tmp_path: Path) -> None:
    one = str(CAPTURES / "quickstart.pcapng")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert type(jobs.run([one], Options(), 2)) is ParallelRun
    assert type(jobs.run([one, "-"], Options(), 2)) is Run
    assert type(jobs.run([one, str(pipe)], Options(), 2)) is Run
    assert type(jobs.run([everything], Options(), 1)) is Run
    with reader("off"):
        assert type(jobs.run([one], Options(columns=True), 2)) is ParallelRun


def test_what_stays_in_columns_is_decoded_in_one_process() -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    capture = [str(CAPTURES / "quickstart.pcapng")]
    messages = Options(frozenset({"message"}), rows_max=1_000, together=True)
    with reader("require"):
        assert type(jobs.run(capture, Options(columns=True), 2)) is Run
        assert type(jobs.run(capture, messages, 2)) is Run
        assert type(jobs.run(capture, msgspec.structs.replace(messages, payload="text"), 2)) is Run
        assert type(jobs.run(capture, msgspec.structs.replace(messages, raw=True), 2)) is ParallelRun
        assert type(jobs.run(capture, Options(frozenset({"connection", "finding"}), columns=True), 2)) is Run
        assert type(jobs.run(capture, Options(frozenset({"exchange", "finding"}), columns=True, rules=True), 2)) is Run
        ruled = Options(frozenset({"frame", "finding"}), columns=True, rules=True)
        assert type(jobs.run(capture, ruled, 2)) is Run
        for output, made in (("ndjson", ParallelRun), ("csv", Run)):
            assert type(jobs.run(capture, ruled, 2, Encoding(output, ("frame", "finding"), None))) is made
        assert type(jobs.run(capture, ruled, 2, Names())) is Run
        kinds = ("frame", "message", "finding")
        beside = msgspec.structs.replace(ruled, records=frozenset(kinds), rows_max=1_000, together=True)
        assert type(jobs.run(capture, beside, 2, Encoding("ndjson", kinds, None))) is Run
    with reader("off"):
        assert type(jobs.run(capture, messages, 2)) is ParallelRun


def test_findings_of_frames_in_columns_come_from_several_processes() -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    reported = Options(frozenset({"connection", "finding"}), columns=True, rules=True)
    with reader("require"):
        assert type(jobs.run([str(CAPTURES / "quickstart.pcapng")], reported, 2)) is ParallelRun


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("name", ["quickstart.pcapng", "errors.pcap"])
def test_rows_that_nothing_prepares_are_the_same_from_several_processes(name: str, *, together: bool) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    options = Options(frozenset({"finding"}), columns=True, rules=True, together=together, rows_max=4096)
    capture = [str(CAPTURES / name)]
    with reader("require"):
        several = jobs.run(capture, options, 2)
        assert type(several) is ParallelRun
        assert [row for batch in several for row in batch.rows] == [
            row for batch in pipeline.run(capture, options) for row in in_rows(batch.rows)
        ]


def test_zero_is_a_process_for_each_core(everything: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert jobs.cores() >= 1
    made = []

    class Counted(Inside):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(module, "Process", Counted)
    monkeypatch.setattr(module, "cores", lambda: 3)
    list(jobs.run([everything], Options(), 0))
    assert len(made) == 3


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"detail": True, "records": "all"},
        {"hex": True, "quiet": True},
        {"records": "all", "columns": "packet,time"},
        {"records": "exchange,finding"},
        {"records": "message", "payload": "text"},
        {"records": "all", "format": "ndjson", "fail_on": "error"},
        {"format": "ndjson", "limit": 150},
        {"format": "ndjson", "quiet": True},
        {"filter": "frame.size > 100"},
        {"format": "ndjson", "filter": "frame.size > 60"},
        {"records": "connection", "format": "json"},
        {"records": "exchange", "format": "csv", "columns": "request,latency_ns"},
        {"records": "message", "format": "ndjson", "payload": "base64", "limit": 20},
        {"records": "message", "format": "ndjson", "columns": "topic,packet,publish_time", "limit": 90},
    ],
)
def test_every_output_is_the_same_byte_for_byte(
    everything: str, asked: dict[str, Any], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    given = []
    for count in (1, 3):
        out = tmp_path / "out"
        code = run_command(CommandRequest(files=(everything, "missing.pcap"), out=str(out), jobs=count, **asked))
        given.append((code, out.read_bytes(), capfd.readouterr()))
    assert given[0][0] == 4
    assert len(given[0][1]) > 1_000
    assert given[1] == given[0]


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("records", ["frame", "frame,finding", "frame,exchange", "frame,exchange,connection,finding", "exchange,finding"])
def test_frames_in_columns_of_several_processes_are_the_same_byte_for_byte(
    everything: str, records: str, quiet: bool, tmp_path: Path
) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    given = []
    for choice, count in (("off", 1), ("require", 1), ("require", 2), ("require", 3)):
        out = tmp_path / "out"
        asked = CommandRequest(
            files=(everything,), records=records, format="ndjson", quiet=quiet, fail_on="error", out=str(out), jobs=count
        )
        with reader(choice):
            given.append((run_command(asked), out.read_bytes()))
    assert len(given[0][1]) > 50_000
    assert given[1:] == 3 * given[:1]


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("choice", ["off", "require"])
def test_findings_stand_behind_the_same_rows_in_captures_of_many_blocks(
    everything: str, choice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if choice == "require":
        pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    for name, value in {"READ_BLOCK_BYTES": 1_000, "READ_BLOCK_PACKETS": 20, "READ_BLOCK_FLOW_PACKETS": 1}.items():
        monkeypatch.setattr(f"pulsarscope.capture.reader.{name}", value)
    given = []
    for count in (1, 2, 3):
        out = tmp_path / "out"
        asked = CommandRequest(files=(everything,), records="frame,finding", format="ndjson", quiet=True, out=str(out), jobs=count)
        with reader(choice):
            run_command(asked)
        given.append(out.read_bytes())
    assert given[0].count(b'{"record":"finding"') > 50
    assert given[1:] == 2 * given[:1]


@pytest.mark.usefixtures("inside")
@pytest.mark.parametrize("choice", ["off", "require"])
@pytest.mark.parametrize("output", ["csv", "ndjson"])
def test_names_with_line_ends_are_the_same_byte_for_byte(tmp_path: Path, output: str, choice: str) -> None:
    if choice == "require":
        pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    packets: list[Packet] = []
    for port in range(4):
        talk = connected(40000 + port).client(producer(1, "p", 1)).server(created('p\nq\r\n"r"\r', 1))
        for number in range(50):
            talk.client(send(1, number)).server(receipt(1, number, entry=number))
        packets += talk.packets
    path = write_pcap(tmp_path / "in.pcap", sorted(packets, key=lambda packet: packet.time_ns))
    given = []
    for count in (1, 2, 3):
        out = tmp_path / "out"
        asked = CommandRequest(files=(str(path),), records="frame", format=output, fail_on="error", out=str(out), jobs=count)
        with reader(choice):
            given.append((run_command(asked), out.read_bytes()))
    assert given[1:] == 2 * given[:1]


@pytest.mark.slow
@pytest.mark.usefixtures("inside")
def test_parquet_has_the_same_rows(everything: str, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for count in (1, 3):
        assert (
            run_command(CommandRequest(files=(everything,), records="all", format="parquet", out=str(tmp_path / str(count)), jobs=count))
            == 4
        )
    for kind in ALL_RECORDS:
        one, other = (parquet.read_table(tmp_path / count / f"{kind}.parquet") for count in ("1", "3"))
        assert one.num_rows > 10
        assert one.equals(other)


# ---- with real processes


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [(), ("--records", "all", "--format", "ndjson")])
def test_the_command_line_gives_the_same_byte_for_byte(everything: str, arguments: tuple[str, ...]) -> None:
    alone, together = (
        subprocess.run([*CLI, "decode", everything, "--jobs", count, *arguments], capture_output=True, timeout=120, check=False)
        for count in ("1", "2")
    )
    assert alone.returncode == together.returncode == 4
    assert alone.stderr == together.stderr
    assert alone.stdout == together.stdout
    assert len(alone.stdout) > 50_000


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_process_that_dies_ends_the_run_with_an_error(everything: str, number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Watched(Process):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

        def ask(self, task: Any) -> None:
            if isinstance(task, Decode) and self is made[-1]:
                os.kill(self.number, number)
            super().ask(task)

    monkeypatch.setattr(module, "Process", Watched)
    with pytest.raises(OutputError, match=f"was killed .signal {int(number)}.; the output is not complete") as caught:
        list(jobs.run([everything], Options(), 2))
    assert caught.value.exit_code == 5
    assert not any(is_there(process.number) for process in made)


@pytest.mark.slow
@pytest.mark.parametrize("end", [GeneratorExit, KeyboardInterrupt, BrokenPipeError])
def test_whoever_stops_early_leaves_no_process_behind(everything: str, end: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Watched(Process):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    monkeypatch.setattr(module, "Process", Watched)
    batches = iter(jobs.run([everything], Options(), 2))
    next(batches)
    next(batches)
    assert len(made) == 2
    with pytest.raises(end):
        batches.throw(end)
    assert not any(is_there(process.number) for process in made)


@pytest.mark.slow
def test_a_closed_pipe_ends_quietly(everything: str) -> None:
    with subprocess.Popen(
        [*CLI, "decode", everything, "--records", "all", "--format", "ndjson", "-j", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith(b'{"record"')
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait(60) == 0
    assert b"Traceback" not in errors
    assert all(b"not a capture" in line or b"ends" in line for line in errors.splitlines())


@pytest.mark.slow
def test_standard_input_stays_with_us(everything: str) -> None:
    data = (CAPTURES / "errors.pcap").read_bytes()
    results = [
        subprocess.run([*CLI, "decode", "-", everything, "-j", count], input=data, capture_output=True, timeout=120, check=False)
        for count in ("1", "2")
    ]
    assert results[0].returncode == results[1].returncode == 4
    assert results[0].stdout == results[1].stdout


@pytest.mark.slow
def test_a_script_needs_no_guard_around_its_main_module(everything: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys, pulsarscope as ps\nprint(sum(1 for _ in ps.open(sys.argv[1], jobs=2).frames()))\n")
    result = subprocess.run([sys.executable, str(script), everything], capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert int(result.stdout) == sum(len(batch.rows) for batch in pipeline.run([everything], Options()))
