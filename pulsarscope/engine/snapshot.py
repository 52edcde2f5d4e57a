"""The open state of a run as bytes, so that another process can go on with it.

Every process makes the objects that all connections share for itself: the bytes hold only their names.
"""

from __future__ import annotations

import copyreg
import pickle
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO
from itertools import chain
from types import GeneratorType
from typing import Any


def _rest(iterator: Iterator[Any]) -> tuple[Callable[..., Any], tuple[list[Any]]]:
    return iter, (list(iterator),)


_PLAIN = (str, bytes, int, float, frozenset, type(None))


class Parts(dict[str, object]):
    """Objects by name; another process may have asked a dissector for a part that it makes when it is asked."""

    def __init__(self, dissectors: Mapping[str, object]) -> None:
        super().__init__()
        self._dissectors = dissectors

    def __missing__(self, name: str) -> object:
        dissector, _, part = name.partition(" ")
        return getattr(self._dissectors[dissector], part)


class Shared:
    """Objects by name. Every process has its own ones under the same names."""

    def __init__(self, named: Mapping[str, object]) -> None:
        """Plain values may be among them, and are not shared: they may be the same object by chance."""
        self._named = named
        self._names = {id(value): name for name, value in named.items() if not (isinstance(value, _PLAIN) or value == ())}

    def dumps(self, state: object) -> bytes:
        """Return the state as bytes; it is exhausted then, for iterators in it have given all that they had."""
        out = BytesIO()
        pickler = pickle.Pickler(out, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = {**copyreg.dispatch_table, GeneratorType: _rest, chain: _rest}
        # They are at the beginning, as if they had occurred: a question about each of a million values takes half of the time.
        pickler.memo = {number: (place, self._named[name]) for place, (number, name) in enumerate(self._names.items())}
        out.write(b"".join(map(_remembered, self._names.values())))
        pickler.dump(state)
        return out.getvalue()

    def loads(self, data: bytes) -> Any:
        """Return the state. Only of bytes that a process of the same run has made: they may do anything."""
        return _Unpickler(BytesIO(data), self._named).load()


def _remembered(name: str) -> bytes:
    """Return the part of a pickle that remembers a shared object under the next number."""
    text = name.encode()
    return pickle.BINUNICODE + len(text).to_bytes(4, "little") + text + pickle.BINPERSID + pickle.MEMOIZE + pickle.POP


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: BytesIO, named: Mapping[str, object]) -> None:
        super().__init__(data)
        self._named = named

    def persistent_load(self, pid: str) -> object:
        return self._named[pid]
