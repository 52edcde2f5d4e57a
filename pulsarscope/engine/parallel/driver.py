"""A run over several processes that cannot be told from one."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from pulsarscope.engine import local as pipeline
from pulsarscope.engine.local import Batch, Ending, Options, Run
from pulsarscope.engine.parallel.plan import Survey, groups, shares
from pulsarscope.engine.parallel.process import Process
from pulsarscope.engine.parallel.worker import Decode, LookThrough, Portion
from pulsarscope.inputs.tls_secrets import Secrets

if TYPE_CHECKING:
    from pulsarscope.capture import Inputs

Prepare = Callable[[list[Any]], Any]
"""What a process makes of the rows of a batch before it hands them over. It goes to the processes itself, so it must be picklable."""


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(inputs: Sequence[str], options: Options, jobs: int, prepare: Prepare | None = None) -> Run:
    """As `pipeline.run`, in `jobs` processes (0: as many as there are cores) when the inputs are several files.

    With `prepare`, batches that come from another process have `prepared` in the place of rows.
    """
    alone = pipeline.run(inputs, options)
    jobs = min(jobs or cores(), len(alone.inputs.paths))
    # A pipe can be read only once, and by no other process; rules look across connections.
    return alone if jobs < 2 or alone.inputs.sizes is None or options.rules else SideBySide(alone.inputs, options, jobs, prepare)


class SideBySide(Run):
    """One decode of a list of files, in several processes; `endpoints` and `dissector_of` are of the connections in the latest batch."""

    def __init__(self, inputs: Inputs, options: Options, jobs: int, prepare: Prepare | None) -> None:
        super().__init__(inputs, options)
        self._jobs = jobs
        self._prepare = prepare

    def __iter__(self) -> Generator[Batch, None, None]:
        with ExitStack() as stack:
            processes = [stack.enter_context(Process()) for _ in range(self._jobs)]
            dealt = self._deal(processes)
            if len(dealt) > 1:
                yield from self._batches(processes, dealt)
                self.complete = True
                return
        yield from super().__iter__()

    def _deal(self, processes: Sequence[Process]) -> list[list[int]]:
        """Which files go together into which process; the processes themselves look into the files first."""
        paths = self.inputs.paths
        sizes = [_size(path) for path in paths]
        each = shares([[file] for file in range(len(paths))], sizes, len(processes))
        for process, files in zip(processes, each, strict=False):
            process.ask(LookThrough([paths[file] for file in files]))
        owners = _owners(processes, each)
        surveys: list[Survey] = [owners[file].answer() for file in range(len(paths))]
        self._share_secrets(surveys)
        return shares(groups([one.flows for one in surveys], len(paths)), sizes, len(processes))

    def _share_secrets(self, surveys: Sequence[Survey]) -> None:
        """Secrets hold from their places on for all files, so every process has to know those of all."""
        if any(one.key_logs for one in surveys):
            secrets = Secrets(self._options.key_logs.secrets)
            for file, one in enumerate(surveys):
                for packets_before, log in one.key_logs:
                    secrets.add(BytesIO(log), (file, packets_before))
            self._options = msgspec.structs.replace(self._options, key_logs=self._options.key_logs._replace(secrets=secrets))

    def _batches(self, processes: Sequence[Process], dealt: Sequence[list[int]]) -> Iterator[Batch]:
        working = processes[: len(dealt)]
        for process, files in zip(working, dealt, strict=True):
            process.ask(Decode(self.inputs, self._options, files, self._prepare))
        owners = _owners(working, dealt)
        for rows in self.first_rows():
            yield Batch(rows, 0, 0, 0)
        batch = Batch([], 0, 0, 0)
        for file in range(len(self.inputs.paths)):
            owner = owners[file]
            endings: list[Portion] = []
            for process in (owner, *(other for other in working if other is not owner)):
                while isinstance((portion := self._counted_in(process.answer())).part, Batch):
                    batch = portion.part
                    self.endpoints, self.dissector_of = portion.endpoints, portion.dissector_of
                    yield batch
                endings.append(portion)
            self.endpoints = {name: ends for ending in endings for name, ends in ending.endpoints.items()}
            self.dissector_of = {name: dissector for ending in endings for name, dissector in ending.dissector_of.items()}
            for rows in self.joined(ending.part for ending in endings if isinstance(ending.part, Ending)):
                yield Batch(rows, batch.file, batch.bytes_read, batch.last_packet)

    def _counted_in(self, portion: Portion) -> Portion:
        self.packets += portion.packets
        self.connections += portion.connections
        self.severities.update(portion.severities)
        self.damaged = self.damaged or portion.damaged
        return portion


def _owners(processes: Sequence[Process], dealt: Sequence[Sequence[int]]) -> dict[int, Process]:
    """Which process has which file."""
    return {file: process for process, files in zip(processes, dealt, strict=False) for file in files}


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except OSError:
        return 0
