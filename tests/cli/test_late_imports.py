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
from pulsarscope.cli import app
from pulsarscope.cli.late_imports import import_late_modules
from pulsarscope.cli import decode
import_late_modules()
before = set(sys.modules)
for name in {FORMATS!r}:
    app(["decode", "captures/compress-zlib.pcap", "-o", {str(tmp_path / "out")!r}, "--records", {records!r}]
        + ([] if name == "timeline" else ["-f", name]), standalone_mode=False)
print(*sorted(name for name in set(sys.modules) - before if not name.startswith(("pulsarscope.cli", "click", "typer"))))
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []
