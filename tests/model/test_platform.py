"""The choice of the reader of frames."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pulsarscope.model.errors import UsageError
from pulsarscope.model.platform import NATIVE, NATIVE_CONTRACT, install_command, load_native, modules_mark, refused_native
from tests.places import ROOT

GOOD = SimpleNamespace(CONTRACT=NATIVE_CONTRACT, __version__="9.9", end_without_memory=lambda **_: None)
OTHER = SimpleNamespace(CONTRACT=99, __version__="9.9")


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    load_native.cache_clear()
    yield
    load_native.cache_clear()


@pytest.mark.parametrize(
    ("choice", "module", "loaded", "text"),
    [
        ("auto", GOOD, True, "compiled (pulsarscope-native 9.9)"),
        ("", GOOD, True, "compiled (pulsarscope-native 9.9)"),
        ("require", GOOD, True, "compiled (pulsarscope-native 9.9)"),
        ("off", GOOD, False, "Python (PULSARSCOPE_NATIVE is off)"),
        ("auto", None, False, "Python (pulsarscope-native is not installed; `pip install ./native`"),
        ("auto", OTHER, False, "Python (pulsarscope-native 9.9 has contract 99, not "),
    ],
)
def test_the_environment_chooses_the_reader(choice: str, module: Any, loaded: bool, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pulsarscope_native", module)
    monkeypatch.setenv(NATIVE, choice)
    native, described = load_native()
    assert native is (module if loaded else None)
    assert described.startswith(text)


@pytest.mark.parametrize(
    ("choice", "module", "refused"),
    [
        ("auto", GOOD, False),
        ("auto", None, False),
        ("off", OTHER, False),
        ("auto", OTHER, True),
    ],
)
def test_an_installed_reader_that_is_refused_has_a_reason(choice: str, module: Any, refused: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pulsarscope_native", module)
    monkeypatch.setenv(NATIVE, choice)
    reason = refused_native()
    assert (reason is not None and reason.startswith("pulsarscope-native ")) == refused


@pytest.mark.parametrize(
    ("choice", "module", "text"),
    [
        ("never", GOOD, "PULSARSCOPE_NATIVE is 'never'; choose auto, off or require"),
        ("require", None, "PULSARSCOPE_NATIVE is require, but pulsarscope-native is not installed; `pip install ./native`"),
        ("require", OTHER, "PULSARSCOPE_NATIVE is require, but pulsarscope-native 9.9 has contract 99, not "),
    ],
)
def test_a_reader_that_cannot_be_is_refused_in_one_line(choice: str, module: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pulsarscope_native", module)
    monkeypatch.setenv(NATIVE, choice)
    with pytest.raises(UsageError) as refused:
        load_native()
    assert str(refused.value).startswith(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("origin", "target"),
    [
        (None, "'pulsarscope[parquet]'"),
        ('{"url": "file:///opt/my%20clone", "dir_info": {"editable": true}}', "-e '/opt/my clone[parquet]'"),
        ('{"url": "file:///opt/clone", "dir_info": {}}', "'/opt/clone[parquet]'"),
        (
            '{"url": "file:///tmp/pulsarscope-1-py3-none-any.whl", "archive_info": {}}',
            "'pulsarscope[parquet] @ file:///tmp/pulsarscope-1-py3-none-any.whl'",
        ),
        ("damaged", "'pulsarscope[parquet]'"),
    ],
)
def test_an_extra_is_installed_from_where_the_package_came(monkeypatch: pytest.MonkeyPatch, origin: str | None, target: str) -> None:
    class Installed:
        def read_text(self, name: str) -> str | None:
            return origin if name == "direct_url.json" else None

    monkeypatch.setattr("importlib.metadata.distribution", lambda _name: Installed())
    monkeypatch.setattr("sys.executable", "/venv/bin/python")
    assert install_command("parquet") == f"/venv/bin/python -m pip install {target}"


def test_code_between_two_releases_is_another_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Covers the package in a folder and in a zip file, as on a cluster."""
    with zipfile.ZipFile(tmp_path / "pulsarscope.zip", "w") as archive:
        for module in (ROOT / "pulsarscope").rglob("*.py"):
            archive.write(module, module.relative_to(ROOT))
        archive.extractall(tmp_path)
    versions = []
    for change in ("", "\n", "\n"):
        with (tmp_path / "pulsarscope" / "model" / "units.py").open("a") as source:
            source.write(change)
        monkeypatch.setattr("importlib.resources.files", lambda name: tmp_path / name)
        modules_mark.cache_clear()
        versions.append(modules_mark())
    monkeypatch.setattr("importlib.resources.files", lambda name: zipfile.Path(tmp_path / "pulsarscope.zip", f"{name}/"))
    modules_mark.cache_clear()
    assert [versions.index(version) for version in (*versions, modules_mark())] == [0, 1, 2, 0]
    monkeypatch.undo()
    modules_mark.cache_clear()
    assert modules_mark() == versions[0]
