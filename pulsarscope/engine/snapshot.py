"""The open state of a run as bytes, so that another process can continue it.

Each process makes the objects that all connections share for itself: the bytes hold only their names.
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
    """Objects by name; another process may have requested a part that a dissector makes on demand."""

    def __init__(self, dissectors: Mapping[str, object]) -> None:
        super().__init__()
        self._dissectors = dissectors

    def __missing__(self, name: str) -> object:
        dissector, _, part = name.partition(" ")
        return getattr(self._dissectors[dissector], part)


class Shared:
    """Objects by name. Every process has its own objects under the same names."""

    def __init__(self, named: Mapping[str, object]) -> None:
        """Take the objects by name. Plain values among them are not shared: they may be the same object by chance."""
        self._named = named
        self._names = {id(value): name for name, value in named.items() if not (isinstance(value, _PLAIN) or value == ())}

    def dumps(self, state: object) -> bytes:
        """Return the state as bytes; afterwards the state is exhausted, because its iterators have yielded everything."""
        out = BytesIO()
        pickler = pickle.Pickler(out, pickle.HIGHEST_PROTOCOL)
        pickler.dispatch_table = {**copyreg.dispatch_table, GeneratorType: _rest, chain: _rest}
        # They are put at the beginning, as if they had occurred: checking each of a million values takes half of the time.
        pickler.memo = {number: (place, self._named[name]) for place, (number, name) in enumerate(self._names.items())}
        out.write(b"".join(map(_remembered, self._names.values())))
        pickler.dump(state)
        return out.getvalue()

    def loads(self, data: bytes) -> Any:
        """Return the state. Accept only bytes that a process of the same run has made: they may do anything."""
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
