"""The output of a command is the same with any number of processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsarscope.engine.parallel import driver
from tests.places import CAPTURES
from tests.scenarios.command_line import run
from tests.scenarios.inside import Inside
from tests.scenarios.rings import folder_of_all

TLS = CAPTURES / "go-tls13.pcap"
KEYS = CAPTURES / "go-tls13.keylog"


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return folder_of_all(tmp_path_factory.mktemp("all"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "stats {all}",
        "stats -Y size>100 --format json {all}",
        "stats --interval 10ms --format ndjson --fail-on error {all}",
        "diagnose {all}",
        "diagnose -Y severity==error --format json {all}",
        "compare {all} {item}",
        "extract -o {out} {all}",
        "extract -Y latency>1ms -o {out} {item}",
        "extract --context --records exchange --tls-keylog {keys} -o {out} {tls}",
        "extract -Y size>60 --tls-keylog {keys} -o {out} {tls}",
        "decode --fail-on warning {item}",
    ],
)
def test_processes_change_nothing(
    command: str, everything: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.setattr(driver, "Process", Inside)
    given = []
    for jobs in ("1", "2"):
        out = tmp_path / "out.pcapng"
        words = command.format(all=everything, item=CAPTURES / "errors.pcap", tls=TLS, keys=KEYS, out=out).split()
        code = run(monkeypatch, *words, "--jobs", jobs)
        given.append((code, *capfdbinary.readouterr(), out.read_bytes() if out.exists() else b""))
    assert given[0] == given[1]
    assert len(given[0][1]) + len(given[0][3]) > 100
