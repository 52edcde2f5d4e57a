from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from tests.places import CAPTURES
from tests.scenarios.command_line import run

QUICKSTART = str(CAPTURES / "quickstart.pcapng")


@pytest.mark.parametrize(
    ("command", "name", "said"),
    [
        ("decode", "out.ndjson", "writing text to {}: add --format ndjson for NDJSON"),
        ("stats", "out.csv.gz", "writing text to {}: add --format csv for CSV"),
        ("diagnose", "out.JSON", "writing text to {}: add --format json for JSON"),
        ("decode", "out.arrow", "writing text to {}, though its name ends in .arrow"),
        ("stats", "out.parquet", "writing text to {}, though its name ends in .parquet"),
        ("decode --format perfetto", "out.json", "writing a Perfetto trace to {}, though its name ends in .json"),
        ("decode --format csv", "out.ndjson", "writing CSV to {}, though its name ends in .ndjson"),
        ("decode --format otlp", "out.json", ""),
        ("diagnose --format sarif", "out.json", ""),
        ("decode --format ndjson", "out.jsonl", ""),
        ("stats --format json", "out.html", "writing JSON to {}, though its name ends in .html"),
        ("decode", "out.htm", "writing text to {}, though its name ends in .htm"),
        (f"compare --format json {QUICKSTART}", "out.html", "writing JSON to {}, though its name ends in .html"),
        (f"compare {QUICKSTART}", "out.html", ""),
        ("decode -q", "out.ndjson", ""),
        ("decode", "out.txt", ""),
        ("decode", "csv", ""),
    ],
)
def test_a_name_that_contradicts_the_format_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str, name: str, said: str
) -> None:
    out = str(tmp_path / name)
    assert run(monkeypatch, *command.split(), QUICKSTART, "-o", out) == 0
    assert Path(out).exists()
    assert [line for line in capsys.readouterr().err.splitlines() if "writing" in line] == (
        [f"pulsarscope: {said.format(out)}"] if said else []
    )


def test_no_capture_is_expected_from_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    assert run(monkeypatch, "decode", "-") == 2
    assert "nothing is piped in" in capsys.readouterr().err
