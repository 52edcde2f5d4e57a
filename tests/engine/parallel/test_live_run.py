"""Live captures in several processes: rows, order and findings are those of one process."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import Any

import pytest

from pulsarscope.capture import Block, BlockReader
from pulsarscope.capture.steps import LiveStep, StepDecoder
from pulsarscope.engine.local import run_blocks
from pulsarscope.engine.parallel import LiveRun
from pulsarscope.model.errors import UsageError
from pulsarscope.output.export.pcapng import interface_block, packet_block, section_block
from tests.places import CAPTURES
from tests.scenarios.options import Options

SECOND = 1_000_000_000
ALL = Options(frozenset({"frame", "message", "exchange", "connection", "finding"}), rules=True, live=True)


def steps_of(name: str, size: int, *, leave_out: int = 0) -> Generator[LiveStep, None, None]:
    """A capture in steps of `size` packets, with time passing between them; one step is left out."""
    yield LiveStep(section_block("") + interface_block(1, 0, "lo"))
    records = (record for block in BlockReader(str(CAPTURES / name), records=True) for record in block.records)
    read = number = skipped = 0
    now = 0
    while part := [*islice(records, size)]:
        number += 1
        now = part[-1].time
        if number == leave_out:
            skipped = len(part)
            continue
        data = b"".join(packet_block(0, record.time, record.wire_bytes, record.data) for record in part)
        read += len(data)
        yield LiveStep(data, read, skipped=skipped)
        yield LiveStep(b"", read, present=now)
        skipped = 0
    for second in range(1, 100, 20):
        yield LiveStep(b"", read, present=now + second * SECOND)
    yield LiveStep(b"", read, last=True)


class Blocks:
    """The blocks of steps, in this process."""

    recognised = True
    first_time = None

    def __init__(self, steps: Iterable[LiveStep]) -> None:
        self._steps = steps

    def __iter__(self) -> Iterator[Block]:
        return map(StepDecoder().block, self._steps)

    def take_secrets(self) -> list[tuple[int, bytes]]:
        return []


@pytest.mark.slow
@pytest.mark.parametrize(("size", "leave_out"), [(7, 0), (40, 3), (1_000_000, 0)])
@pytest.mark.parametrize("name", ["stuck-consumer.pcap", "proxy-keyshared.pcap", "unload-terminate.pcap"])
def test_rows_are_those_of_one_process(name: str, size: int, leave_out: int) -> None:
    alone = run_blocks("lo", Blocks(steps_of(name, size, leave_out=leave_out)), ALL)
    several = LiveRun("lo", steps_of(name, size, leave_out=leave_out), ALL, 2)
    rows: list[Any] = [row for batch in several for row in batch.rows]
    assert rows == [row for batch in alone for row in batch.rows]
    assert (several.packets, several.connections, several.severities) == (alone.packets, alone.connections, alone.severities)
    assert (several.waiting(), several.complete) == ((0, 0), True)


@pytest.mark.slow
def test_who_stops_early_leaves_no_thread_and_no_process() -> None:
    steps = steps_of("stuck-consumer.pcap", 5)
    batches = iter(LiveRun("lo", steps, ALL, 2))
    next(batches)
    batches.close()
    steps.close()


@pytest.mark.slow
def test_what_ends_the_capture_ends_the_run() -> None:
    def failing() -> Generator[LiveStep, None, None]:
        yield from islice(steps_of("stuck-consumer.pcap", 5), 4)
        message = "no more"
        raise UsageError(message)

    with pytest.raises(UsageError, match="no more"):
        list(LiveRun("lo", failing(), ALL, 2))
