"""Captures on Spark: `register` the data source, read packets with it, `decode` them into a data frame for each kind of record.

pulsarscope.spark.register(spark)
packets = spark.read.format("pulsarscope").load("/captures/monday")
records = pulsarscope.spark.decode(packets)
records["frame"].groupBy("command").count().show()
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pulsarscope.spark.tables import Records


def register(spark: SparkSession) -> None:
    """Make `spark.read.format("pulsarscope")` known to a session, and set what decoding needs of it."""
    from pulsarscope.spark.session import SETTINGS  # noqa: PLC0415 - pyspark is an extra
    from pulsarscope.spark.source import CaptureDataSource  # noqa: PLC0415 - as above

    spark.dataSource.register(CaptureDataSource)
    for name, value in SETTINGS.items():
        if name.startswith("spark.sql."):
            spark.conf.set(name, value)


def decode(
    packets: DataFrame,
    *kinds: str,
    partitions: int | None = None,
    show_secrets: bool = False,
    payload: str | None = None,
    ports: Collection[int] = (),
    decode_as: Mapping[int, str] | None = None,
    tls_keylog: str | Sequence[str] = (),
    private_key: str | Sequence[str] = (),
    schemas: Mapping[str, str] | None = None,
) -> Records:
    """Packets -> a data frame for each kind of record, all kinds when none is named.

    One pass gives all kinds; its result is kept on disk until `unpersist` of what is returned. Before it, the packets are read once for
    what the files say of themselves, and the secrets of TLS in them: these rows have no flow, and a selection of packets has to keep them.
    `partitions` is the number of tasks that decode; the other options are those of `pulsarscope.open`, files that they name are read here.

    Raises:
        UsageError: there is no such kind, or the options cannot be carried out.
    """
    from pulsarscope.api import options_of  # noqa: PLC0415 - as above
    from pulsarscope.engine.flows import check_options  # noqa: PLC0415 - as above
    from pulsarscope.engine.options import ALL_RECORDS  # noqa: PLC0415 - as above
    from pulsarscope.model.records import refuse_unknown  # noqa: PLC0415 - as above
    from pulsarscope.spark.tables import decode_packets  # noqa: PLC0415 - as above

    wanted = frozenset(kinds) or ALL_RECORDS
    refuse_unknown(wanted)
    options = options_of(show_secrets, payload, ports, decode_as, tls_keylog, private_key, schemas)
    options = msgspec.structs.replace(options, records=wanted, rules="finding" in wanted)
    check_options(options)
    return decode_packets(packets, options, partitions)


__all__ = ["decode", "register"]
