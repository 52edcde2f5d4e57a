"""The complete pipeline on a real Spark."""

from __future__ import annotations

import gzip
import heapq
import json
import random
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import zstandard

from benchmarks.traffic import records, short_connections, steady, write_records
from pulsarscope.capture import expand_inputs
from pulsarscope.cli.arguments.options import CommandRequest, ReadOptions
from pulsarscope.cli.arguments.pipeline_request import PipelineRequest, SparkOptions, table_options
from pulsarscope.cli.commands.pipeline import run_job
from pulsarscope.cli.run_command import run_command
from pulsarscope.model.records import ALL
from pulsarscope.output.export.arrow import arrow_schema
from tests.places import DOCS
from tests.spark.inside import BY_DEFAULT, CAPTURES_WITH_SECRETS, EVERYTHING, SOURCE_PER_FILE, local, read_options, ring, written

run = pytest.importorskip("pulsarscope.spark.jobs.job", reason="no pyspark: pip install -e '.[spark]'").run


def test_all_captures_give_the_rows_of_the_local_decoder(spark: Any, captures: Path, tmp_path: Path) -> None:
    """Files of more than 64 KiB are read in portions where possible."""
    request = PipelineRequest(
        files=[str(captures)],
        out=str(tmp_path / "out"),
        reading=ReadOptions(source_by=SOURCE_PER_FILE),
        spark=SparkOptions(partitions=3, split="64KiB"),
    )
    assert run_job(spark, request, table_options(request), lambda _: None) == 0
    out = tmp_path / "out"
    assert written(out) == local(expand_inputs([str(captures)], SOURCE_PER_FILE), BY_DEFAULT)
    assert {path.name for path in out.iterdir()} == {*ALL, "_SUCCESS"}
    for kind in ALL:
        parts = sorted((out / kind).iterdir())
        assert all(path.name.startswith("part-") for path in parts)
        assert pyarrow.parquet.read_schema(parts[0]).equals(arrow_schema(kind))
        assert spark.read.parquet(str(out / kind)).count() == len(written(out)[kind])


def test_secrets_keys_and_schemas_come_to_the_tasks(spark: Any, captures: Path, tmp_path: Path) -> None:
    files = [str(captures / name) for name in CAPTURES_WITH_SECRETS]
    request = PipelineRequest(files=files, out=str(tmp_path / "out"), reading=read_options(captures), spark=SparkOptions(partitions=2))
    options = table_options(request)
    assert run_job(spark, request, options, lambda _: None) == 0
    assert written(tmp_path / "out") == local(expand_inputs(files, SOURCE_PER_FILE), options)


def test_four_of_twenty_files_are_corrupt_and_the_rest_is_exact(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    bulk = tmp_path / "bulk.cap"
    short_connections(bulk, 60, 1)
    corrupt(ring(bulk, folder, 20))
    out = tmp_path / "out"
    request = PipelineRequest(files=[str(folder)], out=str(out), spark=SparkOptions(partitions=4))
    assert run_job(spark, request, table_options(request), lambda _: None) == 4
    inputs = expand_inputs([str(folder)])
    assert written(out) == local(inputs, BY_DEFAULT)
    codes = pyarrow.parquet.read_table(out / "finding").column("code").to_pylist()
    assert {"capture-truncated": 2, "capture-malformed": 1, "not-a-capture": 1}.items() <= Counter(codes).items()


def corrupt(files: list[Path]) -> None:
    """Truncate one file and one zst file, put random bytes into the middle of one, and replace one with other contents."""
    cut, packed, noisy, other = files[3], files[8], files[13], files[17]
    cut.write_bytes(cut.read_bytes()[:-11])
    data, packer = packed.read_bytes(), zstandard.ZstdCompressor().compressobj()
    half = packer.compress(data[: len(data) // 2]) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    packed.write_bytes((half + packer.compress(data[len(data) // 2 :]) + packer.flush())[:-9])
    noise = bytearray(noisy.read_bytes())
    noise[len(noise) // 2 : len(noise) // 2 + 2000] = random.Random(1).randbytes(2000)  # more than a packet
    noisy.write_bytes(noise)
    other.write_bytes(b"\xd4\xc3\xb2\xa1 but no capture")


def test_a_ring_of_mixed_traffic_partly_compressed_listed_in_any_order(spark: Any, tmp_path: Path) -> None:
    bulk, folder = tmp_path / "bulk.cap", tmp_path / "ring"
    mixed(bulk, 3)
    folder.mkdir()
    files = []
    for number, path in enumerate(ring(bulk, folder, 12)):
        data = path.read_bytes()
        name, packed = ((".gz", gzip.compress(data, 1)), (".zst", zstandard.compress(data)), ("", data))[number % 3]
        path.unlink()
        files.append(path.with_name(path.name + name))
        files[-1].write_bytes(packed)
    want = local(expand_inputs([str(path) for path in files]))
    assert len(want["frame"]) > 6_000
    assert len(want["connection"]) > 90
    random.Random(1).shuffle(files)
    for partitions, split in ((1, None), (64, 1 << 15)):
        out = tmp_path / f"out{partitions}"
        run(spark, [str(path) for path in files], str(out), EVERYTHING, partitions=partitions, split=split)
        assert written(out) == want


def mixed(out: Path, megabytes: int) -> None:
    """Write simultaneous traffic of all kinds, each from hosts of its own."""
    made = []
    for number, kind in enumerate(("tiny", "sync", "batch", "big", "connections")):
        path = out.with_name(kind)
        if kind == "connections":
            short_connections(path, 100 * megabytes // 3, 1)
        else:
            steady(path, kind, megabytes / 5, 1)
        network = bytes([10, 1 + number])
        made.append([(time, packet[:26] + packet[26:34].replace(b"\x0a\x01", network) + packet[34:]) for time, packet in records(path)])
    write_records(path, out, heapq.merge(*made))


def test_json_is_the_very_lines_of_decode(spark: Any, captures: Path, tmp_path: Path) -> None:
    capture = str(captures / "quickstart.pcapng")
    run(spark, [capture], str(tmp_path / "out"), BY_DEFAULT, "json")
    lines = [line for path in (tmp_path / "out").glob("*/part-*") for line in path.read_text().splitlines()]
    run_command(CommandRequest(files=(capture,), records="all", format="ndjson", out=str(tmp_path / "local")))
    assert sorted(lines) == sorted((tmp_path / "local").read_text().splitlines())
    assert {json.loads(line)["record"] for line in lines} == set(ALL) - {"finding"}


def test_the_questions_of_the_docs_are_answered(spark: Any, captures: Path, tmp_path: Path) -> None:
    names = ("errors.pcap", "stuck-consumer.pcap", "shared-nack-dlq.pcap", "rw-portreuse.pcap")
    run(spark, [str(captures / name) for name in names], str(tmp_path / "out"), EVERYTHING)
    for kind in ALL:
        spark.read.parquet(str(tmp_path / "out" / kind)).createOrReplaceTempView(kind)
    questions = re.findall(r"```sql\n(.*?)```", (DOCS / "spark.md").read_text(), re.DOTALL)
    assert len(questions) == 10
    answered = [bool(spark.sql(question).collect()) for question in questions]
    assert answered.count(False) <= 1  # one of them may be about something that no capture here contains
