"""The rows of one part of a run, from several processes, in the order in which one process gives them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from pulsarscope.engine.ordering import RowKey
from pulsarscope.engine.parallel.channel import unpack_facts, unpack_keys
from pulsarscope.engine.parallel.worker import Result
from pulsarscope.engine.row_batch import KeyedFact, RowBatch
from pulsarscope.model.text import each_line

_place_of = itemgetter(5)

Answer = Callable[[], Result]
"""Gives the next result of a process."""

Conclude = Callable[[list[KeyedFact]], RowBatch]
"""Gives what the facts of all processes bring about, with keys, when the part ends."""


_Span = tuple[Sequence[RowKey], Sequence[Any]]
"""Keys of rows, and what stands for each: the row, or what it was prepared to."""


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
        self.keys = unpack_keys(result.keys)
        self.values = _values(result.batch)
        self._facts += unpack_facts(result.facts)

    def stop(self, bound: RowKey | None) -> int:
        """Return behind which of the rows at hand the bound lies."""
        return len(self.keys) if bound is None else bisect_right(self.keys, bound, self.start)

    def span(self, stop: int) -> _Span:
        """Return keys and values of the rows at hand up to there."""
        return self.keys[self.start : stop], self.values[self.start : stop]

    def take(self, stop: int) -> None:
        """Take the rows up to there. When they were all, and more follow, those are at hand then."""
        self.start = stop
        while not self.ends and self.start == len(self.keys):
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
        bound = min((stream.keys[-1] for stream in streams if not stream.ends), default=None)
        more = bound is not None
        stops = [stream.stop(bound) for stream in streams]
        spans = [stream.span(stop) for stream, stop in zip(streams, stops, strict=True)]
        progress = streams[0].batch
        if not more:
            last = conclude(sorted(facts, key=_place_of))
            spans.append((last.keys, _values(last)))
        values = _in_order([span for span in spans if span[0]])
        yield RowBatch(
            values if join is None else [],
            progress.file,
            progress.bytes_read,
            progress.last_packet,
            None if join is None else join(values),
        )
        for stream, stop in zip(streams, stops, strict=True):
            stream.take(stop)


def _values(batch: RowBatch) -> Sequence[Any]:
    """Return what the rows of a batch were prepared to, for each row, or the rows."""
    return batch.rows if batch.prepared is None else each_line(batch.prepared)


def _in_order(spans: Sequence[_Span]) -> list[Any]:
    """Return the values of some spans in order."""
    keys: list[RowKey] = []
    values: list[Any] = []
    for of_span, some in spans:
        keys += of_span
        values += some
    if len(spans) < 2:
        return values
    ranking = sorted(range(len(keys)), key=keys.__getitem__)  # of sorted stretches, which takes one comparison each
    return [values[index] for index in ranking]
