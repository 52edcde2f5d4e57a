"""The rows of one part of a run, from several processes, in the order in which one process gives them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from operator import itemgetter
from typing import Any

from pulsarscope.engine.ordering import RowKey
from pulsarscope.engine.parallel.channel import unpack_facts
from pulsarscope.engine.parallel.worker import Result
from pulsarscope.engine.row_batch import KeyedFact, RowBatch

_place_of = itemgetter(5)

Answer = Callable[[], Result]
"""Gives the next result of a process."""

Conclude = Callable[[list[KeyedFact]], RowBatch]
"""Gives what the facts of all processes bring about, with keys, when the part ends."""


class _Stream:
    """The share of one process in the part: the batch at hand, of which the first rows are taken already."""

    def __init__(self, answer: Answer, facts: list[KeyedFact]) -> None:
        self._answer = answer
        self._facts = facts
        self._receive()
        self.take(0)

    def _receive(self) -> None:
        result = self._answer()
        self.batch, self.ends, self.start = result.batch, result.ends, 0
        self._facts += unpack_facts(result.facts)

    def stop(self, bound: RowKey | None) -> int:
        """Return behind which of the rows at hand the bound lies."""
        return len(self.batch.keys) if bound is None else bisect_right(self.batch.keys, bound, self.start)

    def take(self, stop: int) -> None:
        """Take the rows up to there. When they were all, and more follow, those are at hand then."""
        self.start = stop
        while not self.ends and self.start == len(self.batch.keys):
            self._receive()


def merged(answers: Sequence[Answer], conclude: Conclude, join: Callable[[list[Any]], Any] | None) -> Iterator[RowBatch]:
    """Give the rows of one part: as many at a time as can be put in order.

    Args:
        answers: those of each process.
        conclude: called when all facts are there.
        join: makes of what rows were prepared to what they become together; None: they are rows.
    """
    facts: list[KeyedFact] = []
    streams = [_Stream(answer, facts) for answer in answers]
    more = True
    while more:
        # No row that is yet to come stands before the last one at hand of its process.
        bound = min((stream.batch.keys[-1] for stream in streams if not stream.ends), default=None)
        more = bound is not None
        stops = [stream.stop(bound) for stream in streams]
        spans = [(stream.batch, stream.start, stop) for stream, stop in zip(streams, stops, strict=True)]
        progress = streams[0].batch
        if not more:
            last = conclude(sorted(facts, key=_place_of))
            spans.append((last, 0, len(last.keys)))
        values = _in_order([span for span in spans if span[1] < span[2]], prepared=join is not None)
        yield RowBatch(
            values if join is None else [],
            progress.file,
            progress.bytes_read,
            progress.last_packet,
            None if join is None else join(values),
        )
        for stream, stop in zip(streams, stops, strict=True):
            stream.take(stop)


def _in_order(spans: Sequence[tuple[RowBatch, int, int]], *, prepared: bool) -> list[Any]:
    """Return the rows of some stretches of batches, or what they were prepared to, in order."""
    values = [(batch.prepared if prepared else batch.rows)[start:stop] for batch, start, stop in spans]
    if len(spans) < 2:
        return values[0] if values else []
    ranking: list[tuple[RowKey, int, int]] = []
    for number, (batch, start, stop) in enumerate(spans):
        ranking += zip(batch.keys[start:stop], repeat(number), range(stop - start), strict=False)
    ranking.sort()  # of sorted stretches, which takes one comparison each
    return [values[number][row] for _, number, row in ranking]
