from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

FORMATS = ("timeline", "ndjson", "json")


@pytest.mark.slow
@pytest.mark.parametrize("records", ["frame,finding", "message"])
def test_decoding_imports_nothing_that_was_not_imported_before(records: str, tmp_path: Path) -> None:
    program = f"""
import sys
from pulsarscope.cli.arguments.application import app
from pulsarscope.cli.late_imports import import_late_modules
from pulsarscope.cli.commands import decode
import_late_modules()
before = set(sys.modules)
for name in {FORMATS!r}:
    app(["decode", "captures/compress-zlib.pcap", "-o", {str(tmp_path / "out")!r}, "--records", {records!r}]
        + ([] if name == "timeline" else ["-f", name]), standalone_mode=False)
print(*sorted(name for name in set(sys.modules) - before if not name.startswith(("pulsarscope.cli", "click", "typer"))))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


def test_serving_metrics_imports_nothing_that_was_not_imported_before() -> None:
    pytest.importorskip("prometheus_client")
    program = """
import socket, sys
from pulsarscope.cli.late_imports import import_late_modules
from pulsarscope.live.metrics import Metrics, require_prometheus, serve_metrics
from pulsarscope.live.packet_source import CaptureHealth
require_prometheus()
import_late_modules()
before = set(sys.modules)
metrics = Metrics(lambda: CaptureHealth(1, 0, 0, 0, 0.0, 0.0), lambda: [], None)
with serve_metrics(metrics, "127.0.0.1", 0) as port, socket.create_connection(("127.0.0.1", port)) as connection:
    connection.sendall(b"GET /metrics HTTP/1.0\\r\\n\\r\\n")
    assert b"200 OK" in connection.makefile("rb").read()
print(*sorted(set(sys.modules) - before))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
