from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

import pulsarscope as ps
from pulsarscope.capture import BlockReader
from pulsarscope.cli.arguments.options import CommandRequest, ReadOptions
from pulsarscope.cli.arguments.row_request import output_name
from pulsarscope.cli.run_command import run_command
from pulsarscope.cli.selected_rows import SelectedRows
from pulsarscope.engine import local as pipeline
from pulsarscope.engine.row_batch import RowBatch
from pulsarscope.model.errors import CaptureError, OutputError, UsageError
from pulsarscope.model.limits import ROWS_MAX
from pulsarscope.output.render.view import View
from tests.places import CAPTURES
from tests.scenarios import Conversation, Single, batch, command_frame, compress, message_metadata, payload_frame, rows, write_pcap
from tests.scenarios.both_readers import installed_reader
from tests.scenarios.command_line import run

Blocks = list[list[Any]]


class FakeRun(rows.Run):
    """A run that returns given blocks."""

    def __init__(
        self, blocks: Blocks, *, damaged: bool = False, severities: dict[str, int] | None = None, ends: BaseException | None = None
    ) -> None:
        super().__init__(severities)
        self.inputs = SimpleNamespace(paths=["a.pcap"], sizes=100)
        self.damaged = damaged
        self._blocks = blocks
        self._ends = ends

    def __iter__(self) -> Iterator[Any]:
        for block in self._blocks:
            yield SimpleNamespace(rows=block, file=0, bytes_read=10, last_packet=1, prepared=None)
        if self._ends is not None:
            raise self._ends


@pytest.fixture
def fake_runs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[pipeline.Options]]:
    """Let the pipeline return some blocks; the list receives its requests."""

    def make_run(blocks: Blocks, **values: Any) -> list[pipeline.Options]:
        requested: list[pipeline.Options] = []

        def run(_inputs: Any, options: pipeline.Options) -> FakeRun:
            requested.append(options)
            return FakeRun(blocks, **values)

        monkeypatch.setattr(pipeline, "run", run)
        return requested

    return make_run


FakeRuns = Callable[..., list[pipeline.Options]]


def request(**values: Any) -> CommandRequest:
    return CommandRequest(files=("a.pcap",), **values)


def test_text_asks_for_connections_and_findings_too(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    requested = fake_runs([[rows.send(), rows.connection()], [rows.finding()]])
    assert run_command(request()) == 0
    assert requested[0].records == {"frame", "connection", "finding"}
    out = capsys.readouterr().out
    assert "SEND" in out
    assert "checksum-mismatch" in out
    assert " ended" not in out


@pytest.mark.slow
@pytest.mark.parametrize("values", [{"records": "frame,message", "detail": True}, {"records": "message"}, {"records": "frame"}])
def test_text_takes_the_rows_of_a_dense_batch_a_few_at_a_time(
    values: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    count = 3 * ROWS_MAX
    plain = batch([Single(b"")] * count)
    metadata = message_metadata(compression="ZSTD", uncompressed_size=len(plain), num_messages_in_batch=count)
    send = payload_frame("SEND", metadata, compress("ZSTD", plain), producer_id=1, sequence_id=0)
    connect, pings = command_frame("CONNECT", client_version="x"), command_frame("PING") * count
    capture = write_pcap(tmp_path / "dense.pcap", Conversation().handshake().client(connect, send, pings).packets)
    given: list[int] = []
    prepare = View.prepare

    def prepare_some(view: View, some: list[Any]) -> None:
        given.append(len(some))
        prepare(view, some)

    monkeypatch.setattr(View, "prepare", prepare_some)
    assert run_command(CommandRequest(files=(str(capture),), **values)) == 0
    assert max(given) <= ROWS_MAX
    assert capsys.readouterr().out


def test_records_hold_only_the_kinds_asked_for(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    requested = fake_runs([[rows.send(), rows.finding()]])
    assert run_command(request(format="ndjson")) == 0
    assert requested[0].records == {"frame", "finding"}
    assert [json.loads(line)["record"] for line in capsys.readouterr().out.splitlines()] == ["frame"]


def test_damage_to_an_input_goes_to_standard_error(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    damage = rows.finding(layer="capture", code="capture-truncated", text="It ends within a record.", hint="Copy it again.\x1b")
    fake_runs([[damage, rows.finding()]], damaged=True)
    assert run_command(request(format="ndjson")) == 4
    assert capsys.readouterr().err == "pulsarscope: a.pcap: It ends within a record. Copy it again.\\x1b\n"
    assert run_command(request(format="ndjson", quiet=True)) == 4
    assert capsys.readouterr().err == "pulsarscope: a.pcap: It ends within a record. Copy it again.\\x1b\n"


@pytest.mark.parametrize("view", [{}, {"detail": True}, {"hex": True}])
def test_damage_that_text_leaves_out_goes_to_standard_error(
    fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str], view: dict[str, Any]
) -> None:
    damage = rows.finding(layer="capture", code="capture-truncated", text="It ends within a record.", hint=None, connection=None)
    for values, blocks, shown in (
        ({}, [[damage, rows.send(1), rows.send(2)]], True),
        ({"tail": 2}, [[rows.send(1), damage, rows.send(2), rows.send(3)]], False),
        ({"tail": 2}, [[rows.send(1), rows.send(2), damage, rows.send(3)]], True),
        ({"tail": 1}, [[damage], [rows.send(1), rows.send(2)]], False),
        ({"tail": 1}, [[rows.send(1)], [damage, rows.send(2)]], False),
        ({"tail": 2}, [[damage, rows.send(1)], [rows.send(2)]], True),
        ({"limit": 1}, [[rows.send(1), rows.send(2), damage]], False),
        ({"columns": "packet"}, [[damage, rows.send(1), rows.send(2)]], False),
    ):
        if "columns" in values and view:
            continue
        fake_runs(blocks, damaged=True)
        assert run_command(request(**view, **values)) == 4
        captured = capsys.readouterr()
        assert ("It ends" in captured.out) is shown
        assert captured.err == ("" if shown else "pulsarscope: a.pcap: It ends within a record.\n")


def test_findings_that_text_leaves_out_are_not_reported_as_damage(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    fake_runs([[rows.finding(), rows.send(1), rows.send(2)]])
    assert run_command(request(tail=1)) == 0
    assert capsys.readouterr().err == ""


def test_a_file_that_is_no_capture_is_named_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "notes.pcap").write_text("notes\n")
    for options, in_text in (([], True), (["--tail", "1"], False), (["-Y", "command == PING"], True)):
        assert run(monkeypatch, "decode", str(CAPTURES / "errors.pcap"), str(tmp_path / "notes.pcap"), *options) == 4
        captured = capsys.readouterr()
        assert captured.out.count("notes.pcap is text") == in_text
        assert captured.err.count("notes.pcap is text") == (not in_text)
        assert captured.out.rstrip().endswith("1 error (see diagnose)")


@pytest.mark.parametrize(
    ("fail_on", "severities", "damaged", "code"),
    [
        ("never", {"error": 1}, False, 0),
        ("error", {"error": 1}, False, 1),
        ("error", {"warning": 1}, False, 0),
        ("warning", {"error": 1}, False, 1),
        ("note", {"note": 1}, False, 1),
        ("note", {}, False, 0),
        ("error", {"error": 1}, True, 4),
    ],
)
def test_the_exit_code_says_what_was_found(fake_runs: FakeRuns, fail_on: str, severities: dict[str, int], damaged: bool, code: int) -> None:
    fake_runs([[rows.send()]], severities=severities, damaged=damaged)
    assert run_command(request(format="ndjson", fail_on=fail_on)) == code


def test_no_capture_leaves_no_output(fake_runs: FakeRuns, tmp_path: Path) -> None:
    fake_runs([], ends=CaptureError("a.pcap is empty"))
    with pytest.raises(CaptureError):
        run_command(request(format="ndjson", out=str(tmp_path / "out")))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("format_", "text"), [("ndjson", "SEND"), ("json", "]"), ("csv", "SEND"), (None, "SEND")])
def test_an_interrupted_run_keeps_what_was_decoded(
    fake_runs: FakeRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str], format_: str | None, text: str
) -> None:
    fake_runs([[rows.send()]], ends=KeyboardInterrupt())
    assert run_command(request(format=format_, out=str(tmp_path / "out"))) == 5
    (kept,) = tmp_path.glob("out.*.partial")
    assert text in kept.read_text()
    assert not (tmp_path / "out").exists()
    assert capsys.readouterr().err == f"pulsarscope: interrupted; the rows decoded so far are in {kept}\n"


def test_an_interrupted_run_to_standard_output_says_so(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    fake_runs([[rows.send()]], ends=KeyboardInterrupt())
    assert run_command(request(format="ndjson")) == 5
    captured = capsys.readouterr()
    assert json.loads(captured.out)["command"] == "SEND"
    assert captured.err == "pulsarscope: interrupted; the output is not complete\n"


def test_an_interrupted_run_does_not_say_that_a_name_is_absent(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    for ends, code, said in ((None, 0, "no topic is nope"), (KeyboardInterrupt(), 5, "interrupted; the output is not complete")):
        fake_runs([[rows.send()]], ends=ends)
        assert run_command(request(format="ndjson", filter='topic == "nope"')) == code
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"pulsarscope: {said}")


def test_a_closed_pipe_ends_quietly(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    fake_runs([[rows.send()]], ends=BrokenPipeError())
    assert run_command(request(format="ndjson")) == 0
    assert capsys.readouterr().err == ""


def test_a_write_error_leaves_no_half_result(fake_runs: FakeRuns, tmp_path: Path) -> None:
    fake_runs([[rows.send()]], ends=OutputError("no space left"))
    with pytest.raises(OutputError):
        run_command(request(format="ndjson", out=str(tmp_path / "out")))
    assert list(tmp_path.iterdir()) == []


def test_a_full_device_is_an_output_error(fake_runs: FakeRuns) -> None:
    fake_runs([[rows.send()]])
    with pytest.raises(OutputError, match="/dev/full"):
        run_command(request(format="ndjson", out="/dev/full"))


def test_the_limit_counts_only_what_is_asked_for(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    fake_runs([[rows.send(1), rows.finding(), rows.connection(), rows.send(2)], [rows.send(3)], [rows.send(4)]])
    assert run_command(request(limit=3, quiet=True)) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines() if "SEND" in line] == ["1.1", "2.1", "3.1"]
    fake_runs([[rows.finding(), rows.send(1), rows.finding(), rows.send(2)]])
    assert run_command(request(limit=1, format="ndjson")) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1


@pytest.mark.parametrize(("limit", "limited"), [(None, False), (1, True), (2, True), (3, True), (4, False)])
def test_a_selection_reports_whether_its_limit_was_reached(limit: int | None, limited: bool) -> None:
    given: Any = FakeRun([[rows.send(1), rows.finding(), rows.send(2)], [rows.send(3)]])
    selection = SelectedRows(("frame",), limit=limit)
    chosen = [row for _, some in selection.batches(given) for row in some if row.kind == "frame"]
    assert len(chosen) == min(limit or 3, 3)
    assert selection.limited is limited


def test_the_limit_counts_alike_what_waited_until_the_end() -> None:
    class Waiting:
        """An output that keeps its rows until the end."""

        def __init__(self) -> None:
            self.endpoints: dict[str, tuple[str, str]] = {}

        def kept(self, _rows: list[Any], _endpoints: Any) -> list[Any]:
            return []

        def rest(self) -> list[Any]:
            return [rows.finding(), rows.frame(packet=1), rows.finding(), rows.frame(packet=2)]

    class OneBatch(FakeRun):
        def __iter__(self) -> Iterator[Any]:
            yield RowBatch([], 0, 0, 0)

    once: Any = Waiting()
    given: Any = OneBatch([])
    selection = SelectedRows(("frame",), limit=1, once=once)
    packets = [[row.packet for row in chosen if row.kind == "frame"] for _, chosen in selection.batches(given)]
    assert packets == [[], [1]]


def test_rows_that_waited_together_are_written_in_parts() -> None:
    class AllAtOnce:
        """An output that keeps rows together."""

        def __init__(self) -> None:
            self.endpoints: dict[str, tuple[str, str]] = {}

        def kept(self, _rows: list[Any], _endpoints: Any) -> list[Any]:
            return [rows.frame(packet=number) for number in range(2 * ROWS_MAX + 1)]

        def rest(self) -> list[Any]:
            return []

    once: Any = AllAtOnce()
    given: Any = FakeRun([[rows.send(1)]])
    for watch, sizes in ((None, [ROWS_MAX, ROWS_MAX, 1]), (lambda _: None, [2 * ROWS_MAX + 1])):
        chosen = [some for _, some in SelectedRows(("frame",), once=once, watch=watch).batches(given)]
        assert [len(some) for some in chosen] == sizes
        assert [row.packet for some in chosen for row in some] == [*range(2 * ROWS_MAX + 1)]


def test_the_output_is_never_one_of_the_inputs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    capture = tmp_path / "a.pcap"
    capture.write_bytes(b"precious")
    run = FakeRun([])
    run.inputs.paths = [str(capture)]
    monkeypatch.setattr(pipeline, "run", lambda *_: run)
    with pytest.raises(UsageError, match="is one of the inputs"):
        run_command(request(out=str(capture)))
    assert capture.read_bytes() == b"precious"


@pytest.mark.parametrize("same", ["the file", "a hard link", "a file in the folder"])
@pytest.mark.parametrize("option", ["file", "tls_keylog", "private_key", "ledger_password", "schema"])
def test_no_file_of_the_command_line_is_overwritten(fake_runs: FakeRuns, captures: Path, tmp_path: Path, option: str, same: str) -> None:
    fake_runs([[rows.send(), rows.message()]])
    quickstart = captures / "quickstart.pcapng"
    sources = {
        "tls_keylog": captures / "go-tls13.keylog",
        "private_key": captures / "keys" / "e2e_a.private.pem",
        "ledger_password": captures / "keys" / "e2e_ag.private.pem",
        "file": quickstart,
    }
    precious = b'"string"' if option == "schema" else sources[option].read_bytes()
    folder = tmp_path / "folder"
    folder.mkdir()
    given = folder / ("message.parquet" if same == "a file in the folder" else "given.avsc")
    given.write_bytes(precious)
    out = folder if same == "a file in the folder" else given
    if same == "a hard link":
        out = folder / "link"
        out.hardlink_to(given)
    value = f"orders={given}" if option == "schema" else str(given)
    given_options: dict[str, Any] = {} if option == "file" else {option: [value]}
    reading = ReadOptions(**given_options)
    values: dict[str, Any] = {"records": "frame,message", "format": "parquet"} if out == folder else {"format": "ndjson"}
    with pytest.raises(UsageError, match="is one of the inputs"):
        run_command(CommandRequest(files=[str(given if option == "file" else quickstart)], out=str(out), reading=reading, **values))
    assert given.read_bytes() == precious
    assert {path.name for path in folder.iterdir()} <= {given.name, "link"}


def test_several_kinds_of_parquet_are_a_folder(fake_runs: FakeRuns, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    fake_runs([[rows.send(), rows.message()]])
    assert run_command(request(records="message,frame", format="parquet", out=str(tmp_path / "out"))) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["frame.parquet", "message.parquet"]


@pytest.mark.parametrize(("chosen", "count"), [({"limit": 7}, 7), ({"filter": "message.batch_index == 2"}, 20), ({}, 160)])
def test_messages_of_batches_are_chosen_and_counted_one_by_one(tmp_path: Path, chosen: dict[str, Any], count: int) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "messages.parquet"
    capture = CAPTURES / "acks-batchindex.pcap"
    assert run_command(CommandRequest(files=(str(capture),), records="message", format="parquet", out=str(out), **chosen)) == 0
    assert parquet.read_metadata(out).num_rows == count


@pytest.mark.parametrize(
    ("values", "kinds", "name"),
    [
        ({}, ("frame",), "timeline"),
        ({}, ("frame", "message", "finding"), "timeline"),
        ({}, ("message",), "messages"),
        ({}, ("exchange",), "table"),
        ({"columns": "topic"}, ("frame",), "table"),
        ({"detail": True}, ("frame",), "tree"),
        ({"hex": True}, ("frame",), "hex"),
        ({"detail": True, "hex": True}, ("frame",), "tree"),
        ({"format": "csv", "columns": "topic"}, ("frame",), "csv"),
    ],
)
def test_options_choose_the_output(values: dict[str, Any], kinds: tuple[str, ...], name: str) -> None:
    assert output_name(request(**values), kinds) == name


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"records": "frames"}, 'unknown record kind "frames"; did you mean frame'),
        ({"records": "zzz"}, "known: frame, message, exchange, connection, finding, journey, all"),
        ({"records": ","}, "--records is empty"),
        ({"detail": True, "format": "json"}, "-V cannot be combined with --format"),
        ({"detail": True, "hex": True, "columns": "topic"}, "-V and -x cannot be combined with --columns"),
        ({"hex": True, "records": "message"}, "-x shows frames: add frame"),
        ({"payload": "hex"}, "--payload is for messages"),
        ({"columns": " , "}, "--columns is empty"),
        ({"columns": "topik"}, "did you mean topic"),
        ({"format": "csv", "records": "all"}, "one kind of record"),
        ({"format": "parquet", "records": "all"}, "give one with -o"),
    ],
)
def test_impossible_options_are_refused_with_what_to_do(fake_runs: FakeRuns, values: dict[str, Any], message: str) -> None:
    fake_runs([])
    with pytest.raises(UsageError, match=message):
        run_command(request(**values))


def test_the_payload_is_only_made_for_messages(fake_runs: FakeRuns) -> None:
    requested = fake_runs([])
    run_command(request(records="all", payload="text"))
    run_command(request(hex=True, payload="hex"))
    assert [(options.payload, options.raw) for options in requested] == [("text", False), (None, True)]


def test_severities_are_those_of_the_run() -> None:
    assert FakeRun([], severities={"error": 2}).severities == Counter(error=2)


@pytest.mark.parametrize(
    ("values", "columns"),
    [
        ({"format": "ndjson"}, None),
        ({"format": "ndjson", "columns": "key, packet,key"}, ("key", "packet")),
        ({"format": "csv", "columns": "topic"}, ("topic",)),
        ({"columns": "topic"}, None),
    ],
)
def test_only_the_columns_of_messages_that_are_put_out_are_asked_for(
    fake_runs: FakeRuns, tmp_path: Path, values: dict[str, Any], columns: tuple[str, ...] | None
) -> None:
    requested = fake_runs([])
    with installed_reader("off"):  # the compiled one makes all columns
        run_command(request(records="message", out=str(tmp_path / "out"), **values))
    assert requested[0].message_columns == columns


# ---- filters


def test_only_what_the_filter_chooses_is_put_out(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    fake_runs([[rows.send(), rows.receipt()], [rows.send(packet=8), rows.finding(packet=8), rows.finding()]])
    assert run_command(request(format="ndjson", filter="command == SEND")) == 0
    assert [json.loads(line)["packet"] for line in capsys.readouterr().out.splitlines()] == [4, 8]


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("kind", ["finding", "journey"])
def test_rows_after_their_connection_have_its_addresses(jobs: int, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    wanted = {"records": kind, "format": "ndjson", "jobs": jobs}
    outputs = []
    for more in ({}, {"filter": "client.port > 0"}, {"columns": "packet,client.port"}):
        asked = msgspec.structs.replace(request(**wanted, **more), files=(str(CAPTURES / "errors.pcap"),))
        assert run_command(asked) == 0
        outputs.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    every, filtered, columns = outputs
    assert every
    assert filtered == every
    assert [row["packet"] for row in columns if row["client.port"]] == [row["packet"] for row in every]


def test_text_says_how_much_the_filter_chose(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    fake_runs([[rows.send(), rows.receipt()], [rows.send(packet=8), rows.connection()]])
    assert run_command(request(filter="command == SEND", no_color=True)) == 0
    out = capsys.readouterr().out
    assert "SEND_RECEIPT" not in out
    assert "2 of 3 frames match the filter" in out
    fake_runs([[rows.message(), rows.message(key="x")]])
    assert run_command(request(filter='key == "x"', records="message", no_color=True)) == 0
    assert "1 of 2 messages match the filter" in capsys.readouterr().out


@pytest.mark.parametrize(
    "values",
    [{}, {"records": "message"}, {"records": "exchange"}, {"detail": True}, {"subject": ("connection", "#1")}],
    ids=["timeline", "messages", "exchanges", "tree", "lanes"],
)
def test_relative_times_count_from_the_first_packet_in_every_view(values: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    path = CAPTURES / "quickstart.pcapng"
    first = next(record.time for block in BlockReader(str(path), records=True) for record in block.records)
    (send,) = (frame for frame in ps.open(str(path)).frames() if frame.packet == 22)
    chosen = CommandRequest(files=(str(path),), filter="packet == 22", quiet=True, **values)
    assert run_command(chosen) == 0
    assert f" {(send.time - first) // 1000 / 1e6:.6f}" in capsys.readouterr().out


def test_the_limit_counts_behind_the_filter(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    fake_runs([[rows.receipt(), rows.send(), rows.receipt(), rows.send(packet=8), rows.send(packet=9)]])
    assert run_command(request(format="ndjson", filter="command == SEND", limit=2)) == 0
    assert [json.loads(line)["packet"] for line in capsys.readouterr().out.splitlines()] == [4, 8]


def test_damage_is_reported_though_the_filter_drops_its_row(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    damage = rows.finding(code="capture-truncated", layer="capture", text="a.pcap ends within a packet.")
    fake_runs([[rows.send(), damage]], damaged=True)
    assert run_command(request(format="ndjson", records="frame,finding", filter="command == SEND")) == 4
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1
    assert "a.pcap ends within a packet." in captured.err


def test_a_filter_that_reads_payloads_makes_the_run_keep_them(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    requested = fake_runs([[rows.message(payload="aGVsbG8=")]])
    assert run_command(request(format="ndjson", records="message", filter='payload contains "ell"')) == 0
    assert requested[0].payload == "base64"
    (line,) = capsys.readouterr().out.splitlines()
    assert "payload" not in json.loads(line)


def test_a_filter_that_is_none_is_refused_before_anything_is_read(fake_runs: FakeRuns) -> None:
    requested = fake_runs([])
    with pytest.raises(UsageError, match="did you mean command"):
        run_command(request(filter="comand == SEND"))
    assert requested == []


def test_findings_do_not_count_less_because_of_a_filter(fake_runs: FakeRuns) -> None:
    fake_runs([[rows.send(), rows.finding()]], severities={"error": 1})
    assert run_command(request(format="ndjson", filter="command == ACK", fail_on="error")) == 1


def test_a_filter_may_read_columns_that_are_not_put_out(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    requested = fake_runs([[rows.message(), rows.message(key="x")]])
    assert run_command(request(format="csv", records="message", columns="packet", filter='key == "x"')) == 0
    assert requested[0].message_columns is None
    assert capsys.readouterr().out.split() == ["packet", "9"]


def test_what_is_followed_is_drawn_or_given_as_frames(fake_runs: FakeRuns, capsys: pytest.CaptureFixture[str]) -> None:
    fake_runs([[rows.send(), rows.frame(5, "PING"), rows.receipt(), rows.connection()]])
    assert run_command(request(subject=("message", "26:14"), no_color=True)) == 0
    out = capsys.readouterr().out
    assert "├─ SEND  seq 7" in out
    assert "2 of 3 frames belong to message 26:14" in out
    fake_runs([[rows.send(), rows.frame(5, "PING"), rows.receipt()]])
    assert run_command(request(subject=("message", "26:14"), format="ndjson")) == 0
    assert [json.loads(line)["packet"] for line in capsys.readouterr().out.splitlines()] == [4, 6]


def test_what_is_followed_can_be_filtered(captures: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(captures / "stuck-consumer.pcap")
    request = CommandRequest(files=(path,), subject=("topic", "stuck-t-20"), filter="command == SEND_RECEIPT && latency > 8ms", quiet=True)
    assert run_command(request) == 0
    shown = capsys.readouterr().out
    assert shown.count("SEND_RECEIPT") == 4
    assert "SUBSCRIBE" not in shown


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_the_tail_is_the_end_of_all_rows(
    captures: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], jobs: str
) -> None:
    capture = str(captures / "quickstart.pcapng")

    def lines(*options: str) -> list[str]:
        assert run(monkeypatch, "decode", capture, "-f", "ndjson", "-j", jobs, *options) == 0
        return capfd.readouterr().out.splitlines()

    everything = lines()
    for number in (1, 7, len(everything), 1000):
        assert lines("--tail", str(number)) == everything[-number:]
    assert lines("--tail", "3", "-Y", "command == SEND") == lines("-Y", "command == SEND")[-3:]


def test_the_tail_of_text_has_what_came_before(captures: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "decode", str(captures / "quickstart.pcapng"), "--tail", "2", "-x") == 0
    out = capsys.readouterr().out
    assert out.count("totalSize") == 2
    assert "sub sub-a" in out  # from an earlier SUBSCRIBE
    assert run(monkeypatch, "decode", str(captures / "quickstart.pcapng"), "--tail", "2", "--limit", "1") == 2
