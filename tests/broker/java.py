"""Java programs of Pulsar's Maven artifacts."""

from __future__ import annotations

import shutil
import subprocess
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import pytest

HERE = Path(__file__).parent

RESOLVE_SECONDS = 600
START_SECONDS = 400

OPENED_PACKAGES = (
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.nio",
    "java.base/java.util.zip",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.base/sun.nio.ch",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
"""Parts of the Java runtime that the broker accesses (its own start script opens them, too)."""


def missing() -> str | None:
    """Return what a broker needs and is not there."""
    lacking = [name for name in ("java", "mvn") if shutil.which(name) is None]
    return f"a broker needs {' and '.join(lacking)}" if lacking else None


def class_path(folder: Path) -> str:
    """Return the class path of a broker; the folder keeps the output of Maven."""
    output = folder / "classpath"
    arguments = ["-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:build-classpath", f"-Dmdep.outputFile={output}"]
    try:
        subprocess.run([str(shutil.which("mvn")), *arguments], check=True, timeout=RESOLVE_SECONDS)
    except subprocess.SubprocessError as error:
        pytest.skip(f"Maven does not bring a broker: {error}")
    return output.read_text().strip()


def java(path: str, *arguments: str, heap: str = "1g") -> list[str]:
    """Return the command of a program, its class or source first, with this class path."""
    limits = (f"-Xmx{heap}", "-XX:MaxDirectMemorySize=1g")
    start = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # halves the processor time of a program that runs for seconds
    command = [str(shutil.which("java")), *limits, *start, "-Dio.netty.tryReflectionSetAccessible=true"]
    for package in OPENED_PACKAGES:
        command += ["--add-opens", f"{package}=ALL-UNNAMED"]
    return [*command, "-cp", path, *arguments]


def wait_until_healthy(broker: subprocess.Popen[bytes], web_port: int, log: Path) -> None:
    """Return when a broker says that it is healthy; raise RuntimeError if that does not happen."""
    address = f"http://127.0.0.1:{web_port}/admin/v2/brokers/health"
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and broker.poll() is None:
        with suppress(OSError), urllib.request.urlopen(address, timeout=10) as answer:
            if answer.read() == b"ok":
                return
        time.sleep(0.5)
    message = f"the broker did not start: {log.read_text(errors='replace')[-2000:]}"
    raise RuntimeError(message)
