"""Tables in formats of other projects, Delta Lake and Iceberg, written by Spark if it is set up for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pulsarscope.model.errors import UsageError
from pulsarscope.spark.sessions.spark_session import is_spark_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CATALOG = "pulsarscope"
"""Iceberg catalog of the tables in the output folder, by the names of their folders. Iceberg cannot write a table without a catalog."""

NEEDS = {
    "delta": (
        "spark.jars.packages=io.delta:delta-spark_4.1_2.13:4.1.0",
        "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    ),
    "iceberg": ("spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",),
}
"""Settings that add each format to Spark 4.1."""


def require_format(spark: SparkSession, table_format: str, out: str) -> None:
    """Prepare a session for tables of a format in a folder. Raises UsageError when the format is not set up in this Spark."""
    try:
        if table_format == "iceberg":
            warehouse = out if "://" in out else str(Path(out).absolute())
            settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": warehouse}
            for name, value in settings.items():
                spark.conf.set(f"spark.sql.catalog.{CATALOG}{name}", value)
            spark.catalog.tableExists(f"{CATALOG}.frame")
        else:
            spark.read.format(table_format).load(out)
    except Exception as error:
        if not is_spark_error(error):
            raise
        # Other errors, such as a missing table, do not matter yet.
        if any(text in str(error) for text in ("DATA_SOURCE_NOT_FOUND", "DELTA_CONFIGURE_SPARK_SESSION", "plugin class")):
            settings_text = " ".join(f"--conf {setting}" for setting in NEEDS[table_format])
            message = (
                f"this Spark {spark.version} is not set up for {table_format}: add its package and settings; for Spark 4.1, {settings_text}"
            )
            raise UsageError(message) from None


def write_table(frame: DataFrame, table_format: str, out: str, kind: str) -> None:
    """Write a new table into the folder of `require_format`."""
    if table_format == "iceberg":
        frame.writeTo(f"{CATALOG}.{kind}").using(table_format).create()
    else:
        frame.write.format(table_format).save(f"{out}/{kind}")
