"""Tables in formats that Spark itself does not know: Delta Lake and Iceberg, written by Spark where they are set up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pulsarscope.model.errors import UsageError
from pulsarscope.spark.session import is_spark_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CATALOG = "pulsarscope"
"""Of Iceberg: the tables in the output folder, by the names of their folders. Iceberg writes no table without a catalog."""

NEEDS = {
    "delta": (
        "spark.jars.packages=io.delta:delta-spark_4.1_2.13:4.1.0",
        "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    ),
    "iceberg": ("spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",),
}
"""By format: settings that bring it to Spark 4.1."""


def require_format(spark: SparkSession, table_format: str, out: str) -> None:
    """Make the session ready for tables of a format in a folder.

    Raises:
        UsageError: the format is not set up in this Spark; the message says what to add.
    """
    try:
        if table_format == "iceberg":
            place = out if "://" in out else str(Path(out).absolute())
            settings = {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "hadoop", ".warehouse": place}
            for name, value in settings.items():
                spark.conf.set(f"spark.sql.catalog.{CATALOG}{name}", value)
            spark.catalog.tableExists(f"{CATALOG}.frame")
        else:
            spark.read.format(table_format).load(out)
    except Exception as error:
        if not is_spark_error(error):
            raise
        # What else is wrong, first of all that there is no such table, does not matter yet.
        if any(words in str(error) for words in ("DATA_SOURCE_NOT_FOUND", "DELTA_CONFIGURE_SPARK_SESSION", "plugin class")):
            needs = " ".join(f"--conf {setting}" for setting in NEEDS[table_format])
            message = f"this Spark {spark.version} is not set up for {table_format}: add what fits its version, for 4.1 {needs}"
            raise UsageError(message) from None


def write_table(found: DataFrame, table_format: str, out: str, kind: str) -> None:
    """Write a new table into the folder that `require_format` was told."""
    if table_format == "iceberg":
        found.writeTo(f"{CATALOG}.{kind}").using(table_format).create()
    else:
        found.write.format(table_format).save(f"{out}/{kind}")
