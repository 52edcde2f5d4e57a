"""The types that rooms exchange."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

import pulsarscope as ps
from pulsarscope import protocols
from pulsarscope.dissect.contract.dissector import Dissector
from pulsarscope.dissect.contract.generic_codes import GENERIC_CODES
from pulsarscope.dissect.contract.session import Session, SessionContext, SessionSettings
from pulsarscope.dissect.plugins.registry import DISSECTOR_GROUP
from pulsarscope.protocols import DISSECTORS
from tests.dissect.third_protocol import SOURCE, put, write_capture
from tests.dissect.third_protocol.pulsarscope_postcard import PostcardDissector
from tests.places import DOCS
from tests.scenarios.dialogue import DISSECTOR
from tests.scenarios.rows import frame

GUIDE = DOCS / "adding-a-protocol.md"

DEMANDED = ("name", "ports", "framing", "recognise", "decode", "session")


def members(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")} | set(protocol.__annotations__)


@pytest.mark.parametrize("dissector", DISSECTORS)
def test_every_dissector_brings_the_six_demanded_members(dissector: type[Dissector]) -> None:
    made = dissector()
    assert {"name", "ports", "framing"} <= Dissector.__annotations__.keys()
    assert [name for name in DEMANDED if getattr(dissector, name) is getattr(Dissector, name, None)] == []
    assert all(made.code(name) for name in GENERIC_CODES)


def test_a_session_is_given_what_is_asked_for() -> None:
    assert set(SessionContext.__struct_fields__) == {"origin", "settings", "pairing", "from_start"}
    wanted = {"kinds", "payloads", "payload", "message_columns", "names", "private_keys", "schemas", "payload_decoders"}
    assert set(SessionSettings.__struct_fields__) == wanted
    assert DISSECTOR.framing.length.size <= DISSECTOR.framing.smallest


def test_bytes_of_which_nobody_says_whether_they_are_secret_are_masked() -> None:
    card = put(1, 95, b"aunts", b"password")
    head = (0, 4, "length", 0)
    assert PostcardDissector().ranges(card) == (card[:4] + bytes(len(card) - 4), [head, (4, len(card), "(secret) body", 0)])
    assert PostcardDissector(show_secrets=True).ranges(card) == (card, [head, (4, len(card), "body", 0)])


def test_the_usual_words_of_a_frame_are_its_plain_fields() -> None:
    fields = {
        "retain": False,
        "qos": 1,
        "topics": ["a", "b"],
        "codes": [*range(7)],
        "none": [],
        "will": {"a": 1},
        "wills": [{}],
        "raw": b"x",
    }
    assert PostcardDissector().summary(frame(fields=fields)) == "retain false  qos 1  topics a, b  codes 0, 1, 2, 3, 4 and 2 more"


def test_the_guide_names_every_member_and_its_links_lead_somewhere() -> None:
    text = GUIDE.read_text()
    named = {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"\w+", code)}
    assert members(Dissector) | members(Session) <= named
    places = [place for place in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in place]
    assert len(places) > 5
    assert [place for place in places if not (GUIDE.parent / place).exists()] == []


def test_the_code_of_the_guide_is_the_example_that_is_installed() -> None:
    first, *others = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    assert first + "\n\n" + "\n".join(others) == SOURCE.read_text()
    assert SOURCE.read_text().count("\n") <= 100


@pytest.mark.slow
def test_the_tests_of_the_guide_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(SOURCE.parent)
    monkeypatch.setattr(protocols, "DISSECTORS", (*DISSECTORS, PostcardDissector))
    names: dict[str, Any] = {}
    for code in re.findall(r"```py\n(.*?)```", GUIDE.read_text(), re.DOTALL):
        exec(code, names)  # noqa: S102 - our own page
    monkeypatch.setattr(protocols, "DISSECTORS", (*DISSECTORS, names["StrictDissector"]))
    capture = ps.open(str(write_capture(tmp_path / "refused.pcap")))
    assert [row.text for row in capture.findings() if row.code == "postcard-refused"] == ["uncles refuses: trouble 4."]
    boxes = [{"box": "aunts", "cards": 2, "refused": 0}, {"box": "uncles", "cards": 1, "refused": 1}]
    assert capture.stats("boxes") == {"boxes": boxes}


@pytest.mark.slow
def test_pip_installs_the_package_of_the_guide_beside_its_tests(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    (declared,) = re.findall(r"```toml\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    folder, site = tmp_path / "package", tmp_path / "site"
    folder.mkdir()
    (folder / "pyproject.toml").write_text(declared)
    (folder / SOURCE.name).write_text(SOURCE.read_text())
    (folder / "test_postcard.py").write_text("")
    options = ["-q", "--no-deps", "--no-index", "--no-build-isolation", "--target", str(site)]
    command = [sys.executable, "-m", "pip", "install", *options, str(folder)]
    subprocess.run(command, check=True, timeout=120, env=os.environ | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"})
    assert [path.name for path in site.glob("*.py")] == [SOURCE.name]
    (point,) = (point for one in metadata.distributions(path=[str(site)]) for point in one.entry_points)
    assert (point.group, point.value) == (DISSECTOR_GROUP, "pulsarscope_postcard:PostcardDissector")
