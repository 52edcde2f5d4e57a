from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pulsarscope.model.errors import OutputError, UsageError
from pulsarscope.output.export import parquet
from pulsarscope.output.export.sink import open_sink
from tests.scenarios import rows

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


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "ROW_GROUP_ROWS", 100)
    sink = open_sink(str(tmp_path / "x.parquet"))
    made = parquet.ParquetOutput(sink, rows.options(columns=("packet", "checksum")))
    for _ in range(5):
        made.write([rows.send(number) for number in range(70)])
    made.close()
    sink.finish()
    file = pq.ParquetFile(tmp_path / "x.parquet")
    groups = [file.metadata.row_group(number).num_rows for number in range(file.metadata.num_row_groups)]
    assert sum(groups) == 350
    assert max(groups) <= 100
    assert file.schema_arrow.names == ["packet", "checksum_status", "checksum_stored", "checksum_computed"]
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


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
