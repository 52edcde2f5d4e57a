from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from pulsarscope.model.errors import OutputError, UsageError
from pulsarscope.output.export import parquet
from pulsarscope.output.export.sink import open_sink
from tests.scenarios import rows
from tests.scenarios.both_readers import reader

pq = pytest.importorskip("pyarrow.parquet")


def test_one_kind_is_one_file(tmp_path: Path) -> None:
    sink = open_sink(str(tmp_path / "frames.parquet"))
    made = parquet.ParquetOutput(sink, rows.options())
    made.write([rows.send(), rows.receipt()])
    made.write([])
    made.close()
    sink.finish()
    table = pq.read_table(tmp_path / "frames.parquet")
    assert table.num_rows == 2
    assert table.column("command").to_pylist() == ["SEND", "SEND_RECEIPT"]


def test_several_kinds_are_a_folder_with_a_file_for_each_even_without_rows(tmp_path: Path) -> None:
    sink = open_sink(str(tmp_path / "out"), folder=True)
    made = parquet.ParquetOutput(sink, rows.options("frame", "message", "finding"))
    made.write([rows.send(), rows.message(), rows.receipt()])
    made.close()
    sink.finish()
    counts = {path.name: pq.read_table(path).num_rows for path in (tmp_path / "out").iterdir()}
    assert counts == {"frame.parquet": 2, "message.parquet": 1, "finding.parquet": 0}


def test_several_kinds_in_one_file_are_refused(tmp_path: Path) -> None:
    sink = open_sink(str(tmp_path / "one.parquet"))
    with pytest.raises(UsageError, match="give a folder with -o"):
        parquet.ParquetOutput(sink, rows.options("frame", "message"))
    sink.abandon()


@pytest.mark.parametrize("choice", ["off", "require"])
def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choice: str) -> None:
    if choice == "require":
        pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 100)
    sink = open_sink(str(tmp_path / "x.parquet"))
    with reader(choice):
        made = parquet.ParquetOutput(sink, rows.options(columns=("packet", "checksum")))
        for block in range(5):
            made.write([rows.send(70 * block + number) for number in range(70)])
        made.close()
    sink.finish()
    file = pq.ParquetFile(tmp_path / "x.parquet")
    groups = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    assert file.read().column("packet").to_pylist() == [rows.send(number).packet for number in range(350)]
    assert max(groups) <= 100
    assert file.schema_arrow.names == ["packet", "checksum_status", "checksum_stored", "checksum_computed"]
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


@pytest.mark.parametrize("choice", ["off", "require"])
def test_differences_of_numbers_are_stored_whatever_they_are(tmp_path: Path, choice: str) -> None:
    if choice == "require":
        pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    numbers = [0, 1, (1 << 63) - 1, -(1 << 63), None, (1 << 63) - 1, None, -1, *range(300)]
    sink = open_sink(str(tmp_path / "x.parquet"))
    with reader(choice):
        made = parquet.ParquetOutput(sink, rows.options("message"))
        for block in (numbers[:5], numbers[5:]):
            made.write([msgspec.structs.replace(rows.message(), index=number, partition=number) for number in block])
        made.close()
    sink.finish()
    file = pq.ParquetFile(tmp_path / "x.parquet")
    encodings = {column["path_in_schema"]: column["encodings"] for column in file.metadata.row_group(0).to_dict()["columns"]}
    assert "DELTA_BINARY_PACKED" in encodings["index"]
    assert "DELTA_BINARY_PACKED" not in encodings["partition"]
    table = file.read()
    assert table.column("index").to_pylist() == table.column("partition").to_pylist() == numbers


def test_both_readers_write_the_same_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pulsarscope_native", reason="pulsarscope-native is not installed")
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 30)
    exchanges = [msgspec.structs.replace(rows.exchange(), topic=f"t-{number % 7}", key=f"1:{number}") for number in range(100)]
    for choice in ("off", "require"):
        sink = open_sink(str(tmp_path / choice), folder=True)
        with reader(choice):
            made = parquet.ParquetOutput(sink, rows.options("frame", "exchange"))
            for start in range(0, 100, 10):
                made.write([*exchanges[start : start + 10], rows.send(start, topic=None), rows.receipt(start, findings=["body-mismatch"])])
            made.close()
        sink.finish()
    for kind in ("frame", "exchange"):
        files = [pq.ParquetFile(tmp_path / choice / f"{kind}.parquet") for choice in ("off", "require")]
        expected, compiled = (file.read() for file in files)
        assert compiled.equals(expected)
        assert compiled.schema.equals(expected.schema, check_metadata=True)
        assert files[1].schema.equals(files[0].schema)
        assert compiled.schema.field("topic").metadata[b"description"]
    assert files[1].metadata.num_row_groups > 1


def test_a_full_disk_is_an_output_error() -> None:
    sink = open_sink("/dev/full")
    made = parquet.ParquetOutput(sink, rows.options())
    made.write([rows.send(topic=str(number) * 1_000) for number in range(300)])
    with pytest.raises(OutputError, match="/dev/full"):  # noqa: PT012 - whichever of the two finds out
        made.close()
        sink.finish()
    sink.abandon()


@pytest.mark.slow
def test_an_abandoned_folder_says_why_in_one_line(captures: Path, tmp_path: Path) -> None:
    limited = ["bash", "-c", 'ulimit -f 8; trap "" XFSZ; exec "$@"', "-"]
    command = [*limited, sys.executable, "-m", "pulsarscope", "decode", str(captures / "stuck-consumer.pcap")]
    arguments = ["--format", "parquet", "--records", "all", "-o", str(tmp_path / "tables")]
    result = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 5
    assert len(result.stderr.splitlines()) == 1
    assert not list(tmp_path.iterdir())
