"""Things that are imported when they are first used."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Any


def load(place: str) -> Any:
    """Return what a place, "module:name", holds; the module is imported."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def on_use(place: str) -> Any:
    """Return a property of a class whose value is what a place holds, loaded when it is first asked for."""
    return cached_property(lambda _: load(place))
