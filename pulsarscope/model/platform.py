"""Dependencies on the environment: installed packages, entry points, and modules loaded without their slow packages.

Each workaround for the usual import states the cost that was measured.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import TYPE_CHECKING, Any

from pulsarscope.model.errors import UsageError

if TYPE_CHECKING:
    from importlib.abc import Traversable
    from importlib.metadata import EntryPoint

NATIVE = "PULSARSCOPE_NATIVE"
"""Environment variable that chooses the reader of frames: `auto`, `off`, or `require` for the compiled one."""

NATIVE_CONTRACT = 66
"""Version of the contract with pulsarscope-native: its classes and functions, their arguments, and their results."""

NATIVE_HINT = "`pip install ./native` in a clone of pulsarscope builds it, with cargo"


_ENDING: dict[str, bool] = {}
"""How this process ends where the compiled reader has no memory; empty in a process of somebody else, which it aborts."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra of this package into this Python, from the same origin as the package."""
    import json  # noqa: PLC0415 - for a message
    import shlex  # noqa: PLC0415 - as above
    from importlib import metadata  # noqa: PLC0415 - as above
    from urllib.parse import urlsplit  # noqa: PLC0415 - as above
    from urllib.request import url2pathname  # noqa: PLC0415 - as above

    options: tuple[str, ...] = ()
    name = f"pulsarscope[{extra}]"
    try:
        origin = json.loads(metadata.distribution("pulsarscope").read_text("direct_url.json") or "{}")
        folder, editable = origin.get("dir_info"), (origin.get("dir_info") or {}).get("editable", False)
        if folder is None and "url" in origin:
            name = f"{name} @ {origin['url']}"
        elif folder is not None:
            options = ("-e",) if editable else ()
            name = f"{url2pathname(urlsplit(origin['url']).path)}[{extra}]"
    except (metadata.PackageNotFoundError, ValueError):
        pass
    return shlex.join([sys.executable or "python", "-m", "pip", "install", *options, name])


def module_path() -> tuple[str, ...]:
    """Return the folders from which modules are currently imported."""
    return tuple(sys.path)


def entry_points(group: str, path: Sequence[str]) -> list[EntryPoint]:
    """Return the entry points of a group that the packages in these folders declare, by name.

    `importlib.metadata` takes 32 ms of every start, and most environments declare none. Searching for files that name the group takes 0.5
    ms for fifty packages, and decides whether `importlib.metadata` is needed.
    """
    declarations = map(_declarations, path)
    if all(declared is not None and group.encode() not in declared for declared in declarations):
        return []
    from importlib import metadata  # noqa: PLC0415 - the 32 ms

    return sorted(metadata.entry_points(group=group), key=lambda point: (point.name, point.value))


@cache
def _declarations(folder: str) -> bytes | None:
    """Return what the packages in this folder declare, read once for all groups; None for a zip file, where only importlib can look."""
    try:
        with os.scandir(folder or ".") as entries:
            packages = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except NotADirectoryError:
        return None
    except (OSError, ValueError):
        return b""
    return b"\n".join(map(_declared, packages))


def _declared(package: str) -> bytes:
    try:
        with open(f"{package}/entry_points.txt", "rb", buffering=0) as declarations:  # noqa: PTH123 - half the time of a Path
            return declarations.read()
    except OSError:
        return b""


def load_crc32c() -> Callable[..., int]:
    """Return the function of the extension module of the package crc32c.

    The package itself imports importlib.metadata to learn its own version, which takes a tenth of every start; the extension module does
    not.
    """
    package = PathFinder.find_spec("crc32c")
    inside = None if package is None else package.submodule_search_locations
    extension = None if inside is None else PathFinder.find_spec("_crc32c", inside)
    if extension is None or extension.loader is None:  # laid out differently, or not in folders
        from crc32c import crc32c  # noqa: PLC0415 - spared elsewhere

        return crc32c
    module: Any = module_from_spec(extension)
    extension.loader.exec_module(module)
    return module.crc32c  # type: ignore[no-any-return]


@cache
def load_blake2b() -> Any:
    """Return BLAKE2b from the extension module that hashlib uses: hashlib also loads OpenSSL, 3 ms and 3 MiB of a start."""
    try:
        from _blake2 import blake2b  # noqa: PLC0415 - few runs need it
    except ImportError:  # another Python implementation
        from hashlib import blake2b  # noqa: PLC0415 - as above
    return blake2b


@cache
def load_native() -> tuple[Any, str]:
    """Return the module of pulsarscope-native, or None, and a description of the reader in use and of the reason.

    Raises UsageError for an unknown choice, and for a required module that does not work.
    """
    choice = os.environ.get(NATIVE) or "auto"
    if choice == "off":
        return None, f"Python ({NATIVE} is off)"
    if choice not in {"auto", "require"}:
        raise UsageError(f"{NATIVE} is {choice!r}; choose auto, off or require")
    native, refusal = _import_native()
    if native is not None:
        return native, f"compiled (pulsarscope-native {native.__version__})"
    reason = refusal or f"pulsarscope-native is not installed; {NATIVE_HINT}"
    if choice == "require":
        raise UsageError(f"{NATIVE} is require, but {reason}")
    return None, f"Python ({reason})"


def end_without_memory(*, tells: bool) -> None:
    """Let a process of pulsarscope end with the exit code of InternalError where the compiled reader has no memory; `tells`: and a line."""
    _ENDING["tells"] = tells


def refused_native() -> str | None:
    """Return the reason why an installed pulsarscope-native cannot be used; None if none is installed, or the user turned it off."""
    return None if os.environ.get(NATIVE) == "off" else _import_native()[1] or None


def _import_native() -> tuple[Any, str]:
    """Return the module of pulsarscope-native, or None, and the reason why an installed one cannot be used."""
    try:
        import pulsarscope_native as native  # noqa: PLC0415 - optional
    except ModuleNotFoundError:
        return None, ""
    except ImportError as error:
        return None, f"pulsarscope-native cannot be loaded: {error}"
    if native.CONTRACT == NATIVE_CONTRACT:
        if _ENDING:
            native.end_without_memory(**_ENDING)
        return native, ""
    return None, f"pulsarscope-native {native.__version__} has contract {native.CONTRACT}, not {NATIVE_CONTRACT}; {NATIVE_HINT}"


@cache
def modules_mark() -> str:
    """Return a hash of the package's modules: they determine the format of stored runs, also between two releases."""
    from hashlib import blake2b  # noqa: PLC0415 - only for files in the cache
    from importlib import resources  # noqa: PLC0415 - as above

    mark = blake2b(digest_size=4)
    root = resources.files("pulsarscope")
    for name, module in sorted(_modules(root), key=lambda each: each[0]):
        mark.update(b"%s %d " % (name.encode(), len(source := module.read_bytes())) + source)
    return mark.hexdigest()


def _modules(folder: Traversable, path: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield the modules below a folder, which may be in a zip file, with their paths."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _modules(entry, f"{path}{entry.name}/")
        elif entry.name.endswith(".py"):
            yield path + entry.name, entry
