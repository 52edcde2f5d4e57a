"""A standalone Pulsar broker on loopback, run from Maven artifacts."""

from __future__ import annotations

import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.scenarios.loopback import free_port

HERE = Path(__file__).parent
MAIN = "org.apache.pulsar.PulsarStandaloneStarter"
CLIENTS = HERE / "clients.py"
CLIENTS_SECONDS = 120

RESOLVE_SECONDS = 600
START_SECONDS = 180

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
"""What the broker looks into of the Java runtime (its own start script opens them, too)."""


def missing() -> str | None:
    """What a broker needs and is not there."""
    lacking = [name for name in ("java", "mvn") if shutil.which(name) is None]
    return f"a broker needs {' and '.join(lacking)}" if lacking else None


@contextmanager
def running(folder: Path) -> Iterator[int]:
    """A broker with its data in this folder: its port."""
    port, web_port = free_port(), free_port()
    configuration = folder / "standalone.conf"
    ports = f"brokerServicePort={port}\nwebServicePort={web_port}\n"
    configuration.write_text((HERE / "standalone.conf").read_text() + ports)
    command = [str(shutil.which("java")), "-Xmx1g", "-XX:MaxDirectMemorySize=1g", "-Dio.netty.tryReflectionSetAccessible=true"]
    for package in OPENED_PACKAGES:
        command += ["--add-opens", f"{package}=ALL-UNNAMED"]
    command += ["-cp", _class_path(folder), MAIN, "--config", str(configuration), "--wipe-data", "-nfw", "-nss", "-a", "127.0.0.1"]
    command += ["--bookkeeper-dir", str(folder / "bookkeeper"), "--metadata-dir", str(folder / "metadata")]
    log = folder / "broker.log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, cwd=folder) as broker:
        try:
            _wait_for(broker, f"http://127.0.0.1:{web_port}/admin/v2/brokers/health", log)
            yield port
        finally:
            broker.kill()


def _class_path(folder: Path) -> str:
    told = folder / "classpath"
    arguments = ["-q", "-B", "-f", str(HERE / "pom.xml"), "dependency:build-classpath", f"-Dmdep.outputFile={told}"]
    try:
        subprocess.run([str(shutil.which("mvn")), *arguments], check=True, timeout=RESOLVE_SECONDS)
    except subprocess.SubprocessError as error:
        pytest.skip(f"Maven does not bring a broker: {error}")
    return told.read_text().strip()


def _wait_for(broker: subprocess.Popen[bytes], address: str, log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and broker.poll() is None:
        with suppress(OSError), urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310 - an address of our own
            if answer.read() == b"ok":
                return
        time.sleep(0.5)
    message = f"the broker did not start: {log.read_text(errors='replace')[-2000:]}"
    raise RuntimeError(message)
