"""The modules of the package as syntax trees."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.places import PACKAGE, ROOT

GENERATED = {"schema.py", "generated.py"}
"""Modules that proto/generate.py writes."""

SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if path.name not in GENERATED)
"""All modules but the generated ones."""


@cache
def tree_of(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text())


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of the syntax tree of a module."""
    return tuple(ast.walk(tree_of(path)))


def name_of(path: Path) -> str:
    """Return the name of a module: pulsarscope/tcp/stream.py → pulsarscope.tcp.stream; __init__.py has the name of its package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def room_of(module: str) -> str:
    """Return the room of a module: pulsarscope.tcp.stream → tcp. The room of the package's own __init__ and its names is pulsarscope."""
    package, _, rest = module.partition(".")
    room = rest.partition(".")[0]
    known = room and ((PACKAGE / room).is_dir() or (PACKAGE / f"{room}.py").is_file())
    return room if known else package


def imports(path: Path, *, top_level: bool = False) -> Iterator[str]:
    """Yield the full names of a module's imports, wherever they are; with `top_level`, only of those made when the module is imported.

    `from pulsarscope import wire` counts as pulsarscope.dissect, `from pulsarscope.tcp import Assembler` as pulsarscope.tcp.Assembler.
    """
    for node in executed_on_import(tree_of(path).body) if top_level else nodes_of(path):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
    if not top_level:
        yield from imports_by_string(path)


def texts_of(path: Path) -> Iterator[str]:
    """Yield the texts in a module, without docstrings."""
    documentation = {id(node.value) for node in nodes_of(path) if isinstance(node, ast.Expr)}
    for node in nodes_of(path):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def imports_by_string(path: Path) -> Iterator[str]:
    """Yield names of modules of the package that appear in a text: module, module:name, or the beginning of a name that is put together."""
    for text in texts_of(path):
        match = re.match(r"pulsarscope(?:\.\w+)+", text)
        if match is not None and room_of(match[0]) != "pulsarscope":
            yield match[0]


def executed_on_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements outside functions and outside `if TYPE_CHECKING`."""
    for node in body:
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from executed_on_import(node.orelse)
            continue
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for block in ("body", "orelse", "finalbody"):
                yield from executed_on_import(getattr(node, block, []))
