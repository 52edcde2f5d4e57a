"""Rules across connections, on captures of the same hosts taken minutes to days apart, in every way of running."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from pulsarscope.capture import Inputs
from pulsarscope.engine import packed_facts
from pulsarscope.engine.parallel import driver
from pulsarscope.engine.rule_engine import rule_engine
from pulsarscope.model.records import ROWS
from pulsarscope.output.export.arrow import table
from pulsarscope.protocols.pulsar.rules.consumers import unacked
from pulsarscope.spark.checkpoints.checkpoint import Checkpoint
from pulsarscope.spark.rows import shuffle_batches
from pulsarscope.spark.tasks.only_share import OnlyShareDecoder
from pulsarscope.spark.tasks.share_decoder import ShareBatch, States
from tests.places import CAPTURES
from tests.scenarios import write_pcap
from tests.scenarios.capturefile import ETHERNET
from tests.scenarios.conversation import START_NS
from tests.scenarios.inside import Inside
from tests.scenarios.options import Options
from tests.scenarios.recapture import packets_of
from tests.scenarios.rules.sizes import LIMIT, sending
from tests.spark.inside import Cluster, Streamed, Tables, local, of_kind, rows_of, texts

NAMES = (
    "balancer.pcap",
    "bookkeeper/raw.pcap.zst",
    "faults/delay-failover.pcap",
    "faults/dlq-all.pcap",
    "faults/failover-both.pcap",
    "faults/killed-once.pcap",
    "faults/terminated.pcap",
    "faults/txn-timeout.pcap",
    "java-chunk-interleaved.pcap.zst",
    "kafka07-broker/nested.pcap",
    "proxy-v2.pcap",
    "quickstart.pcapng",
    "rw-portreuse.pcap",
    "schemas-py-zst.pcap.zst",
    "token-refresh-java.pcap",
)
"""Captures with facts for each rule but that of messages above the limit."""

_AGES = {f"producer-behind-{limit}": 0 for limit in ("seconds", "growth-seconds", "share")}
OPTIONS = Options(frozenset(ROWS), rules=True, thresholds={**_AGES, "producer-behind-sends": 1})
"""With these thresholds, rules also emit ages that do not grow: a path with too little capacity fills a large capture."""

START = 1_700_000_000_000_000_000
MINUTE = 60_000_000_000
STARTS = (0, 30 * MINUTE, 300 * MINUTE, 3_000 * MINUTE, 3_005 * MINUTE)
"""Start times of the same captures: within the memory of rules, and beyond."""


@pytest.fixture(scope="module", autouse=True)
def few_facts() -> Iterator[None]:
    """Let keys have so many facts that some are dropped, and all rules emit facts."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(packed_facts, "FACTS_PER_KEY_MAX", 7)
        monkeypatch.setattr(unacked, "EMIT_STEP", 1)
        monkeypatch.setattr(driver, "Process", Inside)
        yield


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    """The same captures repeatedly."""
    folder = tmp_path_factory.mktemp("days")
    paths: list[str] = []
    for start in STARTS:
        for name in NAMES:
            capture = CAPTURES / name
            packets = packets_of(capture)
            (link_type,) = struct.unpack_from("<I", capture.read_bytes(), 20) if capture.suffix == ".pcap" else (ETHERNET,)
            shift = START + start - packets[0].time_ns
            moved = [packet._replace(time_ns=packet.time_ns + shift) for packet in packets]
            paths.append(str(write_pcap(folder / f"{len(paths):03}.pcap", moved, link_type=link_type)))
        paths.append(str(write_pcap(folder / f"{len(paths):03}.pcap", sending(LIMIT + 1, start=START + start - START_NS).packets)))
    return Inputs(paths, sum(Path(path).stat().st_size for path in paths), [])


@pytest.fixture(scope="module")
def want(inputs: Inputs) -> Tables:
    """The result of one run."""
    return local(inputs, OPTIONS)


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 7])
def test_a_job_gives_what_one_run_gives(inputs: Inputs, want: Tables, partitions: int) -> None:
    cluster = Cluster(inputs, OPTIONS, partitions=partitions)
    facts = rows_of(shuffle_batches.unpack(of_kind(shuffle_batches.FACT, cluster.batches)))
    rules = rule_engine(OPTIONS.dissectors(show_secrets=False), OPTIONS).rule_sets
    assert {name for rule_set in rules.values() for name in rule_set.keys} <= {row["rule"] for row in facts}
    assert cluster.tables() == want


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [(20,), (5, 13, 14, 30, 40, 50)])
def test_a_stream_gives_what_one_run_gives(inputs: Inputs, want: Tables, cuts: tuple[int, ...]) -> None:
    assert Streamed(inputs, cuts, OPTIONS).tables() == want


@pytest.mark.slow
def test_the_only_share_of_a_stream_gives_what_one_run_gives(inputs: Inputs, want: Tables, tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path / "kept"))
    checkpoint.create({})
    states: States = {}
    found = []
    cuts = (0, 5, 14, 30, 40, 50, len(inputs.paths))
    for first, end in pairwise(cuts):
        paths = [*inputs.paths[first:end], *([""] if end == cuts[-1] else [])]
        decoder = OnlyShareDecoder(OPTIONS, ShareBatch(0, [0], 1, first, paths, [None] * len(paths), START), states, checkpoint)
        found += [row for rows in decoder.rows() for row in rows if row.kind == "finding"]
        states = decoder.snapshot()
    assert texts([table("finding", found)]) == want["finding"]


@pytest.mark.slow
def test_two_processes_give_what_one_gives(inputs: Inputs, want: Tables) -> None:
    rows = [row for batch in driver.ParallelRun(inputs, OPTIONS, 2, None) for row in batch.rows]
    assert {kind: texts([table(kind, [row for row in rows if row.kind == kind])]) for kind in want} == want
