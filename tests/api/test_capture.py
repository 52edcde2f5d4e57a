"""The library: captures as iterables of rows."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pyarrow as pa
import pytest

import pulsarscope as ps
from pulsarscope.model.limits import JOBS_MAX
from pulsarscope.model.records import ROWS, ConnectionRow, ExchangeRow, FindingRow, FrameRow, MessageRow, RawFrame
from tests.places import CAPTURES

QUICKSTART = str(CAPTURES / "quickstart.pcapng")


def test_each_kind_has_its_iterable() -> None:
    capture = ps.open(QUICKSTART)
    kinds = {
        FrameRow: capture.frames(),
        MessageRow: capture.messages(),
        ExchangeRow: capture.exchanges(),
        ConnectionRow: capture.connections(),
        FindingRow: capture.findings(),
    }
    for kind, rows in kinds.items():
        found = list(rows)
        assert all(isinstance(row, kind) for row in found), kind
        assert found or kind is FindingRow


def test_a_capture_can_be_read_again_and_again() -> None:
    capture = ps.open(QUICKSTART)
    first = [msgspec.json.encode(row) for row in capture.frames()]
    assert [msgspec.json.encode(row) for row in capture.frames()] == first
    both = zip(capture.frames(), capture.frames(), strict=True)
    assert all(one == two and one is not two for one, two in both)


def test_findings_after_their_connection_are_filtered_by_its_addresses() -> None:
    capture = ps.open(CAPTURES / "errors.pcap")
    found = list(capture.findings())
    assert found
    assert list(capture.findings(filter="client.port > 0")) == found


def test_rows_of_several_kinds_come_in_one_pass() -> None:
    rows = list(ps.open(QUICKSTART).records("frame", "exchange"))
    assert {row.kind for row in rows} == {"frame", "exchange"}
    assert sum(row.kind == "frame" for row in rows) == sum(1 for _ in ps.open(QUICKSTART).frames())
    assert {row.kind for row in ps.open(QUICKSTART).records()} <= set(ROWS)
    assert not [row for row in rows if isinstance(row, RawFrame)]


def test_nothing_is_read_before_it_is_asked_for() -> None:
    missing = ps.open("no such file")
    rows = missing.frames()
    with pytest.raises(ps.CaptureError, match="no such file"):
        next(iter(rows))


def test_no_path_is_a_wrong_call() -> None:
    with pytest.raises(ps.UsageError, match="no capture given"):
        list(ps.open().frames())


def test_an_unknown_kind_is_a_wrong_call() -> None:
    with pytest.raises(ps.UsageError, match='unknown record kind "packets"'):
        list(ps.open(QUICKSTART).records("packets"))
    for jobs in (1, 2):
        with pytest.raises(ps.UsageError, match='unknown record kind "frames"; did you mean frame'):
            ps.open(QUICKSTART, jobs=jobs).table("frames")


def test_the_documentation_of_a_column_can_be_read() -> None:
    shown = repr(get_type_hints(FrameRow, include_extras=True)["packet"])
    assert "Doc('Number of the packet in its file, from 1: the number Wireshark shows.')" in shown
    assert " object at 0x" not in "".join(repr(get_type_hints(row, include_extras=True)) for row in (MessageRow, ConnectionRow))


def test_paths_need_not_be_text() -> None:
    path = Path(QUICKSTART)
    assert len(list(ps.open(path).frames())) == len(list(ps.open(str(path)).frames()))
    capture, key_log = CAPTURES / "go-tls13.pcap", CAPTURES / "go-tls13.keylog"
    assert len(list(ps.open(capture, tls_keylog=key_log).frames())) == len(list(ps.open(capture, tls_keylog=[str(key_log)]).frames())) > 0
    keys = CAPTURES / "keys" / "e2e_a.private.pem"
    assert list(ps.open(path, private_key=keys).messages())


def test_several_files_are_one_capture() -> None:
    names = [str(CAPTURES / name) for name in ("quickstart.pcapng", "errors.pcap")]
    together = list(ps.open(*names).frames())
    assert len(together) == sum(len(list(ps.open(name).frames())) for name in names)
    assert {row.file for row in together} == {0, 1}


def test_payloads_and_secrets_are_given_when_asked_for() -> None:
    assert {row.payload for row in ps.open(QUICKSTART).messages()} == {None}
    assert all(isinstance(row.payload, str) for row in ps.open(QUICKSTART, payload="base64").messages())
    token = str(CAPTURES / "token-auth-py.pcap")

    def data(*, show_secrets: bool) -> set[type]:
        frames = ps.open(token, show_secrets=show_secrets).frames()
        return {
            type((row.fields or {}).get("auth_data")) for row in frames if row.command == "CONNECT" and "auth_data" in (row.fields or {})
        }

    assert (data(show_secrets=False), data(show_secrets=True)) == ({str}, {bytes})


def test_payloads_are_bytes_beside_their_messages(captures: Path) -> None:
    capture = ps.open(QUICKSTART)
    given = list(capture.payloads())
    assert [message for message, _ in given] == list(capture.messages())
    for message, payload in given:
        assert payload is not None
        assert sha256(payload).hexdigest() == message.payload_sha256
    assert [payload for _, payload in capture.payloads(filter="payload contains '0'")] == [
        each for _, each in given if each and b"0" in each
    ]
    assert {payload for _, payload in ps.open(captures / "encrypted.pcap").payloads()} == {None}
    with pytest.raises(ps.UsageError):
        capture.payloads(filter="nonsense")


@pytest.mark.parametrize("form", ["", "HEX", "utf-8"])
def test_an_unknown_form_of_payloads_is_a_wrong_call(form: str) -> None:
    with pytest.raises(ps.UsageError):
        list(ps.open(QUICKSTART, payload=form).messages())


def test_a_table_has_a_row_for_each_record() -> None:
    pytest.importorskip("pyarrow")
    table = ps.open(QUICKSTART).table("message")
    assert table.num_rows == sum(1 for _ in ps.open(QUICKSTART).messages())
    assert "payload_sha256" in table.column_names


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_table_of_messages_says_what_their_rows_say(jobs: int) -> None:
    pytest.importorskip("pyarrow")
    capture = ps.open(str(CAPTURES / "acks-batchindex.pcap"), QUICKSTART, jobs=jobs)
    table, rows = capture.table("message"), list(capture.messages())
    for name in ("packet", "topic", "subscription", "ledger", "batch_index", "batch_size", "key", "payload_sha256", "redelivery_count"):
        assert table[name].to_pylist() == [getattr(row, name) for row in rows], name
    assert any(size is not None and size > 1 for size in table["batch_size"].to_pylist())


def test_a_capture_left_in_the_middle_leaves_nothing_open() -> None:
    rows = ps.open(QUICKSTART).frames()
    assert next(rows).command == "CONNECT"
    del rows  # an unclosed file would be a warning, and warnings are errors here


@pytest.mark.slow
def test_several_files_can_be_decoded_side_by_side() -> None:
    paths = [QUICKSTART, str(CAPTURES / "errors.pcap"), str(CAPTURES / "compress-zlib.pcap")]
    alone, together = ps.open(*paths), ps.open(*paths, jobs=2)
    assert list(together.records()) == list(alone.records())
    frames = together.frames()
    next(frames)
    frames.close()
    for jobs in (-1, JOBS_MAX + 1):
        with pytest.raises(ps.UsageError, match=f"jobs={jobs}"):
            ps.open(QUICKSTART, jobs=jobs)


def test_rows_can_be_iterated_stepped_through_and_closed() -> None:
    rows = ps.open(QUICKSTART).frames()
    first = next(rows)
    second = next(iter(rows))
    assert (first.command, second.command) == ("CONNECT", "CONNECTED")
    rows.close()
    assert list(rows) == []
    ps.open(QUICKSTART).frames().close()


def test_a_table_gives_its_columns_to_any_library_of_arrow() -> None:
    pytest.importorskip("pyarrow")
    assert hasattr(ps.open(QUICKSTART).table("frame"), "__arrow_c_stream__")


def command_line(*arguments: str) -> str:
    return subprocess.run([sys.executable, "-m", "pulsarscope", *arguments], check=False, capture_output=True, text=True).stdout


def test_a_filter_selects_what_the_command_line_selects() -> None:
    capture = ps.open(QUICKSTART)
    wanted = [frame for frame in capture.frames() if frame.command == "SEND"]
    assert list(capture.frames(filter="command == SEND")) == wanted
    assert {row.kind for row in capture.records("frame", "message", filter='topic contains "ng-t"')} == {"frame", "message"}
    assert list(capture.messages(filter='payload contains "x"')) == list(capture.messages(filter='payload contains "x"'))
    assert all(message.payload is None for message in capture.messages(filter="payload_size > 0"))


@pytest.mark.parametrize("wrong", ["comand == SEND", "command ==", "("])
def test_a_filter_that_is_not_valid_is_a_wrong_call(wrong: str) -> None:
    for read in (ps.open(QUICKSTART).frames, ps.open(QUICKSTART).stats):
        with pytest.raises(ps.UsageError):
            read(filter=wrong)


def test_a_table_can_have_a_filter() -> None:
    pytest.importorskip("pyarrow")
    capture = ps.open(QUICKSTART)
    assert set(capture.table("frame", filter="command == SEND")["command"].to_pylist()) == {"SEND"}


def test_one_subject_is_followed_with_requests_and_answers() -> None:
    capture = ps.open(QUICKSTART)
    assert len(list(capture.follow(topic="ng-t-421"))) > len(list(capture.frames(filter="command == SEND")))
    commands = [frame.command for frame in capture.follow(message="489:1")]
    assert {"SEND", "SEND_RECEIPT", "MESSAGE"} <= set(commands)
    for wrong in ({}, {"topic": "a", "producer": "b"}, {"packet": "1"}, {"message": "foo"}):
        with pytest.raises(ps.UsageError):
            capture.follow(**wrong)


@pytest.mark.slow
def test_reports_are_those_of_the_command_line() -> None:
    path = str(CAPTURES / "stuck-consumer.pcap")
    made = ps.open(path).diagnose()
    printed = json.loads(command_line("diagnose", path, "--format", "json"))
    assert made["verdict"]["text"] == printed["verdict"]["text"]
    assert [group["code"] for group in made["findings"]] == [group["code"] for group in printed["findings"]]
    counted = ps.open(path).stats("topics", "consumers", filter='topic contains "stuck"')
    printed = json.loads(command_line("stats", path, "--by", "topics,consumers", "-Y", 'topic contains "stuck"', "--format", "json"))
    assert [topic["client_messages"] for topic in counted["topics"]] == [topic["client_messages"] for topic in printed["topics"]]
    assert [consumer["unacknowledged"] for consumer in counted["consumers"]] == [
        consumer["unacknowledged"] for consumer in printed["consumers"]
    ]
    assert set(ps.open(path).stats(interval=1)) > set(ps.open(path).stats())
    changes = ps.open(QUICKSTART).compare(ps.open(path))
    printed = json.loads(command_line("compare", QUICKSTART, path, "--format", "json"))
    assert [each["code"] for each in changes["findings"]] == [each["code"] for each in printed["findings"]]
    assert [each["request"] for each in changes["exchanges"]] == [each["request"] for each in printed["exchanges"]]


def test_unknown_sections_and_intervals_are_wrong_calls() -> None:
    with pytest.raises(ps.UsageError, match='unknown section "topic"; did you mean topics'):
        ps.open(QUICKSTART).stats("topic")
    with pytest.raises(ps.UsageError, match="interval=0"):
        ps.open(QUICKSTART).stats(interval=0)


@pytest.mark.parametrize("name", ["quickstart.pcapng", "go-nack-dlq-gz.pcap.gz", "schemas-py-zst.pcap.zst"])
def test_bytes_and_binary_files_are_captures_too(name: str) -> None:
    path = CAPTURES / name
    expected = list(ps.open(path).frames())
    for given in (path.read_bytes(), BytesIO(path.read_bytes())):
        with ps.open(given) as capture:
            assert list(capture.frames()) == expected
            assert list(capture.frames(filter="packet > 20")) == [frame for frame in expected if frame.packet > 20]
            assert capture.diagnose()["verdict"]["text"] == ps.open(path).diagnose()["verdict"]["text"]


@pytest.mark.parametrize("paths", [(b"", b""), (3,), ("a", b""), (StringIO(""),), (StringIO("text"),)])
def test_anything_else_is_a_wrong_call(paths: tuple[Any, ...]) -> None:
    with pytest.raises((ps.UsageError, ps.CaptureError)):
        list(ps.open(*paths).frames())


@pytest.mark.parametrize("after", [QUICKSTART, None])
def test_a_comparison_with_something_that_is_not_open_is_a_wrong_call(after: Any) -> None:
    with pytest.raises(ps.UsageError, match=f"{type(after).__name__} is not a capture: open it first"):
        ps.open(QUICKSTART).compare(after)


def test_bytes_that_are_no_capture_are_said_to_be_none() -> None:
    with pytest.raises(ps.CaptureError):
        list(ps.open(b"no capture at all").frames())


def test_times_of_a_table_can_be_timestamps() -> None:
    plain, dated = (ps.open(QUICKSTART).table("frame", timestamps=timestamps) for timestamps in (False, True))
    assert str(dated.schema.field("time").type) == "timestamp[ns, tz=UTC]"
    assert dated["time"].cast("int64").to_pylist() == plain["time"].to_pylist()
    assert dated.drop_columns("time").equals(plain.drop_columns("time"))
    connections = ps.open(QUICKSTART).table("connection", timestamps=True)
    assert {str(connections.schema.field(name).type) for name in ("time", "start", "end")} == {"timestamp[ns, tz=UTC]"}


def test_rows_are_an_arrow_stream() -> None:
    frames = ps.open(QUICKSTART).frames(filter="command == SEND")
    table = pa.table(frames)
    assert table.equals(ps.open(QUICKSTART).table("frame", filter="command == SEND"))
    assert pa.table(frames).num_rows == table.num_rows == 22, "each stream decodes anew"
