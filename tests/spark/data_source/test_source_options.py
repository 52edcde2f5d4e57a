from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pulsarscope.model.errors import CaptureError, PulsarscopeError, UsageError
from pulsarscope.spark.data_source.source_options import SourceOptions, known_columns, source_options, table_options
from pulsarscope.spark.files.capture_times import Window


def test_packets_are_the_default() -> None:
    assert source_options({"path": "a.pcap"}) == SourceOptions(("a.pcap",), "none", "packet")


@pytest.mark.parametrize(
    ("options", "paths"),
    [
        ({"path": "a"}, ("a",)),
        ({"paths": '["a", "b,c"]'}, ("a", "b,c")),
        ({"Path": "b", "PATHS": '["a"]'}, ("a", "b")),
        ({"path": "file:/a b"}, ("/a b",)),
        ({"path": "file:///a"}, ("file:///a",)),
        ({"path": "s3a://a/b?c=d"}, ("s3a://a/b?c=d",)),
    ],
)
def test_paths_come_one_by_one_or_as_a_list(options: dict[str, str], paths: tuple[str, ...]) -> None:
    assert source_options(options).paths == paths


def test_all_options_reach_the_decoder(captures: Path, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("p")
    given = {
        "path": "a",
        "RECORDS": "message",
        "sourceby": "dir",
        "columns": "topic, key,topic",
        "partitions": "7",
        "filter": 'topic contains "orders"',
        "pushdown": "False",
        "payload": "hex",
        "show_secrets": "TRUE",
        "ports": "6650, 16650",
        "decode-as": "9093=kafka07",
        "tlskeylog": str(captures / "go-tls12.keylog"),
        "privateKey": f'["{min((captures / "keys").glob("*.pem"))}"]',
        "ledgerPassword": str(password),
        "schemas": '{"orders": "bytes"}',
        "thresholds": "slow-exchange-seconds=2",
    }
    made = source_options(given)
    assert (made.kind, made.source_by, made.columns, made.partitions, made.pushdown) == ("message", "dir", ("topic", "key"), 7, False)
    assert made.make_filter() is not None
    engine = made.engine
    assert engine.records == {"message"}
    assert not engine.rules
    assert (engine.payload, engine.show_secrets, sorted(engine.ports)) == ("hex", True, [6650, 16650])
    assert engine.decode_as == {9093: "kafka07"}
    assert (len(engine.private_keys), len(engine.passwords), len(engine.schemas)) == (1, 1, 1)
    assert engine.thresholds == {"slow-exchange-seconds": 2}
    assert engine.source_by == "dir"
    assert engine.key_logs.secrets


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({}, "load"),
        ({"record": "frame"}, 'no option "record"; did you mean records'),
        ({"records": "frames"}, "did you mean frame"),
        ({"records": "frame,message"}, "give one kind"),
        ({"columns": "topic"}, "columns goes with decoded records"),
        ({"records": "frame", "columns": " ,"}, "empty"),
        ({"records": "frame", "columns": "topics,key"}, 'no column "key"'),
        ({"records": "frame", "columns": '["topic"'}, "not a JSON array of strings"),
        ({"records": "frame", "partitions": "0"}, "number from 1"),
        ({"records": "frame", "partitions": "-1"}, "number from 1"),
        ({"records": "frame", "pushdown": "yes"}, "true or false"),
        ({"records": "frame", "ports": "70000"}, "port from 1"),
        ({"records": "frame", "decodeAs": "x=kafka07"}, "port from 1"),
        ({"records": "frame", "decodeAs": "9093"}, "NAME=VALUE"),
        ({"records": "frame", "decodeAs": "9093=no"}, "no dissector"),
        ({"records": "frame", "decodeAs": "{"}, "not a JSON object of strings"),
        ({"records": "frame", "thresholds": "slow-exchange-seconds=x"}, "is not a number"),
        ({"records": "frame", "thresholds": "slow=1"}, "slow"),
        ({"records": "message", "payload": "binary"}, "give one of"),
        ({"records": "frame", "tlsKeylog": "no.keylog"}, "cannot be read"),
        ({"records": "frame", "filter": "topic =="}, "expected"),
        ({"records": "frame", "filter": "severity == error"}, "severity"),
        ({"records": "frame", "since": "today", "timesLocation": "t"}, "since=today: write a time as 2026-05-01T10:00:00.123Z"),
        ({"records": "frame", "until": "1e9", "timesLocation": "t"}, "write a time as"),
        ({"until": "2026-05-01"}, "option timesLocation"),
        ({"records": "finding", "until": "2026-05-01", "timesLocation": "t"}, "finding records look across all captures"),
        ({"records": "journey", "since": "2026-05-01", "timesLocation": "t"}, "which since and until leave out"),
    ],
)
def test_what_cannot_be_carried_out_is_refused(options: dict[str, str], why: str) -> None:
    with pytest.raises(PulsarscopeError, match=why) as caught:
        source_options(options if not options else {"path": "a", **options})
    assert "\n" not in caught.value.lines[0]


def test_a_window_is_in_utc_and_for_reads_of_complete_captures() -> None:
    given = {"path": "a", "records": "frame", "since": "2026-05-01T10:00", "until": "2026-05-01T12:00:00.5+02:00", "timesLocation": "t"}
    made = source_options(given)
    assert made.window == Window(1_777_629_600 * 10**9, 1_777_629_600 * 10**9 + 500_000_000)
    for options in (given, {"path": "a", "records": "frame", "timesLocation": "t"}):
        with pytest.raises(UsageError, match=r"go with spark\.read$"):
            source_options(options).refuse_read_options()


def test_a_table_that_is_created_has_its_own_options_alone() -> None:
    given: dict[str, Any] = {"location": "file:/a", "path": "file:/a", "option.records": "frame", "records": "frame", "owner": "x"}
    assert table_options(given | {"provider": "pulsarscope", "comment": "c"}) == {"records": "frame", "path": "file:/a"}
    assert table_options({"records": "frame", "path": "a"}) is None


def test_unknown_columns_are_refused() -> None:
    assert known_columns("frame", ("topic", "checksum_status")) == ("topic", "checksum_status")
    with pytest.raises(UsageError, match='journey records have no column "nothing"'):
        known_columns("journey", ("topic", "nothing"))


def test_captures_are_files(captures: Path) -> None:
    assert source_options({"path": str(captures / "errors.pcap"), "records": "frame"}).expand().paths == [str(captures / "errors.pcap")]
    with pytest.raises(UsageError, match="pipes"):
        source_options({"path": "-", "records": "frame"}).expand()
    with pytest.raises(CaptureError, match="nothing-there"):
        source_options({"path": "nothing-there", "records": "frame"}).expand()
