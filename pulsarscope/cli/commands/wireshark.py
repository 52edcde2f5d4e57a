"""The command `wireshark`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, NamedTuple

from pulsarscope.cli.arguments.declarations import option
from pulsarscope.cli.arguments.options import CommandRequest
from pulsarscope.cli.command_output import CommandOutput, with_output
from pulsarscope.cli.exit_codes import EXIT_DONE
from pulsarscope.model.errors import OutputError, UsageError
from pulsarscope.model.text import printable
from pulsarscope.output.render.style import encoded, text_encoding

DISSECTOR_NAME = "pulsarscope.lua"
EXTCAP_NAME = "pulsarscope.bat" if sys.platform == "win32" else "pulsarscope"

_PROGRAMS = ("tshark", "/Applications/Wireshark.app/Contents/MacOS/tshark", r"C:\Program Files\Wireshark\tshark.exe")
_FOLDERS_SECONDS = 20


class Folders(NamedTuple):
    """Folders of Wireshark."""

    plugins: Path
    extcap: Path
    user: str | None = None
    """User who gets the files, if not the current one: the user who called sudo."""


class WiresharkRequest(CommandRequest, frozen=True, kw_only=True):
    """Options of `wireshark`."""

    install: Annotated[
        bool,
        option(
            "--install",
            help="Install the dissector and the capture program: for this user, or for all where Wireshark has one folder for all.",
        ),
    ] = False
    remove: Annotated[bool, option("--remove", help="Remove both.")] = False
    lua: Annotated[bool, option("--lua", help="Write the dissector to standard output, for tshark -X lua_script:FILE.")] = False


@with_output
def wireshark(request: WiresharkRequest, output: CommandOutput) -> int:
    """Set up Wireshark: a Pulsar dissector and live capture.

    The dissector, in Lua, shows all commands and fields, entry metadata, batches and checksums; it recognises Pulsar by its content, also
    inside TLS. The interface "Apache Pulsar" captures as `live` does, with names of frames and findings as packet comments. Without
    options, shows what is installed, and where.
    """
    if request.install + request.remove + request.lua > 1:
        raise UsageError("give one of --install, --remove and --lua")
    from pulsarscope.protocols import wireshark_dissector

    dissector = wireshark_dissector()
    if request.lua:
        return _write(output, dissector)
    folders = find_folders(os.environ)
    own = Path.home() if folders.user is None else Path(f"~{folders.user}").expanduser()
    user = "this user" if folders.user is None else printable(folders.user)
    lines = []
    for folder, name, content in (
        (folders.plugins, DISSECTOR_NAME, dissector),
        (folders.extcap, EXTCAP_NAME, extcap_script(sys.executable, windows=sys.platform == "win32")),
    ):
        path = folder / name
        is_own = own in path.parents or sys.platform == "win32"
        with _acting_as(folders.user if is_own else None):
            if request.install:
                _install(path, content)
            elif request.remove:
                _remove(path)
            state = _state(path, content)
        lines.append(f"{printable(str(path))} (of {user if is_own else 'all users'}): {state}\n")
    return _write(output, "".join(lines))


def find_folders(environment: Mapping[str, str]) -> Folders:
    """Return the folders of this user as tshark reports them, otherwise the default ones."""
    user, home = _user(environment)
    folders = _folders_of_tshark(home, user)
    if sys.platform == "win32":
        own = Path(environment.get("APPDATA", ".")) / "Wireshark"
    else:
        own = home / ".local" / "lib" / "wireshark"
    plugins = folders.get("Personal Lua Plugins") or folders.get("Personal Plugins") or str(own / "plugins")
    extcap = folders.get("Personal Extcap path") or folders.get("Extcap path") or str(own / "extcap")
    return Folders(Path(plugins), Path(extcap), user)


def _user(environment: Mapping[str, str]) -> tuple[str | None, Path]:
    """Return the name of the user who called sudo (None without sudo), and the home of the user concerned."""
    name = environment.get("SUDO_USER") if getattr(os, "geteuid", lambda: 1)() == 0 else None
    if name and name != "root":
        with suppress(RuntimeError):  # a user that this system does not know
            return name, Path(f"~{name}").expanduser()
    return None, Path.home()


def _folders_of_tshark(home: Path, user: str | None) -> dict[str, str]:
    """Return the output of `tshark -G folders` for a user with this home; empty without tshark."""
    program = next((found for name in _PROGRAMS if (found := shutil.which(name)) is not None), None)
    if program is None:
        return {}
    groups = None if user is None else _groups(user)
    try:
        output = subprocess.run(  # noqa: S603 - Wireshark's own program, which runs the scripts of the user
            [program, "-G", "folders"],
            capture_output=True,
            timeout=_FOLDERS_SECONDS,
            check=False,
            env={**os.environ, "HOME": str(home)},
            user=user,
            group=groups[0] if groups else None,
            extra_groups=groups,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return {}
    lines = [line.partition(":") for line in os.fsdecode(output).splitlines()]
    return {name.strip(): folder.strip() for name, _, folder in lines if folder.strip()}


def extcap_script(python: str, *, windows: bool) -> str:
    """Return the program that Wireshark starts, which starts this Python."""
    if windows:
        return f'@echo off\r\n"{python}" -m pulsarscope.cli.extcap %*\r\n'
    quoted = "'" + python.replace("'", "'\\''") + "'"
    return f'#!/bin/sh\nexec {quoted} -m pulsarscope.cli.extcap "$@"\n'


def _groups(user: str) -> list[int]:
    """Return the groups of a user, the primary group first."""
    import pwd  # not on Windows, which has no sudo

    first = pwd.getpwnam(user).pw_gid
    return [first, *(group for group in os.getgrouplist(user, first) if group != first)]


@contextmanager
def _acting_as(user: str | None) -> Iterator[None]:
    """Take on the permissions of a user: root would write through any link in the user's folder."""
    if user is None:
        yield
        return
    import pwd

    before, wanted = (os.getegid(), os.getgroups()), _groups(user)
    os.setgroups(wanted)
    os.setegid(wanted[0])
    os.seteuid(pwd.getpwnam(user).pw_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(before[0])
        os.setgroups(before[1])


def _install(path: Path, content: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
        if path.name == EXTCAP_NAME:
            path.chmod(0o755)
    except PermissionError as error:
        message = f"cannot write {printable(str(path))}: {error.strerror}; this Wireshark has no folder of yours for it: run this with sudo"
        raise OutputError(message) from error
    except OSError as error:
        raise OutputError(f"cannot write {printable(str(path))}: {error.strerror}") from error


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot remove {printable(str(path))}: {error.strerror}") from error


def _state(path: Path, content: str) -> str:
    try:
        found = path.read_bytes()
    except OSError:
        return "not installed"
    return "installed" if found == content.encode() else "installed by another version: --install replaces it"


def _write(output: CommandOutput, text: str) -> int:
    output.write(CommandRequest(), encoded(text, text_encoding(None)))
    return EXIT_DONE
