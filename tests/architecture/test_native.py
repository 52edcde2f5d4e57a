"""Modules of the compiled reader: none uses another that uses it."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter

from tests.places import ROOT

SOURCES = {path.stem: path.read_text() for path in (ROOT / "native" / "src").glob("*.rs") if path.stem != "lib"}


def test_no_two_modules_of_the_compiled_reader_use_each_other() -> None:
    used = {name: {*re.findall(r"\bcrate::(\w+)", text)} & SOURCES.keys() - {name} for name, text in SOURCES.items()}
    assert [*TopologicalSorter(used).static_order()]
