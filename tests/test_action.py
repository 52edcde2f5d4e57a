"""The action for GitHub: its step runs as on a runner."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from textwrap import dedent

import pytest

from tests.places import CAPTURES, ROOT

ACTION = (ROOT / "action.yml").read_text()


@pytest.mark.slow
def test_the_step_writes_sarif_and_fails_by_severity(tmp_path: Path) -> None:
    step = re.search(r"^      run: \|\n((?: {8}.*\n)+)", ACTION, re.MULTILINE)
    assert step is not None
    names = re.findall(r"^        ([A-Z_]+): \$\{\{ inputs\.([a-z-]+) \}\}$", ACTION, re.MULTILINE)
    given = {
        "captures": f"{CAPTURES / 'errors.pcap'}\n\n{CAPTURES / 'ipv6.pcap'}\n",
        "fail-on": "warning",
        "baseline": "",
        "sarif": "it.sarif",
    }
    assert {name for _, name in names} == {*given}
    runner = {"RUNNER_TEMP": str(tmp_path), "GITHUB_ACTION_PATH": str(ROOT), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}

    def run(script: str, **changes: str) -> int:
        inputs = given | {name.replace("_", "-"): value for name, value in changes.items()}
        environment = os.environ | runner | {variable: inputs[name] for variable, name in names}
        return subprocess.run(
            [str(shutil.which("bash")), "-euo", "pipefail", "-c", script], env=environment, cwd=tmp_path, check=False
        ).returncode

    whole = dedent(step[1])
    installation, rest = whole[: whole.index("mapfile")], whole[whole.index("mapfile") :]
    assert "pip" in installation
    assert run(whole) == 1
    log = json.loads((tmp_path / "it.sarif").read_text())
    assert log["version"] == "2.1.0"
    assert log["runs"][0]["results"]
    assert re.match(r"```\n\d+ .*(error|warning)", (tmp_path / "summary").read_text())
    assert run(rest, fail_on="never") == 0
    subprocess.run(
        [str(tmp_path / "pulsarscope/bin/pulsarscope"), "diagnose", str(CAPTURES / "errors.pcap"), "-f", "json", "-o", "accepted.json"],
        cwd=tmp_path,
        check=False,
    )
    assert run(rest, baseline="accepted.json") == 0
