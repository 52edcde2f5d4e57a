"""Spark sessions on a cluster, behind Spark Connect, on this machine, or from spark-submit; and the distributions that they need."""

from __future__ import annotations

import builtins
import logging
import marshal
import os
import re
import signal
import struct
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from importlib.machinery import SourceFileLoader
from importlib.metadata import PackageNotFoundError, version
from importlib.util import MAGIC_NUMBER, source_hash
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pulsarscope.model.errors import InternalError, OutputError, PulsarscopeError, UsageError
from pulsarscope.model.platform import install_command
from pulsarscope.spark.sessions.cluster import is_address, require_answer
from pulsarscope.spark.sessions.java import choose

if TYPE_CHECKING:
    from types import FrameType

    from pyspark.sql import SparkSession

INTERRUPTS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""Signals that end a command early."""

LOCAL = "local[*]"

ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""Environment of the workers: one heap for all threads. With a heap for each thread, a worker takes up to twice the memory."""

SETTINGS = {
    **{f"spark.executorEnv.{name}": value for name, value in ALLOCATOR.items()},
    "spark.sql.execution.arrow.maxBytesPerBatch": str(4 << 20),  # with 60 KB packets, a worker takes a third of the memory
    "spark.sql.python.filterPushdown.enabled": "true",  # Spark refuses a data source that takes filters without it
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
}
"""Default settings, which the caller or the cluster may override."""

OF_SESSIONS = "spark.sql."
"""Prefix of the names of settings that a session may change after the start of Spark."""

LOCAL_SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # the second compiler costs 12 s of processor time before it pays off
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "64",
}
"""Further default settings of a session on this machine."""

WHEELS = {"pyspark": "4.1", "pyarrow": "18", "pandas": "2.2"}
"""Required distributions and their oldest versions."""

REMOTE_WHEELS = {"grpcio": "1.76", "grpcio-status": "1.76", "googleapis-common-protos": "1.71", "zstandard": "0.25"}
"""Further distributions that a client of Spark Connect needs."""

GATEWAY_MODULES = ("java_gateway", "clientserver")
"""Modules of py4j that log to the root logger, or to one with their name."""

SHIPPED = (".py", ".tsv")
"""Suffixes of the files that workers need: modules and tables of rules."""

UNCHECKED = struct.pack("<I", 1)
"""Flags of a compiled module with an unchecked hash of its source."""

_END_OF_JAVA = re.compile(r'^Exception in thread "main" (?:[\w.$]+: )?(.+)$', re.MULTILINE)

_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)*([\w.]+(?:: .*)?)")
"""The report of a Python exception; the group is its last line."""


def wheels(master: str | None) -> dict[str, str]:
    """Return the required distributions of a session and their oldest versions."""
    return WHEELS | (REMOTE_WHEELS if is_address(master) else {})


def missing_distributions(master: str | None = None) -> list[str]:
    """Return the names of the required distributions that are not installed."""
    return [name for name in wheels(master) if installed_version(name) is None]


def installed_version(name: str) -> str | None:
    """Return the version of a distribution; None when it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def require_distributions(master: str | None = None) -> None:
    """Raise UsageError when a required distribution is not installed."""
    if missing := missing_distributions(master):
        raise UsageError(f"pipeline needs {', '.join(missing)}: {install_command('connect' if is_address(master) else 'spark')}")


@contextmanager
def session(master: str | None, settings: Mapping[str, str]) -> Iterator[SparkSession]:
    """Yield a session, and stop it at the end.

    `master`: a master of Spark, or the address of a Connect server; None: that of spark-submit, else all cores of this machine.
    Raises UsageError when a distribution or a suitable Java is missing, OutputError when Spark does not start or the job fails.
    """
    require_distributions(master)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - pyspark is an extra

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    remote = not submitted and is_address(master)
    is_local = not submitted and (master or LOCAL).startswith("local")
    with tempfile.TemporaryDirectory(prefix="pulsarscope-") as scratch, closing(SparkLog()) as log, _failed_calls_unlogged():
        if remote:
            require_answer(master or "")
        elif not submitted:
            java = choose(os.environ, installed_version("pyspark") or "")
            os.environ["JAVA_HOME"] = os.fspath(java.home_for_spark(Path(scratch) / "java"))
        if "spark.pyspark.python" in settings:  # only spark-submit reads the setting
            os.environ["PYSPARK_PYTHON"] = settings["spark.pyspark.python"]
        if is_local:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # the host name may not resolve without a network
            os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
            for name, value in ALLOCATOR.items():
                os.environ.setdefault(name, value)
        defaults = {name: value for name, value in SETTINGS.items() if not remote or name.startswith(OF_SESSIONS)}
        builder: Any = SparkSession.builder
        if remote:
            builder = builder.remote(master)
        else:
            builder = builder.appName("pulsarscope") if submitted else builder.appName("pulsarscope").master(master or LOCAL)
        for name, value in {**defaults, **(LOCAL_SETTINGS if is_local else {}), **settings}.items():
            builder = builder.config(name, value)
        try:
            with log.redirected(), _signals_held() as held:
                spark = builder.getOrCreate()
        except Exception as error:
            message = f"Spark does not start ({log.java_error() or error_line(error)}); details are in {log.keep(error)}"
            raise OutputError(message) from error
        try:
            for number in held:
                signal.raise_signal(number)
            if not is_local and not submitted:
                spark.addArtifacts(zip_package(Path(scratch)), pyfile=True)
            yield spark
        except Exception as error:
            if not is_spark_error(error):
                raise
            raise job_error(error, log.keep(error)) from error
        finally:
            with suppress(Exception):
                spark.stop()


@contextmanager
def _signals_held() -> Iterator[list[int]]:
    """Defer a first signal while Spark starts, and list it: an interrupted start leaves Java running. A second one is handled at once.

    Restore the original handler of SIGINT: the one that Spark sets calls Java from within a call of Java, which fails.
    """
    held: list[int] = []
    handlers = {number: handler for number in INTERRUPTS if callable(handler := signal.getsignal(number))}

    def hold(number: int, frame: FrameType | None) -> None:
        held.append(number)
        if len(held) > 1:
            handlers[number](number, frame)

    with suppress(ValueError):  # only the main thread may set handlers, and Spark sets none elsewhere
        for number in handlers:
            signal.signal(number, hold)
    try:
        yield held
    finally:
        with suppress(ValueError):
            for number, handler in handlers.items():
                signal.signal(number, handler)


@contextmanager
def _failed_calls_unlogged() -> Iterator[None]:
    """Keep py4j from writing tracebacks of failed or interrupted calls: it also raises an exception."""

    def is_ours(record: logging.LogRecord) -> bool:
        return record.module not in GATEWAY_MODULES

    loggers = [logging.getLogger(), *(logging.getLogger(f"py4j.{name}") for name in GATEWAY_MODULES)]
    for logger in loggers:
        logger.addFilter(is_ours)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_ours)


def zip_package(folder: Path) -> str:
    """Write this package to a folder as a zip file for the workers, and return its path. The workers must have its dependencies.

    Python does not cache the modules that it compiles from a zip file, which takes seconds in each process. So the file has compiled
    modules.
    """
    root = Path(__file__).resolve().parents[3]
    path = folder / "pulsarscope.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for source in sorted((root / "pulsarscope").rglob("*")):
            if source.suffix in SHIPPED:
                name = source.relative_to(root)
                archive.write(source, name)
                if source.suffix == ".py":
                    archive.writestr(os.fspath(name.with_suffix(".pyc")), _compiled(source, ".".join(name.with_suffix("").parts)))
    return str(path)


def _compiled(source: Path, name: str) -> bytes:
    """Return a module in compiled form, for use without a check of the date of its source (PEP 552)."""
    code = SourceFileLoader(name, os.fspath(source)).get_code(name)  # from Python's cache, if it is there
    return MAGIC_NUMBER + UNCHECKED + source_hash(source.read_bytes()) + marshal.dumps(code)


def is_spark_error(error: BaseException) -> bool:
    """Return True for an exception of Spark or py4j, and for exceptions raised when Java is gone."""
    return isinstance(error, (ConnectionRefusedError, ConnectionResetError)) or type(error).__module__.partition(".")[0] in {
        "pyspark",
        "py4j",
    }


def job_error(error: BaseException, log: str) -> PulsarscopeError:
    """Return the error for a failed job: a fault in a task ends the command like a fault in its own process."""
    details = f"({error_line(error)}); details are in {log}"
    name = (_raised_in_task(error) or "").partition(":")[0]
    kind = getattr(builtins, name, None)
    is_expected = not name or name.startswith(("pulsarscope.model.errors.", "pyspark.", "py4j."))
    if is_expected or (isinstance(kind, type) and issubclass(kind, OSError)):  # such as missing files or full disks
        return OutputError(f"the Spark job failed {details}")
    return InternalError(f"internal error in a task of the Spark job {details}")


def error_line(error: BaseException) -> str:
    """Return the message of an exception in one line; if a task or Java raised it, the message of its cause."""
    if (raised := _raised_in_task(error)) is not None:
        return raised
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    of_java = [line.removeprefix(": ") for line in lines[1:2] if lines[0].startswith("An error occurred while calling ")]
    return (of_java or lines)[0]


def _raised_in_task(error: BaseException) -> str | None:
    """Return name and text of the exception that ended a task; None if there was none."""
    raised = _TRACEBACK.findall(str(error))
    return raised[-1] if raised else None  # the last one was raised while the others were handled


class SparkLog:
    """A temporary file for the standard error of Java and the workers, removed unless it is kept."""

    def __init__(self) -> None:
        descriptor, self.path = tempfile.mkstemp(prefix="pulsarscope-spark-", suffix=".log")
        self._descriptor = descriptor
        self._kept = False

    @contextmanager
    def redirected(self) -> Iterator[None]:
        """Redirect the standard error of processes started within the block to the file."""
        sys.stderr.flush()
        before = os.dup(2)
        os.dup2(self._descriptor, 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)

    def java_error(self) -> str | None:
        """Return the message of the exception that ended Java, which py4j does not report."""
        match = _END_OF_JAVA.search(Path(self.path).read_text(errors="backslashreplace"))
        return match and match[1]

    def keep(self, error: BaseException) -> str:
        """Keep the file, append the error, and return the path for a message."""
        self._kept = True
        os.write(self._descriptor, f"{error}\n".encode(errors="backslashreplace"))
        return self.path

    def close(self) -> None:
        """Close the file, and remove it unless it is kept."""
        os.close(self._descriptor)
        if not self._kept:
            Path(self.path).unlink(missing_ok=True)
