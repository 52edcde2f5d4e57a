"""The plugin for pytest beside real clients and a real broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pulsarscope.pytest import live
from tests.broker.standalone import CLIENTS, CLIENTS_SECONDS, missing
from tests.scenarios.loopback import needs_capturing

pytestmark = [pytest.mark.broker, needs_capturing, pytest.mark.skipif(missing() is not None, reason=str(missing()))]


def test_healthy_clients_give_no_finding_and_a_refused_one_does(port: int, tmp_path: Path) -> None:
    pulsar = pytest.importorskip("pulsar", reason="the clients need the wheel pulsar-client")
    url = f"pulsar://127.0.0.1:{port}"
    with live(tmp_path / "healthy.pcapng", ports=[port]) as traffic:
        subprocess.run([sys.executable, str(CLIENTS), url], capture_output=True, check=True, timeout=CLIENTS_SECONDS)
    traffic.assert_no_finding("warning")
    assert sum(1 for _ in traffic.capture.messages()) > 1000
    with live(tmp_path / "refused.pcapng", ports=[port]) as traffic:
        client = pulsar.Client(url, logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, str(tmp_path / "client.log")))
        client.subscribe("exclusive-twice", "only-one")
        with pytest.raises(pulsar.ConsumerBusy):
            client.subscribe("exclusive-twice", "only-one")
        client.close()
    assert any("Busy" in (row.text or "") for row in traffic.findings("warning"))
