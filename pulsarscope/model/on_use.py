"""Things that are imported or made when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from importlib import import_module
from typing import Any, TypeVar

Value = TypeVar("Value")


def load(place: str) -> Any:
    """Import the module of a place, "module:name", and return the object of that name."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def on_use(place: str) -> Any:
    """Return a class property whose value is the object at a place, loaded on first access."""
    return cached_property(lambda _: load(place))


class MadeOnUse(Mapping[str, Value]):
    """A mapping that is made on first use."""

    def __init__(self, make: Callable[[], Mapping[str, Value]]) -> None:
        """Take the function that makes it."""
        self._make = make

    @cached_property
    def _made(self) -> Mapping[str, Value]:
        return self._make()

    def __getitem__(self, key: str) -> Value:
        return self._made[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)
