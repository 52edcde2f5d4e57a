"""A Spark session: that of spark-submit or of the caller, a cluster's, or one of our own on this machine. And what is missing for it."""

from __future__ import annotations

import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from pulsarscope.model.errors import OutputError, UsageError
from pulsarscope.spark.java import INSTALL, choose

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"

ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Environment of the workers: with a heap for each of its threads one takes up to twice the memory."""

SETTINGS = {
    **{f"spark.executorEnv.{name}": value for name, value in ALLOCATOR.items()},
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),  # 60 KB packets: a third of the memory of a worker
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""Ours, unless the caller or the cluster says otherwise."""

SETTINGS_HERE = {
    "spark.driver.memory": "2g",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "64",
}
"""For a session on this machine."""

WHEELS = {"pyspark": "4.1", "pyarrow": "18", "pandas": "2.2"}
"""What must be installed, and since when it fits."""

_END_OF_JAVA = re.compile(r'^Exception in thread "main" (?:[\w.$]+: )?(.+)$', re.MULTILINE)


def missing_distributions() -> list[str]:
    """What must be installed first."""
    return [name for name in WHEELS if installed_version(name) is None]


def installed_version(name: str) -> str | None:
    """Version of a distribution; None: it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def require_distributions() -> None:
    """Raise UsageError when something must be installed first."""
    lacking = missing_distributions()
    if lacking:
        message = f"pipeline needs {', '.join(lacking)}: {INSTALL}"
        raise UsageError(message)


@contextmanager
def session(master: str | None, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session, which ends when it is left.

    Args:
        master: as for Spark; None: that of spark-submit, else all cores of this machine.
        settings: more of Spark's settings.

    Raises:
        UsageError: something is missing, or there is no such master.
        OutputError: Spark does not start.
    """
    require_distributions()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - as said

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    here = not submitted and (master or LOCAL).startswith("local")
    with tempfile.TemporaryDirectory(prefix="pulsarscope-") as scratch, closing(SparkLog()) as log:
        if not submitted:
            found = choose(os.environ, installed_version("pyspark") or "")
            os.environ["JAVA_HOME"] = os.fspath(found.home_for_spark(Path(scratch) / "java"))
        if "spark.pyspark.python" in settings:  # which only spark-submit heeds
            os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
        if here:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # the name of a machine without a network may lead nowhere
            os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
            for name, value in ALLOCATOR.items():
                os.environ.setdefault(name, value)
        builder = SparkSession.builder.appName("pulsarscope")
        if not submitted:
            builder = builder.master(master or LOCAL)
        for name, value in {**SETTINGS, **(SETTINGS_HERE if here else {}), **settings}.items():
            builder = builder.config(name, value)
        try:
            with log.redirected():
                spark = builder.getOrCreate()
        except Exception as error:
            message = f"Spark does not start ({log.java_error() or error_line(error)}); more is in {log.keep(error)}"
            raise OutputError(message) from error
        try:
            if not here and not submitted:
                spark.addArtifacts(zip_package(Path(scratch)), pyfile=True)
            yield spark
        except Exception as error:
            if not is_spark_error(error):
                raise
            message = f"the Spark job failed ({error_line(error)}); more is in {log.keep(error)}"
            raise OutputError(message) from error
        finally:
            with suppress(Exception):
                spark.stop()


def zip_package(folder: Path) -> str:
    """This package as a zip file in a folder: the workers need the very same. What it needs itself must be installed there."""
    root = Path(__file__).resolve().parents[2]
    made = folder / "pulsarscope.zip"
    with zipfile.ZipFile(made, "w") as archive:
        for path in sorted((root / "pulsarscope").rglob("*.py")):
            archive.write(path, path.relative_to(root))
    return str(made)


def is_spark_error(error: BaseException) -> bool:
    """Whether Spark or the bridge to it raises this."""
    return type(error).__module__.partition(".")[0] in {"pyspark", "py4j"}


def error_line(error: BaseException) -> str:
    """What an exception says: of one that a task or Java raised, what that said."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    if "Traceback (most recent call last):" in lines:
        return lines[-1]
    of_java = [line.removeprefix(": ") for line in lines[1:2] if lines[0].startswith("An error occurred while calling ")]
    return (of_java or lines)[0]


class SparkLog:
    """A file for what Java and the workers say; it stays behind only when it is needed."""

    def __init__(self) -> None:
        descriptor, self.path = tempfile.mkstemp(prefix="pulsarscope-spark-", suffix=".log")
        self._descriptor = descriptor
        self._kept = False

    @contextmanager
    def redirected(self) -> Iterator[None]:
        """Processes that are started meanwhile have the file as standard error."""
        sys.stderr.flush()
        before = os.dup(2)
        os.dup2(self._descriptor, 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)

    def java_error(self) -> str | None:
        """What Java ended with; Spark's bridge only says that it did."""
        ended = _END_OF_JAVA.search(Path(self.path).read_text(errors="backslashreplace"))
        return ended and ended[1]

    def keep(self, error: BaseException) -> str:
        """The file stays, and has all of the error, too; where it is, for a message."""
        self._kept = True
        os.write(self._descriptor, f"{error}\n".encode(errors="backslashreplace"))
        return self.path

    def close(self) -> None:
        """Remove the file, unless it is to stay."""
        os.close(self._descriptor)
        if not self._kept:
            Path(self.path).unlink(missing_ok=True)
