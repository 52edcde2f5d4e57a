"""The outside view of a process that decodes."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any

from pulsarscope.engine.parallel.channel import receive, send, unpack, widen
from pulsarscope.engine.parallel.fork import Fork, may_fork
from pulsarscope.engine.parallel.spool import Spool
from pulsarscope.engine.parallel.worker import LINES_FOLLOW, OUT_OF_MEMORY, Raised, Result, serve
from pulsarscope.model.errors import InternalError, OutputError, system_reason

if TYPE_CHECKING:
    from subprocess import Popen

PROGRAM = """
import gc, sys
gc.set_threshold(*map(int, sys.argv[1:4]))  # as in the process that asks
sys.path[:] = sys.argv[4:]
from pulsarscope.engine.parallel.worker import serve
serve()
"""


class Process:
    """Returns the answers to its tasks, in order. Use it as a context: the process ends with it."""

    def __init__(self) -> None:
        """Start the process.

        Raises:
            OutputError: it cannot be started.
        """
        try:
            self._process = _started()
        except OSError as error:
            message = f"cannot start a decoding process: {system_reason(error)}"
            raise OutputError(message) from error
        widen(self._process.stdout)  # type: ignore[arg-type]
        self._has_room = True
        """True while there was enough memory for each answer."""
        self._spool = Spool()
        self._reader = Thread(target=self._read, daemon=True)
        """Runs from the first task on: until then, this process may be copied for others."""

    def __enter__(self) -> Process:  # noqa: PYI034 - typing.Self is newer than Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._spool.close()
        self._process.wait()
        if self._reader.ident is not None:
            self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # unread data are useless
                pipe.close()  # type: ignore[union-attr]

    @property
    def number(self) -> int:
        """Number of the process in the operating system."""
        return self._process.pid

    def ask(self, task: Any) -> None:
        """Send it a task: a call that yields its answers."""
        if self._reader.ident is None and not self._process.stdin.closed:  # type: ignore[union-attr]
            self._reader.start()
        with suppress(BrokenPipeError, ValueError):  # it died, as `answer` reports; or it was left, and its pipe is closed
            send(self._process.stdin, task)  # type: ignore[arg-type]

    def answer(self) -> Any:
        """Return the next answer.

        Raises:
            OutputError: the process died.
            InternalError: it did not have enough memory, or there is not enough for its answer.
            PulsarscopeError: any other error that ended it.
        """
        answer = unpack(self._received())
        if isinstance(answer, Raised):
            raise answer.error
        if isinstance(answer, Result) and answer.batch.prepared is LINES_FOLLOW:
            answer.batch.prepared = self._received()
        return answer

    def _received(self) -> bytes:
        """Return the next message. Raises OutputError and InternalError like `answer`."""
        data = self._spool.get()
        if data is None:
            code = self._process.wait()
            if not self._has_room:
                raise InternalError("not enough memory for the answer of a decoding process; the output is not complete")
            message = f"one of the decoding processes {_end(code)}; the output is not complete"
            raise InternalError(message) if code == OUT_OF_MEMORY else OutputError(message)
        return data

    def _read(self) -> None:
        pipe: Any = self._process.stdout
        try:
            while (data := receive(pipe)) is not None and self._spool.put(data):
                pass
        except MemoryError:
            self._has_room = False
            self._process.kill()  # it would wait for a reader
        finally:
            self._spool.end()


def _started() -> Popen[bytes] | Fork:
    """Start a process in its own session: interrupts at the terminal are handled here. Raises OSError."""
    if may_fork():
        with suppress(OSError):
            return Fork(serve)
    import subprocess  # noqa: PLC0415 - 3 ms of a start

    # Not by multiprocessing, which would run the caller's main module again.
    paths = [path or os.getcwd() for path in sys.path]  # noqa: PTH109 - as the interpreter does
    command = [sys.executable, "-c", PROGRAM, *map(str, gc.get_threshold()), *paths]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)  # noqa: S603 - this interpreter


def _end(code: int) -> str:
    if code == OUT_OF_MEMORY:
        return "had not enough memory"
    if code < 0:
        return f"was killed (signal {-code})"
    return f"ended with exit code {code}"
