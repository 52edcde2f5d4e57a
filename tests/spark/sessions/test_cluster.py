"""A cluster in this process, and one behind a Connect server of which a client knows only the address."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from pulsarscope.capture import expand_inputs
from pulsarscope.model.errors import OutputError
from pulsarscope.spark.sessions.cluster import require_answer
from pulsarscope.spark.sessions.java import choose
from pulsarscope.spark.sessions.spark_session import installed_version, missing_distributions
from tests.spark.conftest import HEAP, SHORT_JAVA
from tests.spark.inside import BY_DEFAULT, SOURCE_PER_FILE, local, written

NAMES = ("errors.pcap", "raw-not-pulsar.pcap", "shared-nack-dlq.pcap", "go-tls13-dsb.pcapng")


@pytest.mark.parametrize(
    ("url", "why"),
    [("sc://127.0.0.1:{port}", r"no Connect server answers at sc://127\.0\.0\.1:\d+ \("), ("sc://127.0.0.1:x", "no Connect")],
)
def test_an_address_at_which_nothing_answers_is_said_at_once(url: str, why: str) -> None:
    with pytest.raises(OutputError, match=why):
        require_answer(url.format(port=free_port()) + "/;token=secret")


def test_the_token_of_an_address_is_not_shown() -> None:
    with pytest.raises(OutputError) as raised:
        require_answer(f"sc://127.0.0.1:{free_port()}/;token=secret")
    assert "secret" not in str(raised.value)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@pytest.fixture(scope="module")
def server(can_run: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:  # noqa: ARG001 - it skips
    """Start a Connect server of the pyspark wheel, whose Python has no pulsarscope except what clients bring."""
    if missing := missing_distributions("sc://"):
        pytest.skip(f"no {', '.join(missing)}: pip install -e '.[connect]'")
    folder = tmp_path_factory.mktemp("server")
    (spark,) = getattr(find_spec("pyspark"), "submodule_search_locations", None) or [""]
    blocked = folder / "python"
    # Without the .pth files of site-packages, there is no editable installation.
    packages = [path for path in sys.path if path.endswith("site-packages")]
    blocked.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{":".join(packages)}" exec {sys.executable} -S "$@"\n')
    blocked.chmod(0o755)
    port = free_port()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "JAVA_HOME": str(choose(os.environ, installed_version("pyspark") or "").home_for_spark(folder / "java")),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(blocked),
        "PYSPARK_DRIVER_PYTHON": str(blocked),
    }
    settings = {
        "spark.connect.grpc.binding.port": port,
        "spark.ui.enabled": "false",
        "spark.local.dir": folder,
        "spark.sql.warehouse.dir": folder / "warehouse",
        "spark.sql.shuffle.partitions": 2,
    }
    command: list[str | Path] = [Path(spark) / "bin" / "spark-submit", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
    command += ["--master", "local[2]", "--driver-memory", HEAP, "--driver-java-options", SHORT_JAVA]
    command += [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*command, "spark-internal"], env=environment, stdout=log, stderr=log, cwd=folder)
    try:
        end = time.monotonic() + 240
        while not answers(port):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < end
            time.sleep(0.1)
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def answers(port: int) -> bool:
    with closing(socket.socket()) as client:
        return not client.connect_ex(("127.0.0.1", port))


CLIENT = """
import json, sys
from pathlib import Path

import pulsarscope.spark
from pulsarscope.spark.sessions.cluster import is_remote
from pulsarscope.spark.sessions.spark_session import session

url, paths, source_by = json.loads(sys.argv[1])

def place(batches):
    import pulsarscope
    for batch in batches:
        yield type(batch).from_pydict({"place": [pulsarscope.__file__]})

with session(url, {}) as spark:
    assert is_remote(spark)
    (row,) = spark.range(0, 1, 1, 1).mapInArrow(place, "place string").collect()
    pulsarscope.spark.register(spark)
    reader = spark.read.format("pulsarscope").option("paths", json.dumps(paths)).option("sourceBy", source_by)
    records = pulsarscope.spark.decode(reader.load(), partitions=2)
    kinds = "frame", "finding"
    counts = {kind: records[kind].count() for kind in kinds}
    direct = {kind: reader.option("records", kind).option("partitions", 3).load().count() for kind in kinds}
    print(json.dumps([row.place, counts, direct]))
"""


def test_a_remote_session_reads_and_decodes(server: str, captures: Path) -> None:
    """Runs in a separate process: a process has either local sessions or remote ones."""
    paths = [str(captures / name) for name in NAMES]
    given = json.dumps([server, paths, SOURCE_PER_FILE])
    result = subprocess.run([sys.executable, "-c", CLIENT, given], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    place, counts, direct = json.loads(result.stdout)
    assert "pulsarscope.zip/" in place
    rows = local(expand_inputs(paths, SOURCE_PER_FILE), BY_DEFAULT)
    assert counts == direct == {kind: len(rows[kind]) for kind in counts}


def test_the_pipeline_on_a_connect_server_gives_the_rows_of_decode(server: str, captures: Path, tmp_path: Path) -> None:
    paths = [str(captures / name) for name in NAMES]
    command = [sys.executable, "-m", "pulsarscope", "pipeline", *paths, "--source-by", SOURCE_PER_FILE, "--master", server]
    result = subprocess.run([*command, "-o", str(tmp_path / "out")], capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stderr
    assert written(tmp_path / "out") == local(expand_inputs(paths, SOURCE_PER_FILE), BY_DEFAULT)
