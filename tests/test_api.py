"""The library: captures as iterables of rows."""

from __future__ import annotations

from pathlib import Path
from typing import get_type_hints

import msgspec
import pytest

import pulsarscope as ps
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
    with pytest.raises(ps.UsageError, match="no records are named packets"):
        list(ps.open(QUICKSTART).records("packets"))
    for jobs in (1, 2):
        with pytest.raises(ps.UsageError, match="no records are named frames: there are frame, message"):
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


@pytest.mark.parametrize("form", ["", "HEX", "utf-8"])
def test_an_unknown_form_of_payloads_is_a_wrong_call(form: str) -> None:
    with pytest.raises(ps.UsageError):
        list(ps.open(QUICKSTART, payload=form).messages())


def test_a_table_has_a_row_for_each_record() -> None:
    pytest.importorskip("pyarrow")
    table = ps.open(QUICKSTART).table("message")
    assert table.num_rows == sum(1 for _ in ps.open(QUICKSTART).messages())
    assert "payload_sha256" in table.column_names


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_table_of_messages_says_what_their_rows_say(jobs: int) -> None:
    pytest.importorskip("pyarrow")
    capture = ps.open(str(CAPTURES / "acks-batchindex.pcap"), QUICKSTART, jobs=jobs)
    table = capture.table("message")
    for name in ("packet", "topic", "subscription", "ledger", "batch_index", "batch_size", "key", "payload_sha256", "redelivery_count"):
        assert table[name].to_pylist() == [getattr(row, name) for row in capture.messages()], name
    assert any(size is not None and size > 1 for size in table["batch_size"].to_pylist())


def test_a_capture_left_in_the_middle_leaves_nothing_open() -> None:
    rows = ps.open(QUICKSTART).frames()
    assert next(rows).command == "CONNECT"
    del rows  # an unclosed file would be a warning, and warnings are errors here


def test_several_files_can_be_decoded_side_by_side() -> None:
    paths = [QUICKSTART, str(CAPTURES / "errors.pcap"), str(CAPTURES / "compress-zlib.pcap")]
    alone, together = ps.open(*paths), ps.open(*paths, jobs=2)
    assert list(together.records()) == list(alone.records())
    frames = together.frames()
    next(frames)
    frames.close()
    with pytest.raises(ps.UsageError, match="jobs=-1"):
        ps.open(QUICKSTART, jobs=-1)


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
