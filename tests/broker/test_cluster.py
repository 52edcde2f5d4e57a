"""A cluster of a broker and three bookies under load: findings about its storage, its links and the traces of its clients."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope.model.records import FindingRow
from pulsarscope.pytest import live
from tests.broker.cluster import LISTENER, Cluster, running_cluster
from tests.broker.java import java, missing
from tests.broker.relay import relaying
from tests.scenarios.command_line import execute
from tests.scenarios.loopback import needs_capturing

pytestmark = [
    pytest.mark.bookies,
    pytest.mark.timeout(900),  # six Java programs start
    needs_capturing,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

HERE = Path(__file__).parent

SECONDS, RATE = 10, 60
STOPPED_AFTER, STOPPED_FOR = 4, 2
TIMES = 5
"""The value of slow-bookie-times."""

TRIES = 3
"""Number of recordings to try until the other bookies respond in time: a busy machine delays them, too."""

DELAY = 0.7
"""Delay of the relay in each direction, in seconds."""

TRACED = 50

ABOUT_STORAGE = frozenset(
    {"slow-bookie", "slow-broker", "bookie-silent", "bookie-refused", "quorum-lost", "entry-damaged", "ledger-fenced"}
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    pytest.importorskip("pulsar", reason="the clients need the wheel pulsar-client")
    with running_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def load(cluster: Cluster, topic: str, *listener: str) -> subprocess.Popen[str]:
    program = [sys.executable, str(HERE / "load.py"), cluster.url, f"persistent://public/default/{topic}", str(SECONDS), str(RATE)]
    return subprocess.Popen([*program, *listener], stdout=subprocess.PIPE, text=True)


def confirmed(clients: subprocess.Popen[str]) -> int:
    """Return the number of messages that were sent and confirmed."""
    counts = json.loads(clients.communicate(timeout=SECONDS + 60)[0])
    assert counts["sent"] == counts["confirmed"] > SECONDS * RATE / 2
    return int(counts["sent"])


@pytest.fixture(scope="module")
def stopped(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, int]:
    """Record a load during which a bookie is stopped; return the capture, that bookie, and the number of messages."""
    bookie, process = next(iter(cluster.bookies.items()))
    for _ in range(TRIES):
        path = tmp_path_factory.mktemp("stopped") / "stopped.pcapng"
        with live(path, ports=cluster.ports):
            clients = load(cluster, "stopped")
            time.sleep(STOPPED_AFTER)
            process.send_signal(signal.SIGSTOP)
            time.sleep(STOPPED_FOR)
            process.send_signal(signal.SIGCONT)
            sent = confirmed(clients)
        records = json.loads(execute("stats", str(path), "--by", "bookies", "-f", "json").stdout)["bookies"]
        if all(record["add_max_ns"] < STOPPED_FOR * 1e9 / TIMES for record in records if record["bookie"] != bookie):
            return path, bookie, sent
    pytest.skip("this machine is so busy that all bookies are slow")


def findings(path: Path, codes: frozenset[str]) -> list[FindingRow]:
    return [row for row in ps.open(path).findings() if row.code in codes]


def test_a_stopped_bookie_is_slow_and_nothing_else_is(stopped: tuple[Path, str, int]) -> None:
    path, bookie, _ = stopped
    found = findings(path, ABOUT_STORAGE)
    assert {row.code for row in found} <= {"slow-bookie", "bookie-silent"}
    assert {(row.evidence or {})["bookie"] for row in found} == {bookie}
    assert any(row.code == "slow-bookie" for row in found)


def test_a_slow_publish_is_put_down_to_the_stopped_bookie(stopped: tuple[Path, str, int]) -> None:
    path, bookie, _ = stopped
    (found,) = findings(path, frozenset({"slow-publish"}))
    evidence = found.evidence or {}
    assert (evidence["leg"], evidence["bookie"]) == ("bookies", bookie)
    assert sum(evidence["legs_ns"].values()) == evidence["max_ns"] > STOPPED_FOR * 0.9e9


def test_each_send_is_joined_and_its_legs_add_up(stopped: tuple[Path, str, int]) -> None:
    path, _, sent = stopped
    records = json.loads(execute("stats", str(path), "--by", "legs", "-f", "json").stdout)["legs"]
    (topic,) = [record for record in records if record["topic"] == "persistent://public/default/stopped" and record["bookie"] is None]
    assert topic["entries"] == sent
    assert topic["joined"] >= 0.999 * sent
    for slow in topic["slowest"]:
        assert slow["broker_ns"] + slow["bookies_ns"] + slow["answer_ns"] == slow["publish_ns"]
        assert len(slow["writes"]) == 2


@pytest.mark.parametrize("jobs", [1, 2])
def test_each_journey_has_both_writes(stopped: tuple[Path, str, int], cluster: Cluster, jobs: int) -> None:
    path, _, sent = stopped
    done = execute("decode", str(path), "--records", "journey", "-f", "ndjson", "-q", "--jobs", str(jobs))
    rows = [row for row in map(json.loads, done.stdout.splitlines()) if row.get("topic") == "persistent://public/default/stopped"]
    assert len(rows) == sent
    assert Counter(row["storage_writes"] for row in rows) == {2: sent}
    assert {bookie for row in rows for bookie in row["storage_bookies"]} == cluster.bookies.keys()
    assert all(0 < row["storage_ns"] <= row["receipt_ns"] for row in rows)
    assert all(row["subscription"] == "audit" and row["ack_frame"] for row in rows)


@pytest.fixture(scope="module")
def relayed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the capture of a load whose clients are behind a slow link."""
    path = tmp_path_factory.mktemp("relayed") / "relayed.pcapng"
    with live(path, ports=cluster.ports), relaying(cluster.relay_port, cluster.port, DELAY):
        confirmed(load(cluster, "relayed", LISTENER))
    return path


def test_nothing_is_said_of_the_storage_when_the_link_of_the_client_is_slow(relayed: Path) -> None:
    assert findings(relayed, ABOUT_STORAGE) == []


def test_a_slow_publish_is_put_down_to_the_slow_link(relayed: Path) -> None:
    (found,) = findings(relayed, frozenset({"slow-publish"}))
    assert (found.evidence or {})["leg"] == "proxy"


def test_the_legs_of_a_relayed_publish_add_up(relayed: Path) -> None:
    records = json.loads(execute("stats", str(relayed), "--by", "legs", "-f", "json").stdout)["legs"]
    (topic,) = [record for record in records if record["topic"] == "persistent://public/default/relayed" and record["bookie"] is None]
    assert topic["joined"] >= 0.999 * topic["entries"]
    assert topic["proxy_p50_ns"] >= 2 * DELAY * 1e9
    for slow in topic["slowest"]:
        assert sum(slow[f"{leg}_ns"] for leg in ("proxy", "broker", "bookies", "answer")) == slow["publish_ns"]


def traces(cluster: Cluster, topic: str, *, batched: bool) -> dict[str, str]:
    """Send messages from a client with tracing; return their trace ids by number."""
    program = java(cluster.class_path, str(HERE / "Tracing.java"), cluster.url, topic, str(TRACED), str(batched).lower(), heap="256m")
    done = subprocess.run(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True, timeout=120)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {row["number"]: row["trace_id"] for row in rows}


@pytest.mark.parametrize("batched", [False, True])
def test_spans_are_in_the_traces_of_a_client_that_traces(cluster: Cluster, tmp_path: Path, *, batched: bool) -> None:
    topic = f"persistent://public/default/traced-{batched}"
    with live(tmp_path / "traced.pcapng", ports=cluster.ports) as traffic:
        traced = traces(cluster, topic, batched=batched)
    messages = [row for row in ps.open(traffic.path).messages() if row.topic == topic and row.direction in ("produce", "deliver")]
    assert len(messages) == 2 * TRACED
    assert {(row.properties or {})["number"]: row.trace_id for row in messages} == traced
    assert all(row.trace_id == traced[(row.properties or {})["number"]] for row in messages)
    done = execute("decode", str(traffic.path), "--format", "otlp", "-q")
    spans: list[dict[str, Any]] = [
        span
        for line in done.stdout.splitlines()
        for resource in json.loads(line)["resourceSpans"]
        for scope in resource["scopeSpans"]
        for span in scope["spans"]
        if topic in span["name"]
    ]
    in_traces = {(span["name"].partition(" ")[0], span["traceId"]) for span in spans}
    assert in_traces >= {(name, trace) for name in ("deliver", "process") for trace in traced.values()}
    published = {span["traceId"] for span in spans if span["name"].startswith("publish")}
    linked = {link["traceId"] for span in spans if span["name"].startswith("publish") for link in span.get("links", ())}
    assert published | linked == {*traced.values()}
