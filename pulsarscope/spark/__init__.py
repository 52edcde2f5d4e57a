"""Captures on Spark: a data source of decoded records, or of packets that are decoded into one data frame for each kind.

pulsarscope.spark.register(spark)
spark.read.format("pulsarscope").option("records", "frame").load("/captures/monday").groupBy("command").count().show()

From packets, one pass makes all kinds:

packets = spark.read.format("pulsarscope").load("/captures/monday")
records = pulsarscope.spark.decode(packets)
records["frame"].groupBy("command").count().show()
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pulsarscope.api.options import AnyPath
    from pulsarscope.spark.jobs.decoding import Records


def register(spark: SparkSession) -> None:
    """Register the format `pulsarscope` for `spark.read` and for tables in a session, with the settings that it and decoding need."""
    from pulsarscope.spark.data_source.source import CaptureDataSource  # noqa: PLC0415 - as above
    from pulsarscope.spark.sessions.spark_session import OF_SESSIONS, SETTINGS  # noqa: PLC0415 - pyspark is an extra

    spark.dataSource.register(CaptureDataSource)
    for name, value in SETTINGS.items():
        if name.startswith(OF_SESSIONS):
            spark.conf.set(name, value)


def decode(
    packets: DataFrame,
    *kinds: str,
    partitions: int | None = None,
    show_secrets: bool = False,
    payload: str | None = None,
    ports: Collection[int] = (),
    decode_as: Mapping[int, str] | None = None,
    tls_keylog: AnyPath | Sequence[AnyPath] = (),
    private_key: AnyPath | Sequence[AnyPath] = (),
    ledger_password: AnyPath | Sequence[AnyPath] = (),
    schemas: Mapping[str, AnyPath] | None = None,
    names: AnyPath | Sequence[AnyPath] = (),
    thresholds: Mapping[str, float] | None = None,
) -> Records:
    """Decode packets into a data frame for each kind of record.

    One pass decodes all kinds; its result stays on disk until `unpersist` of the returned object is called. An earlier pass over the
    packets collects findings about files, and TLS secrets in them. The rows of these have no flow, and a selection of packets must keep
    them.

    Args:
        packets: rows of the format `pulsarscope`.
        kinds: kinds of records; all by default.
        partitions: number of decoding tasks; by default, Spark's number of shuffle partitions.
        show_secrets: as in `pulsarscope.open`, like all options below. Files that they name are read at once.
        payload: form of the payload of messages.
        ports: server ports to decode as Pulsar.
        decode_as: names of protocols by server port.
        tls_keylog: files with secrets of TLS connections.
        private_key: files with RSA keys.
        ledger_password: files with passwords of BookKeeper's ledgers.
        schemas: schema files by topic.
        names: files that name the topics of ledgers.
        thresholds: limits that decide findings, by name.

    Raises:
        UsageError: a kind is unknown, or an option has an invalid value.
    """
    from pulsarscope.api.options import library_options  # noqa: PLC0415 - as above
    from pulsarscope.engine.flows import check_options  # noqa: PLC0415 - as above
    from pulsarscope.engine.options import ALL_RECORDS  # noqa: PLC0415 - as above
    from pulsarscope.model.records import refuse_unknown  # noqa: PLC0415 - as above
    from pulsarscope.spark.jobs.decoding import decode_packets  # noqa: PLC0415 - as above

    records = frozenset(kinds) or ALL_RECORDS
    refuse_unknown(records)
    options = library_options(show_secrets, payload, ports, decode_as, tls_keylog, private_key, ledger_password, schemas, names, thresholds)
    options = msgspec.structs.replace(options, records=records, rules="finding" in records)
    check_options(options)
    return decode_packets(packets, options, partitions)


def reads(**options: object) -> dict[str, int]:
    """Return how many captures and bytes there are, and how many of them `spark.read` with these options would read.

    It examines the captures from this machine, and decodes nothing. For an index, it counts the bytes of the frames that the option
    `filter` passes; filters of SQL are not known here. Raises UsageError or CaptureError as the read does.
    """
    from pulsarscope.spark.data_source.indexed_source import IndexedRecordReader, usable_index  # noqa: PLC0415 - as above
    from pulsarscope.spark.data_source.source_options import source_options  # noqa: PLC0415 - as above

    checked = source_options({name: str(value) for name, value in options.items()})
    inputs = checked.expand()
    found = checked.reads(inputs)
    size = inputs.sizes or 0
    if (index := usable_index(checked, inputs)) is not None:
        read = IndexedRecordReader(checked, inputs, (), index).bytes_read()
        return {"captures": len(inputs.paths), "captures_read": 0, "bytes": size, "bytes_read": read}
    if found is None:
        return {"captures": len(inputs.paths), "captures_read": len(inputs.paths), "bytes": size, "bytes_read": size}
    sizes = [size for is_read, size in found if is_read]
    return {"captures": len(found), "captures_read": len(sizes), "bytes": size, "bytes_read": sum(sizes)}


def zip_package(folder: AnyPath) -> str:
    """Write this package into a folder as a zip file, for `spark.addArtifacts(…, pyfile=True)`, and return its path."""
    from pathlib import Path  # noqa: PLC0415 - as above

    from pulsarscope.spark.sessions.spark_session import zip_package as write  # noqa: PLC0415 - as above

    return write(Path(os.fspath(folder)))


__all__ = ["decode", "reads", "register", "zip_package"]
