"""A copy of this process, which neither starts Python nor imports anything."""

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
    """Return True when this process has one thread, according to Linux: a copy lacks other threads, but has the locks that they hold."""
    try:
        for number in STANDARD_STREAMS:
            os.fstat(number)  # a pipe may get the number of a closed one
        return len([*Path("/proc/self/task").iterdir()]) == 1
    except OSError:
        return False


class Fork:
    """The required part of `subprocess.Popen`, for a copy of this process in its own session."""

    def __init__(self, serve: Callable[[], object]) -> None:
        """Make a copy that calls `serve`, with pipes as its standard input and output. Raises OSError if that is impossible."""
        tasks, asking = os.pipe()
        try:
            answering, answers = os.pipe()
        except OSError:
            os.close(tasks)
            os.close(asking)
            raise
        self.stdin, self.stdout = os.fdopen(asking, "wb"), os.fdopen(answering, "rb")
        self._code: int | None = None
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # handlers belong to this process alone
        try:
            self.pid = os.fork()
            if not self.pid:
                _carry_out(serve, (tasks, answers), before, (sys.stdin, sys.stdout, sys.stderr))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            os.close(tasks)
            os.close(answers)

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        if self._ended(os.WNOHANG) is None:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        """Return its exit code, or its signal as a negative number, once it has ended."""
        return self._ended(0) or 0

    def _ended(self, options: int) -> int | None:
        if self._code is None:
            try:
                number, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # waited for elsewhere
                self._code = 0
            else:
                self._code = os.waitstatus_to_exitcode(status) if number else None
        return self._code


def _carry_out(serve: Callable[[], object], pipes: tuple[int, int], signals: Iterable[int], _kept: object) -> NoReturn:
    """Run the copy as a separate process to its end. Open files belong to the original: the copy neither keeps nor writes them.

    `pipes`: pipes of tasks and answers; `signals`: signals to block from now on; `_kept`: objects that would write buffered data if
    deleted.
    """
    code = 1
    try:
        os.setsid()
        gc.freeze()  # the collector would cause a copy of everything that it visits
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
    """Replace a file by another one. It is not closed: its number remains that of the object that will close it."""
    try:
        os.dup2(nothing, file)
    except OSError:  # its number exceeds a lowered limit, so no other file gets it
        os.close(file)
