"""Facts for rules across connections that wait in the checkpoint of a stream: their files, and when they are evaluated.

A fact waits until no connection can add to its key, which takes an hour or more. So far more facts wait than a batch brings. Each task of a
batch writes its facts to a new file. An evaluation takes only the facts of some slices of the keys. Slices take turns: each is evaluated
once in an hour of capture time.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

SLICES = 256
"""Number of slices: at 20 MB/s, each gets 250,000 facts in an hour."""

ANCHORS = SLICES
"""Number of a separate slice, with the anchors of all connections."""

PERIOD_NANOSECONDS = 3_600_000_000_000
"""Capture time in which each slice is evaluated once."""

STEP_NANOSECONDS = PERIOD_NANOSECONDS // SLICES

BATCHES_MAX = 250
"""Number of batches with files that slices must still read. Beyond it, a slice is evaluated in each batch."""


class WaitingFacts(msgspec.Struct, frozen=True):
    """Files with the waiting facts after a batch of a stream."""

    tasks: int
    """Number of tasks of a batch, each with a file."""
    batches: list[int] = []
    """Batches whose facts have not been evaluated in all slices, each given by the number of captures after it."""
    slices: tuple[str, ...] = ("",) * (SLICES + 1)
    """File with the facts left by the latest evaluation of each slice, with the anchors last; "" before the first evaluation."""
    next: int = 0
    """Slice that was evaluated longest ago, which is next."""
    time: int = 0
    """Capture time up to which slices were evaluated, in nanoseconds since the epoch."""

    def names(self) -> set[str]:
        """Return the names of all files."""
        return {*self._appended(0), *self.slices} - {""}

    def of_slice(self, number: int) -> list[str]:
        """Return the names of the files that may have facts of a slice, earliest first."""
        left = self.slices[number]
        return [*([left] if left else []), *self._appended(batch_of(left))]

    def _appended(self, after: int) -> list[str]:
        return [of_task(batch, task) for batch in self.batches if batch > after for task in range(self.tasks)]

    def with_batch(self, batch: int, newest: int, *, has_facts: bool) -> WaitingFacts:
        """Return the files after a batch that reached the time `newest`."""
        batches = [*self.batches, batch] if has_facts else self.batches
        return msgspec.structs.replace(self, batches=batches, time=self.time or newest)

    def due(self, newest: int | None) -> list[int]:
        """Return the slices to evaluate when the captures have reached a time, or (None) their end."""
        if not self.batches and not any(self.slices):
            return []
        if newest is None or abs(elapsed := newest - self.time) >= PERIOD_NANOSECONDS:  # also backwards, after a clock was ahead
            return [*range(SLICES)]
        count = max(elapsed // STEP_NANOSECONDS, len(self.batches) > BATCHES_MAX, 0)
        return [number % SLICES for number in range(self.next, self.next + count)]

    def evaluated(self, due: Sequence[int], batch: int, tasks: int, newest: int) -> WaitingFacts:
        """Return the files after slices were evaluated with a batch, distributed among `tasks` tasks."""
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
    """Return the name of the file with the facts that a task of an evaluation leaves."""
    return f"{batch:09}-left-{task:03}"


def batch_of(name: str) -> int:
    """Return the number of captures after the batch of a file; 0 for no file."""
    return int(name.partition("-")[0] or 0)
