"""Packets and records as data frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pulsarscope.spark
from pulsarscope.capture import expand_inputs
from pulsarscope.errors import UsageError
from pulsarscope.spark import packets
from tests.spark.inside import local, texts

inputs_of = pytest.importorskip("pulsarscope.spark.source", reason="no pyspark: pip install -e '.[spark]'").inputs_of

NAMES = ("errors.pcap", "ipv6.pcap", "snaplen200.pcap", "raw-not-pulsar.pcap")


def test_packets_are_rows_and_become_records(spark: Any, captures: Path, tmp_path: Path) -> None:
    for name in NAMES:
        (tmp_path / name).write_bytes((captures / name).read_bytes())
    pulsarscope.spark.register(spark)
    found = spark.read.format("pulsarscope").option("sourceBy", r"([^/]*)$").load(str(tmp_path))
    assert found.columns == packets.SCHEMA.names
    records = pulsarscope.spark.decode(found, partitions=2)
    want = local(expand_inputs([str(tmp_path)], r"([^/]*)$"))
    assert {kind: texts([records[kind].toArrow()]) for kind in records} == want
    records.unpersist()


@pytest.mark.parametrize(
    ("options", "paths"), [({"path": "{0}"}, 1), ({"paths": '["{0}", "{1}"]'}, 2), ({"Path": "{0}", "PATHS": '["{1}"]'}, 2)]
)
def test_paths_come_one_by_one_or_as_a_list(captures: Path, options: dict[str, str], paths: int) -> None:
    files = [str(captures / name) for name in ("errors.pcap", "ipv6.pcap")]
    given = {name: value.replace("{0}", files[0]).replace("{1}", files[1]) for name, value in options.items()}
    assert len(inputs_of(given).paths) == paths


def test_without_a_path_it_is_said_what_to_give() -> None:
    with pytest.raises(UsageError, match="load"):
        inputs_of({})
