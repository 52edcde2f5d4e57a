"""Inside one of the processes: what it is asked to do, and its loop."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from pulsarscope.capture import Inputs
from pulsarscope.dissect.isolation import PluginWarning
from pulsarscope.engine.local import Batch, Ending, Options, Run
from pulsarscope.engine.parallel.channel import receive, send, unpack
from pulsarscope.engine.parallel.plan import Survey, survey
from pulsarscope.model.records import Row

OUT_OF_MEMORY = 77
"""Exit code of a process that had not enough memory."""


class LikeMe(msgspec.Struct, frozen=True):
    """Task: settings of the interpreter as in the process that asks."""

    threshold: tuple[int, int, int]

    def __call__(self) -> Iterator[None]:
        """No answer."""
        gc.set_threshold(*self.threshold)
        return iter(())


class LookThrough(msgspec.Struct, frozen=True):
    """Task: what is to be known of each of some files."""

    paths: list[str]

    def __call__(self) -> Iterator[Survey]:
        """One answer per file."""
        return map(survey, self.paths)


class Portion(msgspec.Struct):
    """A batch or an ending, and what it adds to the counts and words of the run."""

    part: Batch | Ending
    packets: int
    connections: int
    severities: Counter[str]
    damaged: bool
    endpoints: dict[str, tuple[str, str]]
    """Of the connections that the rows name, unless they are prepared."""
    dissector_of: dict[str, str]


class Decode(msgspec.Struct, frozen=True):
    """Task: the batches of some files, and an ending after each file of the list."""

    inputs: Inputs
    options: Options
    files: list[int]
    prepare: Callable[[list[Any]], Any] | None

    def __call__(self) -> Iterator[Portion]:
        """One answer per batch or ending."""
        run = Run(self.inputs, self.options)
        packets = connections = 0
        for part in run.parts(self.files):
            if isinstance(part, Ending):
                part.steps = list(part.steps)
            severities, run.severities = run.severities, Counter()
            portion = Portion(part, run.packets - packets, run.connections - connections, severities, run.damaged, {}, {})
            packets, connections = run.packets, run.connections
            if isinstance(part, Batch) and self.prepare is not None:
                part.prepared = self.prepare(part.rows)
                part.rows = []
            elif run.endpoints:
                names = {row.connection for row in _rows_of(part) if isinstance(row, Row)}
                portion.endpoints = {name: ends for name in names if name is not None and (ends := run.endpoints.get(name))}
                portion.dissector_of = {name: run.dissector_of[name] for name in portion.endpoints}
            yield portion


def _rows_of(part: Batch | Ending) -> Iterator[Any]:
    if isinstance(part, Batch):
        yield from part.rows
        return
    for _, rows, _ in part.steps:
        yield from rows
    for _, rows in part.findings:
        yield from rows


def serve() -> None:
    """Carry out one task after the other, from standard input to standard output, until nobody asks or listens any more."""
    tasks, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what any library may print must not get among the answers
    warnings.simplefilter("ignore", PluginWarning)  # who asks has been told
    try:
        while (task := receive(tasks)) is not None:
            for answer in unpack(task)():
                send(answers, answer)
    except BrokenPipeError:
        os._exit(0)
    except MemoryError:
        os._exit(OUT_OF_MEMORY)
