"""What other packages bring: their entry points, and the dissectors among them."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pulsarscope.dissect.contract import Dissector
from pulsarscope.dissect.frames import SPLITTER_CODES
from pulsarscope.model.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

DISSECTOR_GROUP = "pulsarscope.dissectors"
"""Entry point group: each names a class that makes a `pulsarscope.dissect.contract.Dissector`, called as class(show_secrets=bool)."""

MakeDissector = Callable[..., Dissector]

_MEMBERS = sorted({*Dissector.__annotations__, *(name for name in vars(Dissector) if not name.startswith("_"))})
"""What the contract asks for."""


class PluginWarning(UserWarning):
    """A plug-in is left out, because it does not work."""


def with_plugins(built_in: Sequence[MakeDissector]) -> tuple[MakeDissector, ...]:
    """The dissectors of the package, and behind them those of other packages, ordered by the names of their entry points.

    One that does not work is left out, with one PluginWarning for all runs of the process.

    Raises:
        UsageError: two of them have one name or one port.
    """
    return _with_plugins(tuple(built_in), tuple(sys.path))


def entry_points(group: str) -> list[EntryPoint]:
    """Those of a group that the packages installed here declare, by name."""
    return _entry_points(group, tuple(sys.path))


def _entry_points(group: str, path: Sequence[str]) -> list[EntryPoint]:
    if not any(_may_declare(group.encode(), folder) for folder in path):
        return []
    from importlib import metadata  # noqa: PLC0415 - 30 ms of every start, where there is mostly nothing to find

    return sorted(metadata.entry_points(group=group), key=lambda point: (point.name, point.value))


def _may_declare(group: bytes, folder: str) -> bool:
    """Whether a package in this folder of the module path may have entry points of the group: 0.5 ms for fifty packages."""
    try:
        with os.scandir(folder or ".") as entries:
            packages = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except NotADirectoryError:
        return True  # a zip file, perhaps: importlib looks into it
    except (OSError, ValueError):
        return False
    return any(group in _declared(package) for package in packages)


def _declared(package: str) -> bytes:
    try:
        return (Path(package) / "entry_points.txt").read_bytes()
    except OSError:
        return b""


@cache
def _with_plugins(built_in: tuple[MakeDissector, ...], path: tuple[str, ...]) -> tuple[MakeDissector, ...]:
    points = _entry_points(DISSECTOR_GROUP, path)
    if not points:
        return built_in
    known: dict[str, Dissector] = {f"{made.name} of pulsarscope": made for made in (make(show_secrets=False) for make in built_in)}
    makers = list(built_in)
    for point in points:
        who = f"{point.name} of {point.dist.name if point.dist is not None else 'an unnamed package'}"
        try:
            make = point.load()
            made = _checked(make(show_secrets=False))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever someone else's code does when it is imported
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            warnings.warn(f"the dissector {who} is left out: {reason}", PluginWarning, stacklevel=2)
            continue
        for other, before in known.items():
            if message := _clash(who, made, other, before):
                raise UsageError(message)
        known[who] = made
        makers.append(make)
    return tuple(makers)


def _checked(made: Any) -> Dissector:
    """A dissector that has all that the contract asks for.

    Raises:
        TypeError: it has not.
    """
    # A property is looked for in the class, so that none is computed.
    missing = [name for name in _MEMBERS if not hasattr(type(made), name) and not hasattr(made, name)]
    if not missing:
        missing = [f"the code {code}" for code in sorted(SPLITTER_CODES - made.codes.keys())]
    if missing:
        message = f"it lacks {', '.join(missing)}"
        raise TypeError(message)
    if not (isinstance(made.name, str) and made.name and isinstance(made.ports, frozenset)):
        message = "its name must be text and its ports a frozenset"
        raise TypeError(message)
    dissector: Dissector = made
    return dissector


def _clash(who: str, made: Dissector, other: str, before: Dissector) -> str:
    """What two dissectors may not share and these do; "" when all is well."""
    if made.name == before.name:
        return f"the dissectors {who} and {other} are both named {made.name}: uninstall one of the packages"
    if shared := sorted(made.ports & before.ports):
        return f"the dissectors {who} and {other} both expect port {shared[0]}: uninstall one of the packages"
    return ""
