"""Facts for rules across connections that wait in the checkpoint of a stream: in which files, and when they are evaluated.

A fact waits until no connection can add to its key, an hour and more, so that far more facts wait than a batch brings. Each task of a
batch appends its facts in a file. An evaluation takes the facts of some keys only, of slices that take turns: each once in an
hour of the captures.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

SLICES = 256
"""Number of slices: at 20 MB/s an hour brings one of them 250,000 facts."""

ANCHORS = SLICES
"""Number of a slice of its own, which has the anchors of all connections."""

PERIOD_NANOSECONDS = 3_600_000_000_000
"""Time of the captures in which each slice is evaluated once."""

STEP_NANOSECONDS = PERIOD_NANOSECONDS // SLICES

BATCHES_MAX = 250
"""Number of batches of which slices have files to read: with more of them, each batch has a slice evaluated."""


class WaitingFacts(msgspec.Struct, frozen=True):
    """Files with the facts that wait after a batch of a stream."""

    tasks: int
    """Number of tasks of a batch, each with a file."""
    batches: list[int] = []
    """Batches whose facts some slice was not evaluated with, by the number of captures after each."""
    slices: tuple[str, ...] = ("",) * (SLICES + 1)
    """File with what the latest evaluation of each slice left, that of the anchors last; "" before the first one."""
    next: int = 0
    """Slice that was evaluated longest ago: they take turns."""
    time: int = 0
    """Time of the captures up to which slices were evaluated, nanoseconds since the epoch."""

    def names(self) -> set[str]:
        """Return the names of all files."""
        return {*self._appended(0), *self.slices} - {""}

    def of_slice(self, number: int) -> list[str]:
        """Return the names of the files that may have facts of a slice, the earliest ones first."""
        left = self.slices[number]
        return [*([left] if left else []), *self._appended(batch_of(left))]

    def _appended(self, after: int) -> list[str]:
        return [of_task(batch, task) for batch in self.batches if batch > after for task in range(self.tasks)]

    def with_batch(self, batch: int, newest: int, *, has_facts: bool) -> WaitingFacts:
        """Return the files after a batch that came to the time `newest`."""
        batches = [*self.batches, batch] if has_facts else self.batches
        return msgspec.structs.replace(self, batches=batches, time=self.time or newest)

    def due(self, newest: int | None) -> list[int]:
        """Return the slices to be evaluated when the captures have come to a time, or to their end."""
        if not self.batches and not any(self.slices):
            return []
        if newest is None or abs(elapsed := newest - self.time) >= PERIOD_NANOSECONDS:  # also behind a clock that was ahead
            return [*range(SLICES)]
        count = max(elapsed // STEP_NANOSECONDS, len(self.batches) > BATCHES_MAX, 0)
        return [number % SLICES for number in range(self.next, self.next + count)]

    def evaluated(self, due: Sequence[int], batch: int, tasks: int, newest: int) -> WaitingFacts:
        """Return the files after slices were evaluated with a batch, in turns by so many tasks."""
        slices = [*self.slices]
        for place, number in enumerate(due):
            slices[number] = left_by(batch, place % tasks)
        slices[ANCHORS] = left_by(batch, tasks)
        oldest = min(map(batch_of, slices))
        batches = [batch for batch in self.batches if batch > oldest]
        time = newest if len(due) == SLICES else min(self.time + len(due) * STEP_NANOSECONDS, newest)
        return WaitingFacts(self.tasks, batches, tuple(slices), (self.next + len(due)) % SLICES, time)


def of_task(batch: int, task: int) -> str:
    """Return the name of the file with the facts of a task in a batch."""
    return f"{batch:09}-{task:03}"


def left_by(batch: int, task: int) -> str:
    """Return the name of the file with what a task of an evaluation leaves."""
    return f"{batch:09}-left-{task:03}"


def batch_of(name: str) -> int:
    """Return the number of captures after the batch that a file is of; 0 for no file."""
    return int(name.partition("-")[0] or 0)
