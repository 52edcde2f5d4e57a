"""Objects over a pipe between two of our processes, each preceded by its length."""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import chain
from operator import itemgetter
from typing import Any, BinaryIO

import msgspec

from pulsarscope.engine.ordering import PackedKeys, RowKey
from pulsarscope.engine.row_batch import KeyedFact, PackedFacts
from pulsarscope.model.limits import JOB_PIPE_BYTES
from pulsarscope.model.platform import load_native

LENGTH_BYTES = 8

SentKeys = bytes | Sequence[RowKey]
"""Keys of rows: packed if each has two numbers, as nearly all do, or otherwise unchanged."""

_encode = msgspec.msgpack.Encoder().encode
_place_of = itemgetter(5)
_decode = msgspec.msgpack.Decoder(list[tuple[int, str, bytes, int, bool, tuple[int, ...]]]).decode


def widen(pipe: BinaryIO) -> None:
    """Enlarge the buffer of a pipe beyond a few pages, if the system can and may."""
    with suppress(ImportError, AttributeError, OSError):
        import fcntl  # noqa: PLC0415 - not everywhere

        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, JOB_PIPE_BYTES)


def send(pipe: BinaryIO, message: Any) -> None:
    """Write an object."""
    send_bytes(pipe, pack(message))


def pack(message: Any) -> bytes:
    """Return the bytes that `unpack` takes."""
    return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)


def send_bytes(pipe: BinaryIO, *messages: bytes) -> None:
    """Write bytes unchanged, each for one call of `receive`."""
    for data in messages:
        pipe.write(len(data).to_bytes(LENGTH_BYTES, "big"))
        pipe.write(data)
    pipe.flush()


def receive(pipe: BinaryIO) -> bytes | None:
    """Receive the next object, for `unpack`, or unchanged bytes; None if the other process sends no more, or died."""
    head = pipe.read(LENGTH_BYTES)
    size = int.from_bytes(head, "big")
    data = pipe.read(size)
    return data if len(head) == LENGTH_BYTES and len(data) == size else None


def pack_facts(facts: Collection[PackedFacts]) -> list[PackedFacts]:
    """Return facts as few objects. Facts that MessagePack cannot encode, such as one with a time beyond 64 bits, stay unchanged."""
    packed: list[PackedFacts] = [some for some in facts if isinstance(some, bytes)]
    if plain := [*chain.from_iterable(some for some in facts if not isinstance(some, bytes))]:
        try:
            packed.append(_encode(plain))
        except (OverflowError, UnicodeEncodeError):
            packed.append(plain)
    return packed


def facts_in_order(packed: Sequence[PackedFacts]) -> Sequence[KeyedFact]:
    """Return the facts that other processes have packed, in the order of their places."""
    native, _ = load_native()
    if native is not None and {*map(type, packed)} <= {bytes}:
        with suppress(ValueError):
            placed: Sequence[KeyedFact] = native.PlacedFacts(packed)
            return placed
    return sorted(chain.from_iterable(_decode(facts) if isinstance(facts, bytes) else facts for facts in packed), key=_place_of)


def pack_keys(keys: Sequence[RowKey]) -> SentKeys:
    """Return the keys of rows as one object. Each key has two or more numbers."""
    if isinstance(keys, PackedKeys):
        return keys.packed
    numbers = [*chain.from_iterable(keys)]
    if len(numbers) > 2 * len(keys):
        return keys
    try:
        return array("q", numbers).tobytes()
    except OverflowError:
        return keys


def unpack_keys(keys: SentKeys) -> Sequence[RowKey]:
    """Return the keys that another process has packed."""
    return PackedKeys(keys) if isinstance(keys, bytes) else keys


def unpack(data: bytes) -> Any:
    """Return the object."""
    return pickle.loads(data)  # noqa: S301 - the pipe ends in a process of ours
