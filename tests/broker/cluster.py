"""A Pulsar cluster on loopback, with a process for each part: a metadata store, bookies, and one broker. Runs from Maven artifacts."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import msgspec

from tests.broker.java import START_SECONDS, class_path, java, wait_until_healthy
from tests.scenarios.loopback import free_port

HERE = Path(__file__).parent

METADATA_STORE = "org.apache.zookeeper.server.ZooKeeperServerMain"
METADATA_SETUP = "org.apache.pulsar.PulsarClusterMetadataSetup"
BOOKIE = "org.apache.bookkeeper.server.Main"
BROKER = "org.apache.pulsar.PulsarBrokerStarter"

LISTENER = "relayed"
"""Name with which clients request the address of a relay in front of the broker."""


class Cluster(msgspec.Struct):
    """A running cluster."""

    folder: Path
    class_path: str
    port: int
    """Port of the broker."""
    web_port: int
    relay_port: int
    """Port for clients that name `LISTENER`."""
    bookies: dict[str, subprocess.Popen[bytes]]
    """Processes by endpoint."""

    @property
    def url(self) -> str:
        """Return the address for clients."""
        return f"pulsar://127.0.0.1:{self.port}"

    @property
    def ports(self) -> list[int]:
        """Return all ports worth capturing."""
        return [self.port, self.relay_port, *(int(endpoint.rpartition(":")[2]) for endpoint in self.bookies)]


@contextmanager
def running_cluster(folder: Path, *, bookies: int = 3, ensemble: int = 3, write_quorum: int = 2, ack_quorum: int = 2) -> Iterator[Cluster]:
    """A cluster with its data in this folder."""
    path = class_path(folder)
    store_port, port, web_port, relay_port = (free_port() for _ in range(4))
    store = f"127.0.0.1:{store_port}"
    with ExitStack() as stack:

        def start(name: str, *arguments: str, heap: str = "256m") -> subprocess.Popen[bytes]:
            output = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(java(path, *arguments, heap=heap), stdout=output, stderr=output, cwd=folder)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        start("store", METADATA_STORE, str(store_port), str(folder / "store"))
        _wait_for_port(store_port)
        addresses = ("--web-service-url", f"http://127.0.0.1:{web_port}", "--broker-service-url", f"pulsar://127.0.0.1:{port}")
        stores = ("--metadata-store", f"zk:{store}", "--configuration-metadata-store", f"zk:{store}")
        if start("setup", METADATA_SETUP, "--cluster", "tests", *stores, *addresses).wait(START_SECONDS):
            message = f"the metadata were not made: {(folder / 'setup.log').read_text(errors='replace')[-2000:]}"
            raise RuntimeError(message)
        running: dict[int, subprocess.Popen[bytes]] = {}
        for number in range(bookies):
            bookie_port = free_port()
            configuration = folder / f"bookie{number}.conf"
            own = {"bookiePort": bookie_port, "metadataServiceUri": f"zk+hierarchical://{store}/ledgers"}
            own |= {f"{kind}Directories": folder / f"{kind}{number}" for kind in ("journal", "ledger", "index")}
            configuration.write_text((HERE / "bookie.conf").read_text() + _lines(own))
            running[bookie_port] = start(f"bookie{number}", BOOKIE, "--conf", str(configuration))
        for bookie_port in running:
            _wait_for_port(bookie_port)
        configuration = folder / "broker.conf"
        own = {
            "metadataStoreUrl": f"zk:{store}",
            "configurationMetadataStoreUrl": f"zk:{store}",
            "brokerServicePort": port,
            "webServicePort": web_port,
            "advertisedListeners": f"internal:pulsar://127.0.0.1:{port},{LISTENER}:pulsar://127.0.0.1:{relay_port}",
            "internalListenerName": "internal",
            "managedLedgerDefaultEnsembleSize": ensemble,
            "managedLedgerDefaultWriteQuorum": write_quorum,
            "managedLedgerDefaultAckQuorum": ack_quorum,
        }
        configuration.write_text((HERE / "cluster.conf").read_text() + _lines(own))
        broker = start("broker", BROKER, "--broker-conf", str(configuration), heap="768m")
        wait_until_healthy(broker, web_port, folder / "broker.log")
        yield Cluster(folder, path, port, web_port, relay_port, {f"127.0.0.1:{number}": process for number, process in running.items()})


def _lines(values: dict[str, object]) -> str:
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _wait_for_port(port: int) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), timeout=1)):
            return
        time.sleep(0.2)
    message = f"nobody listens on port {port}"
    raise RuntimeError(message)
