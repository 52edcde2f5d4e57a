"""Files: tests mirror sources, modules have a largest size, and what is promised to users of the package is there."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sysconfig
from collections import Counter
from pathlib import Path

import pulsarscope
from tests.architecture.modules import SOURCES, name_of, nodes_of
from tests.places import PACKAGE, ROOT

LINES_MAX = 450
FUNCTION_LINES_MAX = 80

TESTS = sorted((ROOT / "tests").rglob("test_*.py"))

OF_THE_WHOLE = {
    "tests/spark/test_object_stores.py",
    "tests/cli/commands/test_report_in_browser.py",
    "tests/broker/test_cluster.py",
    "tests/broker/test_live_messages.py",
    "tests/broker/test_pytest.py",
    "tests/dissect/plugins/test_payload_decoders.py",
    "tests/live/test_days.py",
    "tests/live/test_losses.py",
    "tests/docs/test_site.py",
    "tests/test_action.py",
    "tests/test_captured_twice.py",
    "tests/test_captures.py",
    "tests/test_case_tables.py",
    "tests/api/test_library_sample.py",
    "tests/test_packet_owners.py",
    "tests/test_proxy_legs.py",
    "tests/test_regressions.py",
    "tests/protocols/bookkeeper/test_recordings.py",
    "tests/protocols/kafka07/test_broker.py",
    "tests/protocols/kafka07/test_clients.py",
    "tests/protocols/kafka07/test_recordings.py",
    "tests/protocols/pulsar/test_proto.py",
    "tests/protocols/pulsar/test_wireshark.py",
    "tests/protocols/pulsar/rules/test_questions.py",
}
"""Tests of more than one module: of the real captures, the generated one, live runs, plug-ins, and all rules together, question by
question; also those of this folder, and of docs/bad_inputs.
"""


def mirrors_a_source_file(path: Path) -> bool:
    """Return whether a test file mirrors a module, or need not."""
    place = path.relative_to(ROOT / "tests")
    mirrors = place.parts[0] not in ("architecture", "faults") and not place.name.startswith("test_bad_inputs_")
    if not mirrors or str(path.relative_to(ROOT)) in OF_THE_WHOLE:
        return True
    source = place.with_name(place.name.removeprefix("test_"))
    roots = (ROOT,) if place.parts[0] in ("benchmarks", "docs") else (PACKAGE,)
    package = source.with_suffix("") / "__init__.py"
    of_its_folder = source.parent.with_name(source.parent.name) / "__init__.py" if source.stem == source.parent.name else package
    return any((root / name).is_file() for root in roots for name in (source, package, of_its_folder))


def test_a_test_file_mirrors_a_source_file() -> None:
    assert [path for path in TESTS if not mirrors_a_source_file(path)] == []


def test_no_test_module_imports_another() -> None:
    """Builders and scenarios shared by tests are in tests/scenarios."""
    forms = r"from tests[\w.]*\.test_\w+ import|import tests[\w.]*\.test_|from tests[\w.]* import (?:\([^)]*)?\btest_"
    imports = re.compile(rf"^\s*(?:{forms})", re.MULTILINE)
    importing = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py") if imports.search(path.read_text())]
    assert importing == ["tests/docs/test_make_findings.py"], "it alone imports tests: to count the rows of the catalogue that have one"


def test_no_module_is_longer_than_one_can_read() -> None:
    assert [name_of(path) for path in SOURCES if path.read_text().count("\n") > LINES_MAX] == []


def test_no_function_is_longer_than_one_can_read() -> None:
    functions = [(path, node) for path in SOURCES for node in nodes_of(path) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    too_long = [(path, node) for path, node in functions if (node.end_lineno or 0) - node.lineno >= FUNCTION_LINES_MAX]
    assert [f"{name_of(path)}.{node.name}" for path, node in too_long] == []


def test_no_two_public_classes_have_one_name() -> None:
    names = Counter(node.name for path in SOURCES for node in nodes_of(path) if isinstance(node, ast.ClassDef) and node.name[0] != "_")
    assert [name for name, times in names.items() if times > 1] == []


def test_every_folder_of_modules_is_a_package() -> None:
    assert [path.parent for path in SOURCES if not (path.parent / "__init__.py").is_file()] == []


def test_the_package_is_marked_as_typed() -> None:
    assert (PACKAGE / "py.typed").is_file()


def test_all_names_exactly_what_is_public() -> None:
    modules = {name for name in pulsarscope.__all__ if inspect.ismodule(getattr(pulsarscope, name))}
    public = {name for name, value in vars(pulsarscope).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert set(pulsarscope.__all__) == public - {"annotations"} | modules
    assert len(set(pulsarscope.__all__)) == len(pulsarscope.__all__)


def test_the_console_script_decodes() -> None:
    script = Path(sysconfig.get_path("scripts")) / "pulsarscope"
    command = [str(script), "decode", str(ROOT / "captures" / "quickstart.pcapng"), "--format", "ndjson"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=os.environ | {"NO_COLOR": "1"})
    assert (result.returncode, result.stderr) == (0, "")
    first = json.loads(result.stdout.splitlines()[0])
    assert (first["record"], first["command"], first["direction"]) == ("frame", "CONNECT", "client")
