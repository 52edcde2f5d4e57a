"""Rows of a part whose frames stay in the columns of the compiled reader: one object that stands for all of them, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import TYPE_CHECKING, Any

from pulsarscope.dissect.contract.frames import KeptBytes
from pulsarscope.dissect.contract.legs import ANCHOR
from pulsarscope.dissect.framing.column_batch import ColumnBatch
from pulsarscope.engine.ordering import PackedKeys, RowKey, Step, orders_of, spread
from pulsarscope.model.flow import FILE_SHIFT
from pulsarscope.model.platform import load_native
from pulsarscope.model.records import ConnectionRow, ExchangeRow, FindingRow, JourneyRow, MessageRow
from pulsarscope.model.row_lists import RowList

if TYPE_CHECKING:
    from pulsarscope.engine.options import Options


MESSAGES_IN_COLUMNS_MAX = 65_536
"""Messages, according to the metadata of frames, of a part whose frames and messages stay in columns: they are in memory together."""

OPENED_IN_COLUMNS_MAX_BYTES = 32 << 20
"""Most bytes to which the payloads of such a part may decompress; fewer are kept, but how many is not known in advance."""

PAYLOADS_MAX_BYTES = 4 << 20
"""Payload text that rows handed on at once may hold, and bytes to which the payloads of such a part may decompress if these are kept: a
block can decompress to thousands of times its size."""


def ordered_rows_type(options: Options, kinds: AbstractSet[str], evaluated: AbstractSet[str] = frozenset()) -> Any:
    """Return a function that makes ordered rows of the compiled reader; None if there is no such reader, or rows are examined one by one.

    `kinds`: rows that are handed on, or that rules need; `evaluated`: rows that rules need.
    """
    native, _ = load_native()
    if native is None or not options.columns or JourneyRow.kind in kinds or opens_messages(options, kinds):
        return None
    if MessageRow.kind in kinds and (MessageRow.kind in evaluated or not _keeps_messages(options)):
        return None
    return partial(native.OrderedRows, exchanges=ExchangeRow.kind in kinds)


def opens_messages(options: Options, kinds: AbstractSet[str]) -> bool:
    """Return True when only the messages in frames are requested: the compiled reader then opens them.

    `kinds` as above.
    """
    native, _ = load_native()
    if native is None or _looks_into_frames(options):
        return False
    return MessageRow.kind in kinds and kinds <= {MessageRow.kind, FindingRow.kind, ConnectionRow.kind, ANCHOR}


def _keeps_messages(options: Options) -> bool:
    return options.message_columns is None and not _looks_into_frames(options)


def _looks_into_frames(options: Options) -> bool:
    return options.raw or options.places


def have_many_messages(steps: Iterable[Step], *, payloads: bool) -> bool:
    """Return True when the frames of steps have more messages than may be in memory together, with or without their payloads."""
    messages = size = 0
    for _, _, frames in steps:
        if frames is None:
            continue
        of_python = frames.rows
        if isinstance(frames, ColumnBatch):
            columns = frames.settle()
            named, opened = columns.named_messages()
            messages, size = messages + named, size + opened
            of_python = columns.of_python()
        for row in of_python:
            if (metadata := row.metadata) is not None:
                messages += max(metadata.get("num_messages_in_batch", 1), 1)
                size += max(metadata.get("uncompressed_size", 0), 0)
    return messages > MESSAGES_IN_COLUMNS_MAX or size > (PAYLOADS_MAX_BYTES if payloads else OPENED_IN_COLUMNS_MAX_BYTES)


class OrderedKeys(Sequence[RowKey]):
    """Keys of the rows that ordered rows stand for, by position among all rows; each place has two positions."""

    def __init__(self, ordered: Any, index_of: dict[str, int]) -> None:
        """Take ordered rows; `index_of` gives the positions of connections in the part."""
        self._index_of = index_of
        self._of_places = PackedKeys(ordered.keys(index_of, exchanges=False))

    def __len__(self) -> int:
        return 2 * len(self._of_places)

    def __getitem__(self, position: Any) -> Any:
        return self._of_places[position // 2]

    def each(self, ordered: Any) -> PackedKeys:
        """Return the keys of all rows in other ordered rows of the part."""
        return PackedKeys(ordered.keys(self._index_of, exchanges=True))

    def placed(
        self, brought: Sequence[Any], undecided: Sequence[Any], phase: int, number: int, numbers: Mapping[str, int]
    ) -> tuple[bytes, int] | None:
        """Return the facts that rows caused, in order, and their number; None if only Python can place them.

        They are packed for `parallel.channel.facts_in_order`. `phase`: phase of their places; `number`: number of the first one; `numbers`:
        numbers of the rules.
        """
        native, _ = load_native()
        placed: tuple[bytes, int] | None = native.place_facts(brought, undecided, self._of_places.packed, (phase, number), numbers)
        return placed


def rows_in_columns(steps: Iterable[Step], made: Any, observe: Callable[..., None], carry_out: Callable[..., None]) -> Any:
    """Carry out steps, and return their rows in an object that `made` makes."""
    ordered = made()
    for order, name, frames in steps:
        if isinstance(frames, ColumnBatch):
            observe(name, frames)
            ordered.add(name, frames.columns, order >> FILE_SHIFT << FILE_SHIFT, order)
        elif frames is not None:
            rows: list[Any] = RowList(later=False, together=True)
            orders = orders_of(order, frames)
            carry_out(name, frames, rows)
            if len(rows) != len(orders):
                spread(orders, frames, rows)
            ordered.extend_each(name, rows, orders)
        else:
            carry_out(name, None, rows := [])
            ordered.extend(name, rows, order)
    ordered.sort()
    return ordered


def steps_in_rows(steps: Iterable[Step], kept: KeptBytes) -> Iterator[Step]:
    """Yield the steps, with frames in columns turned into rows."""
    for order, name, frames in steps:
        yield order, name, frames.in_rows(kept) if isinstance(frames, ColumnBatch) else frames
