"""Packets and records as data frames."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pulsarscope.spark
from pulsarscope.capture import expand_inputs
from pulsarscope.engine.local import ALL_RECORDS
from pulsarscope.model.errors import UsageError
from pulsarscope.spark.rows import packets
from tests.scenarios import write_pcapng
from tests.scenarios.recapture import bridged, packets_of
from tests.spark.inside import BY_DEFAULT, SOURCE_PER_FILE, Tables, local, texts

pytest.importorskip("pyspark", reason="no pyspark: pip install -e '.[spark]'")

NAMES = ("errors.pcap", "snaplen200.pcap", "raw-not-pulsar.pcap", "go-tls13-dsb.pcapng")


def decoded(spark: Any, paths: list[str], source_by: str, **options: Any) -> Tables:
    pulsarscope.spark.register(spark)
    frame = spark.read.format("pulsarscope").option("sourceBy", source_by).option("paths", json.dumps(paths)).load()
    assert frame.columns == packets.SCHEMA.names
    records = pulsarscope.spark.decode(frame, partitions=2, **options)
    try:
        tables = {kind: texts([records[kind].toArrow()]) for kind in records}
        metrics = records.metrics()
        assert metrics["connections"] >= len(tables["connection"]) > 0
        assert 0 < metrics["largest_flow_bytes"] <= metrics["bytes"]
        return tables
    finally:
        records.unpersist()


def test_packets_are_rows_and_become_records(spark: Any, captures: Path) -> None:
    paths = [str(captures / name) for name in NAMES]
    tables = decoded(spark, paths, SOURCE_PER_FILE)
    assert tables == local(expand_inputs(paths, SOURCE_PER_FILE), BY_DEFAULT)
    assert sum("go-tls13-dsb" in row and "'SEND'" in row for row in tables["frame"]) > 3


def test_all_that_opens_them_reaches_the_tasks(spark: Any, captures: Path, tmp_path: Path) -> None:
    """Secrets of the options and in a capture; some of both are invalid."""
    whole = (captures / "go-tls13-dsb.pcapng").read_bytes()
    (tmp_path / "dsb.pcapng").write_bytes(re.sub(rb"(CLIENT_HANDSHAKE_TRAFFIC_SECRET )..", rb"\1no", whole, count=1))
    key_log = tmp_path / "more.keylog"
    key_log.write_bytes((captures / "go-tls12.keylog").read_bytes() + b"CLIENT_RANDOM no secret\n")
    options: dict[str, Any] = {
        "tls_keylog": str(key_log),
        "private_key": [str(path) for path in sorted((captures / "keys").glob("*.pem"))],
        "schemas": {"schemas-int32-31": "bytes"},
        "payload": "hex",
    }
    paths = [str(captures / name) for name in ("go-tls12.pcap", "encrypted.pcap", "java-schemas.pcap")] + [str(tmp_path / "dsb.pcapng")]
    tables = decoded(spark, paths, SOURCE_PER_FILE, **options)
    opened = pulsarscope.open("-", **options)._options
    want = local(expand_inputs(paths, SOURCE_PER_FILE), msgspec.structs.replace(opened, records=ALL_RECORDS, rules=True))
    assert tables == want
    assert sum("tls-key-log-malformed" in row for row in tables["finding"]) == 2


def test_interfaces_are_vantage_points_of_packets_in_a_data_frame(spark: Any, captures: Path, tmp_path: Path) -> None:
    both = bridged(packets_of(captures / "errors.pcap"), lost=20)
    paths = [str(write_pcapng(tmp_path / f"{index}.pcapng", part)) for index, part in enumerate((both[:70], both[70:]))]
    paths.append(str(captures / "snaplen200.pcap"))
    assert decoded(spark, paths, "interface") == local(expand_inputs(paths, "interface"), BY_DEFAULT)


@pytest.mark.parametrize(
    ("options", "why"),
    [({"payload": "binary"}, "give one of"), ({"decode_as": {1: "no"}}, "no dissector"), ({"private_key": "no.pem"}, "cannot be read")],
)
def test_what_cannot_be_carried_out_is_refused_at_once(options: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        pulsarscope.spark.decode(None, **options)
