"""A copy of this process, which needs neither to start Python nor to import anything."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NoReturn

STANDARD_STREAMS = range(3)


def may_fork() -> bool:
    """Return True when this process has one thread, as far as Linux tells: a copy lacks all others, but has the locks that they hold."""
    try:
        for number in STANDARD_STREAMS:
            os.fstat(number)  # a pipe may get the number of one that is closed
        return len([*Path("/proc/self/task").iterdir()]) == 1
    except OSError:
        return False


class Fork:
    """What is needed of `subprocess.Popen`, for a copy of this process in a session of its own."""

    def __init__(self, serve: Callable[[], object]) -> None:
        """Let a copy `serve`, between pipes as its standard input and output. Raises OSError when there can be none."""
        tasks, asking = os.pipe()
        try:
            answering, answers = os.pipe()
        except OSError:
            os.close(tasks)
            os.close(asking)
            raise
        self.stdin, self.stdout = os.fdopen(asking, "wb"), os.fdopen(answering, "rb")
        self._code: int | None = None
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # handlers are those of this process alone
        try:
            self.pid = os.fork()
            if not self.pid:
                _carry_out(serve, (tasks, answers), before, (sys.stdin, sys.stdout, sys.stderr))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(tasks)
            os.close(answers)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if self._ended(os.WNOHANG) is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Return its exit code, or its signal as a negative number, when it has ended."""
        return self._ended(0) or 0

    def _ended(self, options: int) -> int | None:
        if self._code is None:
            try:
                number, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # somebody else has waited for it
                self._code = 0
            else:
                self._code = os.waitstatus_to_exitcode(status) if number else None
        return self._code


def _carry_out(serve: Callable[[], object], pipes: tuple[int, int], signals: Iterable[int], _kept: object) -> NoReturn:
    """Be a process of its own to the end. What is open belongs to the other one: here it neither stays open, nor is written to.

    `pipes`: of tasks and answers; `signals`: to block from now on; `_kept`: what would write what it holds when it is deleted.
    """
    code = 1
    try:
        os.setsid()
        gc.freeze()  # all that the collector looks at would be copied
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        for stream, pipe in enumerate(pipes):
            os.dup2(pipe, stream)
            os.close(pipe)  # few numbers may be left
        files = [int(entry.name) for entry in Path("/proc/self/fd").iterdir()]
        nothing = os.open(os.devnull, os.O_RDWR)
        for file in files:
            if file not in STANDARD_STREAMS:
                _replace(file, nothing)
        os.close(nothing)
        sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115 - open to the end
        if sys.__stderr__ is not None:
            sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")  # noqa: SIM115
        serve()
        code = 0
    finally:
        os._exit(code)


def _replace(file: int, nothing: int) -> None:
    """Let a file be another one. It is not closed: its number stays that of the object which closes it."""
    try:
        os.dup2(nothing, file)
    except OSError:  # its number is beyond a limit that was lowered, so no other file gets it
        os.close(file)
