"""The types that rooms hand each other."""

from __future__ import annotations

import re

import pytest

from pulsarscope.dissect.contract import GENERIC_CODES, Dissector
from pulsarscope.dissect.session import Session, SessionContext
from pulsarscope.protocols import DISSECTORS
from tests.encoder.dialogue import DISSECTOR
from tests.places import DOCS

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


def test_a_session_is_told_what_is_wanted() -> None:
    assert set(SessionContext.__struct_fields__) == {
        "origin",
        "kinds",
        "pairing",
        "payloads",
        "payload",
        "message_columns",
        "private_keys",
        "from_start",
        "schemas",
        "payload_decoders",
    }
    assert DISSECTOR.framing.length.size <= DISSECTOR.framing.smallest


def test_the_guide_explains_each_part_of_the_contract_and_its_links_lead_somewhere() -> None:
    text = GUIDE.read_text()
    named = {word for code in re.findall(r"`([^`\n]+)`", text) for word in re.findall(r"\w+", code)}
    assert members(Dissector) | members(Session) <= named
    places = re.findall(r"\]\(([^)#]+)\)", text)
    assert len(places) > 5
    assert [place for place in places if not (GUIDE.parent / place).exists()] == []
    modules = re.findall(r"\| `([\w`, .]+\.py)` \|", text)
    folder = GUIDE.parents[1] / "pulsarscope" / "protocols" / "kafka07"
    files = {file for names in modules for file in names.replace("`", "").split(", ")}
    assert len(files) > 8
    assert [file for file in files if not (folder / file).is_file()] == []
