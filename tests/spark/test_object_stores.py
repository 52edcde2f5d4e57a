"""Captures, tables and checkpoints in an object store, over the S3 protocol of a local server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow.parquet
import pytest

from pulsarscope.capture import Inputs, expand_inputs
from pulsarscope.dissect.contract.rules import Fact, Where
from pulsarscope.engine.flows import fact_rules
from pulsarscope.spark.checkpoints.checkpoint import Checkpoint, Commit
from pulsarscope.spark.checkpoints.fact_slices import facts_of, read_slice, written
from pulsarscope.spark.checkpoints.waiting_facts import SLICES, WaitingFacts, of_task
from pulsarscope.spark.data_source.landing_folder import LandingFolder
from pulsarscope.spark.files.remote_files import list_files, open_path, system_at
from pulsarscope.spark.files.table_files import TableWriter, finish_tables, require_empty
from tests.spark.inside import BY_DEFAULT, Cluster, cut, local, texts

ThreadedMotoServer = pytest.importorskip("moto.server", reason="no moto: pip install 'moto[s3,server]'").ThreadedMotoServer

NAMES = ("shared-nack-dlq.pcap", "errors.pcap", "go-nack-dlq-gz.pcap.gz")


class Bucket:
    """A bucket of a server."""

    def __init__(self, port: int, name: str) -> None:
        self.name = name
        self.query = f"?endpoint_override={quote(f'http://127.0.0.1:{port}', safe='')}&region=us-east-1&allow_bucket_creation=true"
        self._system, _ = system_at(self.uri(""))
        self._system.create_dir(name)

    def uri(self, key: str) -> str:
        return f"s3://{self.name}/{key}{self.query}"

    def put(self, key: str, data: bytes) -> None:
        with self._system.open_output_stream(f"{self.name}/{key}", compression=None) as stream:
            stream.write(data)

    def delete(self, key: str) -> None:
        self._system.delete_file(f"{self.name}/{key}")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


@pytest.fixture
def bucket(port: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name, value in (("AWS_ACCESS_KEY_ID", "who"), ("AWS_SECRET_ACCESS_KEY", "what"), ("AWS_EC2_METADATA_DISABLED", "true")):
        monkeypatch.setenv(name, value)
    return Bucket(port, f"b{abs(hash(request.node.name))}")


def expanded(uri: str) -> Inputs:
    return expand_inputs([uri], "none", list_files, open_path)


def test_captures_in_a_bucket_give_the_rows_of_files(bucket: Bucket, captures: Path) -> None:
    for name in reversed(NAMES):
        bucket.put(f"monday/{name}", (captures / name).read_bytes())
    there, here = expanded(bucket.uri("monday")), expand_inputs([str(captures / name) for name in NAMES])
    assert [path.partition("?")[0].rpartition("/")[2] for path in there.paths] == [Path(path).name for path in here.paths]
    assert Cluster(there, BY_DEFAULT).tables() == local(here, BY_DEFAULT)
    assert expanded(bucket.uri("mon*/*.pcap")).paths == [path for path in there.paths if ".pcap?" in path]


def test_an_object_that_vanishes_while_the_job_runs_is_a_finding(bucket: Bucket, captures: Path) -> None:
    for name in NAMES[:2]:
        bucket.put(f"monday/{name}", (captures / name).read_bytes())
    inputs = expanded(bucket.uri("monday"))
    bucket.delete(f"monday/{NAMES[0]}")
    findings = [row for row in Cluster(inputs, BY_DEFAULT).tables()["finding"] if "file-unreadable" in row]
    assert len(findings) == 1
    assert NAMES[0] in findings[0]


def test_tables_in_a_bucket(bucket: Bucket, captures: Path) -> None:
    inputs = expand_inputs([str(captures / NAMES[0])])
    out = bucket.uri("tables")
    require_empty(out)
    from pulsarscope.engine.local import Run  # noqa: PLC0415 - here alone

    writer = TableWriter(out, "parquet", ("frame",))
    for batch in Run(inputs, BY_DEFAULT):
        rows = [row for row in batch.rows if row.kind == "frame"]
        if rows:
            writer.put("frame", rows)
    finish_tables(out, writer.finish(), ("frame",))
    system, path = system_at(out)
    assert texts([pyarrow.parquet.read_table(f"{path}/frame", filesystem=system)]) == local(inputs, BY_DEFAULT)["frame"]
    with pytest.raises(Exception, match="is not an empty folder"):
        require_empty(out)


def test_the_checkpoint_of_a_stream_in_a_bucket(bucket: Bucket, captures: Path, tmp_path: Path) -> None:
    paths = cut(captures / NAMES[0], tmp_path, [0.5]).paths
    kept = Checkpoint(bucket.uri("kept"))
    assert not kept.resumes({"records": "frame"})
    kept.create({"records": "frame"})
    assert Checkpoint(bucket.uri("kept")).resumes({"records": "frame"})
    landing = LandingFolder(bucket.uri("in"), "none", 0, [])
    for number, path in enumerate(paths):
        bucket.put(f"in/{number}.pcap", Path(path).read_bytes())
        landed = landing.poll(number, take_all=True)
        assert [capture.path for capture in landed] == [bucket.uri(f"in/{number}.pcap")]
        assert landed[0].is_unchanged()
        kept.append(landed)
    assert [capture.position for capture in Checkpoint(bucket.uri("kept")).captures()] == [0, 1]
    kept.write_state("000000002-000.bin", {"a": b"\0"})
    assert kept.read_state("000000002-000.bin", dict[str, Any]) == {"a": b"\0"}
    kept.remove_states(lambda _: True)
    assert kept.read_state("000000002-000.bin", dict[str, Any]) is None
    fact = Fact(Where(None, 0, 1, 0, 7, "c"), "delivered", {})
    for batch in (1, 2):
        with written(kept, of_task(batch, 0), fact_rules(BY_DEFAULT)) as writer:
            writer.add("pulsar:journey", "7:1", fact)
    tables = [read_slice(kept, [of_task(1, 0), of_task(2, 0)], number) for number in range(SLICES)]
    assert [each for table in tables for each in facts_of(table)] == [("pulsar:journey", "7:1", fact)] * 2
    kept.commit(Commit(0, 2, WaitingFacts(1, [2])))
    with pytest.raises(FileNotFoundError):
        kept.opened(f"facts/{of_task(1, 0)}")
    assert Checkpoint(bucket.uri("kept")).last_commit().facts == WaitingFacts(1, [2])
    bucket.put("in/0.pcap", b"changed")
    assert not kept.captures()[0].is_unchanged()


def test_a_stream_of_a_bucket_gives_the_rows_of_one_run(bucket: Bucket, captures: Path, tmp_path: Path) -> None:
    stream_source = pytest.importorskip("pulsarscope.spark.data_source.stream_source", reason="no pyspark: pip install -e '.[spark]'")
    if stream_source.limits is None:
        pytest.skip("Spark 4.1 has no limits")
    from pulsarscope.output.export.arrow import arrow_schema  # noqa: PLC0415 - with Spark only
    from pulsarscope.spark.data_source.source_options import source_options  # noqa: PLC0415 - as above

    inputs = cut(captures / NAMES[0], tmp_path, (0.3, 0.6))
    given = {"records": "frame", "path": bucket.uri("in"), "stateLocation": bucket.uri("state"), "settle": "0", "partitions": "2"}
    offset = {"files": 0}
    batches = []
    for number, path in enumerate([*inputs.paths, None]):
        if path is not None:
            bucket.put(f"in/{number}.pcap", Path(path).read_bytes())
        checked = source_options(given if path is not None else given | {"finish": "true"})
        reader = stream_source.stream_reader(checked, arrow_schema("frame").names)
        end = json.loads(json.dumps(reader.latestOffset(offset, reader.getDefaultReadLimit())))
        batches += [batch for partition in reader.partitions(offset, end) for batch in reader.read(partition)]
        reader.commit(end)
        offset = end
    assert offset == {"files": 4}
    assert texts(batches) == local(inputs, BY_DEFAULT)["frame"]
