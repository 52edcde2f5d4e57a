"""A fuzz driver: it damages an author's frames at random and checks the properties of the contract on them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from pulsarscope.dissect import Dissector
from pulsarscope.dissect.plugins.isolation import raising_line
from pulsarscope.testing.properties import (
    check_account,
    check_candidates,
    check_decoding,
    check_frame,
    check_names,
    check_sizes,
    check_splitting,
)
from pulsarscope.testing.row_properties import check_rows

CANDIDATE_BYTES = 400
"""Bytes of a stream in which each position is tried: checking one position may read all bytes after it."""


def fuzz(dissector: Dissector, frames: Sequence[bytes], *, rounds: int = 100, seed: int = 0) -> None:
    """Check the contract on damaged streams of whole frames, preferably one of each kind. The same seed gives the same streams.

    Raises AssertionError, with the bytes, when a property does not hold or the dissector raises.
    """
    check_names(dissector)
    for number in range(rounds):
        random = Random(f"{seed} {number}")  # noqa: S311 - one seed, the same streams
        data = damaged(random, frames) if number else b"".join(frames)
        try:
            for frame in () if number else frames:
                check_frame(dissector, frame)
            check_stream(dissector, data, random)
        except Exception as error:
            message = f"round {number} of seed {seed}, bytes.fromhex('{data.hex()}'): {type(error).__name__}{raising_line(error)}: {error}"
            raise AssertionError(message) from error


def check_stream(dissector: Dissector, data: bytes, random: Random) -> None:
    """Check the properties on one stream, cut into random pieces."""
    check_candidates(dissector, data[:CANDIDATE_BYTES])
    check_sizes(dissector, data[:CANDIDATE_BYTES])
    check_decoding(dissector, data, [random.randint(1, len(data)) for _ in range(8)] if data else ())
    cuts = sorted(random.randint(0, len(data)) for _ in range(random.randint(0, 8)))
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    for synced in (True, False):
        check_account(dissector, data, synced=synced)
        check_splitting(dissector, pieces, synced=synced)
    check_rows(dissector, data, damaged(random, [data[:CANDIDATE_BYTES]]))


def damaged(random: Random, frames: Sequence[bytes]) -> bytes:
    """Return a stream of these frames in any order, with bytes changed, lost, repeated and inserted."""
    data = bytearray(b"".join(random.choices(frames, k=random.randint(1, 6))))
    for _ in range(random.randint(0, 6)):
        start = random.randint(0, len(data))
        end = min(start + random.choice((1, 2, 4, 16)), len(data))
        match random.randint(0, 3):
            case 0:
                data[start:end] = random.randbytes(end - start)
            case 1:
                del data[start:end]
            case 2:
                data[start:start] = data[start:end]
            case _:
                data[start:start] = random.randbytes(random.randint(1, 16))
    return bytes(data)


def streams(frames: Sequence[bytes]) -> Any:
    """Return a strategy of Hypothesis, which must be installed, for damaged streams of these frames."""
    from hypothesis import strategies  # noqa: PLC0415 - only those who have it call this

    return strategies.randoms(use_true_random=False).map(lambda random: damaged(random, frames))
