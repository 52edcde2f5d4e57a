"""A process that decodes, from outside."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import suppress
from threading import Thread
from typing import Any

from pulsarscope.engine.parallel.channel import receive, send, unpack, widen
from pulsarscope.engine.parallel.spool import Spool
from pulsarscope.engine.parallel.worker import OUT_OF_MEMORY, LikeMe, Raised
from pulsarscope.model.errors import InternalError, OutputError, system_reason

PROGRAM = """
import sys
sys.path[:] = sys.argv[1:]
from pulsarscope.model.garbage_collection import collect_rarely
collect_rarely()  # as the program: imports leave no garbage
from pulsarscope.engine.parallel.worker import serve
serve()
"""


class Process:
    """Gives the answers to the tasks that it is asked, in order. Enter it; it ends when it is left."""

    def __init__(self) -> None:
        """Start it.

        Raises:
            OutputError: it cannot be started.
        """
        import subprocess  # noqa: PLC0415 - the process itself imports this module, too: 3 ms of its start

        # Neither forked, which no thread survives, nor by multiprocessing, which would run the caller's main module again. In a session
        # of its own: what ends us at the terminal is ours to handle.
        paths = [path or os.getcwd() for path in sys.path]  # noqa: PTH109 - as the interpreter does
        command = [sys.executable, "-c", PROGRAM, *paths]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
        except OSError as error:
            message = f"cannot start a decoding process: {system_reason(error)}"
            raise OutputError(message) from error
        widen(self._process.stdout)  # type: ignore[arg-type]
        self._has_room = True
        """There was enough memory for each answer so far."""
        self._spool = Spool()
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()
        self.ask(LikeMe(gc.get_threshold()))

    def __enter__(self) -> Process:  # noqa: PYI034 - typing.Self is newer than Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._spool.close()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # what it did not read is of no use
                pipe.close()  # type: ignore[union-attr]

    @property
    def number(self) -> int:
        """Number of the process in the operating system."""
        return self._process.pid

    def ask(self, task: Any) -> None:
        """Give it a task: a call that gives its answers."""
        with suppress(BrokenPipeError, ValueError):  # it has died: `answer` says so; or it is left, and its pipe is closed
            send(self._process.stdin, task)  # type: ignore[arg-type]

    def answer(self) -> Any:
        """Return the next answer.

        Raises:
            OutputError: the process died.
            InternalError: it had not enough memory, or there is not enough for what it answers.
            PulsarscopeError: whatever ended it.
        """
        data = self._spool.get()
        if data is None:
            code = self._process.wait()
            if not self._has_room:
                raise InternalError("not enough memory for the answer of a decoding process; the output is not complete")
            message = f"one of the decoding processes {_end(code)}; the output is not complete"
            raise InternalError(message) if code == OUT_OF_MEMORY else OutputError(message)
        answer = unpack(data)
        if isinstance(answer, Raised):
            raise answer.error
        return answer

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


def _end(code: int) -> str:
    if code == OUT_OF_MEMORY:
        return "had not enough memory"
    if code < 0:
        return f"was killed (signal {-code})"
    return f"ended with exit code {code}"
