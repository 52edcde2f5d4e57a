"""A standalone Pulsar broker on loopback, run from Maven artifacts."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.broker.java import class_path, java, missing, wait_until_healthy
from tests.scenarios.loopback import free_port

__all__ = ["CLIENTS", "CLIENTS_SECONDS", "missing", "running"]

HERE = Path(__file__).parent
MAIN = "org.apache.pulsar.PulsarStandaloneStarter"
CLIENTS = HERE / "clients.py"
CLIENTS_SECONDS = 120


@contextmanager
def running(folder: Path) -> Iterator[int]:
    """Run a broker with its data in this folder, and yield its port."""
    port, web_port = free_port(), free_port()
    configuration = folder / "standalone.conf"
    ports = f"brokerServicePort={port}\nwebServicePort={web_port}\n"
    configuration.write_text((HERE / "standalone.conf").read_text() + ports)
    arguments = (MAIN, "--config", str(configuration), "--wipe-data", "-nfw", "-nss", "-a", "127.0.0.1")
    folders = ("--bookkeeper-dir", str(folder / "bookkeeper"), "--metadata-dir", str(folder / "metadata"))
    command = java(class_path(folder), *arguments, *folders)
    log = folder / "broker.log"
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output, cwd=folder) as broker:
        try:
            wait_until_healthy(broker, web_port, log)
            yield port
        finally:
            broker.kill()
