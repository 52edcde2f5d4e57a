"""Payload decoders declared by other packages."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsarscope.dissect.contract.capabilities import PayloadContext
from pulsarscope.dissect.plugins.isolation import PluginWarning
from pulsarscope.dissect.plugins.registry import PAYLOAD_DECODER_GROUP, _payload_decoders, payload_decoders
from tests.places import DOCS, ROOT

MODULE = """
class Reverse:
    topics = "schemas-string-*"
    def decode(self, payload, context):
        if payload.startswith(b"s3"):
            raise ValueError("not \\x1b[2J three")
        return {"topic": context.topic, "backwards": payload.decode()[::-1]}

class Nothing:
    topics = 7

ready = Reverse()
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the module path in which a package declares decoders."""
    (tmp_path / "reverse_decoder.py").write_text(MODULE)
    information = tmp_path / "reverse_decoder-1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: reverse-decoder\nVersion: 1\n")
    declare(tmp_path, "reverse = reverse_decoder:Reverse")
    monkeypatch.syspath_prepend(str(tmp_path))
    _payload_decoders.cache_clear()
    yield tmp_path
    sys.modules.pop("reverse_decoder", None)
    _payload_decoders.cache_clear()


def declare(folder: Path, *lines: str) -> None:
    text = "\n".join([f"[{PAYLOAD_DECODER_GROUP}]", *lines, ""])
    (folder / "reverse_decoder-1.dist-info" / "entry_points.txt").write_text(text)


def test_there_are_none_unless_some_are_installed() -> None:
    assert payload_decoders() == ()


@pytest.mark.parametrize("name", ["Reverse", "ready"])
def test_an_object_or_a_class_that_makes_one(installed: Path, name: str) -> None:
    declare(installed, f"reverse = reverse_decoder:{name}")
    ((found, decoder),) = payload_decoders()
    assert (found, decoder.topics) == ("reverse", "schemas-string-*")
    assert decoder.decode(b"ab", PayloadContext("t", None, False, {}, None)) == {"topic": "t", "backwards": "ba"}


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        ("reverse_decoder:Nothing", "topics must be text"),
        ("reverse_decoder:missing", "has no attribute 'missing'"),
        ("no_such_module:Reverse", "No module named 'no_such_module'"),
    ],
)
def test_one_that_does_not_work_is_reported_and_left_out(installed: Path, point: str, reason: str) -> None:
    declare(installed, f"broken = {point}", "fine = reverse_decoder:ready")
    with pytest.warns(PluginWarning, match="the payload decoder broken of reverse-decoder is left out") as warned:
        assert [name for name, _ in payload_decoders()] == ["fine"]
    assert reason in str(warned[0].message)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(payload_decoders()) == 1


def test_the_example_of_the_documentation_works() -> None:
    page = (DOCS / "schemas.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102 - our own page
    decoder = names["Envelope"]()
    context = PayloadContext("persistent://acme/x/y", None, False, {"content-type": "acme/envelope"}, None)
    assert decoder.decode(b"\x07" + zlib.compress(b"text"), context) == {"kind": "07", "size": 12, "text": "text"}
    assert decoder.decode(b"", context._replace(properties={})) is None
    assert f'"{PAYLOAD_DECODER_GROUP}"' in page


@pytest.mark.slow
def test_an_installed_one_decodes_what_its_topics_carry(installed: Path, captures: Path) -> None:
    capture = captures / "java-schemas.pcap"
    line = [sys.executable, "-m", "pulsarscope", "decode", "--records", "message,finding", "--format", "ndjson", str(capture)]
    lines = {}
    for jobs in ("1", "2"):
        environment = {"PYTHONPATH": f"{installed}:{ROOT}"}
        ran = subprocess.run(
            [*line, str(captures / "go-schemas.pcap"), "--jobs", jobs], env=environment, capture_output=True, check=True, timeout=120
        )
        lines[jobs] = ran.stdout.decode().splitlines()
        assert ran.stderr == b""
    assert lines["1"] == lines["2"]
    rows = [json.loads(line) for line in lines["1"]]
    values = [row["value"] for row in rows if "value" in row and "schemas-string-31" in row.get("topic", "")]
    assert {"topic": "persistent://public/default/schemas-string-31", "backwards": "世é 2s"} in values
    findings = [row for row in rows if row.get("code") == "payload-decoder-failed"]
    assert len(findings) == 2  # produced, and delivered
    assert "reverse: ValueError: not" in findings[0]["text"]
    assert next(row["value"] for row in rows if "schemas-json-31" in row.get("topic", "")) == {"id": 0, "name": "alpha", "price": 0.0}
