"""Rooms of the compiled reader: a room uses only the rooms before it, and no two modules use each other."""

from __future__ import annotations

import re
from graphlib import TopologicalSorter

from tests.places import ROOT

NATIVE = ROOT / "native"
SOURCE = NATIVE / "src"
ROOMS = [
    "encoding",
    "capture",
    "tcp",
    "schema",
    "messages",
    "frames",
    "short_connections",
    "session",
    "facts",
    "rules",
    "analysis",
    "output",
    "ordered_rows",
    "out_of_memory",
    "lib",
]
"""Folders, and the three modules beside them: each may use those before it."""


def modules() -> dict[tuple[str, ...], set[tuple[str, ...]]]:
    """Return the modules that each module uses, all by room and name; the main module of a room has no name."""
    names = {path.relative_to(SOURCE).with_suffix("").parts[: None if path.name != "mod.rs" else -1]: path for path in SOURCE.rglob("*.rs")}
    used = {}
    for name, path in names.items():
        paths = re.findall(r"\bcrate::(\w+)(?:::(\w+))?", path.read_text())
        used[name] = {pair if pair in names else pair[:1] for pair in paths} & names.keys() - {name}
    return used


def test_a_room_of_the_compiled_reader_uses_only_rooms_before_it() -> None:
    used = modules()
    assert {name[0] for name in used} == {*ROOMS}
    late = {(name, other) for name, others in used.items() for other in others if ROOMS.index(other[0]) > ROOMS.index(name[0])}
    assert not late


def test_no_two_modules_of_the_compiled_reader_use_each_other() -> None:
    assert [*TopologicalSorter(modules()).static_order()]


def test_the_page_of_the_compiled_reader_names_its_modules_by_room() -> None:
    text = (NATIVE / "README.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)/` \|[^|]*\|([^|]*)\|$", text, re.MULTILINE))
    named = {room: {*re.findall(r"`(\w+)`", cell)} for room, cell in rows.items()}
    assert named == {room: {path.stem for path in (SOURCE / room).glob("*.rs")} - {"mod"} for room in ROOMS if (SOURCE / room).is_dir()}
