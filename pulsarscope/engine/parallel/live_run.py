"""The driver of several processes that decode a live capture: each gets all of it, in steps, and decodes its share of the connections."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack
from threading import Semaphore, Thread

from pulsarscope.capture import Inputs
from pulsarscope.capture.steps import LiveStep
from pulsarscope.engine.options import Options
from pulsarscope.engine.parallel.driver import ParallelRun
from pulsarscope.engine.parallel.process import Process
from pulsarscope.engine.parallel.worker import Prepare, Result
from pulsarscope.engine.row_batch import KeyedFact, RowBatch
from pulsarscope.model.live_limits import LIVE_STEPS_MAX


class LiveRun(ParallelRun):
    """A decode of the steps of a live capture, in several processes; the rows equal those of one process."""

    by_steps = True

    def __init__(
        self, name: str, steps: Generator[LiveStep, None, None], options: Options, jobs: int, prepare: Prepare | None = None
    ) -> None:
        """Prepare; no process is started yet, see `ParallelRun`."""
        super().__init__(Inputs([name], None, [], by_interface=options.by_interface), options, jobs, prepare)
        self._steps = steps
        self._room = Semaphore(LIVE_STEPS_MAX)
        self._stopping = False
        self._failure: Exception | None = None
        self._settled = 0
        self._waiting = 0, 0
        self._open = 0
        self._processes: list[Process] = []

    def waiting(self) -> tuple[int, int]:
        """Return the number of streams that wait for missing bytes, and the number of bytes that wait behind them."""
        return self._waiting

    def open_connections(self) -> int:
        """Return the number of open connections of a known protocol."""
        return self._open

    def _start(self, stack: ExitStack) -> list[Process]:
        feeder = Thread(target=self._send_steps, daemon=True)
        stack.callback(self._end, feeder)  # after the processes, whose ends release it
        self._processes = super()._start(stack)
        feeder.start()
        return self._processes

    def _send_steps(self) -> None:
        last = LiveStep(last=True)
        try:
            for step in self._steps:
                self._room.acquire()
                if self._stopping:
                    return
                last.bytes_read = step.bytes_read
                for process in self._processes:
                    process.ask(step)
                if step.last:
                    return
        except Exception as error:  # noqa: BLE001 - raised by the thread that gives the rows
            self._failure = error
            for process in self._processes:
                process.ask(last)

    def _end(self, feeder: Thread) -> None:
        self._stopping = True
        self._room.release()
        if feeder.ident is not None:
            feeder.join()

    def _begin_part(self, firsts: Sequence[Result]) -> None:
        parts = [first.live for first in firsts if first.live is not None]
        if self._failure is not None:
            raise self._failure
        self._settled = parts[0].settled
        self._waiting = parts[0].waiting
        self._open = sum(part.connections for part in parts)
        if self._settled:
            self._room.release()

    def _conclude(self, facts: Sequence[KeyedFact]) -> RowBatch:
        return self._prepared(self._engine.add_facts(facts, self._settled))
