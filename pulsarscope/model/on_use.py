"""Things that are imported when they are first used."""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Any


def load(place: str) -> Any:
    """Import the module of a place, "module:name", and return the object of that name."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def on_use(place: str) -> Any:
    """Return a class property whose value is the object at a place, loaded on first access."""
    return cached_property(lambda _: load(place))
