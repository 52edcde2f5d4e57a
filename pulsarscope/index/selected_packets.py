"""The packets of selected rows, found by an index. Only the parts of the captures with these packets are read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from typing import NamedTuple, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from pulsarscope.capture import BlockReader, Inputs, Portion
from pulsarscope.engine.local import SelectedPackets
from pulsarscope.index.reader import Index
from pulsarscope.index.writer import PLACE


class FrameSelection(Protocol):
    """Frames whose packets are wanted, such as `analysis.PacketSelection`."""

    def carries(self, connection: str | None) -> bool:
        """Return True when packets of a connection may be wanted."""

    def comments(self, file: int, packet: int, connection: str | None, source: str, flags: int, start: int, end: int) -> list[str] | None:
        """Return the lines of the comment on a packet at a place; None when the packet is not wanted."""


class _Wanted(NamedTuple):
    file: int
    number: int
    comment: list[str]


def selected_packets(index: Index, inputs: Inputs, selection: FrameSelection, *, all_flags: bool) -> Iterator[SelectedPackets]:
    """Yield the selected packets in order; packets without bytes only with `all_flags`. Only frames can be selected.

    Raises CaptureError where the index is damaged.
    """
    portions = [[portion for portion in index.portions if portion.file == file] for file in range(len(inputs.paths))]
    before = [[portion.packets for portion in of_file] for of_file in portions]

    def place(wanted: _Wanted) -> tuple[int, int]:
        return wanted.file, bisect_left(before[wanted.file], wanted.number) - 1

    for (file, at), group in groupby(_wanted(index, selection, all_flags=all_flags), place):
        portion = portions[file][at] if at >= 0 else Portion(file)  # a compressed capture is read up to its last wanted packet
        if at == len(portions[file]) - 1:
            portion = msgspec.structs.replace(portion, end=None)  # it continues where records could not be skipped by length
        coming = iter(group)
        wanted = next(coming, None)
        reader = BlockReader(inputs.paths[file], file, records=True, by_interface=inputs.by_interface, portion=portion)
        with closing(reader):
            for block in reader:
                found = []
                for record in block.records:
                    if wanted is not None and record.number == wanted.number:
                        found.append((record, wanted.comment))
                        wanted = next(coming, None)
                yield SelectedPackets(file, portion.start + block.bytes_read, block.packets, found)
                if wanted is None:
                    break


def _wanted(index: Index, selection: FrameSelection, *, all_flags: bool) -> Iterator[_Wanted]:
    """Yield file, number and comment of the selected packets."""
    carrying: dict[str | None, bool] = {}
    for chunk in index.packet_chunks:
        connections = index.columns(chunk, ("connection",)).column("connection")
        for name in pc.unique(connections).to_pylist():
            if name not in carrying:
                carrying[name] = selection.carries(name)
        mask = pc.is_in(connections, value_set=pa.array([name for name, carries in carrying.items() if carries], pa.string()))
        if not pc.any(mask).as_py():
            continue
        batch = index.columns(chunk, ("file", *PLACE))
        if not all_flags:
            mask = pc.and_(mask, pc.less(batch.column("start"), batch.column("end")))
        places = batch.filter(mask)
        for file, number, *place in zip(*(places.column(name).to_pylist() for name in ("file", *PLACE)), strict=True):
            if (comment := selection.comments(file, number, *place)) is not None:
                yield _Wanted(file, number, comment)
