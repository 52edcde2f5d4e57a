"""Objects over a pipe between two processes of ours, each with its length before it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, BinaryIO

LENGTH_BYTES = 8


def packed(message: Any) -> bytes:
    """Return an object as the bytes to send."""
    return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)


def send(pipe: BinaryIO, data: bytes) -> None:
    """Write an object that is packed."""
    pipe.write(len(data).to_bytes(LENGTH_BYTES, "big"))
    pipe.write(data)
    pipe.flush()


def received(pipe: BinaryIO) -> Iterator[Any]:
    """Give the objects until the other process sends no more, or died."""
    while len(head := pipe.read(LENGTH_BYTES)) == LENGTH_BYTES:
        size = int.from_bytes(head, "big")
        if len(data := pipe.read(size)) != size:
            return
        yield pickle.loads(data)  # noqa: S301 - the pipe ends in a process of ours
