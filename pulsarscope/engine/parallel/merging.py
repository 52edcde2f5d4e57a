"""The rows of one part of a run, from several processes, in the order of a single process."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pulsarscope.engine.ordering import RowKey
from pulsarscope.engine.parallel.channel import SentKeys, facts_in_order, unpack_keys
from pulsarscope.engine.parallel.worker import Result
from pulsarscope.engine.row_batch import KeyedFact, PackedFacts, RowBatch
from pulsarscope.model.platform import load_native
from pulsarscope.model.text import each_line

Answer = Callable[[], Result]
"""Function that returns the next result of a process."""

Conclude = Callable[[Sequence[KeyedFact]], RowBatch]
"""Function that returns the effects of the facts of all processes, with keys, at the end of the part."""


class _Portion:
    """Rows of a process that came together, with their keys."""

    def __init__(self, keys: SentKeys, batch: RowBatch) -> None:
        self.packed = keys
        self.keys = unpack_keys(keys)
        self.values: Any = batch.rows if batch.prepared is None else batch.prepared

    def each(self) -> Sequence[Any]:
        """Return the prepared value of each row, or the rows. Raises ValueError if their number differs from that of the keys."""
        self.values = each_line(self.values)
        if len(self.values) != len(self.keys):
            message = f"{len(self.values)} values have {len(self.keys)} keys"
            raise ValueError(message)
        return self.values  # type: ignore[no-any-return]


_Span = tuple[_Portion, int, int]
"""A portion, the first of its rows, and the one after the last."""


class _Stream:
    """The share of one process in the part: the current batch, whose first rows have already been taken."""

    def __init__(self, answer: Answer, facts: list[PackedFacts]) -> None:
        self._answer = answer
        self._facts = facts
        self._receive()
        self.take(0)

    def _receive(self) -> None:
        result = self._answer()
        self.batch, self.ends, self.start = result.batch, result.ends, 0
        self.portion = _Portion(result.keys, result.batch)
        self._facts += result.facts

    def stop(self, bound: RowKey | None) -> int:
        """Return the position in the current rows after the bound."""
        return len(self.portion.keys) if bound is None else bisect_right(self.portion.keys, bound, self.start)

    def take(self, stop: int) -> None:
        """Take the rows up to a position. If that is the end and more follow, make those the current ones."""
        self.start = stop
        while not self.ends and self.start == len(self.portion.keys):
            self._receive()


def merged(answers: Sequence[Answer], conclude: Conclude, join: Callable[[list[Any]], Any] | None) -> Iterator[RowBatch]:
    """Yield the rows of one part: as many at a time as can be put in order.

    Args:
        answers: functions that return the results of each process.
        conclude: called when all facts are available.
        join: combines the prepared values of rows; None if they are rows.
    """
    facts: list[PackedFacts] = []
    streams = [_Stream(answer, facts) for answer in answers]
    more = True
    while more:
        # No future row comes before the last current one of its process.
        bound = min((stream.portion.keys[-1] for stream in streams if not stream.ends), default=None)
        more = bound is not None
        stops = [stream.stop(bound) for stream in streams]
        spans = [(stream.portion, stream.start, stop) for stream, stop in zip(streams, stops, strict=True)]
        progress = streams[0].batch
        if not more:
            last = conclude(facts_in_order(facts))
            spans.append((_Portion(last.keys, last), 0, len(last.keys)))
        values = _in_order([span for span in spans if span[1] < span[2]])
        yield RowBatch(
            values if join is None else [],
            progress.file,
            progress.bytes_read,
            progress.last_packet,
            None if join is None else join(values),
        )
        for stream, stop in zip(streams, stops, strict=True):
            stream.take(stop)


def _in_order(spans: Sequence[_Span]) -> list[Any]:
    """Return the values of some spans in order; the compiled reader joins lines with packed keys into one value."""
    native, _ = load_native()
    if native is not None:
        lines = [(portion.packed, portion.values, start, stop) for portion, start, stop in spans]
        if {type(value) for span in lines for value in span[:2]} == {bytes} and (merged_lines := native.merged_lines(lines)) is not None:
            return [merged_lines]
    keys: list[RowKey] = []
    values: list[Any] = []
    for portion, start, stop in spans:
        keys += portion.keys[start:stop]
        values += portion.each()[start:stop]
    if len(spans) < 2:
        return values
    ranking = sorted(range(len(keys)), key=keys.__getitem__)  # consists of sorted runs, which take one comparison per row
    return [values[index] for index in ranking]
