"""Imports in one direction: a room knows the rooms to its left and nothing of those to its right."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from pulsarscope.protocols import make_dissectors
from tests.architecture.modules import SOURCES, imports, name_of, nodes_of, room_of, texts_of
from tests.architecture.rooms import FOLDERS, ROOMS, table
from tests.places import DOCS, PACKAGE

CORE = {"model", "capture", "tcp", "tls", "dissect", "protocols", "analysis", "filter"}
SHELL_MODULES = {
    "asyncio",
    "multiprocessing",
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark",
    "rich",
    "scapy",
    "selectors",
    "signal",
    "socket",
    "subprocess",
    "threading",
    "time",
    "typer",
}
"""What no core room imports: the network, the clock, the screen, the cluster."""
FILE_READERS = {"pulsarscope.model.platform", "pulsarscope.model.users"}
"""Core modules that ask the system for the folders of installed packages, and for the user."""
FILE_MODULES = {"glob", "io", "mmap", "os", "pathlib", "shutil", "sys", "tempfile"}
"""What only `capture` imports in the core, as it reads files."""
TABLES_OF_MODULES = {
    "pulsarscope.cli.arguments.command_names",
    "pulsarscope.cli.late_imports",
    "pulsarscope.model.on_use",
    "pulsarscope.output.registry",
}
"""Modules that import others by name: of their own room, or, for the command line, of any room."""
CLOCKS = {"now", "utcnow", "today"}

HEAVY = {"cryptography", "lark", "numpy", "pandas", "pyarrow", "pyspark", "scapy"}
"""Packages imported where they are used, never together with a module of ours; exceptions are modules that are imported on use, too."""
HEAVY_ON_USE = {
    "pulsarscope.output.export.arrow",
    "pulsarscope.output.export.parquet",
    "pulsarscope.index.candidates",
    "pulsarscope.index.selected_packets",
    "pulsarscope.index.reader",
    "pulsarscope.index.writer",
    "pulsarscope.tls.certificate",
    "pulsarscope.tls.record_protection",
} | {
    name_of(path)
    for path in SOURCES
    if path.parent.parent.name == "spark" and path.name not in {"__init__.py", "requirements.py", "java.py", "spark_session.py"}
}

COMMANDS = {command for dissector in make_dissectors() for command in dissector.vocabulary.commands} - {"ERROR"}
"""Words of all protocols. To the eye, a name that ends with ERROR is a refusal in any of them."""

CORE_SOURCES = [path for path in SOURCES if room_of(name_of(path)) in CORE]
OUTSIDE_PROTOCOLS = [path for path in SOURCES if "protocols" not in path.parts]


def breaches(check: Callable[[Path], Iterable[str]], sources: Iterable[Path] = SOURCES) -> dict[str, list[str]]:
    """Violations found by a check, by the name of the module."""
    return {name_of(path): found for path in sources if (found := sorted(check(path)))}


def test_a_room_imports_only_the_rooms_it_may() -> None:
    assert {room_of(name_of(path)) for path in SOURCES} <= ROOMS.keys(), "a new room needs a row in tests/architecture/rooms.py"

    def forbidden(path: Path) -> set[str]:
        room = room_of(name_of(path))
        rooms = {room_of(name) for name in imports(path) if name.partition(".")[0] == "pulsarscope"}
        return rooms - {room} - ROOMS[room].imports

    assert breaches(forbidden) == {}


def test_no_modules_import_each_other() -> None:
    modules = {name_of(path) for path in SOURCES}

    def imported(path: Path) -> set[str]:
        # a table names the modules that are made for it
        names = set(imports(path, top_level=name_of(path) in TABLES_OF_MODULES))
        return (names | {name.rpartition(".")[0] for name in names - modules}) & modules - {name_of(path)}

    TopologicalSorter({name_of(path): imported(path) for path in SOURCES}).prepare()  # raises CycleError, which names the modules


@pytest.mark.parametrize(("room", "folders"), FOLDERS.items())
def test_a_folder_imports_only_those_before_it(room: str, folders: list[str]) -> None:
    root = f"pulsarscope.{room.replace('/', '.')}"

    def late(path: Path) -> set[str]:
        place = path.parent.name
        later = folders[folders.index(place) + 1 :] if place in folders else []
        return {name for name in imports(path) if any(name.startswith(f"{root}.{folder}.") for folder in later)}

    modules = [path for path in SOURCES if path.is_relative_to(PACKAGE / room)]
    assert {path.parent.name for path in modules} == {room.rpartition("/")[2], *folders}
    assert breaches(late, modules) == {}


def test_the_documentation_has_the_rooms() -> None:
    assert table() in (DOCS / "architecture.md").read_text()


def test_only_the_list_of_dissectors_names_a_protocol() -> None:
    def named(path: Path) -> set[str]:
        protocols = {name for name in imports(path) if name.startswith("pulsarscope.protocols")} - {"pulsarscope.protocols"}
        return {name.rpartition(".")[0] for name in protocols} - {"pulsarscope.protocols"}

    assert breaches(named, OUTSIDE_PROTOCOLS) == {}


def test_only_a_protocol_speaks_of_its_commands() -> None:
    def spoken(path: Path) -> set[str]:
        if name_of(path) == "pulsarscope.model.records":
            return set()  # names the command of each column
        return {word for text in texts_of(path) for word in re.findall(r"[A-Z_]+", text)} & COMMANDS

    assert breaches(spoken, OUTSIDE_PROTOCOLS) == {}


def test_a_protocol_imports_no_other_protocol() -> None:
    def others(path: Path) -> set[str]:
        place = path.relative_to(PACKAGE / "protocols").parts
        if len(place) == 1:  # the complete list
            return set()
        return {name.split(".")[2] for name in imports(path) if name.startswith("pulsarscope.protocols.")} - {place[0]}

    assert breaches(others, [path for path in SOURCES if "protocols" in path.parts]) == {}


def test_a_core_room_does_no_input_or_output_and_reads_no_clock() -> None:
    def reached(path: Path) -> set[str]:
        imported = {name.partition(".")[0] for name in imports(path)}
        nodes = nodes_of(path)
        called = {node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
        attributes = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        found = imported & SHELL_MODULES | called & {"print", "input"} | attributes & CLOCKS
        if room_of(name_of(path)) != "capture" and name_of(path) not in FILE_READERS:
            found |= imported & FILE_MODULES | called & {"open"}
        return found

    assert breaches(reached, CORE_SOURCES) == {}


def test_heavy_modules_are_imported_on_use() -> None:
    def heavy(path: Path) -> set[str]:
        return {name.partition(".")[0] for name in imports(path, top_level=True)} & HEAVY

    assert breaches(heavy, [path for path in SOURCES if name_of(path) not in HEAVY_ON_USE]) == {}


def test_only_tables_of_modules_import_by_a_name_that_is_put_together() -> None:
    def importing(path: Path) -> set[str]:
        calls = [node.func for node in nodes_of(path) if isinstance(node, ast.Call)]
        called = {func.id if isinstance(func, ast.Name) else func.attr for func in calls if isinstance(func, (ast.Name, ast.Attribute))}
        return called & {"import_module", "__import__"}

    assert breaches(importing, [path for path in SOURCES if name_of(path) not in TABLES_OF_MODULES]) == {}


def test_an_import_by_string_is_seen(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text('"""pulsarscope.live"""\nA = "pulsarscope.cli.x:Y"\nB = f"pulsarscope.tcp.{A}"\nC = "pulsarscope.dissectors"\n')
    assert set(imports(source)) == {"pulsarscope.cli.x", "pulsarscope.tcp"}


def test_a_forbidden_import_is_seen(tmp_path: Path) -> None:
    source = tmp_path / "x.py"
    source.write_text("if TYPE_CHECKING:\n    import numpy\ntry:\n    import os\nexcept E:\n    pass\ndef f():\n    from a.b import c\n")
    assert set(imports(source)) == {"numpy", "os", "a.b.c"}
    assert set(imports(source, top_level=True)) == {"os"}
